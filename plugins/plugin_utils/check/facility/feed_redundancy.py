# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The supplies of a host carry it when one of them, or one of its feeds, is lost.

What the BMC says of its redundancy groups counts where it says something is lost. Whether N+1 or 2N holds is computed
from what the supplies that work can deliver and the SKU's maximum: numbers of groups are wrong on some BMCs (HPE states
2 needed of 2).
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal

from ...collect.bmc import POWER
from ...outcome.model import Basis, Expectation, Measure, Outcome, SubjectKind
from ...probe.redfish_power import PowerSupply, Redundancy
from ..kit.finding import Finding, Report
from ..kit.settings import setting
from ..spec import Check, CheckSpec, JudgeContext
from .bmc_observation import BmcContext, SeenBmcs, per_bmc
from .observe_bmcs import OBSERVER
from .power_supplies import WORKING, lacks_input

Mode = Literal["n", "n+1", "2n"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RedundancySettings:
    """Settings of check feed-redundancy."""

    mode: Mode = setting(
        "What a host must survive: `n`: nothing, its supplies just carry it; `n+1`: the loss of any one supply; `2n`: "
        "the loss of half of them, or of any feed where `feeds` says which supply hangs on which. May be stated by SKU."
    )
    feeds: dict[str, tuple[str, ...]] = setting(
        "Which supplies hang on which feed: patterns of their names by the feed's name, such as `A: [PSU0, PSU1]`. "
        "Each supply must be on one. May be stated by SKU."
    )
    power_w: int = setting("What a host takes at most; 0: power_max_w of its SKU.", unit="W", minimum=0)


SPEC = CheckSpec(
    id="feed-redundancy",
    gate="facility",
    title="Supplies carry the host without one of them or of its feeds",
    per=SubjectKind.NODE,
    requires=("bmc", "bmc_address"),
    through_bmc=True,
    causes=("feed-loss-not-survived", "redundancy-lost", "supplies-too-weak", "supply-loss-not-survived"),
    settings=RedundancySettings,
)


def judge(seen: SeenBmcs, context: JudgeContext) -> tuple[Outcome, ...]:
    return per_bmc(SPEC, seen, context, _judge, part=POWER)


def _judge(host: BmcContext) -> Report | Outcome:
    supplies = [supply for supply in host.facts.supplies if not supply.condition.absent]
    evidence = host.evidence("; ".join(_told(group) for group in host.facts.redundancy) or "no redundancy group")
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
    working = [supply for supply in supplies if supply.condition.state in WORKING and not lacks_input(supply)]
    try:
        left_w, case, cause = _worst(settings, working)
    except LookupError as error:
        hint = (
            "correct feeds in gpufleet_settings feed-redundancy: patterns of the names that the BMC gives its supplies"
        )
        return host.answer.unknown("supply-on-no-feed", str(error), hint, evidence=evidence)
    whole_w = _watts(working)
    arithmetic = (
        f"{len(working)} supplies deliver {whole_w:g} W, {left_w:g} W {case}; the host takes {needs_w} W at most"
    )
    expected = (Expectation(f"watts left {case}", ">=", needs_w, Basis.HARDWARE, "W", arithmetic),)
    findings: list[Finding] = []
    if left_w < needs_w:
        hint = (
            "see power-supplies for one that does not work; else more or stronger supplies, or cords to the other feed"
        )
        findings.append(Finding(cause=cause, text=arithmetic, hint=hint))
    measured = (Measure(f"watts left {case}", left_w, "W"),)
    return Report(summary=arithmetic, findings=tuple(findings), measured=measured, expected=expected, evidence=evidence)


def _lost(group: Redundancy) -> Finding | None:
    """Return that a group says of itself that it is redundant no more; one that states nothing is computed."""
    condition = group.condition
    if group.mode in ("", "NotRedundant") or condition.absent or condition.state == "Disabled":
        return None
    if condition.health in ("", "OK") and condition.state in ("", "Enabled"):
        return None
    hint = "see power-supplies for the one that failed, and the event log of the BMC"
    marginal = condition.health != "Critical" and condition.state in ("", "Enabled")
    return Finding(cause="redundancy-lost", text=_told(group), hint=hint, marginal=marginal)


def _told(group: Redundancy) -> str:
    return f"redundancy {group.name or 'of the supplies'} ({group.mode or 'no mode stated'}): {group.condition}"


def _watts(supplies: list[PowerSupply]) -> float:
    return sum(supply.capacity_w or 0.0 for supply in supplies)


def _worst(settings: RedundancySettings, working: list[PowerSupply]) -> tuple[float, str, str]:
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
    names = (supply.name, supply.path.rpartition("/")[2])
    found = [
        feed
        for feed, patterns in settings.feeds.items()
        if any(fnmatchcase(name, pattern) for pattern in patterns for name in names)
    ]
    if len(found) != 1:
        on = " and ".join(sorted(found)) or "no feed"
        raise LookupError(f"{supply.name} ({names[1]}) is on {on}, by the feeds that are stated")
    return found[0]


CHECK = Check(SPEC, OBSERVER, judge)
