#!/bin/sh
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# A simulated grep for the settings of the kernel and its command line; anything else is asked of the machine's own.
out=${0%/*}/../out
case "$1 $2 $*" in
    "-rs  "*/proc/sys/*)
        [ -s "$out/sysctl.txt" ] || exec /bin/grep "$@"
        /bin/grep "$@" | awk -F: 'NR == FNR { set[$1] = $0; next } { print $1 in set ? set[$1] : $0 }' "$out/sysctl.txt" -
        exit 2
        ;;
    " /proc/cmdline "*)
        [ -s "$out/cmdline.txt" ] || exec /bin/grep "$@"
        exec cat "$out/cmdline.txt"
        ;;
    *) exec /bin/grep "$@" ;;
esac
