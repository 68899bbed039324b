# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Judges one budget of every rack: what the inventory's hosts need against what the facility record grants."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ...outcome.errors import InputError, NotFoundError
from ...outcome.model import Basis, Expectation, Measure, Outcome
from ..kit.answer import Answer
from ..spec import CheckSpec, JudgeContext
from .load import Load, Quantity, number, rack_load
from .observation import FacilityObservation, rack_subject
from .record import FacilityRecord, RackBudget
from .settings import Allowance

OVER_BUDGET = "over-budget"
PARTIAL_RACK = "partial-rack-unknown"
_ROUNDING = 0.0005
RACK_NOT_IN_RECORD = "rack-not-in-record"


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """One budget of a rack: the quantity, and where it is found in record and settings."""

    quantity: Quantity
    field: str
    granted: Callable[[RackBudget], float]
    allowed: Callable[[Allowance], float]


def judge_budget(
    spec: CheckSpec, budget: Budget, observed: FacilityObservation, context: JudgeContext
) -> tuple[Outcome, ...]:
    """Return one outcome per rack of the inventory."""
    skus: dict[str, list[str]] = {}
    for host in context.site.hosts:
        skus.setdefault(host.rack, []).append(host.sku)
    return judge_racks(
        spec,
        observed,
        context,
        lambda answer, rack, record: _judge_rack(budget, answer, skus[rack], rack, record, observed),
    )


def judge_racks(
    spec: CheckSpec,
    observed: FacilityObservation,
    context: JudgeContext,
    judge_one: Callable[[Answer, str, FacilityRecord], Outcome],
) -> tuple[Outcome, ...]:
    """Return `judge_one` for every rack in the record; without a valid record or without the rack, the reason."""
    answers = {rack: Answer(spec, context, rack_subject(rack)) for rack in context.site.racks}
    try:
        record = observed.record()
    except InputError as error:
        return tuple(_invalid_record(answer, error, observed) for answer in answers.values())
    return tuple(
        judge_one(answer, rack, record) if rack in record.racks else _rack_missing(answer, rack, record, observed)
        for rack, answer in answers.items()
    )


def judge_record(
    spec: CheckSpec,
    observed: FacilityObservation,
    context: JudgeContext,
    judge_one: Callable[[Answer, FacilityRecord], Outcome],
) -> tuple[Outcome, ...]:
    """Return `judge_one` of the record for the site; without a valid record, the reason."""
    answer = Answer.about_site(spec, context)
    try:
        record = observed.record()
    except InputError as error:
        return (_invalid_record(answer, error, observed),)
    return (judge_one(answer, record),)


def _invalid_record(answer: Answer, error: InputError, observed: FacilityObservation) -> Outcome:
    """Return the outcome of an invalid record: nothing is known from it."""
    return answer.unknown(
        "record-invalid",
        f"the record is not valid: {'; '.join(error.evidence) or error}"[:1000],
        "correct the record and have it signed again (docs/facility.md)",
        evidence=observed.evidence(),
    )


def _rack_missing(answer: Answer, rack: str, record: FacilityRecord, observed: FacilityObservation) -> Outcome:
    hosts = sum(host.rack == rack for host in answer.context.site.hosts)
    racks = ", ".join(sorted(record.racks)) or "none"
    return answer.failed(
        RACK_NOT_IN_RECORD,
        f"{hosts} host(s) of the inventory stand in {rack}, and the record has no such rack; it has {racks}",
        f"correct gpufleet_rack of those hosts, or have the room's owner add {rack} to the record and sign it again",
        measured=(Measure("racks in the record", len(record.racks), "count"),),
        expected=(Expectation("rack", "is in the record", rack, Basis.INVENTORY),),
        evidence=observed.rack_evidence(rack),
    )


def _judge_rack(
    budget: Budget, answer: Answer, skus: list[str], rack: str, record: FacilityRecord, observed: FacilityObservation
) -> Outcome:
    context, quantity = answer.context, budget.quantity
    try:
        load = rack_load(quantity, skus, context.hardware, budget.allowed(observed.settings.allowance(rack)))
    except (InputError, NotFoundError) as error:
        cause = "sku-unknown" if isinstance(error, NotFoundError) else "fact-not-known"
        return answer.unknown(
            cause, f"{error.subject}: {error.reason}", error.hint, evidence=observed.rack_evidence(rack)
        )
    return _compared(budget, answer, load, budget.granted(record.racks[rack]), observed)


def _partly(quantity: Quantity, load: Load, granted: float) -> str:
    return (
        f"the rack is not full, and only a full one is specified: it will {quantity.verb} between "
        f"{number(load.least)} (the share of its trays) and {number(load.value)} {quantity.unit} (the whole rack); the "
        f"record grants {number(granted)} {quantity.unit}"
    )


def _state(quantity: Quantity) -> str:
    return (
        f"state {quantity.stated_as} of one tray in a hardware file of your own and what the rack's switches take in "
        "switch_allowance, or accept the result after a look at the vendor's figures"
    )


def _compared(budget: Budget, answer: Answer, load: Load, granted: float, observed: FacilityObservation) -> Outcome:
    quantity = budget.quantity
    left = granted - load.value
    # Half a gram or half a watt proves nothing: it is the rounding of decimal fractions.
    over = left < -_ROUNDING
    gap = f"{number(abs(left))} {quantity.unit} {'over' if over else 'left'}"
    arithmetic = f"{load.arithmetic}; record grants {number(granted)} {quantity.unit}; {gap}"
    measured = (Measure(f"{quantity.name} of the rack", load.value, quantity.unit),)
    expected = (Expectation(budget.field, "<=", granted, Basis.RECORD, quantity.unit, arithmetic),)
    details = {"measured": measured, "expected": expected, "evidence": observed.rack_evidence(answer.subject.name)}
    if not over:
        return answer.passed(arithmetic, **details)
    if granted - load.least >= -_ROUNDING:
        return answer.marginal(PARTIAL_RACK, _partly(quantity, load, granted), _state(quantity), **details)
    return answer.failed(
        OVER_BUDGET,
        arithmetic,
        f"move hosts out of {answer.subject.name}, or have the room's owner raise {budget.field} and sign again",
        **details,
    )
