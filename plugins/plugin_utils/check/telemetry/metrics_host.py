# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""One host for the checks of its metrics: what is expected of it, and the series that belong to it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from ...outcome.model import Evidence, Measure, Outcome, Status, Subject, SubjectKind
from ..kit import host_context
from ..kit.answer import Answer
from ..kit.finding import Report
from ..kit.told_once import told_once
from ..spec import CheckSpec, JudgeContext
from .fleet import Fleet
from .model import ExpectedGpu, ExpectedHost, FleetMetrics

SCRAPED, COMPLETE = "gpu-metrics-scraped", "gpu-metrics-complete"


@dataclass(frozen=True, slots=True)
class MetricsHost(host_context.HostContext[Fleet]):
    """One host with its metrics."""

    @property
    def expected(self) -> ExpectedHost:
        """What the host must have metrics of."""
        return self.seen.expected[self.name]

    def gpu(self, uuid: str) -> Subject:
        """Return the subject of a GPU: its index on the host if known, else its UUID."""
        uuids = [gpu.uuid for gpu in self.expected.gpus]
        return self.part(SubjectKind.GPU, f"gpu{uuids.index(uuid)}" if uuid in uuids else uuid)

    def gpus(self, gpus: Iterable[ExpectedGpu]) -> tuple[Subject, ...]:
        return tuple(self.gpu(gpu.uuid) for gpu in gpus)

    def affected(self, everything: Collection[str], uuids: Iterable[str]) -> tuple[Subject, ...]:
        """Return the subjects of the affected GPUs. Empty if all are affected: then the host is the subject."""
        found = tuple(dict.fromkeys(uuids))
        return () if set(found) == set(everything) else tuple(self.gpu(uuid) for uuid in found)


def per_host(
    spec: CheckSpec,
    metrics: FleetMetrics,
    context: JudgeContext,
    judge_host: Callable[[MetricsHost], Report | Outcome],
    *,
    needs_series: bool = True,
) -> tuple[Outcome, ...]:
    """Return the outcomes of every host in scope (see kit.host_context.per_host).

    What affects all hosts is reported once.

    Args:
        spec: the check.
        metrics: the observation.
        context: the context of the judgement.
        judge_host: judges one host.
        needs_series: leave missing series to check gpu-metrics-complete. A host without any series is not judged, and
            one with series of only some of its GPUs does not pass.
    """

    def before(host: MetricsHost) -> Outcome | None:
        return without_metrics(host.answer, host.seen) or _not_known(host, needs_series)

    def judge_seen(host: MetricsHost) -> Report | Outcome:
        result = judge_host(host)
        passed = result.status is Status.PASSED if isinstance(result, Outcome) else not result.findings
        return (_not_whole(host) if needs_series and passed else None) or result

    # No SKU is needed here: the observer already recorded how many GPUs are expected.
    outcomes = host_context.per_host(
        MetricsHost, spec, Fleet(metrics), context, judge_seen, before=before, needs_sku=False
    )
    return told_once(outcomes, (*context.site.waivers, *context.site.acceptances))


def without_metrics(answer: Answer, fleet: Fleet) -> Outcome | None:
    """Return why no metrics can be judged. None: there are some."""
    if fleet.metrics.problem is not None:
        return answer.blocked(by=SCRAPED, because="Prometheus could not be asked")
    return answer.blocked(by=SCRAPED, because="Prometheus has no GPU metrics at all") if fleet.blind else None


def _not_known(host: MetricsHost, needs_series: bool) -> Outcome | None:
    if host.name not in host.seen.expected:
        return host.answer.unknown("no-data", "nobody looked for metrics of this host", "run the gate again")
    if not host.expected.count:
        text = f"no hardware facts for the SKU of {host.name}"
        return host.answer.unknown("sku-unknown", text, "correct gpufleet_sku")
    if needs_series and not host.seen.relevant(host.expected):
        return host.answer.blocked(by=COMPLETE, because=f"there are no GPU metrics of {host.name}")
    return None


def _not_whole(host: MetricsHost) -> Outcome | None:
    """Return why a host with missing GPUs does not pass: what is missing could be stale or duplicate too.

    None: it is complete.
    """
    lacking = host.seen.lacking(host.expected)
    if not lacking:
        return None
    because = f"{lacking} of {host.expected.count} GPUs of {host.name} are without metrics"
    return host.answer.blocked(by=COMPLETE, because=because)


def seen_in(metrics: FleetMetrics, query: str, excerpt: str = "") -> tuple[Evidence, ...]:
    return (Evidence(query, metrics.where, excerpt, "observations/telemetry/metrics.json"),)


def gpus_measured(number: int) -> tuple[Measure, ...]:
    return (Measure("GPUs with metrics", number, "count"),)
