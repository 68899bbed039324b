#!/bin/sh
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# A simulated stat for the control groups; anything else is asked of the machine's own.
out=${0%/*}/../out
case "$*" in
    "-fc %T /sys/fs/cgroup") [ ! -e "$out/cgroup.txt" ] || exec cat "$out/cgroup.txt" ;;
esac
exec /usr/bin/stat "$@"
