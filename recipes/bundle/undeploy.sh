#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Removes what deploy.sh of this bundle installed, the last folder first. It may be run again at any time. Releases of
# others, namespaces, volumes, definitions (CRDs) and with them the objects of users stay.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")"

mark='gpufleet.io/managed-by=bundle'
timeout_s=600

fail() {
  printf 'undeploy.sh: %s\n' "$1" >&2
  exit "${2:-8}"
}

# What a file of NAME=VALUE lines says about a name.
said() { sed -n "s/^$2=//p" "$1"; }

while [ $# -gt 0 ]; do
  case "$1" in
    --timeout) [ $# -gt 1 ] || fail "$1 has no value. Fix: --timeout 600" 2 ;;
  esac
  case "$1" in
    --timeout) timeout_s=$2 && shift ;;
    -h | --help) printf 'usage: undeploy.sh [--timeout SECONDS]\n' && exit 0 ;;
    *) fail "$1 is no option. Fix: undeploy.sh [--timeout SECONDS]" 2 ;;
  esac
  shift
done
case "$timeout_s" in
  '' | *[!0-9]*) fail "--timeout $timeout_s is no number of seconds. Fix: --timeout 600" 2 ;;
esac
command -v helm >/dev/null || fail "helm is not on PATH. Fix: install it" 3

folders=()
for file in [0-9]*/release.env; do folders=("${file%/release.env}" ${folders[@]+"${folders[@]}"}); done

for folder in "${folders[@]}"; do
  name=$(said "$folder/release.env" RELEASE)
  namespace=$(said "$folder/release.env" NAMESPACE)
  there=$(helm list --all --short --namespace "$namespace" --filter "^$name\$")
  [ -n "$there" ] || continue
  if [ -z "$(helm list --all --short --namespace "$namespace" --filter "^$name\$" --selector "$mark")" ]; then
    printf '%s: release %s/%s is of somebody else and stays\n' "$folder" "$namespace" "$name"
    continue
  fi
  printf '%s ...\n' "$folder"
  helm uninstall "$name" --namespace "$namespace" --ignore-not-found --wait --timeout "${timeout_s}s" >/dev/null ||
    fail "$folder: component $(said "$folder/release.env" COMPONENT) is not removed. Fix: what helm names above, then run undeploy.sh again" 8
done
printf 'done: namespaces, volumes and definitions stay.\n'
