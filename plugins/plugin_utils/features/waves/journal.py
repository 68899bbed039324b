# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The journal of a roll: its plan and every step, a line each, on the disk before the next step begins.

It is append-only, so a controller that dies at any moment leaves every line that it acknowledged. An unfinished line
has no newline and was never acknowledged; the next writer cuts it off.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from ...outcome.codec import from_plain, to_plain
from ...outcome.errors import InputError, NotFoundError, UnavailableError
from ...outcome.wording import count
from ...runtime.clock import moment_of, now_utc
from ...runtime.files import file_mode, make_dirs, write_atomic, writing
from .plan import FOLLOWS, NodeState, RollEvent, RollPlan, RollPolicy, Stage, nodes_of

# The state of the nodes of a roll after its events, and what comes next: another wave, the end, or a stop. Pure.

# How many waves get time to show a fault under load, canaries first.
_SOAKED = 3
States = Mapping[str, NodeState]


@dataclass(frozen=True, slots=True, kw_only=True)
class WaveDecision:
    """What comes next.

    Either `nodes` of `wave`, with `spared` those of it that are left as they are, and why. Or nothing, because all
    nodes have ended (`done`), or because of `stopped`.
    """

    wave: int = -1
    nodes: tuple[str, ...] = ()
    spared: dict[str, str] = field(default_factory=dict)
    done: bool = False
    stopped: str = ""


def replay(plan: RollPlan, events: Iterable[RollEvent]) -> dict[str, NodeState]:
    """Return the state of every node of the plan after these events.

    Raises:
        InputError: an event of a node that is not in the plan, or a step that cannot follow the one before it.
    """
    states = {place.node: NodeState() for place in plan.places}
    for event in events:
        states[event.node] = after(states.get(event.node), event)
    return states


def after(state: NodeState | None, event: RollEvent) -> NodeState:
    """Return the state of a node after an event.

    Raises:
        InputError: the node is not in the plan, or the step cannot follow.
    """
    if state is None:
        raise InputError(
            f"node {event.node}", "is not in the plan of this roll.", "start a roll of another name for it"
        )
    if event.stage not in FOLLOWS[state.stage]:
        raise InputError(
            f"node {event.node}",
            f"is {state.stage.value} and cannot become {event.stage.value}.",
            "the journal of the roll was changed by hand; start a roll of another name",
        )
    return NodeState(
        stage=event.stage, at=event.at, reason=event.reason, reboot=event.reboot, boot_id=event.boot_id,
        kernel=event.kernel, boots=event.boots,
    )  # fmt: skip


def next_wave(plan: RollPlan, states: States, policy: RollPolicy, now: str) -> WaveDecision:
    """Return what a roll does next.

    It goes on with the first wave that has a node that has not ended. Three conditions apply: after the wave of the
    canaries all of them came back, no more nodes are on hold than the budget allows, and enough of the site stays in
    service. A wave that is too large for the last condition loses its last nodes, which are spared. A node that is
    under way is always taken to its end, whatever the budget.

    `soak_h`: a change whose fault shows under load gets so many hours on the few nodes of the first waves. `now` is
    UTC.
    """
    for number, nodes in enumerate(plan.waves):
        left = tuple(node for node in nodes if not states[node].stage.ended)
        if not left:
            continue
        begun = tuple(node for node in left if states[node].stage.out)
        reason = _stop(plan, states, policy, canaries=number == 0) or _soaking(plan, states, policy, number, now)
        if reason:
            return WaveDecision(wave=number, nodes=begun, stopped="" if begun else reason)
        room = max(0, _room(plan, states, policy) - len(begun))
        fresh = [node for node in left if node not in begun]
        if not begun and not room:
            return WaveDecision(wave=number, stopped=_no_room(plan, states, policy))
        spared = {node: f"{_no_room(plan, states, policy)}; the wave is smaller by it" for node in fresh[room:]}
        return WaveDecision(wave=number, nodes=tuple(n for n in left if n not in spared), spared=spared)
    return WaveDecision(done=True)


def limits(plan: RollPlan, policy: RollPolicy) -> str:
    """Return the limits of a roll in nodes: how many may end on hold, and how many stay in service."""
    budget, keep = nodes_of(policy.budget, len(plan.places), "budget"), _kept(plan, policy)
    return (
        f"budget: {budget} of {len(plan.places)} nodes may end held ({policy.budget}), one more stops the roll; "
        f"keep: {keep} of {plan.site_nodes} nodes stay in service ({policy.keep})"
    )


def _kept(plan: RollPlan, policy: RollPolicy) -> int:
    return nodes_of(policy.keep, plan.site_nodes, "keep", up=True)


def _stop(plan: RollPlan, states: States, policy: RollPolicy, *, canaries: bool) -> str:
    """Return why no further node may be begun; empty if one may."""
    on_hold = [place.node for place in plan.places if states[place.node].stage is Stage.HELD]
    if not canaries:
        lost = [node for node in plan.waves[0] if states[node].stage is not Stage.RETURNED]
        if lost and plan.places[0].wave == 0:
            state = states[lost[0]]
            return f"canary {lost[0]} is {state.stage.value}: {state.reason or 'it did not come back'}"
    budget = nodes_of(policy.budget, len(plan.places), "budget")
    if len(on_hold) > budget:
        last = states[on_hold[-1]]
        many = f"{count(len(on_hold), 'node')} {'is' if len(on_hold) == 1 else 'are'} held"
        return f"{many}, the budget is {budget} ({policy.budget}); last {on_hold[-1]}: {last.reason}"
    return ""


def _soaking(plan: RollPlan, states: States, policy: RollPolicy, wave: int, now: str) -> str:
    """Return that the nodes of the previous wave have not been in service long enough; empty if they have."""
    if not policy.soak_h or not 1 <= wave <= _SOAKED:
        return ""
    back = [states[node].at for node in plan.waves[wave - 1] if states[node].stage is Stage.RETURNED]
    if not back:
        return ""
    until = moment_of(max(back)) + timedelta(hours=policy.soak_h)
    if moment_of(now) >= until:
        return ""
    return (
        f"the nodes of wave {wave - 1} work for {policy.soak_h:g} h first, until {until:%Y-%m-%d %H:%M} UTC: run the "
        "same command again then"
    )


def _room(plan: RollPlan, states: States, policy: RollPolicy) -> int:
    """Return how many nodes may be out of service beside those that are on hold."""
    on_hold = sum(state.stage is Stage.HELD for state in states.values())
    return plan.serving - _kept(plan, policy) - on_hold


def _no_room(plan: RollPlan, states: States, policy: RollPolicy) -> str:
    on_hold = sum(state.stage is Stage.HELD for state in states.values())
    keep = f"{_kept(plan, policy)} of {plan.site_nodes} nodes stay in service ({policy.keep})"
    return f"{keep}, {plan.serving} were, {on_hold} {'is' if on_hold == 1 else 'are'} held"


SCHEMA = 1


class Journal:
    """The file of one roll. `plan` and `policy` are those with which it was begun; `states` follow from its events."""

    def __init__(self, path: Path, run_id: str = "") -> None:
        """Read the journal.

        Raises:
            NotFoundError: there is none.
            InputError: the file is not a journal, or a line of it is damaged.
        """
        self.path, self._run_id = path, run_id
        self._whole, lines = _lines(path)
        head, *events = (_decoded(line, f"{path}, line {number}") for number, line in enumerate(lines, 1))
        if head.get("schema_version") != SCHEMA or not isinstance(head.get("roll"), str):
            raise InputError(str(path), f"is no journal of schema {SCHEMA}.", "start a roll of another name")
        self.roll: str = head["roll"]
        self.plan = from_plain(RollPlan, head.get("plan"), str(path))
        self.policy = from_plain(RollPolicy, head.get("policy"), str(path))
        self.events = [from_plain(RollEvent, plain, f"{path}, line {n}") for n, plain in enumerate(events, 2)]
        self.states: dict[str, NodeState] = replay(self.plan, self.events)

    @classmethod
    def begin(cls, path: Path, roll: str, plan: RollPlan, policy: RollPolicy, run_id: str = "") -> Journal:
        """Write the journal of a new roll and return it.

        Raises:
            InputError: the file exists already.
            UnavailableError: it cannot be written.
        """
        if path.exists():
            raise InputError(str(path), "is there already.", "resume that roll, or give this one another name")
        head = {"schema_version": SCHEMA, "roll": roll, "plan": to_plain(plan), "policy": to_plain(policy)}
        write_atomic(path, json.dumps(head, sort_keys=True) + "\n")
        return cls(path, run_id)

    def add(self, event: RollEvent) -> None:
        """Record a step; when this returns it is on the disk.

        Raises:
            InputError: it cannot follow the last step.
            UnavailableError: the file cannot be written.
        """
        kept = replace(event, at=event.at or now_utc(), run_id=event.run_id or self._run_id)
        state = after(self.states.get(kept.node), kept)
        line = (json.dumps(to_plain(kept), sort_keys=True) + "\n").encode()
        with writing(self.path), open(self.path, "r+b") as handle:
            handle.truncate(self._whole)
            handle.seek(self._whole)
            handle.write(line)
            handle.flush()
            os.fsync(handle.fileno())
        self._whole += len(line)
        self.events.append(kept)
        self.states[kept.node] = state


def _lines(path: Path) -> tuple[int, list[bytes]]:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise NotFoundError(str(path), "holds no roll.", "start it with playbook waves") from None
    except OSError as error:
        raise InputError(str(path), f"cannot be read: {error.strerror}.", f"ls -l '{path}'") from None
    whole = data.rfind(b"\n") + 1
    lines = data[:whole].splitlines()
    if not lines:
        raise InputError(str(path), "is empty.", "start a roll of another name")
    return whole, lines


def _decoded(line: bytes, where: str) -> dict[str, Any]:
    try:
        plain = json.loads(line)
    except ValueError:
        plain = None
    if not isinstance(plain, dict):
        raise InputError(where, "is spoiled: no JSON object.", "start a roll of another name; look at the disk")
    return plain


@contextmanager
def only_one(path: Path) -> Iterator[None]:
    """Hold the lock of the roll, so that no other process of this controller works on it meanwhile.

    Raises:
        UnavailableError: another process holds it.
    """
    lock = path.with_name(f".{path.name}.lock")
    with writing(lock):
        make_dirs(lock.parent)
        handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, file_mode(lock.parent))
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        text = "another process works on this roll."
        raise UnavailableError(str(path), text, f"wait for it, or look who it is: fuser '{lock}'") from None
    try:
        yield
    finally:
        os.close(handle)
