# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What of a gate's outcomes is remembered: passes with their fingerprints. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace

from ..fingerprint.dependencies import NCCL, Dependencies, SiteState, dependencies_of
from ..outcome.model import Outcome, Scalar, Status
from ..site.model import Site
from ..verdict.figures import hosts_of
from ..verdict.gate import GateVerdict
from ..verdict.run import RunRecord
from .model import Pass


@dataclass(frozen=True, slots=True, kw_only=True)
class GateFacts:
    """A decided gate with what was seen of the site; `checks` are those whose passes count for later runs, None for
    all of them."""

    record: RunRecord
    verdict: GateVerdict
    outcomes: tuple[Outcome, ...]
    site: Site
    state: SiteState = field(default_factory=SiteState)
    checks: Collection[str] | None = None

    @property
    def rehearsal(self) -> bool:
        """Whether the hardware is simulated; one word for it is enough."""
        return self.record.rehearsal or self.site.rehearsal


def passes(facts: GateFacts) -> tuple[Pass, ...]:
    """Return one line for every check and subject that passed.

    A subject passed only if no outcome of the same check about it, or about a part of it, says anything else: a
    waived failure is a failure here. Quarantined hosts are left out. Of the proof of a wave only its own nodes are
    remembered: a pass of more of them together would hide the one of the whole site.
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
    """Return what this result depends on: what was seen of the site, and the NCCL that it was measured with."""
    subject = outcome.subjects[0]
    hosts = [host.name for host in hosts_of(outcome, facts.site)]
    seen = dependencies_of(
        facts.verdict.gate, outcome.check, subject.kind, subject.name, hosts, facts.site, facts.state
    )
    nccl = str(_measured(outcome).get("nccl") or "")
    return replace(seen, own=seen.own | {NCCL: nccl}) if nccl else seen


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
