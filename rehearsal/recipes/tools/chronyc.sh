#!/bin/sh
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# A simulated chronyc.
out=${0%/*}/../out
case "$*" in
    "tracking") cat "$out/chronyc.txt" ;;
    *)
        echo "Unrecognized command"
        exit 1
        ;;
esac
