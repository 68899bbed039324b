#!/bin/sh
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# A simulated journalctl: the kernel log, and what phc2sys wrote where a host runs it.
out=${0%/*}/../out
run=${0%/*}/../run
[ -d "$run" ] || run=/run
[ ! -e "$run/gpu-node/loaded" ] || out=$out/loaded
case "$*" in *"-u phc2sys"*) [ ! -f "$out/phc2sys.printed" ] || exec cat "$out/phc2sys.printed" ;; esac
kernel=
iso=
while [ $# -gt 0 ]; do
    case "$1" in
        -k | --dmesg) kernel=yes ;;
        -b | -b0 | --boot | --no-pager | -q | --quiet) : ;;
        -o)
            shift
            [ "$1" = short-iso ] && iso=yes
            ;;
        -oshort-iso | --output=short-iso) iso=yes ;;
        *)
            echo "journalctl: unrecognized option '$1'" >&2
            exit 1
            ;;
    esac
    shift
done
if [ -z "$kernel" ]; then
    echo "-- No entries --"
elif [ -n "$iso" ]; then
    cat "$out/journal-iso.txt"
else
    cat "$out/journal.txt"
fi
