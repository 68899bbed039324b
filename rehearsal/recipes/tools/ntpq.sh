#!/bin/sh
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# A simulated ntpq: most simulated hosts have chrony, and no ntpd that it could ask.
out=${0%/*}/../out
[ ! -f "$out/ntpq.printed" ] || exec cat "$out/ntpq.printed"
echo "ntpq: read: Connection refused" >&2
exit 1
