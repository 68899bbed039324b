#!/bin/sh
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# A simulated fi_info of libfabric for the provider efa; a host without EFA has none.
out=${0%/*}/../out
[ "$1 $2" = "-p efa" ] && [ -s "$out/fi-info.txt" ] || {
    echo "fi_getinfo: -61 (No data available)" >&2
    exit 61
}
cat "$out/fi-info.txt"
