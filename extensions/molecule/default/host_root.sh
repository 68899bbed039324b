#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# host_root.sh DIRECTORY: the root file system that all hosts share, made once (two minutes), and its tools. Needs root.
set -euo pipefail
home=$1
for program in podman runc mmdebstrap; do
  command -v "$program" >/dev/null || { echo "molecule: $program is missing. Fix: apt-get install podman runc mmdebstrap" >&2; exit 1; }
done
if [ ! -e "$home/root/.complete" ]; then
  mkdir -p "$home"
  rm -rf "$home/root"
  packages=systemd,systemd-sysv,dbus,python3,python3-apt,kmod,procps,dnf,dnf-plugins-core,rpm,createrepo-c
  mmdebstrap --quiet --variant=apt --mode=root --include="$packages" --format=directory bookworm "$home/root"
  mkdir -p "$home/root/repository"
  touch "$home/root/.complete"
  echo made
fi
# What these hosts cannot do, for they share the kernel of the machine. A driver is "loaded" by writing what its module would,
# and only if it was built: the script of its package does that, or `dkms install` (dell/dkms: `status` says added, then installed).
cat >"$home/root/usr/local/sbin/modprobe" <<'TOOL'
#!/bin/sh
state=/run/kernel/proc/driver/nvidia
case "$*" in
  nvidia)
    cmp -s /var/lib/dummy-driver/version /var/lib/dummy-driver/built || { echo "modprobe: FATAL: Module nvidia not found" >&2; exit 1; }
    mkdir -p $state && echo "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  $(cat /var/lib/dummy-driver/version)  Release Build" >$state/version ;;
  "--remove nvidia") rm -f $state/version ;;
esac
TOOL
cat >"$home/root/usr/local/sbin/dkms" <<'TOOL'
#!/bin/sh
[ -e /var/lib/dummy-driver/version ] || exit 0
version=$(cat /var/lib/dummy-driver/version)
case "$*" in
  install*" -v $version") echo "$version" >/var/lib/dummy-driver/built ;;
  install*) echo "Error! Could not find module source directory." >&2; exit 2 ;;
  *) if cmp -s /var/lib/dummy-driver/version /var/lib/dummy-driver/built; then echo "nvidia/$version, $(uname -r), x86_64: installed"; else echo "nvidia/$version: added"; fi ;;
esac
TOOL
# Boot loaders: what the next start would have is kept in a file, which start_host.sh makes the running kernel's on a restart.
cat >"$home/root/usr/local/sbin/update-grub" <<'TOOL'
#!/bin/sh
GRUB_CMDLINE_LINUX=ro
for file in /etc/default/grub.d/*.cfg; do [ -e "$file" ] && . "$file"; done
echo "$GRUB_CMDLINE_LINUX" >/var/lib/dummy-command-line
TOOL
# rhboot/grubby grubby-bls: --args replaces whatever has the same name, --remove-args takes a whole argument or, of a name
# alone, every one of it; --info and --default-kernel show the entry that is started next.
cat >"$home/root/usr/local/sbin/grubby" <<'TOOL'
#!/usr/bin/python3
import pathlib, sys
kept = pathlib.Path("/var/lib/dummy-command-line")
words = kept.read_text().split() if kept.exists() else ["ro"]
for option in sys.argv[1:]:
    name, _, value = option.partition("=")
    stated = value.split()
    if name == "--args":
        named = {w.partition("=")[0] for w in stated}
        words = [w for w in words if w.partition("=")[0] not in named] + stated
    elif name == "--remove-args":
        words = [w for w in words if w not in stated and w.partition("=")[0] not in stated]
kernel = pathlib.Path("/var/lib/dummy-boot/next")
default = "/boot/vmlinuz-" + (kernel.read_text().strip() if kernel.exists() else "0")
if "--default-kernel" in sys.argv:
    print(default)
elif "--info=DEFAULT" in sys.argv:
    print('index=0\nkernel="%s"\nargs="%s"' % (default, " ".join(words)))
elif "--update-kernel=ALL" in sys.argv:
    kept.write_text(" ".join(words) + "\n")
TOOL
printf '#!/bin/sh\necho "$0 $*" >>/var/log/dummy-initramfs\n' | tee "$home/root/usr/local/sbin/update-initramfs" >"$home/root/usr/local/sbin/dracut"
chmod 0755 "${home}/root/usr/local/sbin/"*
