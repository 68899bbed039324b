# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A cluster of Slurm as the place of a cycle: holds its hosts, ends jobs of dead cycles, and says how tests are run.

The hold is a lock of this controller. So only cycles of this controller whose runs lie beside this one are known to be
dead; jobs and leases of any other are left alone, and end by the time limits that they have in Slurm.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..check.benchmark.plan import BenchmarkHost
from ..check.node_tests.registry import enabled_tests
from ..check.node_tests.settings import CONTINUOUS, ContinuousSettings
from ..check.spec import ObserveContext
from ..fleet.cycle_model import RunJobs, Stock
from ..fleet.slurm_jobs import SlurmCommands, SlurmRunner
from ..fleet.slurm_script import SlurmWays
from ..outcome.errors import InputError
from ..runtime.process_id import controller_pid
from ..runtime.progress import Emit
from ..store.service import ServiceStore
from ..store.service_model import Cycle
from ..workload.keeping import hold_hosts
from ..workload.node_directory import plain_path
from .cycle_place import CyclePlace, forget_dead, others
from .holding import WAIT, claim_of_run
from .run import Run
from .site_nodes import queue_nodes, uses_in_slurm


def slurm_place(
    run: Run, options: Mapping[str, Any], store: ServiceStore, cycle: Cycle,
    context_of: Callable[[str], ObserveContext], emit: Emit,
) -> CyclePlace:  # fmt: skip
    """Hold the hosts, remove what dead cycles left, and return the place.

    Raises:
        HeldError: another run of this controller holds the hosts.
        InputError: a setting is missing, or a test is asked for that is not enabled.
        BringupError: Slurm does not answer.
    """
    context = context_of(claim_of_run(run).holder)
    ways = ways_of(context.settings_of(CONTINUOUS, ContinuousSettings))
    tests = enabled_tests(context, options["tests"])
    commands = SlurmCommands(str(options["scontrol"]))
    wait_s = float(options.get("wait_s") or 0.0) if options.get("when_held") == WAIT else 0.0
    hold_hosts(claim_of_run(run), run.path, pid=controller_pid(), wait_s=wait_s, emit=emit)
    dead = {other.cycle_id for other in others(store, cycle) if _beside(run, other, cycle)}
    remains = commands.remove(dead, emit) if dead else ()
    if not remains:
        forget_dead(store, cycle, emit, dead.__contains__)
    for test in tests:
        test.look(None)

    @contextmanager
    def jobs(notes: list[str]) -> Iterator[RunJobs]:
        notes += remains
        yield SlurmRunner(commands, ways, cycle.cycle_id, emit).run

    def stock() -> Stock:
        # What we drained takes no jobs, ours neither: a person resumes it after its repair.
        uses = uses_in_slurm(commands.scontrol, context.site, context.hardware)
        hosts = {
            host.name: BenchmarkHost(name=host.name, node=host.node_name or host.name, sku=host.sku)
            for host in run.site.in_scope
        }
        return Stock(queue_nodes(context, uses, {}), hosts)

    return CyclePlace(context, tests, stock, jobs)


def _beside(run: Run, other: Cycle, cycle: Cycle) -> bool:
    """Tell whether the lock that we hold was held by that cycle: it ran here, and its run lies beside ours."""
    run_id = other.cycle_id.rpartition("-cycle-")[0]
    return other.controller == cycle.controller and bool(run_id) and (run.path.parent / run_id).is_dir()


def ways_of(settings: ContinuousSettings) -> SlurmWays:
    """Return how the site wants jobs of tests.

    Raises:
        InputError: no directory is stated, or no path.
    """
    directory = Path(settings.slurm_dir)
    if not plain_path(settings.slurm_dir):
        said = f"is {settings.slurm_dir!r}." if settings.slurm_dir else "is not stated."
        hint = (
            "state one that this controller and all nodes see alike: gpufleet_set=continuous.slurm_dir=/shared/gpufleet"
        )
        raise InputError("continuous.slurm_dir", said, hint)
    return SlurmWays(
        directory=directory, containers=settings.slurm_containers, partition=settings.slurm_partition,
        account=settings.slurm_account, qos=settings.slurm_qos, nice=settings.slurm_nice,
    )  # fmt: skip
