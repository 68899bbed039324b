#!/bin/sh
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# A simulated ethtool: counters of the adapters' network devices; of others the machine's own is asked.
file=${0%/*}/../out/nic-counters.txt
if [ "$1" = -S ] && grep -qx "===== $2 =====" "$file"; then
    sed -n "/^===== $2 =====\$/,/^===== /{/^===== /!p;}" "$file"
    exit 0
fi
[ -x /usr/sbin/ethtool ] && exec /usr/sbin/ethtool "$@"
echo "netlink error: no device matches name" >&2
exit 75
