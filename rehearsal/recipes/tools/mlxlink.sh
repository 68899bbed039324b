#!/bin/sh
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# A simulated mlxlink for one adapter, by its name.
out=${0%/*}/../out
run=${0%/*}/../run
[ -d "$run" ] || run=/run
[ ! -e "$run/gpu-node/loaded" ] || out=$out/loaded
[ "$1" = -d ] && [ "$3 $4" = "-m -c" ] && awk -v wanted="===== $2 =====" '$0 == wanted { here = found = 1; next } /^===== / { here = 0 } here
    END { exit !found }' "$out/mlxlink.txt" || {
    echo "-E- Failed to open device: \"$2\", No such file or directory" >&2
    exit 1
}
