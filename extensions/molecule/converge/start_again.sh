#!/bin/sh
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
set -eu
cp /var/lib/dummy-command-line /run/kernel/proc/cmdline
echo boot-2 >/run/kernel/proc/sys/kernel/random/boot_id
rm -f /run/kernel/loaded
/usr/local/sbin/modprobe nvidia
for unit in nvidia-persistenced nvidia-fabricmanager nvidia-dcgm; do
  systemctl is-enabled --quiet "$unit.service" && systemctl restart "$unit.service"
done
