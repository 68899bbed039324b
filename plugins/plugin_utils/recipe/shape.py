# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Shapes of documents: what may be written where, and every difference found in one pass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .nearest import unknown_hint
from .yaml_text import Path


@dataclass(frozen=True, slots=True)
class Finding:
    """One difference between data and shape; `unknown_key` ones are only warnings in an upstream tree."""

    path: Path
    reason: str
    hint: str = ""
    unknown_key: bool = False


@dataclass(frozen=True, slots=True)
class Text:
    """A text; one of `choices` if any are given. A number or boolean is taken with the text that was written."""

    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Flag:
    """True or false."""


@dataclass(frozen=True, slots=True)
class Count:
    """A whole number, not negative."""


@dataclass(frozen=True, slots=True)
class Anything:
    """Any data."""


@dataclass(frozen=True, slots=True)
class AnyMapping:
    """A mapping whose keys are not ours to know (chart values)."""


@dataclass(frozen=True, slots=True)
class Items:
    """A list of one shape; `key` names the field that must be unique in it."""

    of: Any
    key: str = ""


@dataclass(frozen=True, slots=True)
class Named:
    """A mapping from names to one shape."""

    of: Any


@dataclass(frozen=True)
class Table:
    """A mapping with known keys. Not given and null are the same, except where `required`.

    `elsewhere` says of keys that people expect here how the same is written.
    """

    keys: Mapping[str, Any]
    required: tuple[str, ...] = ()
    elsewhere: Mapping[str, str] = field(default_factory=dict)


Shape = Text | Flag | Count | Anything | AnyMapping | Items | Named | Table


# Looked at in this order: a boolean is an int, too.
_WORDS: tuple[tuple[type, str], ...] = (
    (dict, "a mapping"),
    (list, "a list"),
    (str, "a text"),
    (bool, "true or false"),
    (int, "a number"),
    (float, "a number"),
)


def _called(value: Any) -> str:
    return next((word for kind, word in _WORDS if isinstance(value, kind)), "nothing")


class Checker:
    """Checks data against a shape; findings and the places where a text was written as a number are collected."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self.untexted: list[Path] = []

    def _wrong(self, path: Path, expected: str, value: Any) -> None:
        self.findings.append(Finding(path, f"{_dotted(path)} must be {expected}, found {_called(value)}."))

    def check(self, data: Any, shape: Shape, path: Path = ()) -> None:
        """Collect every difference between data and shape below a path."""
        if isinstance(shape, Table):
            self._check_table(data, shape, path)
        elif isinstance(shape, Items):
            self._check_items(data, shape, path)
        elif isinstance(shape, Text):
            self._check_text(data, shape, path)
        elif isinstance(shape, Named):
            self._check_named(data, shape, path)
        elif isinstance(shape, AnyMapping) and not isinstance(data, dict):
            self._wrong(path, "a mapping", data)
        elif isinstance(shape, Flag) and not isinstance(data, bool):
            self._wrong(path, "true or false", data)
        elif isinstance(shape, Count) and (not isinstance(data, int) or isinstance(data, bool) or data < 0):
            self._wrong(path, "a whole number, 0 or more", data)

    def _check_table(self, data: Any, shape: Table, path: Path) -> None:
        if not isinstance(data, dict):
            self._wrong(path, "a mapping", data)
            return
        for key, value in data.items():
            if key not in shape.keys:
                reason = f"{_dotted((*path, key))} is not a known key."
                hint = shape.elsewhere.get(key) or unknown_hint(key, shape.keys)
                self.findings.append(Finding((*path, key), reason, hint, unknown_key=True))
            elif value is not None:
                self.check(value, shape.keys[key], (*path, key))
        for key in shape.required:
            if data.get(key) is None or data[key] == "":
                self.findings.append(Finding(path, f"{_dotted((*path, key))} is missing."))

    def _check_items(self, data: Any, shape: Items, path: Path) -> None:
        if not isinstance(data, list):
            self._wrong(path, "a list", data)
            return
        seen: set[str] = set()
        for index, value in enumerate(data):
            self.check(value, shape.of, (*path, index))
            name = value.get(shape.key) if shape.key and isinstance(value, dict) else None
            if isinstance(name, str) and name in seen:
                self.findings.append(Finding((*path, index), f"{_dotted(path)} has {shape.key} {name!r} twice."))
            elif isinstance(name, str):
                seen.add(name)

    def _check_text(self, data: Any, shape: Text, path: Path) -> None:
        if isinstance(data, (bool, int, float)):
            self.untexted.append(path)
        elif not isinstance(data, str):
            self._wrong(path, "a text", data)
        elif shape.choices and data and data not in shape.choices:
            reason = f"{_dotted(path)} is {data!r}, which is not one of {', '.join(shape.choices)}."
            self.findings.append(Finding(path, reason, unknown_hint(data, shape.choices)))

    def _check_named(self, data: Any, shape: Named, path: Path) -> None:
        if not isinstance(data, dict):
            self._wrong(path, "a mapping", data)
            return
        for key, value in data.items():
            self.check(value, shape.of, (*path, key))


def _dotted(path: Path) -> str:
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else str(step)
    return text or "the document"
