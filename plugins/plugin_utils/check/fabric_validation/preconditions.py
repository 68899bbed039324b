# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Outcomes before a verdict about bandwidth: hosts without a run, and what another check already reports. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

from ...outcome.model import Outcome
from ..benchmark.preconditions import nodes, sku_unknown
from ..kit.answer import Answer
from ..spec import CheckSpec, Equals, JudgeContext
from .analysis import SkuCohort, cohorts_of
from .model import PlannedHost, Results


def not_paired(answer: Answer, cohort: SkuCohort, host: PlannedHost) -> Outcome | None:
    """Return the outcome for a host that was not run with another one. None: it was."""
    if host.closed:
        return answer.blocked(by="nccl-results", because=f"no run was possible: {host.closed}")
    name = host.name
    if cohort.pairs_of(name):
        return None
    alone = cohort.alone.find((name,))
    if alone is None or alone.problem is not None:
        return answer.blocked(by="nccl-results", because=f"{name} gave no result by itself")
    if name in cohort.without_rdma:
        return answer.blocked(by="nccl-transport", because="its pods get no network adapter")
    if name not in cohort.usable:
        return answer.blocked(by="nccl-intra-node-bw", because=f"{name} is slow by itself")
    explained = _why_no_other(cohort, name)
    if explained is not None:
        return answer.blocked(by=explained, because=f"no other {cohort.sku_name} can be run with {name}")
    usable = f"{len(cohort.usable)} of {len(cohort.hosts)} {cohort.sku_name} are usable"
    hint = "fix or add hosts of that SKU, then run the gate again"
    return answer.unknown("no-partner", f"{name} was run with no other host: {usable}", hint)


def _why_no_other(cohort: SkuCohort, name: str) -> str | None:
    """Return the check that reports why no other host of the SKU can be a partner. None: no check does."""
    others = [host for host in cohort.hosts if host.name != name]
    if not others:
        return None
    results = [cohort.alone.find((host.name,)) for host in others]
    if any(host.closed for host in others) or any(r is None or r.problem is not None for r in results):
        return "nccl-results"
    if any(host.name in cohort.without_rdma for host in others):
        return "nccl-transport"
    return "nccl-intra-node-bw" if any(host.name not in cohort.usable for host in others) else None


def unreferenced(answer: Answer, sku: str, text: str, fact: str, **details: Any) -> Outcome:
    """Return the outcome for a figure without a published reference.

    A named person may accept it, or the site configures a reference.

    Args:
        answer: makes the outcome.
        sku: the SKU without a reference.
        text: the figure as text.
        fact: what its hardware file would have to contain.
        details: further fields of the outcome.
    """
    hint = f"accept this figure (gpufleet_acceptances, check {answer.spec.id}), or state {fact} in a hardware file of "
    hint += "the site, measured on hosts that are known to be good"
    words = f"{text}; no source says what a healthy {sku} reaches, and hosts that agree may be slow alike"
    return answer.marginal("no-reference", words, hint, **details)


def judge_hosts(
    spec: CheckSpec,
    results: Results,
    context: JudgeContext,
    judge: Callable[[Answer, SkuCohort, PlannedHost], Outcome],
    skip: Collection[str] = (),
) -> tuple[Outcome, ...]:
    """Return the outcome of every host of the plan, except those in `skip`. `judge` is called for hosts of known SKUs.

    Hosts on which nothing could be run for the same reason get one outcome together.
    """
    cohorts = cohorts_of(results, context.hardware)
    left_out = {host.name for host in context.site.without_equal} if Equals() in spec.applies else set()
    hosts = [host for host in results.plan.hosts if host.name not in skip and host.name not in left_out]
    outcomes = []
    for group in _alike(hosts):
        answer, cohort = Answer.about_host(spec, context, group[0].name), cohorts.get(group[0].sku)
        outcome = judge(answer, cohort, group[0]) if cohort else sku_unknown(answer, group[0].sku)
        if len(group) > 1:
            summary = f"{outcome.summary}, and so on {len(group)} hosts"
            outcome = replace(outcome, summary=summary, subjects=nodes(host.name for host in group))
        outcomes.append(outcome)
    return tuple(outcomes)


def _alike(hosts: list[PlannedHost]) -> list[list[PlannedHost]]:
    """Return hosts of one SKU that are closed for the same reason as one group, and every other host as its own."""
    groups: dict[tuple[str, str], list[PlannedHost]] = {}
    for host in hosts:
        reason = host.closed.replace(host.node, "<node>").replace(host.name, "<host>")
        groups.setdefault((host.sku, reason) if reason else (host.sku, f"host {host.name}"), []).append(host)
    return list(groups.values())
