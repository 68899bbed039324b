#!/bin/sh
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# A simulated timedatectl: most simulated hosts have chrony, and no systemd that it could ask.
out=${0%/*}/../out
[ ! -f "$out/timedatectl.printed" ] || exec cat "$out/timedatectl.printed"
echo "System has not been booted with systemd as init system (PID 1). Can't operate." >&2
exit 1
