# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Outcomes before a verdict about training: no run, or a problem that another check already reports. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection

from ...outcome.model import Outcome
from ..benchmark.preconditions import no_run, nodes, sku_unknown
from ..kit.answer import Answer
from ..spec import CheckSpec, JudgeContext
from .analysis import STARTS, SkuCohort, cohorts_of
from .model import PlannedHost, Results


def before_host(answer: Answer, cohort: SkuCohort, host: PlannedHost) -> Outcome | None:
    """Return the outcome for a host without figures. None: it has some."""
    if cohort.sku is None:
        return sku_unknown(answer, host.sku)
    if host.closed:
        return answer.blocked(by=STARTS, because=f"no run was possible: {host.closed}")
    problem = cohort.problem
    if problem is not None and (not cohort.complete or host.name in problem.hosts):
        return answer.blocked(by=problem.check, because=problem.text)
    return None if cohort.complete else no_run(answer)


def before_cohort(answer: Answer, cohort: SkuCohort) -> Outcome | None:
    """Return the outcome for a cohort without figures. None: it has some."""
    affected = nodes(host.name for host in cohort.hosts)
    if cohort.sku is None:
        return sku_unknown(answer, cohort.sku_name, more_subjects=affected)
    if cohort.complete:
        return None
    if cohort.problem is not None:
        return answer.blocked(by=cohort.problem.check, because=cohort.problem.text, more_subjects=affected)
    if not cohort.open_hosts:
        return answer.blocked(by=STARTS, because="no pod can be placed on any host", more_subjects=affected)
    return no_run(answer, more_subjects=affected)


def judge_hosts(
    spec: CheckSpec,
    context: JudgeContext,
    cohort: SkuCohort,
    judge: Callable[[Answer, SkuCohort, PlannedHost], Outcome],
    skip: Collection[str] = (),
) -> list[Outcome]:
    """Return the outcome of every host of a SKU, except those in `skip`."""
    hosts = [host for host in cohort.hosts if host.name not in skip]
    return [judge(Answer.about_host(spec, context, host.name), cohort, host) for host in hosts]


def judge_cohorts(
    spec: CheckSpec, results: Results, context: JudgeContext, judge: Callable[[Answer, SkuCohort], Outcome]
) -> tuple[Outcome, ...]:
    """Return an outcome about the cluster for the hosts of every SKU. `judge` is called for those with figures."""
    answer = Answer.about_cluster(spec, context)
    cohorts = cohorts_of(results, context.hardware)
    return tuple(before_cohort(answer, cohort) or judge(answer, cohort) for cohort in cohorts)
