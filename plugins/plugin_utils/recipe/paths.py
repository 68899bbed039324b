# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Dotted paths into plain data: `components.gpu-operator.values.driver.version`, quoted keys, list indices."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ..outcome.errors import InputError, NotFoundError
from .nearest import nearest

if TYPE_CHECKING:
    from .yaml_text import Path

# A key in quotes (with doubled quotes inside), an index in brackets, or a bare key up to the next dot or bracket.
_STEP = re.compile(r"""\.?(?:\["((?:[^"]|"")*)"\]|\['((?:[^']|'')*)'\]|\[([0-9]+)\]|"((?:[^"]|"")*)"|([^.\[\]"]+))""")


def parse_path(text: str) -> Path:
    """Return the steps of a dotted path. A leading dot is allowed. An empty path is the whole data.

    Raises:
        InputError: a step is empty or not closed.
    """
    rest = text.strip()
    if rest in ("", "."):
        return ()
    steps: list[str | int] = []
    position = 0
    while position < len(rest):
        match = _STEP.match(rest, position)
        if match is None or (match.group()[0] == "." and not match.group()[1:]):
            hint = 'Write keys with dots as "key.with.dots", indices as [0].'
            raise InputError(f"path {text!r}", f"cannot be read at character {position + 1}.", hint)
        steps.append(_step(match))
        position = match.end()
    return tuple(steps)


def _step(match: re.Match[str]) -> str | int:
    double, single, index, quoted, bare = match.groups()
    if index is not None:
        return int(index)
    for text, quote in ((double, '"'), (single, "'"), (quoted, '"')):
        if text is not None:
            return text.replace(quote * 2, quote)
    return str(bare)


def shown(path: Path) -> str:
    """Return a path as a text that parse_path can read."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif re.fullmatch(r"[^.\[\]\"'\s]+", step):
            text += f".{step}" if text else step
        else:
            quoted = step.replace('"', '""')
            text += f'["{quoted}"]'
    return text


def lookup(data: Any, path: Path) -> Any:
    """Return the value at a path.

    Raises:
        NotFoundError: there is none; the message lists what exists at that place.
    """
    current = data
    for number, step in enumerate(path):
        if isinstance(current, dict):
            if str(step) not in current:
                raise _missing(path, number, [str(key) for key in current])
            current = current[str(step)]
        elif isinstance(current, list):
            index = _index(step)
            if index is None or index >= len(current):
                raise _missing(path, number, [f"[{i}]" for i in range(len(current))])
            current = current[index]
        else:
            raise _missing(path, number, [])
    return current


def _index(step: str | int) -> int | None:
    if isinstance(step, int):
        return step
    return int(step) if step.isascii() and step.isdigit() else None


def _missing(path: Path, number: int, available: list[str]) -> NotFoundError:
    at = shown(path[:number]) or "the recipe"
    if not available:
        return NotFoundError(shown(path), f"{at} is a single value or empty; nothing lies below it.")
    near = nearest(str(path[number]), available)
    hint = f"Did you mean {shown((*path[:number], near))}?" if near else f"There is: {', '.join(available[:40])}."
    return NotFoundError(shown(path), f"{at} has no {path[number]!r}.", hint)


def leaves(data: Any, path: Path = (), *, scalar_lists: bool = False) -> Iterator[tuple[Path, Any]]:
    """Yield every value that has nothing below it, with its path. Empty mappings and lists are values.

    With `scalar_lists` a list of scalars is one value: an item inserted at its head changes one value, and not every
    item after it.
    """
    if isinstance(data, dict) and data:
        for key in sorted(data):
            yield from leaves(data[key], (*path, key), scalar_lists=scalar_lists)
    elif isinstance(data, list) and data and not (scalar_lists and _only_scalars(data)):
        for index, item in enumerate(data):
            yield from leaves(item, (*path, index), scalar_lists=scalar_lists)
    else:
        yield path, data


def _only_scalars(items: list[Any]) -> bool:
    return not any(isinstance(item, (dict, list)) for item in items)
