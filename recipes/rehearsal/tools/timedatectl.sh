#!/bin/sh
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# A simulated timedatectl: a simulated host has chrony, and no systemd that it could ask.
echo "System has not been booted with systemd as init system (PID 1). Can't operate." >&2
exit 1
