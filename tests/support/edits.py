# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Random edits of a saved run, as a hand would make them: a word, a number, a row, a file or a link, in any file."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Step = str | int
_WORDS = (
    "passed",
    "failed",
    "skipped",
    "pending",
    "other",
    "good",
    "bad",
    "",
    "gpu01",
    "rehearsal",
    "2099-01-01T00:00:00Z",
)
# What says most about a run is edited as often as all the rest.
_TOP = ("run.json", "site.json", "settings.json", "hardware.json", "recipe.json", "cabling.json", "cluster.json")


def edit_run(run_dir: Path, draw: random.Random) -> str:
    """Make one edit, and return what was done."""
    files = sorted(path for path in run_dir.rglob("*") if path.is_file())
    near = [path for path in files if (path.parent == run_dir and path.name in _TOP) or path.parent.name == "ctrf"]
    path = draw.choice(near if draw.random() < 0.6 else files)
    name = path.relative_to(run_dir)
    if draw.random() < 0.15:
        return f"{name}: {_of_file(path, files, draw)}"
    if path.suffix != ".json":
        return f"{name}: {_of_text(path, draw)}"
    document = json.loads(path.read_text("utf-8"))
    places = list(_places(document, ()))
    if not places:
        return f"{name}: {_of_file(path, files, draw)}"
    # Each depth alike: else nearly all would be numbers in the rows of results.
    depth = draw.choice(sorted({len(place) for place in places}))
    place = draw.choice([place for place in places if len(place) == depth])
    said = _changed(document, place, draw)
    path.write_text(json.dumps(document), encoding="utf-8")
    return f"{name}: {'/'.join(map(str, place))}: {said}"


def _of_file(path: Path, files: list[Path], draw: random.Random) -> str:
    how, other = draw.choice(("deleted", "emptied", "halved", "swapped", "link", "dangling link")), draw.choice(files)
    text = path.read_text("utf-8")
    if how == "emptied":
        path.write_text("", encoding="utf-8")
        return how
    if how == "halved":
        path.write_text(text[: len(text) // 2], encoding="utf-8")
        return how
    if how == "swapped":
        path.write_text(other.read_text("utf-8"), encoding="utf-8")
        return f"{how} for {other.name}"
    path.unlink()
    if how == "link" and other != path:
        path.symlink_to(other)
    elif how == "dangling link":
        path.symlink_to("nowhere.json")
    return how


def _of_text(path: Path, draw: random.Random) -> str:
    """Change a log or a table: a word or a number of a line, or the line."""
    lines = path.read_text("utf-8").splitlines(keepends=True)
    if not lines:
        return _of_file(path, [path], draw)
    row, how = draw.randrange(len(lines)), draw.choice(("word", "number", "delete", "twice", "head", "tail"))
    old = lines[row]
    parts = re.findall(r"\d+(?:\.\d+)?" if how == "number" else r"[A-Za-z_]+", old)
    if how in ("word", "number") and parts:
        part = draw.choice(parts)
        new = draw.choice(_WORDS) if how == "word" else str(draw.choice((0, 1, float(part) * 2, float(part) / 2)))
        lines[row] = old.replace(part, new, 1)
    elif how == "twice":
        lines.insert(row, old)
    elif how in ("head", "tail"):
        lines = lines[:row] if how == "head" else lines[row:]
    else:
        del lines[row]
    path.write_text("".join(lines), encoding="utf-8")
    return f"{how} of line {row + 1} {old[:60]!r}"


def _places(value: Any, path: tuple[Step, ...]) -> Iterator[tuple[Step, ...]]:
    if path:
        yield path
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, entry in entries:
        yield from _places(entry, (*path, step))


def _changed(document: Any, place: tuple[Step, ...], draw: random.Random) -> str:
    for step in place[:-1]:
        document = document[step]
    last, old = place[-1], document[place[-1]]
    how = draw.choice(("value", "value", "delete", "twice", "null"))
    if how == "delete":
        del document[last]
    elif how == "twice" and isinstance(document, list):
        document.insert(int(last), old)
    elif how == "null":
        document[last] = None
    else:
        document[last] = _another(old, draw)
    return f"{how} of {str(old)[:60]!r}"


def _another(old: Any, draw: random.Random) -> Any:
    if isinstance(old, bool):
        return not old
    if isinstance(old, (int, float)):
        return draw.choice((0, 1, -old, old * 2, old / 2, old + 1, str(old)))
    if isinstance(old, str):
        lines = old.splitlines(keepends=True)
        if len(lines) > 1:
            del lines[draw.randrange(len(lines))]
            return "".join(lines)
        return draw.choice(_WORDS)
    if old is None:
        return draw.choice((0, "", True, []))
    return draw.choice((type(old)(), old[: len(old) // 2] if isinstance(old, list) else dict(list(old.items())[::2])))
