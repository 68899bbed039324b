#!/bin/sh
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# As a mirror that has a part of a version only: the driver, and not its fabric manager.
set -eu
mkdir -p /srv/half
if [ -e /etc/yum.repos.d/dummy.repo ]; then
  cp /repository/rpm/noarch/*.rpm /srv/half/
  rm -f /srv/half/nvidia-fabricmanager-580.95.05-*.rpm
  createrepo_c --quiet /srv/half
  modifyrepo_c --mdtype=modules /repository/rpm/modules.yaml /srv/half/repodata >/dev/null
  sed -i 's,^baseurl=.*,baseurl=file:///srv/half,' /etc/yum.repos.d/dummy.repo
  dnf -q clean all
  exit 0
fi
ln -sf /repository/deb/*.deb /srv/half/
awk 'BEGIN { RS = ""; ORS = "\n\n" } !/^Package: nvidia-fabricmanager\nVersion: 580.95.05-/' /repository/deb/Packages >/srv/half/Packages
echo 'deb [trusted=yes] file:/srv/half ./' >/etc/apt/sources.list.d/dummy.list
apt-get update -qq
