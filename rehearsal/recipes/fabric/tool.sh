#!/bin/sh
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Runs the real InfiniBand tool of this name on this host's own adapters. The simulator gives a program one adapter:
# `-C mlx5_3` chooses it, without -C it is the first one whose port is Active; ibstat is run once for each.
here=${0%/*}
case $here in /*) ;; *) here=$PWD/$here ;; esac
out=$here/../out
tool=${0##*/}
newline='
'
. "$out/fabric.env"
export IBSIM_SOCKNAME
# The tools make a directory with some hundred files where they run: in memory, where the machine has that.
[ -z "${TMPDIR-}" ] && [ -w /dev/shm ] && TMPDIR=/dev/shm
cd "${TMPDIR:-/tmp}" || exit 1
# Who is asked by the simulator itself (see adapters.py) need not wait: it answers the one who holds the lock.
if [ -z "${GPUFLEET_REHEARSAL_FABRIC_HERE-}" ]; then
    exec 9<"$out/fabric.lock"
    flock -w 120 9 || { echo "$tool: iberror: failed: the simulator is busy" >&2; exit 255; }
    # What ibstat says is kept there until a port changes. Opened both ways: without a reader this does not wait.
    if [ "$tool" = ibstat ] && [ $# -eq 0 ] && [ -p "$out/ask" ]; then
        echo "$FABRIC_HOST $$" 1<>"$out/ask"
        said=$(timeout 90 cat "$out/answer")
        if [ "${said%%"$newline"*}" = "$FABRIC_HOST $$" ] && [ "$said" != "$FABRIC_HOST $$" ]; then
            printf '%s\n' "${said#*"$newline"}"
            exit
        fi
    fi
fi

# For the tool alone: the programs of this machine have libraries of their own.
preload=$LD_PRELOAD libraries=${LD_LIBRARY_PATH-}
unset LD_PRELOAD LD_LIBRARY_PATH
on() { # on <adapter's ident> <tool> <arguments>
    host=$1 program=$DIAGNOSTICS/$2
    shift 2
    SIM_HOST=$host LD_PRELOAD=$preload LD_LIBRARY_PATH=$libraries "$program" "$@"
}

simulated() { awk -F '\t' '$2 != "-" { print $2 }' "$out/hcas.tsv"; }
ident() { awk -F '\t' -v name="$1" '$1 == name { print $2 }' "$out/hcas.tsv"; }

# What the simulator cannot say of an adapter: its name, model and firmware, and the rate of its port, which smpquery
# tells. An adapter that is not on the fabric has no name in the simulator (`-`): the host's own file says of it what
# ibstat prints. Fed with ADAPTER lines, each followed by what smpquery and ibstat print.
# shellcheck disable=SC2016
adapters='
/^STATIC\t/ { as_it_is = 1; next }
/^ADAPTER\t/ { as_it_is = 0; split($0, own, "\t"); lanes = 0; lane = 0; up = 0; next }
as_it_is { print; next }
/^LinkWidthActive:/ { sub(/^[^.]*\.+/, ""); lanes = $0 + 0; next }
/^PhysLinkState:/ { up = /LinkUp/; next }
/^LinkSpeedExtActive:/ { sub(/^[^.]*\.+/, ""); lane = $0 + 0; next }
/^\t\t\t/ || (/^[^\t]/ && !/^CA /) { next }
/^CA / { print "CA \047" own[2] "\047"; next }
/^\tCA type:/ { print "\tCA type: " own[3]; next }
/^\tFirmware version:/ { print "\tFirmware version: " own[4]; next }
/^\t\tRate:/ { print "\t\tRate: " (up && lane ? lanes * (lane > 50 ? 50 : lane > 25 ? 25 : 14) : 10); next }
/^\t\tLink layer: IB$/ { print "\t\tLink layer: InfiniBand"; next }
own[5] == "Initializing" && /^\t\tState: A/ { print "\t\tState: " own[5]; next }
own[5] == "Initializing" && /^\t\tSM lid:/ { print "\t\tSM lid: 0"; next }
{ print }
'

if [ "$tool" = ibstat ]; then
    case "$*" in
        "" | "-s" | "--short") wanted= ;;
        "-l" | "--list_of_cas") cut -f 1 "$out/hcas.tsv"; exit ;;
        -*) wanted=; on "$(simulated | head -n 1)" ibstat "$@"; exit ;;
        *)
            wanted=$1
            [ -n "$(ident "$wanted")" ] || { echo "ibstat: iberror: failed: '$1' IB device can't be found"; exit 255; }
            ;;
    esac
    while IFS="$(printf '\t')" read -r name where model firmware state; do
        [ -z "$wanted" ] || [ "$wanted" = "$name" ] || continue
        if [ "$where" = - ]; then
            # Through awk as it is: the lines of an adapter that no ADAPTER line precedes.
            printf 'STATIC\t%s\n' "$name"
            sed -n "/^CA '$name'\$/,/^\t\tLink layer:/p" "$out/ibstat.txt"
            continue
        fi
        printf 'ADAPTER\t%s\t%s\t%s\t%s\n' "$name" "$model" "$firmware" "$state"
        on "$where" smpquery -D portinfo 0 1 </dev/null 2>/dev/null
        on "$where" ibstat </dev/null
    done <"$out/hcas.tsv" | awk "$adapters"
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
    [ -n "$host" ] && [ "$host" != - ] || { echo "$tool: iberror: failed: can't open UMAD port ($chosen:0)" >&2; exit 255; }
else
    host=$(simulated | head -n 1)
    for one in $(simulated); do
        if on "$one" ibstat 2>/dev/null | grep -q 'State: Active'; then
            host=$one
            break
        fi
    done
fi
on "$host" "$tool" "$@"
