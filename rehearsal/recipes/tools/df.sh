#!/bin/sh
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# A simulated df for the disks of the host; anything else is asked of the machine's own.
out=${0%/*}/../out
case "$*" in
    "-P -k / "*) cat "$out/df.txt" ;;
    *) exec /bin/df "$@" ;;
esac
