#!/bin/sh
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# A simulated dmesg.
out=${0%/*}/../out
run=${0%/*}/../run
[ -d "$run" ] || run=/run
[ ! -e "$run/gpu-node/loaded" ] || out=$out/loaded
case "$*" in
    "") cat "$out/dmesg.txt" ;;
    "--time-format iso" | "--time-format=iso") cat "$out/dmesg-iso.txt" ;;
    *)
        echo "dmesg: unrecognized option '$1'" >&2
        echo "Try 'dmesg --help' for more information." >&2
        exit 1
        ;;
esac
