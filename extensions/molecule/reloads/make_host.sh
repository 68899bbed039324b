#!/bin/sh
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# make_host.sh NAME: who works there, whose DCGM does not end when it is told to, whose fabric manager does not start again,
# and whose GPUs are partitioned by a unit of the site.
set -eu
drop_in() {
  mkdir -p "/etc/systemd/system/$1.service.d"
  printf '[Service]\n%b' "$2" >"/etc/systemd/system/$1.service.d/molecule.conf"
  systemctl daemon-reload
}
case $1 in
  idle*)
    # NVIDIA/mig-parted, deployments/systemd/nvidia-mig-manager.service: oneshot, and inactive when it is done.
    printf '[Service]\nType=oneshot\nExecStart=/bin/sh -c "cat /run/kernel/proc/driver/nvidia/version >>/var/log/molecule-mig"\n[Install]\nWantedBy=multi-user.target\n' \
      >/etc/systemd/system/nvidia-mig-manager.service
    systemctl enable --now nvidia-mig-manager.service
    ;;
  busy) systemd-run --unit=train /usr/local/sbin/hold-driver python3 ;;
  stuck)
    drop_in nvidia-dcgm 'TimeoutStopSec=2\nSendSIGKILL=no\n'
    touch /run/ignores-its-end-nv-hostengine
    systemctl restart nvidia-dcgm.service
    # Only a process that ignores SIGTERM (bit 15) by now is one that does not end.
    status=/proc/$(systemctl show --property=MainPID --value nvidia-dcgm.service)/status
    for _ in $(seq 50); do
      ignored=$(sed -n 's/^SigIgn:[[:space:]]*//p' "$status")
      [ $((0x$ignored & 0x4000)) = 0 ] || exit 0
      sleep 0.2
    done
    echo "DCGM does not ignore SIGTERM: $ignored" >&2
    exit 1
    ;;
  lost) drop_in nvidia-fabricmanager 'ExecStartPre=/bin/false\n' ;;
esac
