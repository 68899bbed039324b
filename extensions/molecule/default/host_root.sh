#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# host_root.sh DIRECTORY: the root file system that all hosts share, made once (two minutes). Needs root.
set -euo pipefail
home=$1
for program in podman runc mmdebstrap; do
  command -v "$program" >/dev/null || { echo "molecule: $program is missing. Fix: apt-get install podman runc mmdebstrap" >&2; exit 1; }
done
[ -e "$home/root/.complete" ] && exit 0
mkdir -p "$home"
rm -rf "$home/root"
packages=systemd,systemd-sysv,dbus,python3,python3-apt,kmod,procps,dnf,dnf-plugins-core,rpm,createrepo-c
mmdebstrap --quiet --variant=apt --mode=root --include="$packages" --format=directory bookworm "$home/root"
# What these hosts cannot do, for they share the kernel of the machine. A driver is "loaded" by writing what its module would.
cat >"$home/root/usr/local/sbin/modprobe" <<'TOOL'
#!/bin/sh
state=/run/kernel/proc/driver/nvidia
case "$*" in
  nvidia) mkdir -p $state && echo "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  $(cat /var/lib/dummy-driver/version)  Release Build" >$state/version ;;
  "--remove nvidia") rm -f $state/version ;;
esac
TOOL
cat >"$home/root/usr/local/sbin/dkms" <<'TOOL'
#!/bin/sh
[ -e /var/lib/dummy-driver/version ] && echo "nvidia/$(cat /var/lib/dummy-driver/version), $(uname -r), x86_64: installed"
exit 0
TOOL
# Boot loaders: what the next start would have is kept in a file, which start_host.sh makes the running kernel's on a restart.
cat >"$home/root/usr/local/sbin/update-grub" <<'TOOL'
#!/bin/sh
GRUB_CMDLINE_LINUX=ro
for file in /etc/default/grub.d/*.cfg; do [ -e "$file" ] && . "$file"; done
echo "$GRUB_CMDLINE_LINUX" >/var/lib/dummy-command-line
TOOL
cat >"$home/root/usr/local/sbin/grubby" <<'TOOL'
#!/usr/bin/python3
import pathlib, sys
kept = pathlib.Path("/var/lib/dummy-command-line")
words = kept.read_text().split() if kept.exists() else ["ro"]
for option in sys.argv[1:]:
    name, _, value = option.partition("=")
    words += [w for w in value.split() if w not in words] if name == "--args" else []
    words = [w for w in words if name != "--remove-args" or w not in value.split()]
if "--info=DEFAULT" in sys.argv:
    print('index=0\nargs="%s"' % " ".join(words))
else:
    kept.write_text(" ".join(words) + "\n")
TOOL
printf '#!/bin/sh\necho "$0 $*" >>/var/log/dummy-initramfs\n' | tee "$home/root/usr/local/sbin/update-initramfs" >"$home/root/usr/local/sbin/dracut"
chmod 0755 "${home}/root/usr/local/sbin/"*
mkdir -p "$home/root/repository"
touch "$home/root/.complete"
echo made
