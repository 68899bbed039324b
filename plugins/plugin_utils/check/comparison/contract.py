# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Compare the figures of a gate with the acceptance contract in the inventory. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from ...outcome.model import Basis, Expectation, Measure, Outcome, Status
from ...verdict.figures import Figure, FigureRule, figures_of, rules_of
from ..kit.answer import Answer
from ..spec import CheckSpec, JudgeContext
from .against_baseline import ContractSettings, nodes, place_of
from .model import Compared

_SHOWN = 5
_HINT = "the contract is not kept: read what the check of this figure says, and settle it with whoever owes the figure"


def judge(spec: CheckSpec, outcomes: tuple[Outcome, ...], context: JudgeContext) -> Compared:
    """Return whether the figures of the gate keep the contract.

    Without a bound for a figure of this gate: the reason why nothing is compared.
    """
    contract = context.settings_of(spec.id, ContractSettings)
    rules = rules_of(context.gate)
    bounds = {name: bound for name, bound in contract.bounds.items() if name in rules}
    if not bounds:
        return Compared(reason=f"needs a contract: gpufleet_settings.{spec.id}.bounds states no figure of this gate")
    figures = figures_of(context.gate, outcomes, place_of(context))
    reported: list[Outcome] = []
    kept: list[str] = []
    expected: list[Expectation] = []
    for name, bound in bounds.items():
        own = [figure for figure in figures if figure.figure == name]
        configured = _expectation(name, rules[name], bound, contract)
        expected.append(configured)
        wrong = _not_kept(spec, context, outcomes, own, configured, rules[name], contract.at.get(name, {}))
        reported += wrong
        if not wrong:
            worst = _worst(own, rules[name])
            kept.append(f"{rules[name].title} {worst.value:g} {worst.unit}, {_bound_words(configured)}")
    if reported:
        return Compared(outcomes=tuple(reported))
    text = "; ".join(kept)
    return Compared(outcomes=(Answer.about_cluster(spec, context).passed(text, expected=tuple(expected)),))


def _expectation(name: str, rule: FigureRule, bound: float, contract: ContractSettings) -> Expectation:
    relation = ">=" if rule.better == "higher" else "<="
    at = ", ".join(f"{word} {value}" for word, value in contract.at.get(name, {}).items())
    arithmetic = "; ".join(text for text in (contract.reference, f"at {at}" if at else "") if text)
    return Expectation(name, relation, bound, Basis.CONTRACT, rule.unit, arithmetic)


def _bound_words(configured: Expectation) -> str:
    word = "at least" if configured.relation == ">=" else "at most"
    return f"{word} {float(str(configured.value)):g} {configured.unit} is agreed"


def _not_kept(
    spec: CheckSpec,
    context: JudgeContext,
    outcomes: Sequence[Outcome],
    figures: Sequence[Figure],
    configured: Expectation,
    rule: FigureRule,
    at: dict[str, str],
) -> list[Outcome]:
    """Return what is wrong with one figure: bound missed, measured under other conditions, or not measured."""
    answer = Answer.about_cluster(spec, context)
    bound = float(str(configured.value))
    below = [
        figure for figure in figures if (figure.value < bound if rule.better == "higher" else figure.value > bound)
    ]
    found = []
    if below:
        worst = _worst(below, rule)
        text = f"{rule.title}: {worst.value:g} {worst.unit} on {worst.subject}, {_bound_words(configured)}"
        text += f"; {len(below)} of {len(figures)} figures miss it" if len(figures) > 1 else ""
        found.append(
            answer.failed(
                "contract-not-kept", text, _HINT,
                measured=tuple(Measure(f"{f.figure} of {f.subject}", f.value, f.unit) for f in below[:_SHOWN]),
                expected=(configured,), more_subjects=nodes(f.node for f in below),
            )
        )  # fmt: skip
    other = [f for f in figures if any(f.conditions.get(word) != value for word, value in at.items())]
    if other:
        words = ", ".join(f"{word} {other[0].conditions.get(word) or 'not known'}" for word in at)
        text = f"{rule.title} was measured at {words}; the contract says {configured.arithmetic}"
        found.append(
            answer.unknown(
                "contract-unmeasured", text, "measure under the conditions of the contract", expected=(configured,)
            )
        )
    return found or _without_figure(answer, outcomes, figures, configured, rule)


def _without_figure(
    answer: Answer, outcomes: Sequence[Outcome], figures: Sequence[Figure], configured: Expectation, rule: FigureRule
) -> list[Outcome]:
    own = [outcome for outcome in outcomes if outcome.check == rule.check]
    not_reporting = [o for o in own if not any(measure.name == rule.measure for measure in o.measured)]
    if any(outcome.status is not Status.PASSED for outcome in not_reporting):
        return [
            answer.blocked(by=rule.check, because=f"{rule.title} was not measured everywhere", expected=(configured,))
        ]
    if figures:
        return []
    text, hint = f"{rule.title} was not measured", f"read what check {rule.check} says of it"
    return [answer.unknown("contract-unmeasured", text, hint, expected=(configured,))]


def _worst(figures: Sequence[Figure], rule: FigureRule) -> Figure:
    pick = min if rule.better == "higher" else max
    return pick(figures, key=lambda figure: figure.value)
