#!/bin/sh
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# A simulated dcgmi (DCGM 4).
out=${0%/*}/../out
case "$*" in
    "diag -r "[1234]" -j" | "diag --run "[1234]" --json" | "diag -j -r "[1234])
        for word in "$@"; do case "$word" in [1234]) level=$word ;; esac; done
        run=${0%/*}/../run
        [ -d "$run" ] || run=/run
        read -r by < "$out/hurt-by.txt"
        if [ "$level" != 1 ] && [ "$by" = dcgmi ]; then
            mkdir -p "$run/gpu-node" && : > "$run/gpu-node/loaded"
        fi
        cat "$out/dcgmi-diag-$level.json"
        grep -q '"status" : "Fail"' "$out/dcgmi-diag-$level.json" || exit 0
        exit "$(cat "$out/dcgmi-diag.rc")"
        ;;
    "health -c -j" | "health -c --json")
        cat "$out/dcgmi-health.txt"
        exit "$(cat "$out/dcgmi-health.rc")"
        ;;
    "discovery -l" | "discovery --list") cat "$out/dcgmi-discovery.txt" ;;
    "-v" | "--version") cat "$out/dcgmi-version.txt" ;;
    *)
        echo "PARSE ERROR: Argument: (--$1)"
        echo "             Couldn't find match for argument"
        echo
        echo "For complete USAGE and HELP type:"
        echo "   dcgmi --help"
        exit 1
        ;;
esac
