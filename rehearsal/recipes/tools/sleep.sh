#!/bin/sh
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# A simulated sleep: what the processes of this host do does not change between two readings of ps.
[ "$*" = 2.5 ] || exec /bin/sleep "$@"
