# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Says which system runs, and whether packages wait for a reboot and with which kernel; sent as text, for hosts without
# Python. What asks for a reboot: the sentinel of Debian, to whose list each kernel that is installed adds its package (the
# hook of unattended-upgrades or update-notifier in /etc/kernel/postinst.d), and needs-restarting of the RHEL family.
LC_ALL=C
export LC_ALL
echo "boot $(cat /proc/sys/kernel/random/boot_id)"
echo "kernel $(uname -r)"
said= wanted= newer=
if [ -e /run/reboot-required ]; then wanted=yes; fi
# The program is part of dnf-utils, which a minimal installation lacks; the subcommand is part of dnf-plugins-core, which it
# has (Tronde/ansible-role-rhel-patchmanagement#14). On Debian dnf and rpm are tools for the packages of others. Both end
# with 1 as well if they could not look, so their words count (rpm-software-management/dnf-plugins-core
# plugins/needs_restarting.py, dnf5-needs-restarting(8)).
has() { command -v "$1" >/dev/null 2>&1 && [ ! -e /etc/debian_version ]; }
if command -v needs-restarting >/dev/null 2>&1; then said=$(needs-restarting -r 2>/dev/null); fi
case $said in
  *eboot*) ;;
  *) if has dnf; then said=$(dnf needs-restarting -r 2>/dev/null); fi ;;
esac
# What is newer than the start, from rpm itself. The kernels always: that plugin knows `kernel` and `kernel-rt`, a later one
# `kernel-core`, none those of other pages or vendors. Where it said nothing, all that it would look at. Its time of the
# start is the later one of two, which are wrong without a clock and in a container.
if has rpm; then
  kernels='kernel kernel-core kernel-rt kernel-rt-core kernel-64k kernel-64k-core kernel-uek kernel-uek-core'
  names=$kernels
  case $said in *eboot*) ;; *) names="$kernels glibc linux-firmware systemd dbus dbus-broker dbus-daemon" ;; esac
  first=$(stat -c %Y /proc/1)
  up=$(($(date +%s) - $(cut -d . -f 1 /proc/uptime)))
  if [ "$up" -gt "$first" ]; then first=$up; fi
  newer=$(rpm -q --qf '%{INSTALLTIME} %{NAME}\n' $names 2>/dev/null | awk -v first="$first" '$1 ~ /^[0-9]+$/ && $1 > first { print $2 }')
fi
case $said in *"Reboot is required"*) wanted=yes ;; *) said= ;; esac
if [ -n "$newer" ]; then wanted=yes; fi
if [ -n "$wanted" ]; then echo reboot-wanted; fi
# The newest of them that is still installed.
newest=$(sed -n -E 's/^linux-image-(unsigned-)?([0-9].*)$/\2/p' /run/reboot-required.pkgs 2>/dev/null |
  while read -r version; do if [ -e "/boot/vmlinuz-$version" ]; then echo "$version"; fi; done | sort -V | tail -n 1)
if [ -z "$newest" ] && printf '%s\n%s\n' "$said" "$newer" | grep -Eq '^[ *]*kernel(-rt|-64k|-uek)?(-core)?( |$)'; then
  newest=$(grubby --default-kernel 2>/dev/null | sed -n 's,.*/vmlinuz-,,p')
fi
if [ -n "$newest" ]; then echo "wants-kernel $newest"; fi
