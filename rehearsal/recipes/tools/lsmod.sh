#!/bin/sh
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# A simulated lsmod, with the columns of kmod's (lsmod(8)).
out=${0%/*}/../out
[ ! -f "$out/lsmod.printed" ] || exec cat "$out/lsmod.printed"
cat <<'EOT'
Module                  Size  Used by
nvidia_uvm           1814528  0
nvidia_modeset       1568768  0
nvidia              11534336  2 nvidia_uvm,nvidia_modeset
mlx5_ib               511488  0
mlx5_core            2265088  1 mlx5_ib
EOT
