#!/bin/sh
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Runs the real InfiniBand tool of this name on this host's own adapters. The simulator gives a program one adapter:
# `-C mlx5_3` chooses it, without -C it is the first one whose port is Active; ibstat is run once for each.
here=${0%/*}
case $here in /*) ;; *) here=$PWD/$here ;; esac
out=$here/../out
tool=${0##*/}
. "$out/fabric.env"
export IBSIM_SOCKNAME LD_LIBRARY_PATH
# The tools make a directory where they run.
cd "${TMPDIR:-/tmp}" || exit 1
exec 9<"$out/fabric.lock"
flock -w 120 9 || { echo "$tool: iberror: failed: the simulator is busy" >&2; exit 255; }

preload=$LD_PRELOAD
unset LD_PRELOAD
on() {
    host=$1 program=$DIAGNOSTICS/$2
    shift 2
    env SIM_HOST="$host" LD_PRELOAD="$preload" "$program" "$@"
}

ident() { awk -F '\t' -v name="$1" '$1 == name { print $2 }' "$out/hcas.tsv"; }

# What the simulator cannot say of an adapter: its name, model and firmware, and the rate of its port.
adapter() {
    name=$1 host=$2 model=$3 firmware=$4 state=$5
    speed=$(on "$host" smpquery -D portinfo 0 1 2>/dev/null |
        awk -F '\\.+' '/^LinkWidthActive:/ { width = $2 + 0 }
            /^PhysLinkState:/ { up = $2 == "LinkUp" }
            /^LinkSpeedExtActive:/ { extended = $0; sub(/^[^.]*\.+/, "", extended) }
            END { if (up) print width, extended }')
    width=${speed%% *} rate=10
    case ${speed#* } in
        "14.0625 Gbps") rate=$((14 * width)) ;;
        "25.78125 Gbps") rate=$((25 * width)) ;;
        "53.125 Gbps") rate=$((50 * width)) ;;
    esac
    change="s/^CA 'ibsim0'/CA '$name'/; s/CA type: .*/CA type: $model/; s/Firmware version: .*/Firmware version: $firmware/
        s/Rate: .*/Rate: $rate/; s/Link layer: IB\$/Link layer: InfiniBand/"
    [ "$state" = Active ] || [ -z "$state" ] || change="$change; s/State: A.*/State: $state/; s/SM lid: .*/SM lid: 0/"
    on "$host" ibstat | sed "$change"
}

if [ "$tool" = ibstat ]; then
    case "$*" in
        "" | "-s" | "--short") wanted= ;;
        "-l" | "--list_of_cas") cut -f 1 "$out/hcas.tsv"; exit ;;
        -*) wanted=; on "$(head -n 1 "$out/hcas.tsv" | cut -f 2)" ibstat "$@"; exit ;;
        *)
            wanted=$1
            [ -n "$(ident "$wanted")" ] || { echo "ibstat: iberror: failed: '$1' IB device can't be found"; exit 255; }
            ;;
    esac
    while IFS="$(printf '\t')" read -r name host model firmware state; do
        [ -z "$wanted" ] || [ "$wanted" = "$name" ] || continue
        adapter "$name" "$host" "$model" "$firmware" "$state" </dev/null
    done <"$out/hcas.tsv"
    exit
fi

chosen=
left=$#
while [ "$left" -gt 0 ]; do
    word=$1
    shift
    left=$((left - 1))
    case $word in
        -C | --Ca)
            chosen=$1
            shift
            left=$((left - 1))
            ;;
        *) set -- "$@" "$word" ;;
    esac
done
if [ -n "$chosen" ]; then
    host=$(ident "$chosen")
    [ -n "$host" ] || { echo "$tool: iberror: failed: can't open UMAD port ($chosen:0)" >&2; exit 255; }
else
    host=$(head -n 1 "$out/hcas.tsv" | cut -f 2)
    for one in $(cut -f 2 "$out/hcas.tsv"); do
        if on "$one" ibstat 2>/dev/null | grep -q 'State: Active'; then
            host=$one
            break
        fi
    done
fi
on "$host" "$tool" "$@"
