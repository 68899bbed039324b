# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Test: every GPU of one node repeats computations with known results, and its rates are measured."""

from __future__ import annotations

from ...clients.kube.cluster import Cluster
from ...clients.kube.permission import Permission
from ...hardware.sku import sku_or_error
from ...outcome.model import Rating, Status
from ...probe.dl_unit import DlUnitLog
from ...store.records import Figure, NodeResult
from ...verdict.peers import PeerLimits
from ...workload.capacity import read_node_capacity
from ...workload.job import JobResult, JobSpec
from ...workload.namespace import job_permissions
from ..benchmark.plan import BenchmarkHost
from ..benchmark.problem import hint_for
from ..dl_unit.job import dl_unit_job
from ..dl_unit.reading import HINTS, log_of, read_host
from ..dl_unit.settings import ID, RATE, DlUnitSettings, GemmRateSettings
from ..kit.tolerations import tolerations_of
from .reading import result_of, without_result
from .spec import NodeTest

# Seconds for which a GPU drew the configured part of its power limit.
LOADED = "loaded"


class DlUnit(NodeTest):
    """The DL unit test on all GPUs of one node.

    Here a digest is judged against the other GPUs of the node. Comparing it with other nodes is left to the
    classification of a cycle, which has the digests of all nodes of a cohort.
    """

    id = ID
    title = "Arithmetic of every GPU"
    settings_type = DlUnitSettings
    _by_dra = False
    _load_s, _load_share = 0.0, 1.0

    @property
    def _settings(self) -> DlUnitSettings:
        return self.context.settings_of(ID, DlUnitSettings)

    @property
    def peers(self) -> PeerLimits:
        """The limits with which check gpu-gemm-rate compares GPUs."""
        return self.context.settings_of(RATE, GemmRateSettings).peers

    def look(self, cluster: Cluster | None) -> None:
        """Find whether nodes offer their GPUs by DRA, which needs further permissions."""
        if cluster is None:
            return
        nodes = {host.node_name for host in self.context.site.in_scope}
        found = read_node_capacity(cluster, nodes, tolerations_of(self.context))
        self._by_dra = any(capacity.by_dra for capacity in found.values())

    def permissions(self) -> tuple[Permission, ...]:
        """Return what its jobs need beyond BASIC: their program is a ConfigMap."""
        return job_permissions("plain-job", files=True, by_dra=self._by_dra)

    def job(self, name: str, host: BenchmarkHost) -> JobSpec:
        """Return the job that tests all GPUs of the node."""
        return dl_unit_job(
            name, host, self._gpus(host), self._settings, load_s=self._load_s, load_share=self._load_share
        )

    def keep_at_work(self, load_s: float, share: float) -> None:
        """Let its jobs keep all GPUs at work for `load_s` seconds, and count the time at that share of their power
        limit."""
        self._load_s, self._load_share = load_s, share

    def read(self, cycle_id: str, host: BenchmarkHost, result: JobResult, started_s: float) -> NodeResult:
        """Return digests and rates of every GPU. Wrong arithmetic fails the node at once."""
        early = without_result(self.id, cycle_id, host, result, started_s)
        if early is not None:
            return early
        log, problem = read_host(result.state, result.reason, log_of(result), self._gpus(host))
        reported = _reported(host, log) if log else {}
        if problem is None and log is not None:
            text = f"{len(log.tests)} GPUs gave the same bits in {log.repeats} runs of every operation{_at_work(log)}"
            return result_of(
                self.id, cycle_id, host, result, started_s, Status.PASSED, rating=Rating.GOOD, summary=text, **reported
            )
        cause, text, bad = (problem.cause, problem.text, problem.bad) if problem else ("no-output", "no log", False)
        return result_of(
            self.id, cycle_id, host, result, started_s, Status.FAILED if bad else Status.OTHER,
            rating=Rating.BAD if bad else Rating.UNKNOWN, cause=cause,
            summary=f"{host.name}: {text}; {hint_for(cause, HINTS, text)}", **reported,
        )  # fmt: skip

    def blamed(self, host: BenchmarkHost, result: JobResult) -> tuple[str, ...]:
        """Return the GPUs that computed wrong results, by slot."""
        _log, problem = read_host(result.state, result.reason, log_of(result), self._gpus(host))
        return tuple(f"gpu{slot}" for slot in problem.slots) if problem and problem.bad else ()

    def _gpus(self, host: BenchmarkHost) -> int:
        return sku_or_error(self.context.hardware, host.sku).gpus


def _at_work(log: DlUnitLog) -> str:
    """Return the text about the GPU with the least load, empty where GPUs were not kept at work."""
    loads = [test.load for test in log.tests if test.load is not None]
    if not loads:
        return ""
    if any(load.loaded_s is None for load in loads):
        return "; the driver told no power, so nobody knows how hard they worked"
    least = min(loads, key=lambda load: load.loaded_s or 0.0)
    return (
        f"; the least loaded GPU was under load for {least.loaded_s or 0.0:g} of {least.seconds:g} s, "
        f"with {least.mean_w or 0.0:g} of {least.limit_w or 0.0:g} W"
    )


def _reported(host: BenchmarkHost, log: DlUnitLog) -> dict[str, object]:
    """Return cohort, parts, digests and figures from a log; digests and figures only of GPUs that ended their test."""
    whole = [test for test in log.tests if test.ended and test.identity is not None]
    named = [(test, test.identity) for test in log.tests if test.identity is not None]
    kinds = sorted({f"{identity.name}, {identity.libraries}" for _test, identity in named})
    return {
        "cohort": f"{host.sku}, {'; '.join(kinds)}, {log.size}, seed {log.seed}" if kinds else "",
        "parts": {f"gpu{test.slot}": identity.uuid for test, identity in named},
        "digests": {test.identity.uuid: test.digest for test in whole if test.identity is not None},
        "figures": tuple(
            Figure(name=name, number=rate.value, unit=rate.unit, part=test.identity.uuid)
            for test in whole
            if test.identity is not None
            for name, rate in test.rates.items()
        )
        + tuple(
            Figure(name=LOADED, number=test.load.loaded_s, unit="s", part=test.identity.uuid)
            for test in whole
            if test.identity is not None and test.load is not None and test.load.loaded_s is not None
        ),
    }


TEST = DlUnit
