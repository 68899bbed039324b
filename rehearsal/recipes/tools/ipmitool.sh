#!/bin/sh
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# A simulated ipmitool on the host itself.
out=${0%/*}/../out
[ "$*" = sdr ] && [ -s "$out/sensors.txt" ] || {
    echo "Could not open device at /dev/ipmi0 or /dev/ipmi/0 or /dev/ipmidev/0: No such file or directory" >&2
    exit 1
}
cat "$out/sensors.txt"
