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
# Modules hold each other as the real ones do (NVIDIA/open-gpu-kernel-modules), and a process that has a device open holds
# `nvidia`; one that is held does not go, in the words and with the status of kmod's modprobe ("FATAL: Module nvidia is in use.").
cat >"$home/root/usr/local/sbin/modprobe" <<'TOOL'
#!/bin/sh
state=/run/kernel/proc/driver/nvidia loaded=/run/kernel/loaded failed=0
mkdir -p $state && touch $loaded
has() { grep -qx "$1" $loaded; }
needs() { case $1 in nvidia) ;; nvidia_drm) echo nvidia_modeset ;; *) echo nvidia ;; esac; }
users() { for m in $(cat $loaded); do [ "$(needs "$m")" != "$1" ] || echo "$m"; done; }
uses() { if [ "$1" = nvidia ]; then ls -l /proc/[0-9]*/fd 2>/dev/null | grep -c '/dev/nvidia' || :; else echo 0; fi; }
insert() {
  ! has "$1" || return 0
  need=$(needs "$1")
  [ -z "$need" ] || insert "$need" || return 1
  if [ "$1" = nvidia ]; then
    cmp -s /var/lib/dummy-driver/version /var/lib/dummy-driver/built || { echo "modprobe: FATAL: Module nvidia not found" >&2; return 1; }
    echo "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  $(cat /var/lib/dummy-driver/version)  Release Build" >$state/version
  fi
  echo "$1" >>$loaded
}
remove() {
  has "$1" || return 0
  if [ -n "$(users "$1")" ] || [ "$(uses "$1")" -gt 0 ]; then echo "modprobe: FATAL: Module $1 is in use." >&2; return 1; fi
  sed -i "/^$1\$/d" $loaded
  [ "$1" != nvidia ] || rm -f $state/version
}
case "$1" in --remove) do=remove; shift ;; --all) do=insert; shift ;; --count) do=:; shift ;; *) do=insert ;; esac
for module in "$@"; do $do "$module" || failed=1; done
for module in $(cat $loaded); do
  by=$(users "$module" | sed 's/$/,/' | tr -d '\n')
  echo "$module 1 $(($(users "$module" | wc -l) + $(uses "$module"))) ${by:--} Live 0x0"
done >/run/kernel/proc/modules
exit $failed
TOOL
# hold-driver NAME: a daemon that has a device of the driver open for as long as it runs, so that it holds the module and can be found.
cat >"$home/root/usr/local/sbin/hold-driver" <<'TOOL'
#!/bin/sh
[ ! -e "/run/ignores-its-end-$1" ] || trap '' TERM
mkdir -p /run/kernel/proc && touch /dev/nvidiactl && exec 3</dev/nvidiactl
echo "$1" >/proc/$$/comm
ln -sfn /proc/$$ /run/kernel/proc/$$
modprobe --count 3<&-
while :; do sleep 1 3<&-; done
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
