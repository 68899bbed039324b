#!/bin/sh
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# A simulated ibv_devinfo of rdma-core, for all adapters.
[ -s "${0%/*}/../out/devinfo.txt" ] || {
    echo "No IB devices found" >&2
    exit 255
}
cat "${0%/*}/../out/devinfo.txt"
