#!/bin/sh
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# The kernel of the host, and not the one of the machine.
[ "$*" != -r ] || exec cat /var/lib/dummy-boot/running
exec /usr/bin/uname "$@"
