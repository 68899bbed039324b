# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The journal of a roll: its plan and every step, a line each, on the disk before the next step begins.

Append-only, so a controller that dies at any moment leaves every line that it had acknowledged; a line that it did not
finish has no newline, was never acknowledged, and is cut off by who writes next.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..outcome.codec import from_plain, to_plain
from ..outcome.errors import InputError, NotFoundError, UnavailableError
from ..runtime.clock import now_utc
from ..runtime.files import file_mode, make_dirs, write_atomic, writing
from .decide import after, replay
from .model import Event, NodeState, Plan, Policy

SCHEMA = 1


class Journal:
    """The file of one roll. `plan` and `policy` are those with which it was begun; `states` follow from its events."""

    def __init__(self, path: Path, run_id: str = "") -> None:
        """Read the journal.

        Raises:
            NotFoundError: there is none.
            InputError: it is not one, or a line of it is spoiled.
        """
        self.path, self._run_id = path, run_id
        self._whole, lines = _lines(path)
        head, *events = (_decoded(line, f"{path}, line {number}") for number, line in enumerate(lines, 1))
        if head.get("schema_version") != SCHEMA or not isinstance(head.get("roll"), str):
            raise InputError(str(path), f"is no journal of schema {SCHEMA}.", "start a roll of another name")
        self.roll: str = head["roll"]
        self.plan = from_plain(Plan, head.get("plan"), str(path))
        self.policy = from_plain(Policy, head.get("policy"), str(path))
        self.events = [from_plain(Event, plain, f"{path}, line {n}") for n, plain in enumerate(events, 2)]
        self.states: dict[str, NodeState] = replay(self.plan, self.events)

    @classmethod
    def begin(cls, path: Path, roll: str, plan: Plan, policy: Policy, run_id: str = "") -> Journal:
        """Write the journal of a new roll and return it.

        Raises:
            InputError: there is one already.
            UnavailableError: it cannot be written.
        """
        if path.exists():
            raise InputError(str(path), "is there already.", "resume that roll, or give this one another name")
        head = {"schema_version": SCHEMA, "roll": roll, "plan": to_plain(plan), "policy": to_plain(policy)}
        write_atomic(path, json.dumps(head, sort_keys=True) + "\n")
        return cls(path, run_id)

    def add(self, event: Event) -> None:
        """Keep a step; when this returns it is on the disk.

        Raises:
            InputError: it cannot follow.
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
    """Keep other processes of this controller from working on the roll meanwhile.

    Raises:
        UnavailableError: another one does.
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
