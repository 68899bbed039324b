#!/bin/sh
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# A simulated ibstat.
out=${0%/*}/../out
case "$*" in
    "") cat "$out/ibstat.txt" ;;
    "-l" | "--list_of_cas") sed -n "s/^CA '\(.*\)'$/\1/p" "$out/ibstat.txt" ;;
    *)
        echo "ibstat: iberror: failed: '$1' IB device can't be found"
        exit 255
        ;;
esac
