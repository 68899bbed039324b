#!/bin/sh
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# A simulated show_gids of MLNX_OFED, for all adapters.
cat "${0%/*}/../out/gids.txt"
