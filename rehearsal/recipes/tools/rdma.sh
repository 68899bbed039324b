#!/bin/sh
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# A simulated rdma of iproute2.
case "$*" in
    link | "link show") cat "${0%/*}/../out/rdma-link.txt" ;;
    *)
        echo "Usage: rdma [ OPTIONS ] OBJECT { COMMAND | help }"
        exit 22
        ;;
esac
