#!/bin/sh
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# A simulated find for what a host has in /sys; anything else is looked for by the machine's own.
out=${0%/*}/../out
run=${0%/*}/../run
[ -d "$run" ] || run=/run
[ ! -e "$run/gpu-node/loaded" ] || out=$out/loaded
case "$*" in
    "-L /sys/class/infiniband "*"/pkeys/"*) cat "$out/pkeys.txt" ;;
    "-L /sys/class/infiniband "*"/hw_counters/"*) cat "$out/efa-counters.txt" ;;
    "-L /sys/class/infiniband "*) cat "$out/port-counters.txt" ;;
    "-L /sys/class/net "*"/ecn/"*) cat "$out/ecn.txt" ;;
    "/sys/devices/system/clocksource "*) cat "$out/clock-source.txt" ;;
    "/sys/class/nvme "*) cat "$out/nvme.txt" ;;
    "/sys/devices/system/cpu/cpufreq "*) cat "$out/governors.txt" ;;
    *) exec /usr/bin/find "$@" ;;
esac
