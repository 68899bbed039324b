#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# start_host.sh DIRECTORY NAME ubuntu|rocky fresh|mismatched|newer-fabric-manager|matched [always|no]: starts one host and
# waits until its systemd runs. With the last word it can be rebooted by itself, and comes back always or never.
set -euo pipefail
home=$1 name=$2 family=$3 kind=$4 returns=${5:-}
podman --runtime runc rm --force --ignore "$name" >/dev/null
# A boot id is of the machine; one that can be rebooted mounts its own over it, as systemd-nspawn does.
options=()
[ -z "$returns" ] || options=(--restart="$returns" --cap-add SYS_ADMIN)
podman --runtime runc run --detach --name "$name" "${options[@]}" --systemd=always --network none --security-opt unmask=/proc/sys --ulimit nofile=1024:20000 --ulimit nproc=1024:1024 \
  -v "$home/repository:/repository:ro" --rootfs "$home/root:O" /sbin/init >/dev/null
in_host() { podman --runtime runc exec -i "$name" sh -eu; }
end=$((SECONDS + 120))
until in_host <<<'systemctl is-system-running | grep -Eq "running|degraded"' 2>/dev/null; do
  [ $SECONDS -lt $end ] || { echo "molecule: systemd of $name does not run" >&2; exit 1; }
  sleep 0.5
done
in_host <<'HOST'
mkdir -p /run/kernel/proc/sys/kernel/random
echo boot-1 >/run/kernel/proc/sys/kernel/random/boot_id
echo ro >/run/kernel/proc/cmdline
echo ro >/var/lib/dummy-command-line
# The headers of its kernel, without which DKMS builds nothing.
mkdir -p "/lib/modules/$(uname -r)/build"
rm -f /etc/apt/sources.list /etc/apt/sources.list.d/*
HOST
if [ "$family" = ubuntu ]; then
  in_host <<'HOST'
printf 'NAME="Ubuntu"\nID=ubuntu\nID_LIKE=debian\nVERSION_ID="24.04"\nVERSION_CODENAME=noble\n' >/etc/os-release
echo 'deb [trusted=yes] file:/repository/deb ./' >/etc/apt/sources.list.d/dummy.list
apt-get update -qq
HOST
else
  in_host <<'HOST'
printf 'NAME="Rocky Linux"\nID="rocky"\nID_LIKE="rhel centos fedora"\nVERSION_ID="9.4"\nPLATFORM_ID="platform:el9"\n' >/etc/os-release
echo 'Rocky Linux release 9.4 (Blue Onyx)' >/etc/redhat-release
rm -f /etc/debian_version /etc/apt/apt.conf
mkdir -p /etc/dnf/vars /etc/yum.repos.d /etc/dnf/plugins
echo 9 >/etc/dnf/vars/releasever
printf '[main]\ngpgcheck=0\nmodule_platform_id=platform:el9\npluginpath=/usr/lib/python3/dist-packages/dnf-plugins\n' >/etc/dnf/dnf.conf
printf '[dummy]\nname=dummy\nbaseurl=file:///repository/rpm\nenabled=1\ngpgcheck=0\n' >/etc/yum.repos.d/dummy.repo
printf '[main]\nenabled=0\n' >/etc/dnf/plugins/local.conf
printf '[main]\nenabled=1\nlocklist=/etc/dnf/plugins/versionlock.list\n' >/etc/dnf/plugins/versionlock.conf
HOST
fi
if [ "$kind" = matched ] && [ "$family" = rocky ]; then
  in_host <<'HOST'
dnf -q -y module enable nvidia-driver:open-dkms >/dev/null
dnf -q -y install nvidia-driver-cuda-580.95.05 nvidia-driver-cuda-libs-580.95.05 libnvidia-ml-580.95.05 nvidia-kmod-common-580.95.05 \
  kmod-nvidia-open-dkms-580.95.05 nvidia-persistenced-580.95.05 nvidia-fabricmanager-580.95.05 datacenter-gpu-manager-4-cuda13 chrony >/dev/null
/usr/local/sbin/modprobe nvidia
systemctl enable --now nvidia-fabricmanager.service nvidia-persistenced.service nvidia-dcgm.service chronyd.service 2>/dev/null
HOST
elif [ "$kind" = matched ]; then
  in_host <<'HOST'
apt-get install -qq -y libnvidia-compute-580=580.95.05-1ubuntu1 nvidia-dkms-580-open=580.95.05-1ubuntu1 nvidia-kernel-common-580=580.95.05-1ubuntu1 \
  nvidia-firmware-580=580.95.05-1ubuntu1 nvidia-modprobe=580.95.05-1ubuntu1 nvidia-utils-580=580.95.05-1ubuntu1 nvidia-compute-utils-580=580.95.05-1ubuntu1 \
  nvidia-fabricmanager=580.95.05-1ubuntu1 datacenter-gpu-manager-4-cuda13 chrony >/dev/null
/usr/local/sbin/modprobe nvidia
systemctl enable --now nvidia-fabricmanager.service nvidia-persistenced.service nvidia-dcgm.service chrony.service 2>/dev/null
HOST
fi
# As an automatic upgrade leaves a host: driver and fabric manager of different versions, so that the latter does not start.
if [ "$kind" = mismatched ] && [ "$family" = ubuntu ]; then
  in_host <<'HOST'
apt-get install -qq -y libnvidia-compute-580=580.95.05-1ubuntu1 nvidia-dkms-580-open=580.95.05-1ubuntu1 nvidia-kernel-common-580=580.95.05-1ubuntu1 \
  nvidia-firmware-580=580.95.05-1ubuntu1 nvidia-modprobe=580.95.05-1ubuntu1 nvidia-utils-580=580.95.05-1ubuntu1 nvidia-fabricmanager=580.105.08-1ubuntu1 >/dev/null
/usr/local/sbin/modprobe nvidia
systemctl enable --now nvidia-fabricmanager.service 2>/dev/null
HOST
elif [ "$kind" = newer-fabric-manager ]; then
  in_host <<'HOST'
dnf -q -y module enable nvidia-driver:open-dkms >/dev/null
dnf -q -y install nvidia-driver-cuda-580.95.05 nvidia-driver-cuda-libs-580.95.05 libnvidia-ml-580.95.05 nvidia-kmod-common-580.95.05 \
  kmod-nvidia-open-dkms-580.95.05 nvidia-fabricmanager-580.105.08 >/dev/null
/usr/local/sbin/modprobe nvidia
systemctl enable --now nvidia-fabricmanager.service 2>/dev/null
HOST
elif [ "$kind" = mismatched ]; then
  in_host <<'HOST'
dnf -q -y module enable nvidia-driver:580-dkms >/dev/null
dnf -q -y install nvidia-driver-cuda-580.105.08 kmod-nvidia-latest-dkms-580.105.08 nvidia-fabricmanager-580.95.05 >/dev/null
/usr/local/sbin/modprobe nvidia
systemctl enable --now nvidia-fabricmanager.service 2>/dev/null
HOST
fi
