#!/bin/sh
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# A simulated ofed_info.
case "$*" in
    "-s") cat "${0%/*}/../out/ofed.txt" ;;
    "-n") sed 's/^[A-Za-z_-]*-//; s/:$//' "${0%/*}/../out/ofed.txt" ;;
    *)
        echo "ofed_info: unknown option $1" >&2
        exit 1
        ;;
esac
