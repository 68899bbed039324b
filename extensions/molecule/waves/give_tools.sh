#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# give_tools.sh DIRECTORY HOST CONTAINER: puts the simulated tools of a host first on the PATH of its container.
set -euo pipefail
directory=$1 host=$2 container=$3
# What the host can tell by itself it does: its services, its kernel.
tar -C "$directory/hosts/$host" --exclude=bin/systemctl --exclude=bin/uname --exclude=bin/sudo -c bin out |
  podman --runtime runc exec -i "$container" tar -x -C /usr/local --no-same-owner
podman --runtime runc exec -i "$container" sh -eu <<'HOST'
# The state of the fabric follows from the fabric manager of the host: the tool of the dummy package says that.
mv /usr/local/bin/nvidia-smi /usr/local/bin/nvidia-smi.simulated
cat >/usr/local/bin/nvidia-smi <<'TOOL'
#!/bin/sh
[ -x /usr/bin/nvidia-smi ] || exit 127
case "$*" in
  *fabric.state*) exec /usr/bin/nvidia-smi "$@" ;;
esac
exec /usr/local/bin/nvidia-smi.simulated "$@"
TOOL
chmod 0755 /usr/local/bin/nvidia-smi
HOST
