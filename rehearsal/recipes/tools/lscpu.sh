#!/bin/sh
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# A simulated lscpu; with options the machine's own is asked.
case "$*" in
    "") cat "${0%/*}/../out/lscpu.txt" ;;
    *) exec /usr/bin/lscpu "$@" ;;
esac
