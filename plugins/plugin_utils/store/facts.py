# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What of a gate's outcomes is remembered: passes with their fingerprints, and figures of a passed gate. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from ..fingerprint.dependencies import NCCL, Dependencies, SiteState, dependencies_of
from ..hardware.sku import Sku
from ..outcome.model import Outcome, Scalar, Status
from ..site.model import Host, Site
from ..verdict.gate import GateVerdict
from ..verdict.run import RunRecord
from .model import Baseline, BaselineKey, Pass

DRIVER_VERSION = "driver_version"


@dataclass(frozen=True, slots=True, kw_only=True)
class GateFacts:
    """A decided gate with what was seen of the site. `drivers` maps a host to the driver version measured there."""

    record: RunRecord
    verdict: GateVerdict
    outcomes: tuple[Outcome, ...]
    site: Site
    hardware: Mapping[str, Sku]
    state: SiteState = field(default_factory=SiteState)
    drivers: Mapping[str, str] = field(default_factory=dict)

    @property
    def rehearsal(self) -> bool:
        """Whether the hardware is simulated; one word for it is enough."""
        return self.record.rehearsal or self.site.rehearsal


def measured_drivers(outcomes: Iterable[Outcome]) -> dict[str, str]:
    """Return the driver version of every host about which the outcomes agree."""
    found = (
        (subject.node, str(measure.value))
        for outcome in outcomes
        for measure in outcome.measured
        for subject in outcome.subjects[:1]
        if measure.name == DRIVER_VERSION and measure.value
    )
    return agreed(found)


def agreed(found: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return what is said of each host, without hosts of which two different things are said."""
    said: dict[str, set[str]] = {}
    for host, text in found:
        if host and text:
            said.setdefault(host, set()).add(text)
    return {host: next(iter(texts)) for host, texts in said.items() if len(texts) == 1}


def passes(facts: GateFacts) -> tuple[Pass, ...]:
    """Return one line for every check and subject that passed.

    A subject passed only if no outcome of the same check about it, or about a part of it, says anything else: a
    waived failure is a failure here. Quarantined hosts are left out.
    """
    troubled = _troubled(facts.outcomes)
    found: dict[tuple[str, str], Pass] = {}
    for outcome in facts.outcomes:
        if outcome.status is not Status.PASSED or _quarantined(outcome, facts.site):
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
    hosts = [host.name for host in _hosts_of(outcome, facts.site)]
    seen = dependencies_of(
        facts.verdict.gate, outcome.check, subject.kind, subject.name, hosts, facts.site, facts.state
    )
    nccl = str(_measured(outcome).get("nccl") or "")
    return replace(seen, own=seen.own | {NCCL: nccl}) if nccl else seen


def baselines(facts: GateFacts) -> tuple[tuple[Baseline, ...], tuple[str, ...]]:
    """Return the figures that become baselines, and why others do not.

    Only passed outcomes of a passed gate count, and only with a whole key.
    """
    if facts.verdict.status is not Status.PASSED:
        return (), ()
    passed = {(entry.check, entry.subject) for entry in passes(facts)}
    found: dict[tuple[BaselineKey, str, str], Baseline] = {}
    notes: list[str] = []
    for outcome in facts.outcomes:
        subject, value = outcome.subjects[0].name, _measured(outcome).get("busbw")
        if outcome.status is not Status.PASSED or value is None or (outcome.check, subject) not in passed:
            continue
        key, unknown = _key(facts, outcome)
        if key is None or not _is_figure(value):
            notes.append(f"{outcome.check} on {subject} is no baseline: {unknown or f'busbw is {value!r}'}")
            continue
        entry = Baseline(
            key=key,
            check=outcome.check,
            subject=subject,
            busbw_gb_per_s=float(value),
            run_id=facts.record.run_id,
            site=facts.site.name,
            accepted=_when(facts, outcome),
        )
        found[key, outcome.check, subject] = entry
    return tuple(found.values()), tuple(notes)


def _key(facts: GateFacts, outcome: Outcome) -> tuple[BaselineKey | None, str]:
    measured = _measured(outcome)
    hosts = _hosts_of(outcome, facts.site)
    skus = {_sku(facts, host) for host in hosts}
    drivers = {facts.drivers.get(host.name, "") for host in hosts}
    words = {name: str(measured.get(name) or "unknown") for name in ("test", "algorithm", "nccl")}
    unknown = [name for name, word in words.items() if word == "unknown"]
    unknown += [name for name in ("nodes", "size") if not _is_count(measured.get(name))]
    unknown += ["one SKU"] if len(skus) != 1 else []
    unknown += ["one driver version"] if len(drivers) != 1 or "" in drivers else []
    if unknown:
        return None, f"not known: {', '.join(unknown)}"
    key = BaselineKey(
        rehearsal=facts.rehearsal,
        sku=skus.pop(),
        nodes=int(measured["nodes"] or 0),
        test=words["test"],
        size=int(measured["size"] or 0),
        algorithm=words["algorithm"],
        nccl_version=words["nccl"],
        driver_version=drivers.pop(),
    )
    return key, ""


def _hosts_of(outcome: Outcome, site: Site) -> tuple[Host, ...]:
    """Return the hosts that a result depends on: those that it names, all if it is about more of them or names none."""
    named = {subject.node for subject in outcome.subjects}
    hosts = tuple(host for host in site.in_scope if host.name in named)
    count = _measured(outcome).get("nodes")
    took_more = isinstance(count, int) and count > len(hosts)
    return site.in_scope if took_more or not hosts else hosts


def _sku(facts: GateFacts, host: Host) -> str:
    known = facts.hardware.get(host.sku)
    return known.name if known else host.sku


def _measured(outcome: Outcome) -> dict[str, Scalar]:
    return {measure.name: measure.value for measure in outcome.measured}


def _is_count(value: Scalar) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _is_figure(value: Scalar) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) and value > 0


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
