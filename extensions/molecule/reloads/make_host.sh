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
    ;;
  lost) drop_in nvidia-fabricmanager 'ExecStartPre=/bin/false\n' ;;
esac
