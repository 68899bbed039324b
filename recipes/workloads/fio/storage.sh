# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Runs fio in a directory of its own on a shared volume, and removes the directory however it ends.
# In the environment: STORAGE_VOLUME (where it is mounted), STORAGE_DIRECTORY (below it), STORAGE_NODE, STORAGE_RUN (a word
# that no other run has), STORAGE_NEEDED_KIB, STORAGE_JOBS (the text of the job file) and what the job file names.
# Every line that begins with gpufleet-fio is read by check/shared_storage/reading.py.
set -u
base="$STORAGE_VOLUME/$STORAGE_DIRECTORY/$STORAGE_NODE"
place="$base/gpufleet-fio-$STORAGE_RUN"
child=

clean() {
  rm -rf "$place" "${work:-}"
  rmdir "$base" 2>/dev/null
}

ended() {
  trap '' TERM INT HUP
  [ -z "$child" ] || kill "$child" 2>/dev/null
  wait
  exit 143
}

if ! said=$(mkdir -p "$place" 2>&1); then
  echo "gpufleet-fio refused $said"
  exit 3
fi
trap clean EXIT
trap ended TERM INT HUP
# What a killed run left a day ago or longer; of a run that goes on, this node's or another cluster's, nothing is.
find "$base" -maxdepth 1 -name 'gpufleet-fio-*' -mmin +1440 -exec rm -rf {} + 2>/dev/null

# A file system that does not count its blocks says 0 for all of them.
free=$(df -Pk "$place" | awk 'NR > 1 { total = $(NF - 4); left = $(NF - 2) } END { print (total > 0 ? left : "unknown") }')
echo "gpufleet-fio free $free needed $STORAGE_NEEDED_KIB"
if [ "$free" != unknown ] && [ "$free" -lt "$STORAGE_NEEDED_KIB" ]; then
  exit 4
fi

FIO_DIRECT=0
if dd if=/dev/zero of="$place/probe" bs=4096 count=1 oflag=direct 2>/dev/null; then
  FIO_DIRECT=1
fi
rm -f "$place/probe"
echo "gpufleet-fio direct $FIO_DIRECT"

FIO_DIRECTORY="$place"
export FIO_DIRECT FIO_DIRECTORY
work=$(mktemp -d) || exit 5
printf '%s\n' "$STORAGE_JOBS" > "$work/jobs.fio"
(cd "$work" && exec fio --output-format=json --output=report jobs.fio) &
child=$!
wait "$child"
code=$?
child=
echo "gpufleet-fio begin"
cat "$work/report"
echo
echo "gpufleet-fio end $code"
exit "$code"
