#!/bin/sh
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# A simulated mlnx_qos for one network device.
out=${0%/*}/../out
[ "$1" = -i ] && awk -v wanted="===== $2 =====" '$0 == wanted { here = found = 1; next } /^===== / { here = 0 } here
    END { exit !found }' "$out/qos.txt" || {
    echo "Interface not found"
    exit 1
}
