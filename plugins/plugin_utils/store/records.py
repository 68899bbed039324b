# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The content of the history, as values: passes and results of gates, and cycles of tests in service. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from ..fingerprint.dependencies import NCCL, Dependencies, SiteState, dependencies_of
from ..outcome.model import Outcome, Rating, Scalar, Status
from ..site.model import Site
from ..verdict.figures import hosts_of
from ..verdict.gate import GateVerdict
from ..verdict.run import RunRecord

# The records of a cluster in service: cycles of tests on idle nodes, their results, leases, classes. Pure.


@dataclass(frozen=True, slots=True, kw_only=True)
class Cycle:
    """One pass over the free nodes of a site; it has no gates.

    `started` and `ended` are UTC as in a run record; `ended` is empty while it goes on or after its controller died.
    `controller` is the host that ran it, `note` why it ended early.
    """

    cycle_id: str
    site: str
    rehearsal: bool
    started: str
    controller: str
    ended: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One measured number: of a `part` of the node (a GPU's UUID, an adapter, a volume; empty for the node)."""

    name: str
    number: float
    unit: str
    part: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeResult:
    """The result of one test on one node; never changed once written.

    `status` is one of CTRF's words: `pending` was given back to a user's workload and is still to do, `other` was tried
    and is unknown. `started_s` is seconds since the epoch. `cohort` has what two results must have in common to be
    compared (SKU, driver, library versions). `parts` names the parts by slot (`gpu0`: its UUID or serial), so that a
    swapped part begins a new history. `digests` has by part the digest of its computed result. `log` is a path below
    the log directory.
    """

    cycle_id: str
    node: str
    test: str
    started_s: float
    duration_s: float
    status: Status
    rating: Rating = Rating.UNKNOWN
    cause: str = ""
    summary: str = ""
    cohort: str = ""
    parts: Mapping[str, str] = field(default_factory=dict)
    digests: Mapping[str, str] = field(default_factory=dict)
    figures: tuple[Figure, ...] = ()
    log: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """The right of one cycle to run one test on one node, until a time (seconds since the epoch)."""

    node: str
    test: str
    cycle_id: str
    until_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeClass:
    """The class of a node after a cycle, and the numbers behind it.

    `word` is `healthy`, `suspect`, `drifting`, `bad` or `unknown`. `reasons` are sentences with their numbers, most
    important first. `action` is what was done about it.
    """

    cycle_id: str
    node: str
    word: str
    reasons: tuple[str, ...] = ()
    action: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OurCordon:
    """A node that we took out of service: when (UTC), by which cycle or roll, why, and when it was given back."""

    node: str
    by: str
    reason: str
    since: str
    lifted: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The result of a request for a lease: the lease, or why not.

    `holder` is the lease that blocks it. `recorded`: this cycle has the result already. `took_over` is the expired
    lease that was taken over.
    """

    lease: Lease | None = None
    holder: Lease | None = None
    recorded: bool = False
    took_over: Lease | None = None


@dataclass(frozen=True, slots=True)
class PartPeriod:
    """A part (a GPU's UUID, a serial number) in a slot of a node: since when, and when it was last observed there
    (seconds since the epoch)."""

    node: str
    slot: str
    part: str
    since_s: float
    seen_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptance:
    """Who accepted the figures of a run (or a cycle) as the baseline, when (UTC) and why.

    `what` is the check or test whose figures are meant, empty for all of that run.
    """

    site: str
    rehearsal: bool
    run_id: str
    who: str
    accepted: str
    why: str
    what: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DayCount:
    """How many results of a status retention removed for a node, test and day (UTC)."""

    day: str
    node: str
    test: str
    status: str
    results: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DayFigure:
    """The values of one figure on a day (UTC), over the passed results that retention removed."""

    day: str
    node: str
    test: str
    cohort: str
    part: str
    name: str
    unit: str
    results: int
    lowest: float
    highest: float
    total: float


# The records of gates in the history: passes and results that are none, as values. Pure.


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """One line of the ledger: this check passed for this subject then, and what that depended on.

    `gate_passed`: the whole gate passed in that run, not only this subject. `begun` is the place of the gate in the
    order of the history when it began to observe.
    """

    gate: str
    check: str
    subject: str
    run_id: str
    passed: str
    dependencies: Dependencies
    gate_passed: bool
    begun: int = 0

    @property
    def fingerprint(self) -> str:
        """The digest over what this pass depends on."""
        return self.dependencies.fingerprint


@dataclass(frozen=True, slots=True, kw_only=True)
class NonPass:
    """A result that is not a pass: which run, when, and the saved part of the outcome.

    Without an outcome the whole gate did not pass and left no result: it did not converge, or it began and was never
    recorded. `order` is its place in the order of the history: when it was recorded, else when it began.
    """

    gate: str
    run_id: str
    seen: str
    text: str
    outcome: Outcome | None = None
    order: int = 0

    def is_after(self, passed: Pass) -> bool:
        """Whether that pass began to observe before this was known. Clocks of controllers decide nothing."""
        return self.order > passed.begun


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """How much was recorded."""

    outcomes: int
    passes: int


# The saved part of a gate's outcomes: passes with their fingerprints. Pure.


@dataclass(frozen=True, slots=True, kw_only=True)
class GateFacts:
    """A decided gate with the observed facts of the site.

    `checks` are those whose passes count for later runs, None for all of them.
    """

    record: RunRecord
    verdict: GateVerdict
    outcomes: tuple[Outcome, ...]
    site: Site
    state: SiteState = field(default_factory=SiteState)
    checks: Collection[str] | None = None

    @property
    def rehearsal(self) -> bool:
        """Whether the hardware is simulated; the mark of either the run or the site is enough."""
        return self.record.rehearsal or self.site.rehearsal


def passes(facts: GateFacts) -> tuple[Pass, ...]:
    """Return one line for every check and subject that passed.

    A subject passed only if every outcome of the same check about it, or about a part of it, passed: a waived failure
    is a failure here. Quarantined hosts are left out. Of the proof of a wave only its own nodes are recorded: a pass of
    several of them together would hide that of the whole site.
    """
    troubled = _troubled(facts.outcomes)
    found: dict[tuple[str, str], Pass] = {}
    for outcome in facts.outcomes:
        if outcome.status is not Status.PASSED or _quarantined(outcome, facts.site):
            continue
        if facts.checks is not None and outcome.check not in facts.checks:
            continue
        if facts.record.wave and outcome.subjects[0].name not in facts.record.wave:
            continue
        if troubled.get(outcome.check, set()) & _names(outcome):
            continue
        subject = outcome.subjects[0].name
        found[outcome.check, subject] = Pass(
            gate=facts.verdict.gate,
            check=outcome.check,
            subject=subject,
            run_id=facts.record.run_id,
            passed=_when(facts, outcome),
            dependencies=result_dependencies(facts, outcome),
            gate_passed=facts.verdict.status is Status.PASSED,
        )
    return tuple(found.values())


def result_dependencies(facts: GateFacts, outcome: Outcome) -> Dependencies:
    """Return what this result depends on: the observed facts of the site, and the NCCL that it was measured with."""
    subject = outcome.subjects[0]
    hosts = [host.name for host in hosts_of(outcome, facts.site)]
    observed = dependencies_of(
        facts.verdict.gate, outcome.check, subject.kind, subject.name, hosts, facts.site, facts.state
    )
    nccl = str(_measured(outcome).get("nccl") or "")
    return replace(observed, own=observed.own | {NCCL: nccl}) if nccl else observed


def _measured(outcome: Outcome) -> dict[str, Scalar]:
    return {measure.name: measure.value for measure in outcome.measured}


def _when(facts: GateFacts, outcome: Outcome) -> str:
    return outcome.started or facts.verdict.started or facts.record.started


def _names(outcome: Outcome) -> set[str]:
    return {name for subject in outcome.subjects for name in (subject.name, subject.node) if name}


def _troubled(outcomes: Iterable[Outcome]) -> dict[str, set[str]]:
    troubled: dict[str, set[str]] = {}
    for outcome in outcomes:
        if outcome.status is not Status.PASSED:
            troubled.setdefault(outcome.check, set()).update(_names(outcome))
    return troubled


def _quarantined(outcome: Outcome, site: Site) -> bool:
    return any(subject.node in site.quarantined for subject in outcome.subjects)
