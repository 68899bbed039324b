# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Says which system runs, and whether packages wait for a reboot and with which kernel; sent as text, for hosts without
# Python. What asks for a reboot: the sentinel of Debian, to whose list each kernel that is installed adds its package (the
# hook of unattended-upgrades or update-notifier in /etc/kernel/postinst.d), and needs-restarting of the RHEL family
# (dnf-plugins-core), which names `kernel` or `kernel-core` among what is newer than the start.
echo "boot $(cat /proc/sys/kernel/random/boot_id)"
echo "kernel $(uname -r)"
said= wanted=
if command -v needs-restarting >/dev/null 2>&1; then said=$(needs-restarting -r 2>/dev/null) || wanted=yes; fi
if [ -e /run/reboot-required ]; then wanted=yes; fi
if [ -n "$wanted" ]; then echo reboot-wanted; fi
# The newest of them that is still installed.
newest=$(sed -n -E 's/^linux-image-(unsigned-)?([0-9].*)$/\2/p' /run/reboot-required.pkgs 2>/dev/null |
  while read -r version; do if [ -e "/boot/vmlinuz-$version" ]; then echo "$version"; fi; done | sort -V | tail -n 1)
if [ -z "$newest" ] && echo "$said" | grep -Eq '^[ *]*kernel(-core|-rt|-rt-core|-64k|-64k-core)?( |$)'; then
  newest=$(grubby --default-kernel 2>/dev/null | sed -n 's,.*/vmlinuz-,,p')
fi
if [ -n "$newest" ]; then echo "wants-kernel $newest"; fi
