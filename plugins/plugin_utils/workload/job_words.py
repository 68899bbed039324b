# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The words for jobs: how they are made, what their pods are for, and how they stand."""

from __future__ import annotations

from typing import Literal

JobKind = Literal["gang-job", "mpijob", "plain-job", "torchrun", "ranks"]
PodRole = Literal["launcher", "worker"]
JobState = Literal[
    "succeeded",
    "failed",
    "unschedulable",
    "image",
    "refused",
    "held",
    "lost-node",
    "preempted",
    "slow-start",
    "timeout",
    "aborted",
    "unknown",
]
