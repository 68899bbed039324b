# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a roll did, as the verdict of its run: every node with its wave, how it ended, and why. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from ..fleet.journal import Journal
from ..fleet.model import Event, NodeState, Stage
from ..outcome.wording import first_of
from ..runtime.clock import elapsed_text, now_utc
from ..verdict.run import RunRecord
from ..verdict.work import Work, WorkRow

VERB = "roll"
_HEAD = ("node", "wave", "end", "took", "reason")
_WORDS = {Stage.PENDING: "not begun"}
_SHOWN = 3


def with_roll(record: RunRecord, journal: Journal, stopped: str = "") -> RunRecord:
    """Return the record with what its roll did so far; `stopped` says why it begins no further wave."""
    return replace(record, work=roll_work(journal, stopped, planned=record.check_mode), updated=now_utc())


def roll_work(journal: Journal, stopped: str = "", *, planned: bool = False) -> Work:
    """Return what the roll did; of one that is only `planned`, what it would do."""
    states, plan = journal.states, journal.plan
    stages = Counter(state.stage for state in states.values())
    good = bool(states) and stages[Stage.RETURNED] == len(states)
    took = _took(journal.events)
    why = {place.node: place.why for place in plan.places}
    rows = [
        _row(place.node, str(place.wave), states[place.node], took, why if planned else {}) for place in plan.places
    ]
    rows += [
        WorkRow(cells=(node, "-", "left out", "-", text), good=True) for node, text in sorted(plan.left_out.items())
    ]
    held = [node for node, state in states.items() if state.stage in (Stage.HELD, Stage.SPARED)]
    return Work(
        verb=f"{VERB} {journal.roll}",
        head=_HEAD,
        rows=tuple(rows),
        sentence=f"{len(states)} nodes in {len(plan.waves)} waves" if planned else _sentence(states, stages, stopped),
        passed=good,
        failed=not good,
        again=None if good or planned else f"gpufleet_wave_again={','.join(held)}" if held else "",
        next="" if good or planned else _next([n for n in held if states[n].stage is Stage.HELD]),
        counts={stage.value: stages[stage] for stage in Stage if stages[stage]},
    )


def _row(node: str, wave: str, state: NodeState, took: dict[str, float], planned: dict[str, str]) -> WorkRow:
    word = "planned" if planned else _WORDS.get(state.stage, state.stage.value)
    time = elapsed_text(took[node]) if node in took else "-"
    reason = state.reason or planned.get(node, "") or "-"
    return WorkRow(cells=(node, wave, word, time, reason), good=state.stage is Stage.RETURNED or bool(planned))


def _sentence(states: dict[str, NodeState], stages: Counter[Stage], stopped: str) -> str:
    parts = [f"{stages[Stage.RETURNED]} of {len(states)} nodes returned"]
    for stage in (Stage.HELD, Stage.SPARED):
        found = [f"{node} ({state.reason})" for node, state in states.items() if state.stage is stage]
        parts += [f"{stage.value}: {first_of(found, _SHOWN)}"] if found else []
    under_way = [node for node, state in states.items() if not state.stage.ended and state.stage is not Stage.PENDING]
    parts += [f"under way: {first_of(under_way, _SHOWN)}"] if under_way else []
    parts += [f"{stages[Stage.PENDING]} not begun"] if stages[Stage.PENDING] else []
    return "; ".join([*parts, *([f"stopped: {stopped}"] if stopped else [])])


def _next(held: list[str]) -> str:
    first = f"repair {first_of(held, _SHOWN)}, then begin these nodes again" if held else "go on with the roll"
    return f"{first}; -e gpufleet_wave_abort=true ends it in a known state"


def _took(events: Iterable[Event]) -> dict[str, float]:
    """Return by node how long it took from its first step to its last one, in seconds."""
    first: dict[str, datetime] = {}
    found: dict[str, float] = {}
    for event in events:
        try:
            at = datetime.fromisoformat(event.at.replace("Z", "+00:00"))
        except ValueError:
            continue
        found[event.node] = (at - first.setdefault(event.node, at)).total_seconds()
    return found
