# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Run the comparisons of a gate.

They are judged after the other checks of the gate, from their outcomes, and declared only where there is something to
compare with.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ...outcome.errors import BringupError
from ...outcome.gates import COMPARED_GATES
from ...outcome.model import Outcome
from ...runtime.redaction import redact
from ...verdict.gate import NotDeclared
from ..kit.answer import Answer
from ..spec import JudgeContext
from .model import Compared, Comparison


@dataclass(frozen=True, slots=True)
class ComparedGate:
    """The result of a gate's comparisons.

    Attributes:
        outcomes: what they found.
        declared: ids of the comparisons that apply.
        not_declared: those that do not apply, with the reason.
    """

    outcomes: tuple[Outcome, ...] = ()
    declared: tuple[str, ...] = ()
    not_declared: tuple[NotDeclared, ...] = ()


def compare_gate(gate: str, outcomes: Iterable[Outcome], context: JudgeContext) -> ComparedGate:
    """Compare the outcomes of a gate's other checks with baseline, contract and recipe.

    It is called twice: to make the results, and after they are read back, to verify that the file has what it must
    have.
    """
    if gate not in COMPARED_GATES:
        return ComparedGate()
    # Imported here, since most gates have no figures to compare and need none of these rules and limits.
    from .specs import comparisons_of

    own = {entry.spec.id for entry in comparisons_of(gate)}
    judged = tuple(outcome for outcome in outcomes if outcome.check not in own)
    found: list[Outcome] = []
    declared: list[str] = []
    left_out: list[NotDeclared] = []
    for entry in comparisons_of(gate):
        spec = entry.spec
        compared = _judged(entry, judged, context)
        if compared.reason:
            left_out.append(NotDeclared(id=spec.id, title=spec.title, reason=compared.reason))
            continue
        found += compared.outcomes
        declared.append(spec.id)
    return ComparedGate(tuple(found), tuple(declared), tuple(left_out))


def _judged(comparison: Comparison, outcomes: tuple[Outcome, ...], context: JudgeContext) -> Compared:
    answer = Answer.about_cluster(comparison.spec, context)
    try:
        return comparison.judge(comparison.spec, outcomes, context)
    except BringupError as error:
        return Compared((answer.unknown("not-judged", f"not known: {error.subject}: {error.reason}", error.hint),))
    except Exception as crash:  # noqa: BLE001 - a crashed judge must become `other`
        text = f"not known: it crashed with {type(crash).__name__}: {redact(str(crash))[:400]}."
        return Compared((answer.unknown("check-crashed", text, "this is a defect: report it with the run directory"),))
