# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A Slurm site as the place of a benchmark: which hosts are free, and how runs become jobs.

Jobs use the settings of continuous validation. The run locks its hosts beside the runs of its controller
(run/holding.py). Any job that another run from there left in Slurm is therefore of a run that has died.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from ...outcome.errors import InputError
from ...probe.slurm_nodes import SlurmNode, parse
from ...runtime.clock import Deadline, unlimited
from ...runtime.progress import Progress
from ...site.model import Site
from ...workload.free_slurm import uses_of_hosts
from ...workload.job import JobResult, JobSpec
from ...workload.manifests import plain_path
from ...workload.node_use import NodeUse
from ...workload.slurm_jobs import SlurmCommands, SlurmRunner
from ...workload.slurm_script import SlurmWays
from ..node_tests.settings import CONTINUOUS, ContinuousSettings
from ..spec import ObserveContext
from .plan import BenchmarkHost

_POLL_S = 2.0


def ways_of(settings: ContinuousSettings) -> SlurmWays:
    """Return how the site wants test jobs to be submitted.

    Raises:
        InputError: the directory of the jobs is not set, or is no plain path.
    """
    directory = Path(settings.slurm_dir)
    if not plain_path(settings.slurm_dir):
        reported = f"is {settings.slurm_dir!r}." if settings.slurm_dir else "is not stated."
        hint = (
            "state one that this controller and all nodes see alike: gpufleet_set=continuous.slurm_dir=/shared/gpufleet"
        )
        raise InputError("continuous.slurm_dir", reported, hint)
    return SlurmWays(
        directory=directory, containers=settings.slurm_containers, partition=settings.slurm_partition,
        account=settings.slurm_account, qos=settings.slurm_qos, nice=settings.slurm_nice, mpi=settings.slurm_mpi,
        reservation=settings.slurm_reservation,
    )  # fmt: skip


@dataclass(slots=True)
class SlurmPlace:
    """The jobs of one observation of a run. `leftovers` is what could not be removed afterwards."""

    context: ObserveContext
    commands: SlurmCommands
    ways: SlurmWays
    progress: Progress
    deadline: Deadline
    leftovers: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, context: ObserveContext, total_s: float) -> SlurmPlace:
        """Return the place of a site.

        Raises:
            InputError: the site's settings of Slurm jobs cannot be used.
        """
        ways = ways_of(context.settings_of(CONTINUOUS, ContinuousSettings))
        commands = SlurmCommands(context.connections.get("scontrol") or "scontrol")
        return cls(context, commands, ways, Progress(context.emit), Deadline.after(total_s))

    @property
    def run_id(self) -> str:
        """The run whose jobs these are."""
        return self.context.run_dir.name

    def uses(self, settle_s: float) -> Mapping[str, NodeUse]:
        """Return what occupies each host in scope.

        It first waits, for `settle_s` seconds at most, until no node in scope is in state COMPLETING.

        Raises:
            InputError: the output of scontrol is no list of nodes.
            BringupError: there is no scontrol on this controller, or it does not respond.
        """
        hosts, limit = self.context.site.in_scope, Deadline.after(settle_s)
        names, reserved = {host.node for host in hosts}, self.commands.reserved(self.ways.reservation)
        while True:
            nodes = parse(self.commands.ask("scontrol", "show", "nodes"))
            if limit.left_s <= 0 or not any(_leaving(node) for node in nodes if node.name in names):
                return uses_of_hosts(nodes, hosts, self.context.hardware, reserved)
            time.sleep(min(_POLL_S, max(0.0, limit.left_s)))

    def sweep(self) -> None:
        """Cancel jobs that an earlier, killed attempt of this run left, and those of other runs of the same place.

        Jobs of other runs are cancelled only by a run that holds the lock of the hosts; otherwise those runs may be
        alive.

        Raises:
            BringupError: Slurm does not respond.
        """
        here = self.context.run_dir
        beside = {path.name for path in here.parent.iterdir() if path.is_dir()} if self.context.holder else set()
        self.leftovers += self.commands.remove({self.run_id, *beside}, self.context.emit)
        with suppress(OSError):
            shutil.rmtree(self.ways.directory / self.run_id)

    def run(self, specs: Sequence[JobSpec], parallel: int) -> tuple[JobResult, ...]:
        """Return the result of every job, in the order of the specs.

        Raises:
            BringupError: Slurm does not respond for too long, or the directory of the jobs is not writable.
        """
        results: dict[str, JobResult] = {}

        def keep(result: JobResult) -> None:
            results[result.name] = result

        runner = SlurmRunner(self.commands, self.ways, self.run_id, self.context.emit)
        runner.run(specs, self.progress, self.deadline, keep, parallel)
        return tuple(results[spec.name] for spec in specs)

    def close(self, cleanup_s: float) -> None:
        """Cancel the remaining jobs of this run, and note what could not be removed.

        Raises:
            BringupError: Slurm does not respond.
        """
        with unlimited():
            self.leftovers += self.commands.remove({self.run_id}, self.context.emit, cleanup_s)


def _leaving(node: SlurmNode) -> bool:
    return "COMPLETING" in node.flags


def closed_by(uses: Mapping[str, NodeUse], host: str, node: str) -> str:
    """Return why no job can be placed on a host. Empty: one can."""
    use = uses[host]
    return "" if use.free else f"node {node}: {use.why}"


def hosts_of_slurm(site: Site, uses: Mapping[str, NodeUse]) -> tuple[BenchmarkHost, ...]:
    """Return the hosts in scope. Those whose nodes are not free are marked closed."""
    return tuple(
        BenchmarkHost(
            name=host.name, node=host.node, sku=host.sku,
            closed=closed_by(uses, host.name, host.node),
        )
        for host in site.in_scope
    )  # fmt: skip
