# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Says what the judges make of a saved run of which a piece is missing (thinning.py)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import yaml
from thinning import Piece, without
from unread import is_unread

from ansible_collections.gpufleet.bringup.plugins.plugin_utils import probe
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect import host_facts
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.host_evidence import (
    DRIVERS,
    HOSTS,
    evidence_file,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.tool_reading import parser_place
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.judge.app import judged_again
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import BringupError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Outcome, Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.run import Run
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.host_tools import load_host_tools

DATA = Path(__file__).resolve().parent.parent / "data"
HEALTHY = DATA / "healthy_run.tar.xz"
# Whose gates a file of the evidence can be seen by; a file of a gate's own folder by that gate.
_SHARED = {
    "evidence/hosts": (
        "nodes", "gpu_stack", "telemetry", "fabric_validation", "training_acceptance", "inference_acceptance",
    ),
    "evidence/drivers": ("gpu_stack", "telemetry"),
    "cabling.json": ("fabric", "nodes", "fabric_validation"),
    "component_stack.json": ("gpu_stack", "telemetry"),
}  # fmt: skip
_PARSERS = "ansible_collections.gpufleet.bringup.plugins.plugin_utils.probe"


@dataclass(frozen=True, slots=True)
class Allowed:
    """Kinds of pieces that are no evidence, and why.

    `places`: only those at these places; `unread`: only those without which parsers say the same.
    """

    kinds: re.Pattern[str]
    reason: str
    places: re.Pattern[str] | None = None
    unread: bool = False

    def allows(self, run_dir: Path, piece: Piece) -> bool:
        """Whether it allows a piece of one of its kinds."""
        if self.places is not None and not self.places.match(piece.text):
            return False
        return not self.unread or is_unread(run_dir, piece)


def allowed_exceptions() -> tuple[Allowed, ...]:
    """Return the exceptions of thinning.yaml."""
    entries = yaml.safe_load((DATA / "thinning.yaml").read_text(encoding="utf-8"))["exceptions"]
    return tuple(
        Allowed(
            re.compile(entry["pieces"]),
            entry["reason"],
            places=re.compile(entry["places"]) if "places" in entry else None,
            unread=entry.get("unread", False),
        )
        for entry in entries
    )


def exceptions_for(kind: str, allowed: tuple[Allowed, ...]) -> tuple[Allowed, ...]:
    """Return the exceptions that a kind of pieces falls under."""
    return tuple(entry for entry in allowed if entry.kinds.fullmatch(kind))


def exception_for(run_dir: Path, piece: Piece, entries: tuple[Allowed, ...]) -> Allowed | None:
    """Return the first of the exceptions for its kind that allows a piece."""
    return next((entry for entry in entries if entry.allows(run_dir, piece)), None)


@dataclass(frozen=True, slots=True)
class Told:
    """What of an outcome a reader relies on; `read` is what it names as its evidence: file, and command."""

    status: Status
    said: str
    read: frozenset[tuple[str, str]] = frozenset()


Answers = dict[tuple[str, str], Told]
UNNOTICED = "unnoticed"


@contextmanager
def remembered() -> Iterator[None]:
    """Parse what is as it was only once: of a run all but one piece is, each time."""
    parse, known = host_facts.host_facts, dict[Any, Any]()

    def host(name: str, run_dir: Path, *more: Any) -> Any:
        files = [run_dir / evidence_file(name, kind) for kind in (HOSTS, DRIVERS)]
        key = (name, str(more), *(file.read_bytes() if file.is_file() else None for file in files))
        if key not in known:
            known[key] = parse(name, run_dir, *more)
        return known[key]

    modules = [f"{_PARSERS}.{entry.name}" for entry in iter_modules(probe.__path__)]
    places = {(name, "parse") for name in modules} | {parser_place(tool.parser) for tool in load_host_tools().tools}
    found = [(import_module(name), function) for name, function in sorted(places)]
    changed = [(module, name, getattr(module, name)) for module, name in found if hasattr(module, name)]
    host_facts.host_facts = host
    for module, name, function in changed:
        setattr(module, name, _cached(function))
    try:
        yield
    finally:
        host_facts.host_facts = parse
        for module, name, function in changed:
            setattr(module, name, function)


def _cached(function: Callable[..., Any]) -> Callable[..., Any]:
    return lru_cache(maxsize=64)(function)


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
        return {(o.check, ",".join(s.name for s in o.subjects)): _told(o) for o in outcomes}

    def gates_of(self, file: str) -> tuple[str, ...]:
        """Return the gates that can see a file."""
        for start, gates in _SHARED.items():
            if file.startswith(start):
                return tuple(gate for gate in self.scope if gate in gates)
        return tuple(gate for gate in self.scope if f"/{gate}/" in file)

    def kept(self, piece: Piece) -> str:
        """Return how a pass outlived the loss of that piece, empty if every one that rested on it is gone."""
        text = (self.run_dir / piece.file).read_text(encoding="utf-8")
        gone = not piece.path and piece.how == "delete"
        thin = None if gone else without(text, piece, as_json=piece.file.endswith(".json"))
        now = self.with_file(piece.file, thin)
        return _outlived({gate: self.whole[gate] for gate in now}, now, _named_by(piece))

    def with_file(self, file: str, text: str | None) -> dict[str, Answers]:
        """Return what the gates that see a file say if it has that text; None: if it is not there."""
        path = self.run_dir / file
        before = path.read_bytes()
        try:
            if text is None:
                path.unlink()
            else:
                path.write_text(text, encoding="utf-8")
            return {gate: self.judged(gate) for gate in self.gates_of(file)}
        finally:
            path.write_bytes(before)

    def still_passed(self, now: dict[str, Answers]) -> list[str]:
        """Return which answers passed before and pass now, as `<check> on <subjects>`."""
        return [
            f"{check} on {names}"
            for gate, answers in now.items()
            for (check, names), told in answers.items()
            if _passed(told) and _passed(self.whole[gate].get((check, names)))
        ]

    def with_change(self, file: str, change: Callable[[dict[str, Any]], None]) -> dict[str, Answers]:
        """Return what the gates that see a JSON file say after that change of it."""
        document = json.loads((self.run_dir / file).read_text(encoding="utf-8"))
        change(document)
        return self.with_file(file, json.dumps(document))


def _named_by(piece: Piece) -> Callable[[tuple[str, str]], bool]:
    """Return what tells whether a piece is all of a file, or all that a tool said, that an outcome names."""
    tools = {tool.name: tool for tool in load_host_tools().tools}
    place, whole = piece.path, not piece.path and piece.how in ("delete", "empty")
    named = tools.get(str(place[1]).removesuffix("_after")) if len(place) > 1 and place[0] == "tools" else None
    all_of_it = len(place) == 2 or (len(place) == 3 and place[2] in ("rc", "stdout") and piece.how != "halve")
    shown = named.shown if named is not None and all_of_it and not str(place[1]).endswith("_after") else None
    return lambda read: read[0] == piece.file and (whole or read[1] == shown)


def _outlived(then: dict[str, Answers], now: dict[str, Answers], named: Callable[[tuple[str, str]], bool]) -> str:
    """Return what still passes although a piece of what it rested on is gone; `unnoticed` where nothing changed.

    What an outcome names as its evidence it rests on. Beside that, an answer that says something else and passes rested
    on the piece, but where another of its check no longer passes: hosts are compared, and the rest with fewer.
    """
    if all(_alike(then[gate], answers) for gate, answers in now.items()):
        return UNNOTICED
    still = []
    for gate, answers in now.items():
        lost = {key[0] for key in then[gate] if not _passed(answers.get(key)) and _passed(then[gate][key])}
        for key, told in answers.items():
            before = then[gate].get(key)
            if not _passed(told) or before is None:
                continue
            if any(map(named, before.read)):
                still.append(f"{key[0]} on {key[1]} names it as its evidence")
            elif key[0] not in lost and told.said != before.said:
                still.append(f"{key[0]} on {key[1]}: {before.said} -> {told.said}")
    return "; ".join(still[:3])


def _alike(then: Answers, now: Answers) -> bool:
    return {key: (told.status, told.said) for key, told in then.items()} == {
        key: (told.status, told.said) for key, told in now.items()
    }


def _passed(told: Told | None) -> bool:
    return told is not None and told.status is Status.PASSED


def _told(outcome: Outcome) -> Told:
    plain = replace(outcome, evidence=(), series=(), started="", duration_s=0.0)
    read = frozenset((entry.path, entry.source) for entry in outcome.evidence if entry.path)
    return Told(outcome.status, f"{plain.summary} | {plain.measured} | {plain.expected}", read)
