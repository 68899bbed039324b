#!/bin/sh
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# As a mirror that has a part of a version only: the driver, and not its fabric manager.
set -eu
mkdir -p /srv/half
ln -sf /repository/deb/*.deb /srv/half/
awk 'BEGIN { RS = ""; ORS = "\n\n" } !/^Package: nvidia-fabricmanager\nVersion: 580.95.05-/' /repository/deb/Packages >/srv/half/Packages
echo 'deb [trusted=yes] file:/srv/half ./' >/etc/apt/sources.list.d/dummy.list
apt-get update -qq
