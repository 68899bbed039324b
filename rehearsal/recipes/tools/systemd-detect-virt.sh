#!/bin/sh
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# A simulated systemd-detect-virt: its exit code says whether there is a hypervisor (systemd-detect-virt(1)).
out=${0%/*}/../out
case "$*" in
    "" | "--vm" | "-v") cat "$out/virtualisation.txt" ;;
    *)
        echo "systemd-detect-virt: unrecognized option '$1'" >&2
        exit 1
        ;;
esac
[ "$(cat "$out/virtualisation.txt")" != none ]
