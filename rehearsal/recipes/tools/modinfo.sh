#!/bin/sh
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# A simulated modinfo for the driver of the GPUs.
out=${0%/*}/../out
case "$*" in
    "-F license nvidia") cat "$out/module-licence.txt" ;;
    *)
        echo "modinfo: ERROR: Module $1 not found." >&2
        exit 1
        ;;
esac
