#!/bin/sh
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# A simulated ethtool: counters of the adapters' network devices; of others the machine's own is asked.
out=${0%/*}/../out
run=${0%/*}/../run
[ -d "$run" ] || run=/run
[ ! -e "$run/gpu-node/loaded" ] || out=$out/loaded
file=$out/nic-counters.txt
if [ "$1" = -S ] && awk -v wanted="===== $2 =====" '$0 == wanted { here = found = 1; next } /^===== / { here = 0 } here
    END { exit !found }' "$file"; then
    exit 0
fi
[ -x /usr/sbin/ethtool ] && exec /usr/sbin/ethtool "$@"
echo "netlink error: no device matches name" >&2
exit 75
