#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# kill_roll.sh PID CONTAINER: ends a roll and what it does on one host, at once and everything, as a loss of power does.
set -euo pipefail
tree() {
  local child
  for child in $(pgrep -P "$1"); do tree "$child"; done
  echo "$1"
}
mapfile -t pids < <(tree "$1")
kill -KILL "${pids[@]}"
podman --runtime runc exec -i "$2" sh -eu <<'HOST'
pid=$(cat /run/dkms-builds-as)
pids=
while [ "$pid" -gt 1 ]; do
  pids="$pids $pid"
  pid=$(awk '/^PPid:/ { print $2 }' "/proc/$pid/status")
done
kill -KILL $pids
rm -f /run/dkms-builds /run/dkms-builds-as
HOST
