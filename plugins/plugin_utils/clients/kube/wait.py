# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Waiting for many targets at once. Each is pending, ok or failed. One that failed for good ends the wait."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum

from ...outcome.errors import DeadlineError
from ...runtime.clock import Deadline, elapsed_text
from ...runtime.progress import Emit, Progress, silent

_SHARE = 15


class Phase(str, Enum):
    """State of one target."""

    PENDING = "pending"
    OK = "ok"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class State:
    """State of one target, with the reason. `cause` is the slug of the cause if it failed."""

    phase: Phase
    reason: str = ""
    cause: str = ""


OK = State(Phase.OK)


def pending(reason: str) -> State:
    """Return the state of a target that is not ready yet."""
    return State(Phase.PENDING, reason)


def failed(cause: str, reason: str) -> State:
    """Return the state of a target that cannot become ready any more."""
    return State(Phase.FAILED, reason, cause)


Read = Callable[[], Mapping[str, State]]


def wait_all(read: Read, deadline: Deadline, what: str, emit: Emit = silent, poll_s: float = 0.5) -> dict[str, State]:
    """Wait until all targets are ok or one failed for good, or until the deadline. Return their last states.

    Args:
        read: reads the state of every target, with the same names each time.
        deadline: when to stop.
        what: name of the whole, for the progress lines.
        emit: gets the progress lines.
        poll_s: first pause between two reads, in seconds; it grows with the time of the wait, to ten times that.
    """
    progress = Progress(emit)
    while True:
        states = dict(read())
        progress.tick(_line(what, states))
        open_phases = {state.phase for state in states.values()}
        if Phase.FAILED in open_phases or Phase.PENDING not in open_phases or deadline.left_s <= 0:
            return states
        # A series of waits loses half a pause at each. So a pause is a small share of the time that the wait has taken.
        pause_s = min(max(poll_s, (deadline.limit_s - deadline.left_s) / _SHARE), poll_s * 10)
        time.sleep(min(pause_s, deadline.left_s))


def _line(what: str, states: Mapping[str, State]) -> str:
    if len(states) == 1:
        state = next(iter(states.values()))
        return f"{what}: {'ready' if state.phase is Phase.OK else state.reason}"
    done = sum(state.phase is Phase.OK for state in states.values())
    slow = [f"{name}: {state.reason}" for name, state in states.items() if state.phase is not Phase.OK][:3]
    return f"{what}: {done} of {len(states)}" + (f"; {'; '.join(slow)}" if slow else "")


def until(condition: Callable[[], bool], deadline: Deadline, what: str, poll_s: float = 0.25) -> None:
    """Wait until a condition is true.

    Raises:
        DeadlineError: it is not true at the deadline.
    """
    pause_s = poll_s
    while not condition():
        if deadline.left_s <= 0:
            raise DeadlineError(
                what, f"not after {elapsed_text(deadline.limit_s)}.", "look at the objects and their finalizers"
            )
        time.sleep(min(pause_s, deadline.left_s))
        pause_s = min(pause_s * 1.3, 3.0)
