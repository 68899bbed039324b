# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Reads YAML (and so JSON) strictly into dataclasses: no guess, no conversion, and every problem is listed."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar

from ..outcome.codec import Misfit, MisfitsError, structure
from ..outcome.errors import InputError, ProblemsError
from ..outcome.wording import first_of
from .foreign_yaml import PlainYamlError, documents, kubernetes_loader, parser

T = TypeVar("T")
# Similarity of two words that differ by a letter or two.
_ALMOST = 0.9
# A longer list of known words is shortened to its beginning.
_LISTED, _SHOWN = 40, 8


def parse_yaml(text: str, source: str) -> Any:
    """Return the one document of a YAML or JSON text. Dates stay text.

    Raises:
        InputError: not YAML, a key twice, a key that is not text, or more than one document.
    """
    found = parse_yaml_documents(text, source)
    if len(found) > 1:
        raise InputError(source, "not valid YAML: expected a single document in the stream.", "correct the file")
    return found[0] if found else None


def parse_yaml_documents(text: str, source: str) -> list[Any]:
    """Return every document of a YAML or JSON text. Dates stay text.

    Raises:
        InputError: not YAML, a key twice, or a key that is not text.
    """
    try:
        return documents(text, kubernetes_loader(strict=True))
    except PlainYamlError as error:
        where = f"{source}:{error.line}" if error.line else source
        raise InputError(where, f"not valid YAML: {error.said}.", "correct the file") from None
    except ValueError as error:
        raise InputError(source, f"not valid YAML: {error}.", "correct the file") from None


def read_yaml(path: Path) -> Any:
    """Return the one document of a YAML or JSON file (see parse_yaml).

    Raises:
        InputError: the file cannot be read or is not YAML.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(str(path), f"cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise InputError(str(path), "not UTF-8 text.") from None
    return parse_yaml(text, str(path))


def nearest_hint(word: str, known: Iterable[str], intro: str = "did you mean") -> str:
    """Return `did you mean 'x' or 'y'?`. If no known word is near, return the list of known words."""
    choices = sorted(known)
    near = nearest(word, choices)
    if near:
        return f"{intro} {' or '.join(repr(name) for name in near)}?"
    shown = first_of(choices, _SHOWN) if len(choices) > _LISTED else ", ".join(choices)
    return f"known: {shown}" if choices else "nothing is known here"


def nearest(word: str, known: Iterable[str]) -> list[str]:
    """Return up to three known words near a word, the nearest first.

    Of names that differ only in their number (gpu99, gpu08) only those count that differ in a single digit. If some are
    almost the word, only those are returned. A name that is the word with other leading zeros (gpu2, gpu02) is the one.
    """
    from difflib import SequenceMatcher, get_close_matches

    same = [name for name in sorted(known) if _without_zeros(name) == _without_zeros(word)]
    if same:
        return same
    fitting = [name for name in sorted(known) if not _other_number(word, name)]
    near = get_close_matches(word, fitting, n=3, cutoff=0.55)
    ratios = [SequenceMatcher(None, name, word).ratio() for name in near]
    return [name for name, ratio in zip(near, ratios, strict=True) if ratios[0] < _ALMOST or ratio >= _ALMOST]


def _without_zeros(word: str) -> str:
    return re.sub(r"0+(?=\d)", "", word)


def _other_number(word: str, name: str) -> bool:
    if len(word) != len(name):
        return False
    differing = [pair for pair in zip(word, name, strict=True) if pair[0] != pair[1]]
    return len(differing) > 1 and all(one.isdigit() and other.isdigit() for one, other in differing)


def decode(kind: type[T], data: Any, source: str) -> T:
    """Return plain data that a person wrote as that type, without guesses and conversions.

    Raises:
        ProblemsError: every unknown key (with the nearest known one), missing field and wrong type, and whatever the
            value's own check refused.
    """
    try:
        return structure(kind, data, finite=True)
    except MisfitsError as error:
        raise ProblemsError(source, tuple(_problem(source, misfit) for misfit in error.misfits)) from None


def decode_file(kind: type[T], path: Path) -> T:
    """Return the one document of a YAML file as that type. Every problem names the line.

    Raises:
        InputError: the file cannot be read or is not YAML.
        ProblemsError: see decode.
    """
    data = read_yaml(path)
    try:
        return structure(kind, data, finite=True)
    except MisfitsError as error:
        lines = _lines(path.read_text(encoding="utf-8"))
        problems = (_problem(f"{path}:{_line(lines, misfit)}", misfit) for misfit in error.misfits)
        raise ProblemsError(str(path), tuple(problems)) from None


def _line(lines: dict[str, int], misfit: Misfit) -> int:
    """Return the line of a place, or of the nearest existing place around it."""
    path = misfit.path.lstrip(".")
    if misfit.word and f"{path}.{misfit.word}".lstrip(".") in lines:
        return lines[f"{path}.{misfit.word}".lstrip(".")]
    while path and path not in lines:
        path = path[: max(path.rfind("."), path.rfind("["), 0)]
    return lines.get(path, 1)


def _lines(text: str) -> dict[str, int]:
    """Return the line, from 1, of every place of a document, by its path (`a.b[0].c`)."""
    import yaml

    found: dict[str, int] = {}
    open_nodes = [("", yaml.compose(text, Loader=parser()))]
    while open_nodes:
        place, node = open_nodes.pop()
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                here = f"{place}.{key.value}".lstrip(".")
                found[here] = key.start_mark.line + 1
                open_nodes.append((here, value))
        elif isinstance(node, yaml.SequenceNode):
            for index, value in enumerate(node.value):
                found[f"{place}[{index}]"] = value.start_mark.line + 1
                open_nodes.append((f"{place}[{index}]", value))
    return found


def _problem(source: str, misfit: Misfit) -> InputError:
    path = misfit.path.lstrip(".")
    hint = nearest_hint(misfit.word, misfit.known) if misfit.known else misfit.hint
    if not hint and misfit.reason.startswith("is "):
        hint = "correct the value"
    return InputError(f"{source}: {path}" if path else source, misfit.reason, hint)
