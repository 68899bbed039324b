# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Test: the GPUs of one node reduce over the node's own adapters, without NVLink and shared memory.

The run is that of gate fabric_validation over single hosts (phase `loop`), over all adapters at once.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from ...clients.kube.cluster import Cluster
from ...clients.kube.permission import Permission
from ...collect.host_facts import HostAdapters, read_adapters
from ...hardware.sku import Sku, sku_or_error
from ...outcome.model import Rating, Status
from ...site.adapters import nccl_port
from ...store.records import Figure, NodeResult
from ...verdict.ceiling import Rated
from ...verdict.peers import PeerLimits
from ...workload.job import JobResult, JobSpec
from ..benchmark.network import FILTERED_FABRICS, gang_permissions
from ..benchmark.plan import BenchmarkHost
from ..fabric_validation.bandwidth import rate_run
from ..fabric_validation.model import Phase, PlannedHost, Run, Wanted
from ..fabric_validation.nccl_job import NcclJobs, plan_nccl, plan_on_hosts
from ..fabric_validation.parse_run import parse_run
from ..fabric_validation.settings import GATE, FabricValidationSettings
from ..fabric_validation.transport import Transport, host_log, transport_of
from .reading import result_of, without_result
from .spec import NodeTest


class NcclLoop(NodeTest):
    """all_reduce_perf over the adapters of one node."""

    id = "nccl_loop"
    title = "NCCL over the adapters of one node"
    # The phase of gate fabric_validation that it runs.
    phase: ClassVar[Phase] = "loop"
    _jobs: NcclJobs
    _adapters: dict[str, HostAdapters]

    @property
    def peers(self) -> PeerLimits:
        """The limits with which gate fabric_validation compares hosts and pairs."""
        return self.context.settings_of(GATE, FabricValidationSettings).judge.peers

    def look(self, cluster: Cluster | None) -> None:
        """Find which adapters pods of each node get, as gate fabric_validation does. Jobs of Slurm have all of them."""
        settings, context = self.context.settings_of(GATE, FabricValidationSettings), self.context
        plan = plan_nccl(cluster, context, settings, connected=True) if cluster else plan_on_hosts(context, settings)
        self._jobs = NcclJobs(plan, self.context.hardware)
        self._adapters = read_adapters(self.context.run_dir, self.context.site, self.context.hardware)

    def unfit(self, host: BenchmarkHost) -> str:
        """Return why the test does not apply to such hosts, empty if it does.

        One GPU has no peer. Where NCCL takes no filter of adapters, the log cannot prove which ones were used.
        """
        sku = self._sku(host)
        if sku.gpus < 2:
            return "it has one GPU, which has nobody to reach"
        if sku.fabric not in FILTERED_FABRICS or not sku.nics or not sku.nic_gbps:
            return f"{sku.name} has no adapters for GPU traffic that NCCL can be told to use (fabric {sku.fabric})"
        if self.phase == "loop" and sku.rails_isolated:
            return f"{sku.name} has rails that do not reach each other, and the loop goes from rail to rail"
        return ""

    def unready(self, host: BenchmarkHost) -> str:
        """Return that it is not known which of its adapters are for GPU traffic; empty if it is."""
        planned = self._jobs.plan.host(host.name)
        found = self._adapters.get(host.name)
        return "" if planned.hcas else (found.problem if found else "") or "nothing is known of its adapters"

    def permissions(self) -> tuple[Permission, ...]:
        """Return what its jobs need beyond BASIC."""
        plan = self._jobs.plan
        return gang_permissions(plan.settings.run.kind, plan.hosts[:1], plan.gang)

    def job(self, name: str, host: BenchmarkHost) -> JobSpec:
        """Return the job that runs over all adapters of the node, or all of its NVLinks, at once."""
        spec = self._jobs.job(name, self._want(host))
        return replace(spec, timeout_s=self.common.timeout_s, pull_s=self.common.pull_s)

    def read(self, cycle_id: str, host: BenchmarkHost, result: JobResult, started_s: float) -> NodeResult:
        """Return the bandwidth, judged by what its links can carry, once the log proves that they carried it."""
        early = without_result(self.id, cycle_id, host, result, started_s)
        if early is not None:
            return early
        settings = self._jobs.plan.settings
        want, planned = self._want(host), self._jobs.plan.host(host.name)
        record = self._jobs.record(want, self.job(result.name, host), result)
        run = parse_run(record, result.log, settings)
        reported = self._said(planned, run)
        status, rating, cause, summary = reported.judged()
        return result_of(
            self.id, cycle_id, host, result, started_s, status, rating=rating, cause=cause, summary=summary,
            cohort=reported.cohort, figures=reported.figures, parts=self._parts(planned),
        )  # fmt: skip

    def _parts(self, host: PlannedHost) -> dict[str, str]:
        """Return the adapters by name, each with its GUID where it is known: another GUID is another part."""
        found = self._adapters.get(host.name)
        guids = {nccl_port(name): guid for name, guid in found.guids.items()} if found else {}
        return {port: f"0x{guids[port]:016x}" if port in guids else "" for port in host.hcas}

    def _said(self, host: PlannedHost, run: Run) -> RunOfOne:
        return RunOfOne(self._jobs, host, self._sku(host), run)

    def _sku(self, host: BenchmarkHost) -> Sku:
        return sku_or_error(self.context.hardware, host.sku)

    def _want(self, host: BenchmarkHost) -> Wanted:
        return Wanted(phase=self.phase, hosts=(host.name,))


class RunOfOne:
    """One run over the adapters of its host, with the judgement of its figures."""

    slow: ClassVar[tuple[str, str]] = ("slow-adapter", "loop-bandwidth-marginal")
    hint: ClassVar[str] = (
        f"name the adapter with gate {GATE}, and compare `mlxlink -d <adapter>` with a host that is well"
    )

    def __init__(self, jobs: NcclJobs, host: PlannedHost, sku: Sku, run: Run) -> None:
        self.jobs, self.host, self.sku, self.run = jobs, host, sku, run

    @property
    def cohort(self) -> str:
        """What the runs of two hosts must have in common to be compared."""
        debug = self.run.debug
        nccl = (debug.version if debug else "") or (self.run.test.nccl_version if self.run.test else "")
        driver = debug.cuda_driver if debug else None
        return f"{self.sku.name}, NCCL {nccl or 'unknown'}, CUDA driver {driver or 'unknown'}"

    @property
    def figures(self) -> tuple[Figure, ...]:
        """Bandwidth at the largest size; empty for a run with a problem."""
        if self.run.problem or self.run.test is None:
            return ()
        return (Figure(name="busbw", number=round(self.run.value, 3), unit="GB/s"),)

    def judged(self) -> tuple[Status, Rating, str, str]:
        """Return status, rating, cause and summary; the transport decides before the figure."""
        problem = self.run.problem
        if problem is not None and problem.bad:
            return (Status.FAILED, Rating.BAD, problem.cause, f"{self.host.name}: {problem.text}")
        transport = self.transport()
        if transport.proof == "broken":
            text = f"{self.host.name}: {transport.text}; {transport.hint}"
            return Status.FAILED, Rating.BAD, transport.cause, text
        if problem is not None:
            return (Status.OTHER, Rating.UNKNOWN, problem.cause, f"{self.host.name}: {problem.text}")
        if transport.proof != "proven":
            return (Status.OTHER, Rating.UNKNOWN, "transport-unproven", f"{self.host.name}: {transport.text}")
        beside = self.beside_links()
        if beside:
            return (Status.OTHER, Rating.UNKNOWN, "transport-unproven", f"{self.host.name}: {beside}")
        return self._rated(transport.text)

    def transport(self) -> Transport:
        """Return what the log proves about the path of the data."""
        return transport_of(self.run, self.host, self.jobs.plan, self.sku)

    def beside_links(self) -> str:
        """Return which data did not go through adapters; empty if all of it did."""
        log = host_log(self.run, self.host.name)
        channels = log.channels if log else ()
        local = next((channel for channel in channels if not channel.network), None)
        if local is not None:
            return f"rank {local.source} reaches {local.target} via {local.via}, and not through an adapter"
        return "" if channels else "no line says which way the data went"

    def _rated(self, transport: str) -> tuple[Status, Rating, str, str]:
        rated = rate_run(self.jobs.plan, self.sku, self.run)
        if rated is None:
            text = f"{self.run.value:.4g} GB/s over {transport}, and nothing is known to compare it with"
            return (Status.OTHER, Rating.UNKNOWN, "no-ceiling", f"{self.host.name}: {text}")
        text = f"{self.host.name}: {rate_text(self.run.value, rated)}; {transport}"
        if rated.rating is Rating.GOOD:
            return Status.PASSED, Rating.GOOD, "", text
        if rated.rating is Rating.BAD:
            return Status.FAILED, Rating.BAD, self.slow[0], f"{text}; {self.hint}"
        return (Status.OTHER, Rating.MARGINAL, "unsaturated" if rated.unsaturated else self.slow[1], text)


def rate_text(gbps: float, rated: Rated) -> str:
    """Return a rate with the ceiling that it was compared with, and the arithmetic of the ceiling."""
    ceiling = rated.ceiling
    return f"{gbps:.4g} GB/s, {rated.ratio:.0%} of {ceiling.gbps:.4g} GB/s ({ceiling.name}: {ceiling.arithmetic})"


TEST = NcclLoop
