# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Settings of every gate that runs jobs: their time limits, how often a suspect is measured, their queue."""

from __future__ import annotations

from dataclasses import dataclass

from ..kit.settings import setting


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSettings:
    """How the jobs of a benchmark gate are run."""

    timeout_s: float = setting("Longest time of one job, from when all of its pods run.", unit="s", above=0)
    pull_s: float = setting(
        "How long the pods of a job may take to start once they have a node, which is mostly pulling the image.",
        default=1800,
        unit="s",
        above=0,
    )
    schedule_s: float = setting("How long the pods of a job may wait for a node.", default=60, unit="s", above=0)
    total_s: float = setting(
        "Longest time of all jobs together; in gate fabric_validation that of up to 1000 hosts, and longer by as much "
        "as there are more.",
        unit="s",
        above=0,
    )
    cleanup_s: float = setting("Longest time to remove what the gate made.", default=60, unit="s", above=0)
    repeats: int = setting(
        "How often a suspect is measured before it counts; more than half of the runs must show the fault.",
        default=3,
        minimum=1,
    )
    queue: str = setting(
        "Queue of the jobs, for schedulers that have queues; empty: the scheduler's own (Volcano default, KAI "
        "default-queue).",
        default="",
    )
