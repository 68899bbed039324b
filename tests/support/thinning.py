# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Takes single pieces out of the evidence of a saved run, and says what the judges make of the rest.

A piece is a file, a field or an entry of a JSON file, a line of a text, wherever the text stands. It is deleted, made
null, emptied or halved. Judging is pure and takes hundredths of a second, so that every piece can be tried.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect import host_facts
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.host_evidence import (
    DRIVERS,
    HOSTS,
    evidence_file,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import BringupError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Outcome, Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.rejudge import judged_again
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.run import Run

Step = str | int
# A text inside of a JSON document that is JSON itself, and a line of a text.
INSIDE, LINE = "(json)", "(line)"
_NUMBER = re.compile(r"0x[0-9a-fA-F]+|\d+(\.\d+)?")
# Whose gates a file of the evidence can be seen by; a file of a gate's own folder by that gate.
_SHARED = {
    "evidence/hosts": (
        "nodes", "gpu_stack", "telemetry", "fabric_validation", "training_acceptance", "inference_acceptance",
    ),
    "evidence/drivers": ("gpu_stack", "telemetry"),
    "cabling.json": ("fabric", "nodes", "fabric_validation"),
    "component_stack.json": ("gpu_stack", "telemetry"),
    "hardware.json": (),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Piece:
    """One thing to be done to one file: `path` leads to the place in it, empty for the whole file."""

    file: str
    path: tuple[Step, ...]
    how: str
    about: str = ""

    @property
    def kind(self) -> str:
        """What pieces of the same kind have in common: the same place without its numbers."""
        steps = [step for step in self.path if not isinstance(step, int)]
        text = f"{self.file}:{'/'.join(map(str, steps))}{f' {self.about}' if self.about else ''}"
        return f"{_NUMBER.sub('N', text)} {self.how}"

    @property
    def text(self) -> str:
        return f"{self.file}:{'/'.join(map(str, self.path))} {self.how}{f' ({self.about})' if self.about else ''}"


def pieces_of(run_dir: Path) -> Iterator[Piece]:
    """Return everything that can be taken out of the run's evidence."""
    for path in sorted(run_dir.rglob("*")):
        file = path.relative_to(run_dir).as_posix()
        if not path.is_file() or not file.startswith(("evidence/", "observations/", "cabling.json", "component_stack")):
            continue
        yield from (Piece(file, (), how) for how in ("delete", "empty", "halve"))
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".json":
            yield from _of_value(file, json.loads(text), ())
        else:
            yield from _of_lines(file, text, ())


def _of_value(file: str, value: Any, path: tuple[Step, ...]) -> Iterator[Piece]:
    if path and path[-1] != INSIDE:
        hows = ["delete"]
        hows += ["null"] if value is not None else []
        hows += ["empty"] if value not in (None, "", [], {}, 0, False) else []
        hows += ["halve"] if isinstance(value, (str, list, dict)) and len(value) > 1 else []
        yield from (Piece(file, path, how) for how in hows)
    if isinstance(value, dict):
        for key, entry in value.items():
            yield from _of_value(file, entry, (*path, key))
    elif isinstance(value, list):
        for number, entry in enumerate(value):
            yield from _of_value(file, entry, (*path, number))
    elif isinstance(value, str) and "\n" in value.strip():
        inner = _json_in(value)
        if inner is not None:
            yield from _of_value(file, inner, (*path, INSIDE))
        else:
            yield from _of_lines(file, value, path)


def _of_lines(file: str, text: str, path: tuple[Step, ...]) -> Iterator[Piece]:
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if line.strip():
            about = " ".join(line.split())[:60]
            yield from (Piece(file, (*path, LINE, number), how, about) for how in ("delete", "empty", "halve"))


def _json_in(text: str) -> Any:
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        return json.loads(text)
    except ValueError:
        return None


def without(text: str, piece: Piece, *, as_json: bool) -> str:
    """Return the text of a file without that piece; a whole file that is deleted is not a matter of its text."""
    if not piece.path:
        return "" if piece.how == "empty" else text[: len(text) // 2]
    if not as_json:
        return _changed_text(text, piece.path, piece.how)
    return json.dumps(_changed(json.loads(text), piece.path, piece.how))


def _changed(value: Any, path: tuple[Step, ...], how: str) -> Any:
    step, rest = path[0], path[1:]
    if step == INSIDE:
        return json.dumps(_changed(json.loads(value), rest, how))
    if step == LINE:
        return _changed_text(value, path, how)
    value = deepcopy(value) if not rest else (dict(value) if isinstance(value, dict) else list(value))
    if rest:
        value[step] = _changed(value[step], rest, how)
    elif how == "delete":
        del value[step]
    else:
        value[step] = _thinner(value[step], how)
    return value


def _thinner(value: Any, how: str) -> Any:
    if how == "null":
        return None
    if how == "empty":
        return type(value)()
    if isinstance(value, dict):
        return dict(list(value.items())[: len(value) // 2])
    return value[: len(value) // 2]


def _changed_text(text: str, path: tuple[Step, ...], how: str) -> str:
    lines, number = text.splitlines(keepends=True), int(path[1])
    line = lines[number]
    lines[number] = {"delete": "", "empty": "\n", "halve": line[: len(line) // 2] + "\n"}[how]
    return "".join(lines)


@dataclass(frozen=True, slots=True)
class Told:
    """What of an outcome a reader relies on."""

    status: Status
    said: str


Answers = dict[tuple[str, str], Told]
UNNOTICED = "unnoticed"


@contextmanager
def remembered_hosts() -> Iterator[None]:
    """Parse the files of a host that are as they were only once: all but one are, each time."""
    parse, known = host_facts.host_facts, dict[Any, Any]()

    def remembered(host: str, run_dir: Path, *more: Any) -> Any:
        files = [run_dir / evidence_file(host, kind) for kind in (HOSTS, DRIVERS)]
        key = (host, str(more), *(file.read_bytes() if file.is_file() else None for file in files))
        if key not in known:
            known[key] = parse(host, run_dir, *more)
        return known[key]

    host_facts.host_facts = remembered
    try:
        yield
    finally:
        host_facts.host_facts = parse


class Thinned:
    """A run of which one piece at a time is missing."""

    def __init__(self, run_dir: Path) -> None:
        self.run_dir = run_dir
        # What is not evidence is read once: site, hardware, settings, the recorded results.
        self._run = Run(run_dir)
        self.scope = self._run.record.scope
        self.whole = {gate: self.judged(gate) for gate in self.scope}

    def judged(self, gate: str) -> Answers:
        """Return what is said of every check and subject of a gate; one `other` where it cannot be judged at all."""
        try:
            outcomes = judged_again(self._run, gate)
        except BringupError as error:
            return {("gate", gate): Told(Status.OTHER, str(error))}
        return {(o.check, ",".join(s.name for s in o.subjects)): Told(o.status, _said(o)) for o in outcomes}

    def gates_of(self, file: str) -> tuple[str, ...]:
        """Return the gates that can see a file."""
        for start, gates in _SHARED.items():
            if file.startswith(start):
                return tuple(gate for gate in self.scope if gate in gates)
        return tuple(gate for gate in self.scope if f"/{gate}/" in file)

    def kept(self, piece: Piece) -> str:
        """Return how a pass outlived the loss of that piece, empty if every one that rested on it is gone."""
        path = self.run_dir / piece.file
        before = path.read_bytes()
        try:
            if not piece.path and piece.how == "delete":
                path.unlink()
            else:
                text = before.decode("utf-8")
                path.write_text(without(text, piece, as_json=path.suffix == ".json"), encoding="utf-8")
            now = {gate: self.judged(gate) for gate in self.gates_of(piece.file)}
        finally:
            path.write_bytes(before)
        return _outlived({gate: self.whole[gate] for gate in now}, now)


def _outlived(then: dict[str, Answers], now: dict[str, Answers]) -> str:
    """Return what still passes although a piece of what it rested on is gone; `unnoticed` where nothing changed.

    An answer that says something else and passes is no such one where another of its check no longer passes: hosts are
    compared, and the rest is then compared with fewer.
    """
    if then == now:
        return UNNOTICED
    still = []
    for gate, answers in now.items():
        lost = {key[0] for key in then[gate] if not _passed(answers.get(key)) and _passed(then[gate][key])}
        still += [
            f"{check} on {names}: {then[gate][check, names].said} -> {told.said}"
            for (check, names), told in answers.items()
            if _passed(told) and check not in lost and then[gate].get((check, names)) not in (None, told)
        ]
    return "; ".join(still[:3])


def _passed(told: Told | None) -> bool:
    return told is not None and told.status is Status.PASSED


def _said(outcome: Outcome) -> str:
    plain = replace(outcome, evidence=(), series=(), started="", duration_s=0.0)
    return f"{plain.summary} | {plain.measured} | {plain.expected}"
