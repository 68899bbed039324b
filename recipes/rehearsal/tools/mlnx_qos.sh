#!/bin/sh
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# A simulated mlnx_qos for one network device.
out=${0%/*}/../out
[ "$1" = -i ] && grep -qx "===== $2 =====" "$out/qos.txt" || {
    echo "Interface not found"
    exit 1
}
sed -n "/^===== $2 =====\$/,/^===== /{/^===== /!p;}" "$out/qos.txt"
