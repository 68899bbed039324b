# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The passive checks of a cycle: what every host shows about itself, busy or idle, judged by the checks of gate nodes.

The hosts were read right before the cycle, with commands that put no load on them. Where the GPU operator brings the
driver, its tools run in the operator's pods. There is one result for each node. A host that was not read, or not read
anew, is `other`. The result names the observed parts, so that a swapped part begins a new history also on a node that
is never idle.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ...check.declare import GatePlan
from ...check.gpu_stack.observe_hosts_in_pods import OBSERVER as IN_PODS
from ...check.gpu_stack.observe_hosts_in_pods import observe_without_load
from ...check.judge import judge_gate
from ...check.nodes.observe_hosts import OBSERVER as ON_HOSTS
from ...check.observation import observe
from ...check.spec import JudgeContext, ObserveContext
from ...collect.host_evidence import DRIVERS, HOSTS, evidence_file, read_evidence
from ...collect.identity import parts_of
from ...outcome.errors import InputError
from ...outcome.gates import STACK_GATE
from ...outcome.model import Outcome, Rating, Status
from ...outcome.wording import count, first_of, shortened
from ...run.decision import run_day
from ...run.run import Run
from ...runtime.clock import moment_of
from ...site.model import DriverOwner, Host, Site
from ...store.records import NodeResult
from ...verdict.gate import GateVerdict, decide
from .cycle_record import NodeLogs

TEST = "passive_checks"
# The checks of gate nodes on what changes while a node works: memory, links, the kernel log, actions that the driver
# requests.
CHECKS = (
    "gpu-census", "gpu-ecc", "gpu-row-remap", "gpu-recovery-action", "nvlink", "kernel-xid", "hca-state",
)  # fmt: skip
_GATE = "nodes"
_SHOWN, _LONGEST = 3, 500
_WHERE = {HOSTS: "the host was", DRIVERS: "the operator's pod on it was"}


@dataclass(frozen=True, slots=True)
class Reading:
    """When a host was read (seconds since the epoch), and why it was not read (empty if it was)."""

    at_s: float
    unread: str = ""
    cause: str = ""


@dataclass(frozen=True, slots=True)
class _Seen:
    """What one kind of evidence shows about one host: how it was read, the checks that apply, and their findings."""

    kind: str
    reading: Reading
    asked: Mapping[str, tuple[str, ...]]
    about: Sequence[Outcome]


def passive_results(
    run: Run,
    context: ObserveContext,
    cycle_id: str,
    before: Mapping[tuple[str, str], NodeResult],
    logs: NodeLogs,
    now_s: float,
) -> tuple[NodeResult, ...]:
    """Return the results of the passive checks of every host in scope; empty at a site where no host can be read.

    Args:
        run: the run whose hosts were read.
        context: the context of its observers.
        cycle_id: the cycle.
        before: the newest results in the history, by node and test.
        logs: where the findings of a node are kept.
        now_s: the time now, seconds since the epoch.

    Raises:
        BringupError: a log cannot be written.
    """
    kinds = _kinds(run.site)
    if not kinds:
        return ()
    parts = _observe(run, context, kinds)
    known = {kind: _by_node(judge_gate(part, _judging(run, part), run.path)) for kind, part in parts.items()}
    requested = {kind: {check.id: frozenset(check.subjects) for check in part.checks} for kind, part in parts.items()}
    results = []
    for host in run.site.in_scope:
        observed = tuple(
            _Seen(
                kind,
                _reading(run, host, kind, before.get((host.name, TEST)), now_s),
                {check: (host.name,) for check, names in requested[kind].items() if host.name in names},
                known[kind].get(host.name, []),
            )
            for kind in parts
        )
        whole = not any(part.reading.unread for part in observed)
        found = parts_of(run.path, run.site, host, context.hardware.get(host.sku)) if whole else {}
        result = _result(run, host, observed, cycle_id)
        kept = logs.keep(TEST, host.name, result.started_s, _log(result, [o for part in observed for o in part.about]))
        results.append(replace(result, parts=found, log=kept))
    return tuple(results)


def _by_node(outcomes: Iterable[Outcome]) -> dict[str, list[Outcome]]:
    """Return the outcomes about each node."""
    found: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        for node in dict.fromkeys(subject.node for subject in outcome.subjects):
            found.setdefault(node, []).append(outcome)
    return found


def _kinds(site: Site) -> tuple[str, ...]:
    """Return which evidence of a host there has to be: from the host itself, from the operator's pods on it."""
    kinds = (HOSTS,) if "host_access" in site.capabilities else ()
    in_pods = site.driver_owner is DriverOwner.OPERATOR and "kubernetes" in site.capabilities
    return (*kinds, DRIVERS) if in_pods else kinds


def _observe(run: Run, context: ObserveContext, kinds: Sequence[str]) -> dict[str, GatePlan]:
    """Look at the hosts, and return the checks to judge by the kind of evidence that they rest on."""
    parts = {}
    if HOSTS in kinds:
        observe(ON_HOSTS, _GATE, context)
        parts[HOSTS] = _passive(run.declaration(_GATE))
    if DRIVERS in kinds:
        for host in run.site.in_scope:
            # Evidence of an earlier cycle must not count for this one.
            (run.path / evidence_file(host.name, DRIVERS)).unlink(missing_ok=True)
        observe(replace(IN_PODS, observe=observe_without_load), STACK_GATE, context)
        parts[DRIVERS] = _passive(run.declaration(STACK_GATE))
    return parts


def _passive(declaration: GatePlan) -> GatePlan:
    return declaration.only(CHECKS)


def _judging(run: Run, part: GatePlan) -> JudgeContext:
    return replace(run.judge_context(part.gate, run_day(run.record)), in_service=True)


def _reading(run: Run, host: Host, kind: str, before: NodeResult | None, now_s: float) -> Reading:
    """Return when a host was read. A reading that an earlier cycle of this run has judged does not count."""
    try:
        evidence = read_evidence(run.path / evidence_file(host.name, kind))
    except (InputError, OSError) as error:
        return Reading(now_s, f"not read: {error}", "evidence-missing")
    at_s = moment_of(evidence.started).timestamp()
    if not evidence.reached:
        return Reading(at_s, f"not reached: {evidence.reason}", "host-unreachable")
    mine = before is not None and before.cycle_id.startswith(f"{run.record.run_id}-")
    if before is not None and mine and before.started_s >= at_s:
        return Reading(now_s, f"not read since cycle {before.cycle_id}", "not-read-anew")
    return Reading(at_s)


def _result(run: Run, host: Host, observed: Sequence[_Seen], cycle_id: str) -> NodeResult:
    """Return the result of a node.

    An observed fault is reported even where other data is missing. Without a fault, missing data makes the result
    `other`.
    """
    unread = next((part.reading for part in observed if part.reading.unread), None)
    read = [part for part in observed if not part.reading.unread]
    known = NodeResult(
        cycle_id=cycle_id, node=host.name, test=TEST, started_s=observed[0].reading.at_s, duration_s=0.0,
        status=Status.OTHER, cohort=host.sku,
    )  # fmt: skip
    requested = {check: names for part in read for check, names in part.asked.items()}
    about = [outcome for part in read for outcome in part.about]
    verdict = decide(TEST, requested, about, run.site, run_day(run.record)) if requested else None
    failed = verdict is not None and verdict.status is Status.FAILED
    if unread is not None and not failed:
        return replace(known, cause=unread.cause, summary=shortened(f"{host.name}: {unread.unread}", _LONGEST))
    if verdict is None:
        return replace(known, cause="nothing-asked", summary=f"{host.name}: no passive check is asked at this site")
    if verdict.status is Status.PASSED:
        return replace(known, status=Status.PASSED, rating=Rating.GOOD, summary=_passed(requested, verdict))
    blocking = verdict.blocking
    reported = first_of([f"{entry.cause} ({entry.shown}: {entry.summary})" for entry in blocking], _SHOWN)
    missing = [f"{_WHERE[part.kind]} {part.reading.unread}" for part in observed if part.reading.unread]
    if missing:
        reported = f"{shortened(reported, _LONGEST // 2)}; beside this, {', '.join(missing)}"
    rating = Rating.BAD if failed else Rating.UNKNOWN
    if verdict.status is Status.OTHER and _only_marginal(verdict, about):
        rating = Rating.MARGINAL
    return replace(
        known, status=verdict.status, rating=rating, cause=blocking[0].cause, summary=shortened(reported, _LONGEST)
    )


def _passed(requested: Mapping[str, tuple[str, ...]], verdict: GateVerdict) -> str:
    decided = [f"{entry.cause} decided by {entry.who}" for entry in (*verdict.waived, *verdict.accepted)]
    return f"{count(len(requested), 'passive check')} passed{': ' if decided else ''}{first_of(decided, _SHOWN)}"


def _only_marginal(verdict: GateVerdict, outcomes: Iterable[Outcome]) -> bool:
    """Whether everything that blocks the node only waits for a person."""
    marginal = {(outcome.check, outcome.cause) for outcome in outcomes if outcome.rating is Rating.MARGINAL}
    return all((entry.check, entry.cause) in marginal for entry in verdict.blocking)


def _log(result: NodeResult, about: Iterable[Outcome]) -> str:
    """Return the log of a node that did not pass: each finding with what to do about it."""
    if result.status is Status.PASSED:
        return ""
    lines = [f"{entry.status.value} {entry.check}: {entry.cause}: {entry.summary} [{entry.hint}]" for entry in about]
    return "\n".join([result.summary, *lines]) + "\n"
