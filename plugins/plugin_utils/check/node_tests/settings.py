# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Settings of continuous validation: how much a cycle does at once, and the settings that every test of a node has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ..kit.settings import setting

CONTINUOUS = "continuous"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContinuousSettings:
    """How a cycle over idle nodes is run."""

    batch: int = setting("Most nodes that are tested at once.", default=8, unit="nodes", minimum=1, use="run")
    per_rack: int = setting(
        "Most nodes of one rack that are tested at once; 0: no limit.", default=2, unit="nodes", minimum=0, use="run"
    )
    per_rail: int = setting(
        "Most nodes at the same leaf switches that are tested at once, by the cabling plan that the site states; 0: no "
        "limit.",
        default=0,
        unit="nodes",
        minimum=0,
        use="run",
    )
    window: str = setting(
        "Time of day in which tests are run, such as 22:00-06:00; a test that could end later is not begun. Empty: at "
        "any time.",
        default="",
        use="run",
    )
    window_zone: str = setting("Time zone of that time, such as Europe/Berlin.", default="UTC", use="run")
    window_days: tuple[str, ...] = setting(
        "Days on which the window opens, of mon to sun.",
        default=["mon", "tue", "wed", "thu", "fri", "sat", "sun"],
        use="run",
    )
    failed_again_h: float = setting(
        "How long after it failed a test is repeated.", default=6, unit="h", above=0, use="run"
    )
    other_again_h: float = setting(
        "How long after it said nothing a test is repeated; twice as long each time, up to a day.",
        default=1,
        unit="h",
        above=0,
        use="run",
    )
    event_h: float = setting(
        "Results of a test and node that are nearer to each other than this are one event, of which the best counts; a "
        "suspect is repeated no sooner.",
        default=6,
        unit="h",
        above=0,
        use="run",
    )
    congestion_h: float = setting(
        "The same for tests whose traffic crosses the network of all nodes (nccl_loop, nccl_pair): how long jobs "
        "beside them may congest it.",
        default=24,
        unit="h",
        above=0,
        use="run",
    )
    system_namespaces: tuple[str, ...] = setting(
        "Namespaces beside those of Kubernetes and of the recipe's components whose pods without GPUs do not keep a "
        "node from being tested.",
        default=[],
        use="run",
    )
    beside_pods: bool = setting(
        "Whether a node is tested beside pods of users that hold no GPU. They share its CPUs and memory with the test.",
        default=False,
        use="run",
    )
    cycle_s: float = setting(
        "Longest time of a cycle; what is not done then is pending, and comes first in the next one.",
        default=3600,
        unit="s",
        above=0,
        use="run",
    )
    schedule_s: float = setting(
        "How long a test may wait for its node before it gives its place in the batch to another.",
        default=60,
        unit="s",
        above=0,
        use="run",
    )
    tries: int = setting(
        "How often a cycle begins a test of a node that was given back to a user or found no place.",
        default=2,
        minimum=1,
        use="run",
    )
    cleanup_s: float = setting("Longest time to remove what a batch made.", default=60, unit="s", above=0, use="run")
    passive: bool = setting(
        "Whether every cycle judges what all hosts, busy or idle, show of their GPUs, links and kernel log; it loads "
        "nothing.",
        default=True,
        use="run",
    )
    passive_days: float = setting(
        "How old the newest passive result of a node may be before the node counts as not known.",
        default=1,
        unit="days",
        above=0,
        use="run",
    )
    slurm_dir: str = setting(
        "With Slurm: directory that this controller and all nodes see by the same path, for the programs and logs of "
        "tests. The user of cycles writes there.",
        default="",
        use="run",
    )
    slurm_containers: Literal["pyxis", "none"] = setting(
        "With Slurm: whether Pyxis starts the image of a test, or its command runs on the node itself, where what is "
        "in the image has to be then.",
        default="pyxis",
        use="run",
    )
    slurm_partition: str = setting("With Slurm: partition of the tests. Empty: the default one.", default="", use="run")
    slurm_account: str = setting("With Slurm: account of the tests. Empty: the default one.", default="", use="run")
    slurm_qos: str = setting("With Slurm: QOS of the tests. Empty: the default one.", default="", use="run")
    slurm_reservation: str = setting(
        "With Slurm: reservation of the tests; its nodes count as free. Empty: none.", default="", use="run"
    )
    slurm_mpi: str = setting(
        "With Slurm: plugin of `srun --mpi` that starts ranks, such as pmix. Empty: mpirun starts them, and pmix those "
        "of several nodes in containers of Pyxis.",
        default="",
        use="run",
    )
    slurm_nice: int = setting(
        "With Slurm: by how much the priority of tests is lowered.",
        default=10000,
        minimum=0,
        maximum=2147483645,
        use="run",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTestSettings:
    """Settings that every test of a node has."""

    enabled: bool = setting("Whether cycles run it.", default=True, use="run")
    days: float = setting("A result that is younger is not made again.", default=7, unit="days", above=0, use="run")
    timeout_s: float = setting(
        "Longest time of the test, from when its pod runs.", default=600, unit="s", above=0, use="run"
    )
    pull_s: float = setting(
        "How long its pod may take to start once it has its node, which is mostly pulling the image.",
        default=900,
        unit="s",
        above=0,
        use="run",
    )
