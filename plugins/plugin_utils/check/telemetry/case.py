# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the checks of metrics share: one host at a time, and what stands before a verdict."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from ...outcome.model import Evidence, Measure, Outcome, Subject, SubjectKind, node_subject
from ..kit.answer import Answer
from ..spec import CheckSpec, JudgeContext
from .fleet import Fleet
from .model import ExpectedGpu, ExpectedHost, MetricsView

SCRAPED, COMPLETE = "gpu-metrics-scraped", "gpu-metrics-complete"
JudgeHost = Callable[[Fleet, ExpectedHost, Answer], Outcome]


def per_host(
    spec: CheckSpec, view: MetricsView, context: JudgeContext, judge_host: JudgeHost, *, needs_series: bool = True
) -> tuple[Outcome, ...]:
    """Return an outcome for every host in scope.

    Args:
        spec: the check.
        view: what was seen.
        context: the context of the judgement.
        judge_host: judges one host.
        needs_series: a host of which nothing is there is only check gpu-metrics-complete's business.
    """
    fleet, outcomes = Fleet(view), []
    for host in view.hosts:
        if not host.in_scope:
            continue
        answer = Answer(spec, context, node_subject(host.name))
        outcomes.append(_before(fleet, host, answer, needs_series) or judge_host(fleet, host, answer))
    return tuple(outcomes)


def _before(fleet: Fleet, host: ExpectedHost, answer: Answer, needs_series: bool) -> Outcome | None:
    if fleet.view.problem is not None:
        return answer.blocked(by=SCRAPED, because="Prometheus could not be asked")
    if fleet.blind:
        return answer.blocked(by=SCRAPED, because="Prometheus has no GPU metrics at all")
    if not host.count:
        return answer.unknown("sku-unknown", f"no hardware facts for the SKU of {host.name}", "correct gpufleet_sku")
    if needs_series and not fleet.relevant(host):
        return answer.blocked(by=COMPLETE, because=f"there are no GPU metrics of {host.name}")
    return None


def gpu_subject(host: ExpectedHost, uuid: str) -> Subject:
    """Return the subject of a GPU, by its place on the host if that is known."""
    uuids = [gpu.uuid for gpu in host.gpus]
    name = f"gpu{uuids.index(uuid)}" if uuid in uuids else uuid
    return Subject(SubjectKind.GPU, f"{host.name}/{name}", host.name)


def gpu_subjects(host: ExpectedHost, gpus: tuple[ExpectedGpu, ...]) -> tuple[Subject, ...]:
    """Return the subjects of GPUs."""
    return tuple(gpu_subject(host, gpu.uuid) for gpu in gpus)


def parts_of(host: ExpectedHost, everything: Collection[str], hit: Iterable[str]) -> tuple[Subject, ...]:
    """Return the subjects of the GPUs that are hit; none if it is all of them, for then it is the host."""
    found = tuple(dict.fromkeys(hit))
    return () if set(found) == set(everything) else tuple(gpu_subject(host, uuid) for uuid in found)


def seen_in(view: MetricsView, query: str, excerpt: str = "") -> tuple[Evidence, ...]:
    """Return the evidence of a query."""
    return (Evidence(query, view.where, excerpt, "observations/telemetry/metrics.json"),)


def gpus_measured(number: int) -> tuple[Measure, ...]:
    """Return the number of GPUs with metrics as a measure."""
    return (Measure("GPUs with metrics", number, "count"),)


def count(number: int, thing: str) -> str:
    """Return `1 GPU`, `2 GPUs`."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"
