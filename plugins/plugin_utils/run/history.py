# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Recording a decided gate in the history. A problem there is only a warning: the verdict is saved already."""

from __future__ import annotations

import traceback

from ..check.registry import checks_of
from ..outcome.errors import BringupError, InputError
from ..outcome.gates import GATES
from ..outcome.model import Outcome, SubjectKind
from ..runtime.progress import Emit
from ..runtime.redaction import redact
from ..store.database import Place, place_of
from ..store.history import open_store
from ..store.records import Recorded
from ..verdict.gate import GateVerdict
from .decision import run_day
from .run import Run
from .site_state import collect_state

_OF_ONE_NODE = tuple(gate.id for gate in GATES if gate.asks_each_node)


def begin_history(run: Run, gate: str, store: str | None) -> None:
    """Record in the history that the gate begins to observe; without a history do nothing.

    The entry remains if the run is killed, or if the history is full or locked later.

    Raises:
        BringupError: the history cannot be written, so a failure that follows could not be recorded.
    """
    if store:
        open_store(place_of(store)).begin_gate(run.record, gate, run.site)


def record_history(
    run: Run, verdict: GateVerdict, store: str | None, emit: Emit, trace: Emit, *, converged: bool
) -> list[str]:
    """Record the gate and return warnings, none if it is recorded or there is no history.

    A gate that failed to converge was not observed: it is recorded without results. `trace` gets the traceback of a
    defect.
    """
    if not store:
        return []
    try:
        place = place_of(store)
        recorded = _record(run, verdict, place, converged=converged)
    except BringupError as error:
        return [_not_recorded(verdict, str(error), emit)]
    except Exception as crash:  # noqa: BLE001 - not even a defect here may change a verdict
        trace(traceback.format_exc())
        text = f"{type(crash).__name__}: {redact(str(crash))[:400]}; this is a defect, report it"
        return [_not_recorded(verdict, text, emit)]
    emit(f"history: {recorded.outcomes} results, {recorded.passes} passes in {place}")
    return []


def _record(run: Run, verdict: GateVerdict, place: Place, *, converged: bool) -> Recorded:
    outcomes = _outcomes(run, verdict.gate) if converged else ()
    store = open_store(place)
    state = collect_state(run, (verdict.gate,), run_day(run.record))
    return store.record_gate(run.record, verdict, outcomes, run.site, state, _counting(run, verdict.gate))


def _counting(run: Run, gate: str) -> frozenset[str] | None:
    """Return the checks whose passes count for later runs, None for all.

    In the proof of a wave only checks of a single node count. A comparison of hosts says nothing about hosts that were
    not in the wave, and a measurement between hosts depends on a fabric that a wave does not observe.
    """
    if not run.record.wave:
        return None
    alone = (check.spec for check in checks_of(gate, run.site) if gate in _OF_ONE_NODE)
    return frozenset(spec.id for spec in alone if spec.per is SubjectKind.NODE and not spec.compares)


def _outcomes(run: Run, gate: str) -> tuple[Outcome, ...]:
    try:
        return run.outcomes(gate)
    except InputError:
        # The verdict reports already that the results cannot be read, and is not a pass.
        return ()


def _not_recorded(verdict: GateVerdict, text: str, emit: Emit) -> str:
    line = f"gate {verdict.gate} is not in the history: {text}"
    emit(line)
    return line
