#!/bin/sh
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# A simulated free in bytes; with other options the machine's own is asked.
case "$*" in
    "-b") cat "${0%/*}/../out/free.txt" ;;
    *) exec /usr/bin/free "$@" ;;
esac
