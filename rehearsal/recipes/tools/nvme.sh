#!/bin/sh
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# A simulated nvme: the log of one drive.
out=${0%/*}/../out
drive=${2##*/nvme}
[ "$1" = smart-log ] && [ "$3 $4" = "-o json" ] && [ -f "$out/nvme$drive.json" ] || {
    echo "$2: No such file or directory"
    exit 1
}
exec cat "$out/nvme$drive.json"
