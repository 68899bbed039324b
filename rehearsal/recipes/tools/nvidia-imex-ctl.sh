#!/bin/sh
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# A simulated nvidia-imex-ctl: the domain as this host's service sees it.
out=${0%/*}/../out
case "$*" in
    "-N -j" | "-N -j -H")
        [ -s "$out/imex.json" ] || {
            echo "Failed to connect to the IMEX daemon" >&2
            exit 1
        }
        cat "$out/imex.json"
        ;;
    *)
        echo "nvidia-imex-ctl: unknown option $1" >&2
        exit 1
        ;;
esac
