# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check pdu-feeds: the feeds of every rack with a configured PDU have power, are within their limits, and are
redundant.

Half-filled racks are judged by what is installed: by the present draw, and by the most that the rack's hosts may draw.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...outcome.errors import InputError, NotFoundError
from ...outcome.model import Basis, Evidence, Expectation, Measure, Outcome, SubjectKind
from ...probe.redfish_pdu import Mains
from ..kit.answer import Answer
from ..kit.finding import Finding, Report, conclude, one_per_cause
from ..spec import Applies, Check, CheckSpec, JudgeContext, LeftOut, Place, needs
from .load import POWER, number, rack_load
from .observation import rack_subject
from .observe_pdus import OBSERVER, PDU_FEEDS, PduSettings, SeenPdu, SeenPdus
from .settings import GATE, FacilitySettings

_NAMED = 8


@dataclass(frozen=True, slots=True)
class _StatedPdus(Applies):
    """Applies to racks for which the site configures a PDU."""

    def left_out(self, subjects: tuple[str, ...], place: Place) -> LeftOut | None:
        configured = place.site.settings.get(PDU_FEEDS, {}).get("pdus") or {}
        racks = {str(entry.get("rack", "")) for entry in configured.values() if isinstance(entry, Mapping)}
        without = sorted(set(subjects) - racks)
        named = ", ".join(without[:_NAMED])
        reason = f"needs the address of a PDU: gpufleet_settings.{PDU_FEEDS}.pdus has none in {named}"
        return LeftOut(frozenset(without), reason) if without else None


SPEC = CheckSpec(
    id=PDU_FEEDS,
    gate="facility",
    title="Feeds of racks alive and redundant, by their PDUs",
    per=SubjectKind.RACK,
    applies=(needs("bmc", "pdu_address"), _StatedPdus()),
    causes=("feed-dead", "feed-not-redundant", "feed-voltage", "pdu-not-healthy", "pdu-overloaded", "single-feed"),
    settings=PduSettings,
)
_BREAKER_CLOSED = frozenset({"", "Normal"})
_CORD = "see the breaker of that feed and the cord of the PDU"


def judge(observed: SeenPdus, context: JudgeContext) -> tuple[Outcome, ...]:
    """Return one or more outcomes for every rack that has such a PDU.

    Raises:
        InputError: a PDU is configured for a rack without hosts.
    """
    racks: dict[str, list[SeenPdu]] = {}
    for pdu in observed.pdus:
        racks.setdefault(pdu.stated.rack, []).append(pdu)
    strangers = sorted(set(racks) - set(context.site.racks))
    if strangers:
        reason = f"PDUs are stated for {', '.join(strangers)}, and no host stands there."
        raise InputError(
            f"gpufleet_settings.{PDU_FEEDS}.pdus", reason, f"the racks are {', '.join(context.site.racks)}"
        )
    return tuple(
        outcome
        for rack, pdus in sorted(racks.items())
        for outcome in _judge_rack(Answer(SPEC, context, rack_subject(rack)), rack, pdus)
    )


def _judge_rack(answer: Answer, rack: str, pdus: list[SeenPdu]) -> tuple[Outcome, ...]:
    settings = answer.context.settings_of(PDU_FEEDS, PduSettings)
    evidence = tuple(Evidence(f"Redfish {pdu.stated.address}", pdu.name, _reported(pdu), pdu.file) for pdu in pdus)
    not_reporting = [pdu for pdu in pdus if not pdu.units]
    if not_reporting:
        first = not_reporting[0]
        text = "; ".join(f"{pdu.name}: {pdu.reason}" for pdu in not_reporting)
        return (answer.unknown(first.cause or "pdu-not-read", text, first.hint, evidence=evidence),)
    unclear = [f"{pdu.name}: {what}" for pdu in pdus if (what := _unclear(pdu))]
    if unclear:
        text = f"the PDUs do not say what is needed: {'; '.join(unclear)}"
        return (answer.unknown("pdu-says-too-little", text, "look at the PDU's own page", evidence=evidence),)
    findings = [finding for pdu in pdus for finding in _of_pdu(pdu, settings)]
    load_kw = sum(_load_kw(pdu) for pdu in pdus)
    summary = f"{len(pdus)} PDUs alive, {number(load_kw)} kW drawn now"
    if settings.redundant and not findings:
        try:
            lost, arithmetic = _without_a_feed(answer, rack, pdus, load_kw)
        except (InputError, NotFoundError) as error:
            text = f"{error.subject}: {error.reason}"
            return (answer.unknown("fact-not-known", text, error.hint, evidence=evidence),)
        findings += lost
        summary = f"{summary}; {arithmetic}"
    report = Report(
        summary=summary,
        findings=one_per_cause(findings),
        measured=(Measure("power drawn now", round(load_kw, 3), "kW"),),
        expected=(Expectation("PDUs alive", "==", len(pdus), Basis.INVENTORY, "count"),),
        evidence=evidence,
    )
    return conclude(answer, report)


def _load_kw(pdu: SeenPdu) -> float:
    return sum(unit.load_w or 0.0 for unit in pdu.units) / 1000


def _unclear(pdu: SeenPdu) -> str:
    """Return the value that a PDU does not report, empty if it reports all that is judged."""
    for unit in pdu.units:
        if not unit.mains:
            return f"{unit.name} shows no input"
        dumb = [mains.name for mains in unit.mains if not mains.volts and mains.breaker in ("", "Normal")]
        if dumb:
            return f"no volts of input {', '.join(dumb)}"
        if unit.load_w is None:
            return f"no watts of {unit.name} or of all its inputs"
    return ""


def _of_pdu(pdu: SeenPdu, settings: PduSettings) -> list[Finding]:
    found: list[Finding] = []
    for unit in pdu.units:
        found += [finding for mains in unit.mains if (finding := _of_mains(pdu, mains, settings)) is not None]
        if unit.condition.health == "Critical":
            text = f"{pdu.name}: {unit.condition}"
            found.append(Finding(cause="pdu-not-healthy", text=text, hint="see the PDU's own page and its log"))
    load_kw = _load_kw(pdu)
    if pdu.stated.capacity_kw and load_kw > pdu.stated.capacity_kw:
        text = f"{pdu.name}: {number(load_kw)} kW drawn, {number(pdu.stated.capacity_kw)} kW may be"
        found.append(
            Finding(cause="pdu-overloaded", text=text, hint="move hosts to another rack, or cords to another PDU")
        )
    return found


def _of_mains(pdu: SeenPdu, mains: Mains, settings: PduSettings) -> Finding | None:
    feed = f"{pdu.name} ({'feed ' + pdu.stated.feed if pdu.stated.feed else 'no feed stated'}), input {mains.name}"
    volts = ", ".join(f"{value:g} V" for value in mains.volts)
    if mains.breaker not in _BREAKER_CLOSED or (mains.volts and min(mains.volts) <= 0):
        text = f"{feed}: {volts or 'no volts'}, breaker {mains.breaker or 'not stated'}"
        return Finding(cause="feed-dead", text=text, hint=_CORD)
    if mains.nominal_v:
        # IEC 60038 allows 230 V to deviate by 10 %.
        span = mains.nominal_v * settings.voltage_tolerance
        off = [value for value in mains.volts if abs(value - mains.nominal_v) > span]
        # For three phases some PDUs report volts between the lines, which are higher by the root of three.
        off = [value for value in off if abs(value - mains.nominal_v * 3**0.5) > span * 3**0.5]
        if off:
            text = f"{feed}: {volts}, nominal {mains.nominal_v:g} V"
            return Finding(cause="feed-voltage", text=text, hint=f"{_CORD}, then ask the owner of the room")
    return None


def _without_a_feed(answer: Answer, rack: str, pdus: list[SeenPdu], load_kw: float) -> tuple[list[Finding], str]:
    """Return the findings about the redundancy of a rack, and the arithmetic of its worst case.

    Raises:
        InputError: feed or capacity of a PDU, or what a host draws, is not known.
        NotFoundError: an unknown SKU.
    """
    unstated = [pdu.name for pdu in pdus if not pdu.stated.feed or pdu.stated.capacity_kw <= 0]
    if unstated:
        reason = f"feed or capacity_kw of {', '.join(unstated)} is not stated, so redundancy is not known."
        raise InputError(f"gpufleet_settings.{PDU_FEEDS}.pdus", reason, "state both, or unset redundant there")
    feeds = sorted({pdu.stated.feed for pdu in pdus})
    if len(feeds) < 2:
        text = f"all {len(pdus)} PDUs of {rack} hang on feed {feeds[0]}"
        return [Finding(cause="single-feed", text=text, hint="connect the rack to a second feed")], text
    context = answer.context
    skus = [host.sku for host in context.site.hosts if host.rack == rack]
    allowance = context.settings_of(GATE, FacilitySettings).allowance(rack).power_kw
    installed = rack_load(POWER, skus, context.hardware, allowance)
    left_kw, feed = min((sum(p.stated.capacity_kw for p in pdus if p.stated.feed != feed), feed) for feed in feeds)
    now = f"{number(load_kw)} kW drawn now"
    arithmetic = f"without feed {feed} {number(left_kw)} kW are left for {now}, installed are {installed.arithmetic}"
    if left_kw >= max(load_kw, installed.value):
        return [], arithmetic
    hint = "PDUs of more capacity, or fewer hosts in the rack"
    return [Finding(cause="feed-not-redundant", text=arithmetic, hint=hint)], arithmetic


def _reported(pdu: SeenPdu) -> str:
    parts = [
        f"{mains.name} {'/'.join(f'{value:g}' for value in mains.volts) or '?'} V, breaker {mains.breaker or '?'}"
        for unit in pdu.units
        for mains in unit.mains
    ]
    on = sum(outlet.power == "On" for unit in pdu.units for outlet in unit.outlets)
    return f"{'; '.join(parts) or pdu.reason}; {number(_load_kw(pdu))} kW; {on} outlets on"


CHECK = Check(SPEC, OBSERVER, judge)
