#!/bin/sh
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# What comes before the first service of a host that shares the kernel of the machine: a boot id of its own, the kernel
# that its boot loader takes, the module of its driver.
set -eu
cp /proc/sys/kernel/random/uuid /run/boot-id
mount --bind /run/boot-id /proc/sys/kernel/random/boot_id
if [ -e /var/lib/dummy-boot/next ] && [ ! -e /var/lib/dummy-boot/falls-back ]; then
  cp /var/lib/dummy-boot/next /var/lib/dummy-boot/running
fi
/usr/local/sbin/modprobe nvidia
