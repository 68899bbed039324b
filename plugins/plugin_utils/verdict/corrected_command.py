# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A command that was refused, as it can be typed again: without the words that the problem is about. Pure."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..outcome.gates import GATE_IDS
from ..runtime.shell_words import shell_word

_GATES = "gpufleet_gates"
_PLACE = "<...>"
# What a rehearsal broke: the run again, of a cluster that was mended, is to pass.
_FAULTS = "gpufleet_rehearsal_faults"


def without_mistakes(command: str, problem: str) -> str:
    """Return the command with each word that the problem is about corrected, left out, or replaced by a place.

    A name that was misspelled is corrected. A variable stays with a place for its value: a run without it may be about
    more than what was meant, and a shell refuses the place. Tags become the gates that they name.
    """
    pairs = _pairs(command)
    if pairs is None:
        return command
    # Two mistakes may have been about the same: tags, and the variable that is meant instead.
    parts: list[str] = []
    for option, value in pairs:
        part = " ".join(_corrected(option, value, problem))
        if part and not (part.startswith("-e ") and part in parts):
            parts.append(part)
    return " ".join(parts)


def without_faults(command: str) -> str:
    """Return the command without what it broke in a rehearsal."""
    pairs = _pairs(command)
    if pairs is None:
        return command
    kept = []
    for option, value in pairs:
        extra = option in ("-e", "--extra-vars")
        found = _mapping(value) if extra else None
        if found is not None and _FAULTS in found:
            rest = {name: item for name, item in found.items() if name != _FAULTS}
            kept += [option, shell_word(json.dumps(rest))] if rest else []
        elif not (extra and value.startswith(f"{_FAULTS}=")):
            kept += _words(option, value)
    return " ".join(kept)


def _pairs(command: str) -> list[tuple[str, str]] | None:
    """Return the words: each option that can be mistaken with its value, all others with an empty one."""
    try:
        words = shlex.split(command)
    except ValueError:
        return None
    pairs: list[tuple[str, str]] = []
    while words:
        word = words.pop(0)
        option, equals, value = word.partition("=")
        if option in _OPTIONS and equals:
            pairs.append((option, value))
        elif word in _OPTIONS and words:
            pairs.append((word, words.pop(0)))
        else:
            pairs.append((word, ""))
    return pairs


def _mapping(text: str) -> dict[str, Any] | None:
    """Return a mapping of JSON; what is shown without its secrets may be none any more."""
    try:
        found: Any = json.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _words(option: str, value: str) -> list[str]:
    return [shell_word(option), *([shell_word(value)] if value else [])]


def _corrected(option: str, value: str, problem: str) -> Sequence[str]:
    correct = _OPTIONS.get(option)
    return _words(option, value) if correct is None or not value else list(correct(option, value, problem))


def _about(option: str, problem: str) -> bool:
    """Tell whether a problem of the list is about this option: its subject begins with it."""
    return bool(re.search(rf"(?:^|\n\s*\d+\. ){re.escape(option)} ", problem))


def _extra(option: str, value: str, problem: str) -> Iterator[str]:
    if value.startswith("{"):
        mapping = _mapping(value)
        yield from _structured(option, mapping, problem) if mapping is not None else _words(option, value)
        return
    name, equals, quoted = value.partition("=")
    if not (name.startswith("gpufleet_") and equals and quoted):
        yield from _words(option, value)
        return
    found = _name(name, problem)
    if found == name and _wrong(name, quoted.strip("'\""), problem):
        yield from (option, f"{name}={_PLACE}")
    elif found:
        yield from _words(option, f"{found}={quoted}")


def _structured(option: str, found: dict[str, Any], problem: str) -> Iterator[str]:
    right = {name: value for name, value in found.items() if not _wrong(name, json.dumps(value), problem)}
    named = {_name(name, problem): value for name, value in found.items() if name in right or _unknown(name, problem)}
    named.pop("", None)
    if named:
        yield from _words(option, json.dumps(named))
    for name in found:
        if name not in right and not _unknown(name, problem):
            yield from (option, f"{name}={_PLACE}")


def _unknown(name: str, problem: str) -> str:
    """Return what follows in the problem that nothing reads this name, empty if that is not the problem."""
    found = re.search(rf"\b{name}: is no variable of this collection(.*)", problem)
    return found[1] if found else ""


def _name(name: str, problem: str) -> str:
    """Return the name; one that nothing reads as it was meant, empty where that is not known."""
    rest = _unknown(name, problem)
    meant = re.search(r"did you mean (gpufleet_\w+)\?", rest)
    return name if not rest else meant[1] if meant else ""


def _wrong(name: str, value: str, problem: str) -> bool:
    """Tell whether the problem is about a value: it is quoted there, a path may stand alone, its name may."""
    # Options of checks are reported by where they end up.
    checks = re.findall(r"([\w-]+)\.[\w.-]+\s*=", value) if name == "gpufleet_set" else []
    # An option is refused with the variable that does what it was to do.
    problem = re.sub(r"(?m)^(\s*\d+\. )?--.*$", "", problem)
    about = f"'{value}'" in problem or ("/" in value and value in problem)
    return (
        about
        or any(f"gpufleet_settings.{check}" in problem for check in checks)
        or bool(re.search(rf"\b{re.escape(name)}\b", problem))
    )


def _tags(option: str, value: str, problem: str) -> Iterator[str]:
    tags = value.split(",")
    if not _about("--tags", problem):
        yield from _words(option, value)
    elif "plan" in tags:
        yield from _words(option, "plan")
    else:
        gates = [tag for tag in tags if tag in GATE_IDS]
        yield from ("-e", f"{_GATES}={','.join(gates) or _PLACE}")


def _skipped(option: str, value: str, problem: str) -> Iterator[str]:
    left = [gate for gate in GATE_IDS if gate not in value.split(",")]
    if not _about("--skip-tags", problem):
        yield from _words(option, value)
    elif len(left) < len(GATE_IDS):
        yield from ("-e", f"{_GATES}={','.join(left) or _PLACE}")


def _left_out(name: str) -> Callable[[str, str, str], Iterator[str]]:
    """Return what leaves an option out where the problem is about it."""

    def correct(option: str, value: str, problem: str) -> Iterator[str]:
        if not _about(name, problem):
            yield from _words(option, value)

    return correct


def _inventory(option: str, value: str, problem: str) -> Iterator[str]:
    meant = re.search(rf"-i {re.escape(value)}: does not exist.*?(?:did you mean -i (\S+)\?|$)", problem, re.MULTILINE)
    if meant is None:
        yield from _words(option, value)
    else:
        yield from (option, shell_word(meant[1]) if meant[1] else _PLACE)


_OPTIONS: dict[str, Callable[[str, str, str], Iterator[str]]] = {
    "-e": _extra, "--extra-vars": _extra, "-t": _tags, "--tags": _tags, "--skip-tags": _skipped,
    "-l": _left_out("--limit"), "--limit": _left_out("--limit"), "--start-at-task": _left_out("--start-at-task"),
    "-i": _inventory, "--inventory": _inventory,
}  # fmt: skip
