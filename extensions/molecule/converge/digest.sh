#!/bin/sh
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Everything that the role could change: packages with holds, files below /etc, what the boot loader has, units that run.
{
  dpkg-query -W -f '${Package} ${Version} ${Status}\n' 2>/dev/null
  rpm -qa 2>/dev/null | sort
  find /etc /var/lib/dummy-command-line /var/log/dummy-initramfs -type f -exec sha256sum {} + 2>/dev/null | grep -v "/etc/.*~$" | sort -k2
  systemctl list-units --type=service --state=active --no-legend --plain | awk '{print $1}' | grep -E 'nvidia|chrony|kubelet' | sort
} | sha256sum
