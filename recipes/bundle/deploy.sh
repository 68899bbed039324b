#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Installs what this bundle holds, folder by folder, and waits for each. It may be run again at any time: what is there
# already stays, what is missing comes, and it goes on where it stopped.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")"

mark='gpufleet.io/managed-by=bundle'
timeout_s=900
served_s=60
poll_s="${GPUFLEET_POLL_S:-2}"
secrets="${GPUFLEET_SECRETS:-}"
take_over=no
edited=no

usage() {
  cat <<'END'
usage: deploy.sh [--secrets DIR] [--timeout SECONDS] [--take-over] [--edited]
  --secrets DIR      values that the bundle does not hold, as DIR/COMPONENT.yaml (or GPUFLEET_SECRETS)
  --timeout SECONDS  how long a component may take until it is ready (900)
  --take-over        also upgrade releases and objects that somebody else made
  --edited           go on although files differ from checksums.txt
The cluster is that of kubectl and helm: KUBECONFIG, or ~/.kube/config.
END
}

fail() {
  printf 'deploy.sh: %s\n' "$1" >&2
  exit "${2:-8}"
}

# What a file of NAME=VALUE lines says about a name.
said() { sed -n "s/^$2=//p" "$1"; }

while [ $# -gt 0 ]; do
  case "$1" in
    --secrets | --timeout) [ $# -gt 1 ] || fail "$1 has no value. Fix: see deploy.sh --help" 2 ;;
  esac
  case "$1" in
    --secrets) secrets=$2 && shift ;;
    --timeout) timeout_s=$2 && shift ;;
    --take-over) take_over=yes ;;
    --edited) edited=yes ;;
    -h | --help) usage && exit 0 ;;
    *) fail "$1 is no option. Fix: see deploy.sh --help" 2 ;;
  esac
  shift
done
case "$timeout_s" in
  '' | *[!0-9]*) fail "--timeout $timeout_s is no number of seconds. Fix: --timeout 900" 2 ;;
esac
for program in helm kubectl; do
  command -v "$program" >/dev/null || fail "$program is not on PATH. Fix: install it" 3
done
if [ "$edited" = no ] && command -v sha256sum >/dev/null; then
  sha256sum --check --strict --quiet checksums.txt ||
    fail "files are not those of the bundle. Fix: make it again (gpufleet bundle), or add --edited" 2
fi

folders=()
for file in [0-9]*/release.env; do folders+=("${file%/release.env}"); done

# Everything that is missing or in the way is named before anything is changed.
missing=''
for folder in "${folders[@]}"; do
  [ -f "$folder/secrets.txt" ] || continue
  component=$(said "$folder/release.env" COMPONENT)
  [ -n "$secrets" ] && [ -f "$secrets/$component.yaml" ] || missing="$missing $component.yaml"
done
[ -z "$missing" ] ||
  fail "values that the bundle does not hold are missing:$missing. Fix: README.md, Secrets; then deploy.sh --secrets DIR" 2

release_there() {
  helm list --all --short --namespace "$2" --filter "^$1\$" "${@:3}"
}

foreign=''
for folder in "${folders[@]}"; do
  name=$(said "$folder/release.env" RELEASE)
  namespace=$(said "$folder/release.env" NAMESPACE)
  [ -n "$(release_there "$name" "$namespace")" ] || continue
  [ -n "$(release_there "$name" "$namespace" --selector "$mark")" ] || foreign="$foreign $namespace/$name"
done
if [ -n "$foreign" ] && [ "$take_over" = no ]; then
  fail "releases of somebody else are there:$foreign. Fix: remove them, or add --take-over" 8
fi

kube=$(kubectl get --raw /version | sed -n 's/.*"gitVersion": *"\([^"]*\)".*/\1/p')
[ -n "$kube" ] || fail "the API server does not say its version. Fix: kubectl version" 8
work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT

# Definitions of a chart's crds/, which helm installs once and never upgrades. The API server refuses one that drops a
# version in which objects are stored.
apply_definitions() {
  helm template "$name" "${chart[@]}" --namespace "$namespace" "${values[@]}" --include-crds --kube-version "$kube" |
    awk '/^# Source: / { keep = $0 ~ /^# Source: [^\/]+(\/charts\/[^\/]+)*\/crds\// } keep' >"$work/definitions.yaml"
  grep -q '^kind: *CustomResourceDefinition' "$work/definitions.yaml" || return 0
  kubectl apply --server-side --force-conflicts --field-manager gpufleet-bundle --filename "$work/definitions.yaml" \
    >/dev/null
  kubectl wait --for condition=Established --timeout "${served_s}s" --filename "$work/definitions.yaml" >/dev/null
}

# A webhook or a kind that an earlier folder has just brought may take a moment until the server knows it.
upgrade() {
  local until_s=$((SECONDS + served_s)) words=()
  [ "$take_over" = no ] || words=(--take-ownership)
  while true; do
    if helm upgrade "$name" "${chart[@]}" --install --namespace "$namespace" "${values[@]}" --reset-values \
      --history-max 5 --hide-notes --labels "$mark" "${words[@]}" >/dev/null 2>"$work/helm.err"; then
      return 0
    fi
    if [ "$SECONDS" -ge "$until_s" ] || ! grep -Eq 'webhook|no matches for kind' "$work/helm.err"; then
      cat "$work/helm.err" >&2
      return 1
    fi
    sleep "$poll_s"
  done
}

# The workloads of the release that are not ready, by the rules of gate 4.
unready_workloads() {
  helm get manifest "$name" --namespace "$namespace" >"$work/manifest.yaml" || return 1
  grep -q '^kind:' "$work/manifest.yaml" || return 0
  kubectl get --namespace "$namespace" --filename "$work/manifest.yaml" --no-headers --output custom-columns="$columns" |
    awk '
      function number(text) { return text == "<none>" ? 0 : text + 0 }
      { want = $6 == "<none>" ? 1 : $6 + 0; ready = 0 }
      $1 == "Deployment" || $1 == "StatefulSet" {
        older = number($7) - number($8); if (older < 0) older = 0
        ready = number($9) - older; if (ready > number($8)) ready = number($8); if (ready < 0) ready = 0
      }
      $1 == "DaemonSet" {
        want = $5 == "<none>" ? 1 : number($10)
        ready = number($11) < number($12) ? number($11) : number($12)
      }
      $1 == "Job" { want = $13 == "<none>" ? 1 : $13 + 0; ready = number($14) }
      $1 !~ /^(Deployment|StatefulSet|DaemonSet|Job)$/ { next }
      ready < want || ($5 != "<none>" && number($5) < number($4)) {
        printf "%s %s/%s (%d of %d ready)\n", $1, $2, $3, ready, want
      }'
}
columns='KIND:.kind,NAMESPACE:.metadata.namespace,NAME:.metadata.name,GENERATION:.metadata.generation'
columns="$columns,SEEN:.status.observedGeneration,REPLICAS:.spec.replicas,ALL:.status.replicas"
columns="$columns,UPDATED:.status.updatedReplicas,READY:.status.readyReplicas,DESIRED:.status.desiredNumberScheduled"
columns="$columns,NUMBERREADY:.status.numberReady,UPDATEDNUMBER:.status.updatedNumberScheduled"
columns="$columns,COMPLETIONS:.spec.completions,SUCCEEDED:.status.succeeded"

# What the component's own resources report where it is not what readiness.txt asks for.
unready_reports() {
  [ -f "$folder/readiness.txt" ] || return 0
  while read -r kind field wanted required ignored prefix; do
    kubectl get "$kind" --all-namespaces --ignore-not-found --no-headers \
      --output "custom-columns=NAME:.metadata.name,VALUE:.$field" >"$work/reports" 2>"$work/reports.err" || {
      # A kind that is not there yet.
      grep -q "the server doesn't have a resource type" "$work/reports.err" || { cat "$work/reports.err" >&2 && return 1; }
    }
    awk -v kind="$kind" -v wanted="$wanted" -v required="$required" -v ignored="$ignored" -v prefix="$prefix" '
      prefix != "-" && index($1, prefix) != 1 { next }
      { there++ }
      $2 == ignored { next }
      { counted++ }
      $2 != wanted { printf "%s %s is %s\n", kind, $1, $2 }
      END { if (!counted && (there || required == "yes")) printf "there is no %s yet\n", kind }' "$work/reports"
  done <"$folder/readiness.txt"
}

wait_ready() {
  local until_s=$((SECONDS + timeout_s)) left
  while true; do
    left=$(unready_workloads 2>"$work/ask.err") || left="not known: $(tail -n 1 "$work/ask.err")"
    if [ -z "$left" ]; then
      left=$(unready_reports 2>"$work/ask.err") || left="not known: $(tail -n 1 "$work/ask.err")"
    fi
    [ -n "$left" ] || return 0
    if [ "$SECONDS" -ge "$until_s" ]; then
      printf 'deploy.sh: not ready after %s s: %s\n' "$timeout_s" "$left" >&2
      return 1
    fi
    sleep "$poll_s"
  done
}

deploy() {
  name=$(said "$folder/release.env" RELEASE)
  namespace=$(said "$folder/release.env" NAMESPACE)
  component=$(said "$folder/release.env" COMPONENT)
  chart=("./$folder")
  values=()
  if [ -f "$folder/upstream.env" ]; then
    chart=("$(said "$folder/upstream.env" CHART)")
    repository=$(said "$folder/upstream.env" REPO)
    version=$(said "$folder/upstream.env" VERSION)
    [ -z "$repository" ] || chart+=(--repo "$repository")
    [ -z "$version" ] || chart+=(--version "$version")
    values=(--values "$folder/values.yaml")
    [ ! -f "$folder/secrets.txt" ] || values+=(--values "$secrets/$component.yaml")
  fi
  apply_definitions
  upgrade
  wait_ready
}

if [ -f namespaces.yaml ]; then
  kubectl apply --server-side --field-manager gpufleet-bundle --filename namespaces.yaml >/dev/null ||
    fail "namespaces.yaml is refused. Fix: what kubectl names above" 8
fi
for folder in "${folders[@]}"; do
  printf '%s ...\n' "$folder"
  # Not as a condition of `if`, in which errors inside of a function are passed over.
  set +e
  (
    set -e
    deploy
  )
  code=$?
  set -e
  [ "$code" -eq 0 ] ||
    fail "$folder: component $(said "$folder/release.env" COMPONENT) is not installed and ready. Fix: what is named above, then run deploy.sh again" 8
done
printf 'done: %s folders are installed and ready.\n' "${#folders[@]}"
