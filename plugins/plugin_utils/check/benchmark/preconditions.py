# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Outcomes that every benchmark gate gives before a verdict: about closed hosts and runs without a figure. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...outcome.model import Evidence, Outcome, Subject, node_subject
from ..kit.answer import Answer
from .plan import NO_OFFER, BenchmarkHost
from .problem import Problem, hint_for

_AGAIN = "run the gate again"
_READS_LOG = re.compile(r"\bread the logs?\b")


def nodes(names: Iterable[str]) -> tuple[Subject, ...]:
    """Return the hosts as subjects."""
    return tuple(node_subject(name) for name in names)


def sku_unknown(answer: Answer, sku: str, **details: Any) -> Outcome:
    """Return the outcome for hosts of a SKU without hardware facts."""
    return answer.unknown("sku-unknown", f"no hardware facts for SKU {sku!r}", "correct gpufleet_sku", **details)


def by_slurm(answer: Answer) -> bool:
    """Return whether the runs of the site are Slurm jobs."""
    return answer.context.site.orchestrator == "slurm"


def no_capacity(answer: Answer, host: BenchmarkHost) -> Outcome:
    """Return the outcome for a host on which nothing could be run."""
    if host.closed.startswith(NO_OFFER):
        hint = "run gate gpu_stack first: -e gpufleet_gates=gpu_stack (it says what it would install with --check)"
        return answer.unknown("no-capacity", f"no run was possible: {host.closed}", hint)
    if by_slurm(answer):
        hint = f"scontrol show node {host.node}; run the gate again when it is idle, or quarantine the host"
        return answer.unknown("no-capacity", f"no run was possible: {host.closed}", hint)
    hint = (
        f"kubectl describe node {host.node}; free its GPUs, quarantine the host or, where GPUs are shared on purpose, "
        "leave the gate out of gpufleet_gates"
    )
    return answer.unknown("no-capacity", f"no run was possible: {host.closed}", hint)


def no_run(answer: Answer, **details: Any) -> Outcome:
    """Return the outcome for a run that should have been made and was not."""
    return answer.unknown("no-run", "no run was made", _AGAIN, **details)


def not_repeated(answer: Answer, text: str, **details: Any) -> Outcome:
    """Return the outcome for a suspected fault that no repetition confirmed or cleared."""
    return answer.unknown("not-repeated", f"{text}; it was not run again", _AGAIN, **details)


def no_reference(answer: Answer, text: str, hint: str, **details: Any) -> Outcome:
    """Return the outcome for a figure without a reference to compare it with."""
    return answer.unknown("no-reference", f"{text}; there is nothing to compare it with", hint, **details)


def leftovers_of(answer: Answer, leftovers: tuple[str, ...]) -> Outcome | None:
    """Return the outcome for something that the runs left and that could not be removed. None: nothing is left."""
    if not leftovers:
        return None
    pods = "kubectl get ns -l gpufleet.io/purpose=test; delete what the run left"
    hint = "cancel it as it says, then run the gate again" if by_slurm(answer) else pods
    return answer.unknown("cleanup-incomplete", f"left behind: {leftovers[0]}", hint)


def of_problem(answer: Answer, problem: Problem, hints: Mapping[str, str], what: str = "", **details: Any) -> Outcome:
    """Return the outcome for a problem: failed if it proves a defect, else unknown.

    Args:
        answer: makes the outcome.
        problem: the problem.
        hints: what to do, by cause.
        what: what was run; it precedes the problem's text.
        details: further fields of the outcome.
    """
    make = answer.failed if problem.bad else answer.unknown
    text = f"{what}: {problem.text}" if what else problem.text
    hint = _with_log(hint_for(problem.cause, hints, problem.text), details.get("evidence", ()))
    return make(problem.cause, text[:500], hint, **details)


def _with_log(hint: str, evidence: Iterable[Evidence]) -> str:
    """Add the path of the log to a hint that tells the reader to read one.

    The path is relative to the run directory.
    """
    kept = [entry.path for entry in evidence if entry.path.endswith(".log")]
    if not kept or not _READS_LOG.search(hint):
        return hint
    return f"{hint}; it is {kept[-1]} in the run directory"


def merged(judged: Iterable[tuple[str, tuple[str, ...] | None, Outcome]]) -> list[Outcome]:
    """Return the outcomes for single hosts, equal ones merged into one.

    The order is that of the first host of each.

    Args:
        judged: for each host its name, a key that equal outcomes have in common (None: never merged), and the outcome.
    """
    groups: dict[tuple[str, ...], list[tuple[str, Outcome]]] = {}
    for host, same, outcome in judged:
        groups.setdefault(("host", host) if same is None else ("same", *same), []).append((host, outcome))
    return [_of_group(members) for members in groups.values()]


def _of_group(members: Sequence[tuple[str, Outcome]]) -> Outcome:
    first = members[0][1]
    if len(members) == 1:
        return first
    summary = f"{first.summary}; so it is on {len(members)} hosts"
    return replace(first, summary=summary, subjects=nodes(host for host, _outcome in members))
