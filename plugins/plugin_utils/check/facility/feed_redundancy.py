# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check feed-redundancy: the supplies of a host carry it when one of them, or one of its feeds, is lost.

A redundancy group of the BMC counts only where it reports a loss. Whether N+1 or 2N is met is computed from what the
working supplies can deliver and the SKU's maximum: the numbers in groups are wrong on some BMCs (HPE reports 2 needed
of 2). Where supplies feed parts of the host (HPE: System and GPU), each part is computed by itself, and what a part
takes has to be configured: supplies of one part cannot replace those of another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Literal

from ...collect.redfish import POWER
from ...outcome.model import Basis, Evidence, Expectation, Measure, Outcome, SubjectKind
from ...probe.redfish_power import DENIED, POWER_DOMAIN, REDUNDANT, PowerSupply, Redundancy
from ..kit.finding import Finding, Report, one_per_cause
from ..kit.settings import setting
from ..spec import Bmc, Check, CheckSpec, JudgeContext, needs
from .observe_bmcs import OBSERVER, BmcContext, SeenBmcs, per_bmc
from .power_supplies import WORKING, lacks_input

# Supplies that feed the same part of a host can replace each other. A host of HPE has supplies for the system and
# others for the GPUs (spyroot/redfish_ctl, tests/hpe_fixtures), and a sum over both proves nothing about either. The
# site's settings come first, then the BMC's domains, then its groups of redundancy.


@dataclass(frozen=True, slots=True, kw_only=True)
class Domain:
    """One part of a host with its present supplies; `name` is empty where they feed the whole host."""

    supplies: tuple[PowerSupply, ...]
    name: str = ""


def power_domains(
    supplies: Sequence[PowerSupply], groups: Sequence[Redundancy], configured: Mapping[str, Sequence[str]]
) -> tuple[Domain, ...]:
    """Return the parts of a host that have supplies of their own; one part where all supplies feed the whole host.

    Args:
        supplies: those that are present.
        groups: redundancy groups and domains as the BMC reports them.
        configured: patterns of the names of supplies, by part; empty if the site configures none.

    Raises:
        LookupError: it is not known which supplies can replace each other.
    """
    reported = [group for group in groups if group.mode == POWER_DOMAIN]
    if configured:
        parts = {name: [supply for supply in supplies if matches(supply, configured[name])] for name in configured}
    elif reported:
        parts = {group.name: _members(group, supplies) for group in reported}
    else:
        return _by_groups(supplies, groups)
    return _parted(supplies, parts)


def matches(supply: PowerSupply, patterns: Sequence[str]) -> bool:
    """Whether one of these patterns matches a supply: its name, or the end of its path."""
    names = (supply.name, supply.path.rpartition("/")[2])
    return any(fnmatchcase(name, pattern) for pattern in patterns for name in names)


def _parted(supplies: Sequence[PowerSupply], parts: Mapping[str, Sequence[PowerSupply]]) -> tuple[Domain, ...]:
    for supply in supplies:
        of = sorted(name for name, members in parts.items() if supply in members)
        if len(of) != 1:
            raise LookupError(f"{supply.name} is told to feed {' and '.join(of) or 'no part of the host'}")
    if len(parts) == 1:
        return (Domain(supplies=tuple(supplies)),)
    # A part without a present supply stays in the list: nothing feeds it.
    return tuple(Domain(name=name, supplies=tuple(members)) for name, members in parts.items())


def _by_groups(supplies: Sequence[PowerSupply], groups: Sequence[Redundancy]) -> tuple[Domain, ...]:
    """Return the parts by groups of redundancy; groups that share a supply are one part."""
    parts: list[tuple[str, list[PowerSupply]]] = []
    for number, group in enumerate(groups):
        members = _members(group, supplies)
        if not members:
            if len(groups) > 1:
                text = (
                    f"the BMC has {len(groups)} groups of redundant supplies and does not say which supply is in which"
                )
                raise LookupError(text)
            continue
        name = group.name or f"group {number}"
        for other in [part for part in parts if any(member in members for member in part[1])]:
            parts.remove(other)
            members += [member for member in other[1] if member not in members]
            name = other[0]
        parts.append((name, members))
    if parts:
        lone = [supply.name for supply in supplies if not any(supply in members for _name, members in parts)]
        if lone:
            raise LookupError(f"{', '.join(lone)} is in none of the BMC's groups of redundant supplies")
        whole = Domain(supplies=tuple(supplies))
        return (whole,) if len(parts) == 1 else tuple(Domain(name=n, supplies=tuple(m)) for n, m in parts)
    watts = sorted({supply.capacity_w for supply in supplies if supply.capacity_w is not None})
    if len(watts) > 1:
        kinds = ", ".join(f"{value:g} W" for value in watts)
        raise LookupError(f"there are supplies of {kinds}, and the BMC does not say that they feed the same")
    return (Domain(supplies=tuple(supplies)),)


def _members(group: Redundancy, supplies: Sequence[PowerSupply]) -> list[PowerSupply]:
    """Return the supplies of a group. BMCs write the pointer of a member with and without its first slash (`#/`,
    `#`)."""
    wanted = {path.replace("#/", "#") for path in group.members}
    return [supply for supply in supplies if supply.path.replace("#/", "#") in wanted]


Mode = Literal["n", "n+1", "2n"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RedundancySettings:
    """Settings of check feed-redundancy."""

    mode: Mode = setting(
        "What a host must survive: `n`: nothing, its supplies just carry it; `n+1`: the loss of any one supply; `2n`: "
        "the loss of half of them, or of any feed where `feeds` says which supply hangs on which. May be "
        "stated by SKU.",
        default="n+1",
    )
    feeds: dict[str, tuple[str, ...]] = setting(
        "Which supplies hang on which feed: patterns of their names by the feed's name, such as `A: [PSU0, PSU1]`. "
        "Each supply must be on one. May be stated by SKU.",
        default={},
    )
    power_w: int = setting("What a host takes at most; 0: power_max_w of its SKU.", default=0, unit="W", minimum=0)
    domains: dict[str, tuple[str, ...]] = setting(
        "Which supplies feed which part of the host, where some feed the GPUs alone: patterns of their names by the "
        "part's name; empty: what the BMC tells (HPE: System and GPU). `all: ['*']`: all of them feed everything. May "
        "be stated by SKU.",
        default={},
    )
    domain_w: dict[str, int] = setting(
        "What each of these parts takes at most, such as `System: 2600` and `GPU: 8000`; together at least what the "
        "host takes. May be stated by SKU.",
        default={},
        unit="W",
        minimum=1,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    """What is left for one part of a host in its worst case; `needs_w` is None where its need is not known."""

    domain: str
    left_w: float
    needs_w: int | None
    cause: str
    arithmetic: str
    measured: Measure
    expected: Expectation


_WEAK = "see power-supplies for one that does not work; else more or stronger supplies, or cords to the other feed"
SPEC = CheckSpec(
    id="feed-redundancy",
    gate="facility",
    title="Supplies carry the host without one of them or of its feeds",
    per=SubjectKind.NODE,
    applies=(needs("bmc", "bmc_address"), Bmc()),
    causes=("feed-loss-not-survived", "redundancy-lost", "supplies-too-weak", "supply-loss-not-survived"),
    settings=RedundancySettings,
)


def judge(observed: SeenBmcs, context: JudgeContext) -> tuple[Outcome, ...]:
    return per_bmc(SPEC, observed, context, _judge, part=POWER)


def _judge(host: BmcContext) -> Report | Outcome:
    supplies = [supply for supply in host.facts.supplies if not supply.condition.absent]
    evidence = _evidence(host)
    if not supplies:
        if host.sku.rack_hosts:
            text = f"a {host.sku.name} has no supplies of its own: its rack's shelves feed it"
            return Report(summary=text, evidence=evidence)
        return host.answer.blocked(by="power-supplies", because="the BMC shows no power supply")
    settings = host.settings(RedundancySettings)
    needs_w = settings.power_w or host.sku.power_max_w
    groups = host.facts.redundancy if settings.mode != "n" else ()
    lost = [finding for group in groups if (finding := _lost(group)) is not None]
    unstated = [supply.name for supply in supplies if supply.capacity_w is None]
    if not lost and (not needs_w or unstated):
        what = f"power_max_w of SKU {host.sku.name}" if not needs_w else f"what {', '.join(unstated)} can deliver"
        hint = (
            f"state power_w in gpufleet_settings feed-redundancy, or power_max_w in a hardware file of {host.sku.name}"
        )
        text = f"{what} is not known, so redundancy cannot be computed"
        return host.answer.unknown("fact-not-known", text, hint, evidence=evidence)
    if lost or not needs_w:
        return Report(summary="", findings=tuple(lost), evidence=evidence)
    try:
        domains = power_domains(supplies, host.facts.redundancy, settings.domains)
    except LookupError as error:
        hint = "state domains in gpufleet_settings feed-redundancy: `all: ['*']` if every supply feeds the whole host"
        return host.answer.unknown("supply-domain-unknown", str(error), hint, evidence=evidence)
    try:
        cases = [_worst(settings, domain, settings.domain_w.get(domain.name)) for domain in domains]
        if len(domains) == 1:
            cases = [_worst(settings, Domain(supplies=domains[0].supplies), needs_w)]
        elif (short := _short(settings, domains, cases, needs_w)) is not None:
            cases = [short]
    except LookupError as error:
        hint = (
            "correct feeds in gpufleet_settings feed-redundancy: patterns of the names that the BMC gives its supplies"
        )
        return host.answer.unknown("supply-on-no-feed", str(error), hint, evidence=evidence)
    return _judge_cases(host, needs_w, cases)


def _judge_cases(host: BmcContext, needs_w: int, cases: list[_Case]) -> Report | Outcome:
    evidence = _evidence(host)
    findings = [
        Finding(
            cause=case.cause, text=case.arithmetic, hint=_WEAK, expected=(case.expected,), measured=(case.measured,)
        )
        for case in cases
        if case.left_w < (case.needs_w or 1)
    ]
    unstated = [case.domain for case in cases if case.needs_w is None]
    stated_w = sum(case.needs_w or 0 for case in cases)
    if not findings and (unstated or stated_w < needs_w):
        what = (
            f"what {' and '.join(unstated)} of the host take at most is not stated"
            if unstated
            else f"its parts are stated to take {stated_w} W together, and the host takes {needs_w} W"
        )
        text = f"{what}; {'; '.join(case.arithmetic for case in cases)}"
        hint = (
            f"state domain_w in gpufleet_settings feed-redundancy, by the data sheet of the host, for "
            f"{', '.join(case.domain for case in cases)}"
        )
        return host.answer.unknown("domain-power-not-known", text, hint, evidence=evidence)
    return Report(
        summary="; ".join(case.arithmetic for case in cases),
        findings=one_per_cause(findings),
        measured=tuple(case.measured for case in cases),
        expected=tuple(case.expected for case in cases),
        evidence=evidence,
    )


def _evidence(host: BmcContext) -> tuple[Evidence, ...]:
    return host.evidence("; ".join(_reported(group) for group in host.facts.redundancy) or "no redundancy group")


def _lost(group: Redundancy) -> Finding | None:
    """Return the finding of a group that reports a loss of redundancy. A group that reports nothing is computed
    instead."""
    condition = group.condition
    if group.mode in ("", "NotRedundant") or condition.absent or condition.state == "Disabled":
        return None
    domain = group.mode == POWER_DOMAIN
    if condition.health in ("", "OK") and condition.state in ("", REDUNDANT if domain else "Enabled"):
        return None
    denied = condition.state in DENIED if domain else condition.state not in ("", "Enabled")
    marginal = condition.health != "Critical" and not denied
    hint = "see power-supplies for the one that failed, and the event log of the BMC"
    return Finding(cause="redundancy-lost", text=_reported(group), hint=hint, marginal=marginal)


def _reported(group: Redundancy) -> str:
    return f"redundancy {group.name or 'of the supplies'} ({group.mode or 'no mode stated'}): {group.condition}"


def _watts(supplies: Sequence[PowerSupply]) -> float:
    return sum(supply.capacity_w or 0.0 for supply in supplies)


def _short(settings: RedundancySettings, domains: Sequence[Domain], cases: list[_Case], host_w: int) -> _Case | None:
    """Return the case that all parts together have too little, whatever each part needs; None if they have enough.

    Raises:
        LookupError: a supply is on no feed, or on several.
    """
    whole = _worst(settings, Domain(supplies=tuple(s for domain in domains for s in domain.supplies)), host_w)
    # Half of all supplies may be those of one part; a lost feed takes half of each part.
    left_w = sum(case.left_w for case in cases) if settings.mode == "2n" and not settings.feeds else whole.left_w
    return replace(whole, left_w=left_w) if left_w < host_w else None


def _worst(settings: RedundancySettings, domain: Domain, needs_w: int | None) -> _Case:
    """Return what is left for a part of the host in the worst case.

    Raises:
        LookupError: a supply is on no feed, or on several.
    """
    working = [s for s in domain.supplies if s.condition.state in WORKING and not lacks_input(s)]
    left_w, lost, cause = _left(settings, working)
    whole = not domain.name
    who = domain.name or "the host"
    takes = "takes an unknown number of watts" if needs_w is None else f"takes {needs_w} W at most"
    arithmetic = f"{len(working)} supplies deliver {_watts(working):g} W, {left_w:g} W {lost}; {who} {takes}"
    name = f"watts left {lost}" if whole else f"watts left for {domain.name} {lost}"
    return _Case(
        domain=domain.name,
        left_w=left_w,
        needs_w=needs_w,
        cause=cause,
        arithmetic=arithmetic,
        measured=Measure(name, left_w, "W"),
        expected=Expectation(name, ">=", needs_w or 1, Basis.HARDWARE if whole else Basis.INVENTORY, "W", arithmetic),
    )


def _left(settings: RedundancySettings, working: list[PowerSupply]) -> tuple[float, str, str]:
    """Return the watts that are left in the worst case, which case that is, and the cause if they are too few.

    Raises:
        LookupError: a supply is on no feed, or on several.
    """
    by_watts = sorted(working, key=lambda supply: supply.capacity_w or 0.0)
    if settings.mode == "n":
        return _watts(working), "with all of them", "supplies-too-weak"
    if settings.mode == "n+1":
        return _watts(by_watts[:-1]), "without the strongest", "supply-loss-not-survived"
    if not settings.feeds:
        half = by_watts[: len(by_watts) // 2]
        return _watts(half), "without half of them", "feed-loss-not-survived"
    on = {supply.path: _feed(settings, supply) for supply in working}
    cases = []
    for feed in sorted(settings.feeds):
        cases.append((_watts([supply for supply in working if on[supply.path] != feed]), feed))
    left_w, feed = min(cases)
    return left_w, f"without feed {feed}", "feed-loss-not-survived"


def _feed(settings: RedundancySettings, supply: PowerSupply) -> str:
    found = [feed for feed, patterns in settings.feeds.items() if matches(supply, patterns)]
    if len(found) != 1:
        on = " and ".join(sorted(found)) or "no feed"
        end = supply.path.rpartition("/")[2]
        raise LookupError(f"{supply.name} ({end}) is on {on}, by the feeds that are stated")
    return found[0]


CHECK = Check(SPEC, OBSERVER, judge)
