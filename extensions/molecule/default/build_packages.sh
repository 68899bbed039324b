#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# build_packages.sh DIRECTORY: the repositories of dummy packages, built in a root of the hosts, which has the tools.
set -euo pipefail
home=$1
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
rm -rf "$home/repository"
mkdir -p "$home/repository"/{deb,rpm}
podman --runtime runc run --rm --network none --ulimit nofile=1024:20000 --ulimit nproc=1024:1024 \
  -v "$home/repository:/repository" -v "$home/packages.json:/packages.json:ro" -v "$here/files/build_packages.py:/build.py:ro" \
  --rootfs "$home/root:O" sh -c 'for family in deb rpm; do python3 /build.py /packages.json $family /repository/$family || exit 1; done'
touch "$home/repository/$(cat "$here/files/packages.yml" "$here/files/build_packages.py" | sha256sum | cut -d' ' -f1)"
