# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Takes single pieces out of the evidence of a saved run: a file, a field or row of a document, a line of a text.

A piece is deleted, made null, emptied or halved. Only texts, lists and mappings can be emptied or halved: they then say
less. Numbers and flags are deleted and made null. Where that is asked for numbers of documents are made 0 and halved,
too: what contradicts the values beside it has to be noticed. One of many samples, or a time that is shown, is another
value then and as much evidence, which tests/data/thinning.yaml says of it. What says how much there is of something
does so beside it: a halved list of counts, hosts or series has to be noticed by what is missing. Documents are found
wherever they stand: in a file, a text, a line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Step = str | int
# A text inside of a JSON document that is JSON itself, and a line of a text.
INSIDE, LINE = "(json)", "(line)"
# Of numbers in documents: other values, and no less evidence.
_NUMBERS = ("zero", "half")
_STARTS = ("evidence/", "observations/", "cabling.json", "component_stack")
# What the run was judged by beside its evidence: digests tell that any of it is gone.
AT_THE_TOP = (
    "settings.json",
    "hardware.json",
    "site.json",
    "recipe.json",
    "cabling.json",
    "baseline.json",
    "cluster.json",
    "declared.json",
)
_NUMBER = re.compile(r"0x[0-9a-fA-F]+|\b(?=[a-f]*\d)[0-9a-f]{4,}\b|\d+(\.\d+)?")
# The state of the hosts is read around three gates, by the same tools.
_BRACKET = re.compile(r"^evidence/load/[a-z_]+/")


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
        file = _BRACKET.sub("evidence/load/GATE/", self.file)
        row = "[]" if len(self.path) > 1 and isinstance(self.path[-1], int) and self.path[-2] != LINE else ""
        text = f"{file}:{'/'.join(map(str, steps))}{row}{f' {self.about}' if self.about else ''}"
        return f"{_NUMBER.sub('N', text)} {self.how}"

    @property
    def text(self) -> str:
        return f"{self.file}:{'/'.join(map(str, self.path))} {self.how}{f' ({self.about})' if self.about else ''}"


def by_kind(pieces: Iterable[Piece]) -> dict[str, list[Piece]]:
    """Return pieces by their kind."""
    kinds: dict[str, list[Piece]] = {}
    for piece in pieces:
        kinds.setdefault(piece.kind, []).append(piece)
    return kinds


def pieces_of(
    run_dir: Path, places: Iterable[Path] = (), *, numbers: bool = False, starts: tuple[str, ...] = _STARTS
) -> Iterator[Piece]:
    """Return everything that can be taken out of the run's evidence, or of those files and folders of it.

    With `numbers` those of documents that are not 0 are made 0 and halved, too. `starts` are how the names of files
    begin that have pieces.
    """
    return (piece for piece in _all_pieces(run_dir, places, starts) if numbers or piece.how not in _NUMBERS)


def _all_pieces(run_dir: Path, places: Iterable[Path], starts: tuple[str, ...]) -> Iterator[Piece]:
    found = [path for place in places or (run_dir,) for path in (place, *place.rglob("*"))]
    for path in sorted(found):
        file = path.relative_to(run_dir).as_posix()
        if not path.is_file() or not file.startswith(starts):
            continue
        yield from (Piece(file, (), how) for how in ("delete", "empty", "halve"))
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".json":
            yield from _of_value(file, json.loads(text), ())
        else:
            yield from _of_lines(file, text, ())


def _of_value(file: str, value: Any, path: tuple[Step, ...], about: str = "") -> Iterator[Piece]:
    if path and path[-1] != INSIDE:
        hows = ["delete"]
        hows += ["null"] if value is not None else []
        hows += ["empty"] if value and isinstance(value, (str, list, dict)) else []
        hows += ["halve"] if isinstance(value, (str, list, dict)) and len(value) > 1 else []
        hows += _NUMBERS if value and isinstance(value, (int, float)) and not isinstance(value, bool) else ()
        yield from (Piece(file, path, how, about) for how in hows)
    if isinstance(value, dict):
        for key, entry in value.items():
            yield from _of_value(file, entry, (*path, key), about)
    elif isinstance(value, list):
        for number, entry in enumerate(value):
            yield from _of_value(file, entry, (*path, number), about)
    elif isinstance(value, str) and "\n" in value.strip():
        inner = _json_in(value)
        if inner is not None:
            yield from _of_value(file, inner, (*path, INSIDE), about)
        else:
            yield from _of_lines(file, value, path)


def _of_lines(file: str, text: str, path: tuple[Step, ...]) -> Iterator[Piece]:
    for number, line in enumerate(text.splitlines()):
        if not line.strip():
            continue
        place = (*path, LINE, number)
        inner = _json_in(line)
        event = str(inner.get("event") or "") if isinstance(inner, dict) else ""
        about = event or " ".join(line.split())[:60]
        yield from (Piece(file, place, how, about) for how in ("delete", "empty", "halve"))
        if inner is not None:
            yield from _of_value(file, inner, (*place, INSIDE), event)


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
    if how in _NUMBERS:
        return type(value)(value / 2 if how == "half" else 0)
    if how == "empty":
        return type(value)()
    if isinstance(value, dict):
        return dict(list(value.items())[: len(value) // 2])
    return value[: len(value) // 2]


def _changed_text(text: str, path: tuple[Step, ...], how: str) -> str:
    lines, number, rest = text.splitlines(keepends=True), int(path[1]), path[2:]
    line = lines[number]
    if rest:
        lines[number] = _changed(line, rest, how) + "\n"
    else:
        lines[number] = {"delete": "", "empty": "\n", "halve": line[: len(line) // 2] + "\n"}[how]
    return "".join(lines)
