# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check bmc-firmware-uniform: hosts of one SKU have the same firmware, part by part.

The versions are those of the BMCs' inventories. A host that differs from most is named.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property

from ...collect.redfish import FIRMWARE
from ...outcome.model import Basis, Expectation, Measure, Outcome, SubjectKind
from ...probe.redfish_firmware import Firmware, part_of
from ...verdict.majority import more_than_any_other
from ..kit.finding import Finding, Report
from ..kit.settings import setting
from ..spec import Bmc, Check, CheckSpec, Equals, JudgeContext, needs
from .observe_bmcs import OBSERVER, BmcContext, SeenBmcs, per_bmc

_SHOWN = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class FirmwareSettings:
    """Settings of check bmc-firmware-uniform."""

    versions: dict[str, str] = setting(
        "The version that a part must have, by the part's id in the BMC's inventory; others are held against those of "
        "most hosts of the SKU. May be stated by SKU.",
        default={},
    )
    ignored: tuple[str, ...] = setting("Patterns of ids of parts that may differ.", default=[])


SPEC = CheckSpec(
    id="bmc-firmware-uniform",
    gate="facility",
    title="One firmware in all hosts of a SKU",
    per=SubjectKind.NODE,
    applies=(needs("bmc", "bmc_address"), Equals(), Bmc()),
    causes=("firmware-differs", "firmware-not-as-stated"),
    settings=FirmwareSettings,
)
Versions = dict[str, str]


def judge(observed: SeenBmcs, context: JudgeContext) -> tuple[Outcome, ...]:
    """Judge every host. Where most hosts agree on no version of a part, that is a fact about the fleet: marginal for
    each."""
    skus = {host.name: host.sku for host in context.site.in_scope}
    alone = {host.name for host in context.site.without_equal}
    read = {
        bmc.host: bmc.facts for bmc in observed.bmcs if bmc.facts is not None and FIRMWARE not in bmc.facts.problems
    }
    by_host = {name: _versions(facts.firmware) for name, facts in read.items() if name in skus}
    members: dict[str, list[Versions]] = {}
    for name, versions in by_host.items():
        members.setdefault(skus[name], []).append(versions)
    cohorts = {sku: _Cohort(tuple(found)) for sku, found in members.items()}
    equals = Counter(host.sku for host in context.site.in_scope if host.bmc)

    def one(host: BmcContext) -> Report | Outcome:
        return _judge(host, by_host[host.name], cohorts[host.entry.sku], alone=equals[host.entry.sku] == 1)

    outcomes = per_bmc(SPEC, observed, context, one, part=FIRMWARE)
    return tuple(outcome for outcome in outcomes if outcome.subjects[0].name not in alone)


def _versions(firmware: tuple[Firmware, ...]) -> Versions:
    return {part_of(entry): entry.version for entry in firmware if entry.running}


@dataclass(frozen=True)
class _Cohort:
    """The versions of all hosts of a SKU that were read; counted once for all of them."""

    members: tuple[Versions, ...]

    @cached_property
    def parts(self) -> frozenset[str]:
        """Every part that a host of the SKU has."""
        return frozenset(part for versions in self.members for part in versions)

    @cached_property
    def counts(self) -> dict[str, Counter[str]]:
        """By part, how many hosts have each version; the version is empty where a host lacks the part."""
        return {part: Counter(v.get(part, "") for v in self.members) for part in self.parts}

    @cached_property
    def usual(self) -> dict[str, str | None]:
        """By part, the version of most hosts, None where two versions are equally frequent."""
        return {part: more_than_any_other(counts) for part, counts in self.counts.items()}

    @cached_property
    def spread(self) -> dict[str, str]:
        """By part, the text of which version is on how many hosts, the most frequent first."""
        return {
            part: ", ".join(f"{version or 'not there'} on {hosts}" for version, hosts in counts.most_common(_SHOWN))
            for part, counts in self.counts.items()
        }


def _judge(host: BmcContext, own: Versions, cohort: _Cohort, *, alone: bool) -> Report | Outcome:
    settings = host.settings(FirmwareSettings)
    wanted = sorted(cohort.parts | set(settings.versions))
    parts = [part for part in wanted if not any(fnmatchcase(part, pattern) for pattern in settings.ignored)]
    evidence = host.evidence("; ".join(f"{part} {own.get(part) or 'not stated'}" for part in parts) or "no firmware")
    if not any(own.values()):
        hint = "see whether the account may read the inventory, and what the BMC's own page shows"
        text = "the inventory of the BMC states no version of any firmware"
        return host.answer.unknown("no-firmware-versions", text, hint, evidence=evidence)
    if alone and not settings.versions:
        text = f"the only host of SKU {host.sku.name} with a BMC: there is nothing to compare its firmware with"
        return Report(summary=text, evidence=evidence)
    if len(cohort.members) < 2 and not settings.versions:
        text = f"no other host of SKU {host.sku.name} was read, so there is nothing to compare it with"
        return host.answer.unknown("no-peer-read", text, "see bmc-reached of the others", evidence=evidence)
    findings = [finding for part in parts if (finding := _finding(host, part, own, cohort, settings)) is not None]
    same = len(parts) - len(findings)
    return Report(
        summary=f"{same} parts have the firmware of {len(cohort.members)} hosts of SKU {host.sku.name}",
        findings=tuple(findings),
        measured=(Measure("parts with the same firmware", same, "count"),),
        expected=(Expectation("parts with the same firmware", "==", len(parts), Basis.PEERS, "count"),),
        evidence=evidence,
    )


def _finding(host: BmcContext, part: str, own: Versions, cohort: _Cohort, settings: FirmwareSettings) -> Finding | None:
    mine, configured = own.get(part, ""), settings.versions.get(part, "")
    if configured:
        if mine == configured:
            return None
        text = f"{part}: {mine or 'not there'}, stated is {configured}"
        hint = f"update {part} of {host.name}, and power-cycle it: some firmware shows its old version until then"
        return Finding(cause="firmware-not-as-stated", text=text, hint=hint)
    if len(cohort.counts.get(part, ())) < 2:
        return None
    most, spread = cohort.usual[part], cohort.spread[part]
    hint = f"bring {part} to one version, power-cycle the host (some firmware shows its old version until then)"
    if most is None:
        text = f"{part}: no version has most hosts: {spread}; here {mine or 'not there'}"
        hint = f"state the right one in gpufleet_settings bmc-firmware-uniform.versions, and {hint}"
        return Finding(cause="firmware-split", text=text, hint=hint, marginal=True)
    if mine == most:
        return None
    text = f"{part}: {mine or 'not there'}, most hosts of the SKU have {most or 'none'} ({spread})"
    return Finding(cause="firmware-differs", text=text, hint=hint)


CHECK = Check(SPEC, OBSERVER, judge)
