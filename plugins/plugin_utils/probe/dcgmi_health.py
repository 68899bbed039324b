# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Parser of `dcgmi health -c -j`: what DCGM's watches have found since they were set.

dcgmi prints every JSON as `body`, in which a row has a `value`, or `children` by name (NVIDIA/DCGM, dcgmi).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from .json_output import an_object, read_json
from .text import unreadable

TOOL = "dcgmi health -c -j"
_OVERALL = "Overall Health"
_TITLE = "Health Monitor Report"
_KNOWN = ("Healthy", "Warning", "Failure")
_DEEPEST = 12


@dataclass(frozen=True, slots=True)
class HealthLine:
    """One line of the report below the overall health: `place` such as `GPU / 0 / Errors`."""

    place: str
    text: str


@dataclass(frozen=True, slots=True)
class DcgmHealth:
    """The report; `overall` is Healthy, Warning or Failure."""

    overall: str
    lines: tuple[HealthLine, ...] = ()


def parse(text: str) -> DcgmHealth:
    """Return the report; text before the first brace is ignored.

    Raises:
        InputError: no JSON object, another report, or a health that nobody knows.
    """
    start = max(text.find("{"), 0)
    root = an_object(read_json(text[start:], TOOL), TOOL, "the document")
    header = root.get("header")
    if not isinstance(header, list) or _TITLE not in header:
        raise unreadable(TOOL, f"header {header!r}", f"`{_TITLE}`")
    body = an_object(root.get("body"), TOOL, "body")
    overall = an_object(body.get(_OVERALL), TOOL, _OVERALL).get("value")
    if overall not in _KNOWN:
        raise unreadable(TOOL, f"{_OVERALL} {overall!r}", ", ".join(_KNOWN))
    lines = (line for name, value in body.items() if name != _OVERALL for line in _lines(name, value, 0))
    return DcgmHealth(str(overall), tuple(lines))


def _lines(place: str, value: Any, depth: int) -> Iterator[HealthLine]:
    if depth > _DEEPEST:
        raise unreadable(TOOL, f"more than {_DEEPEST} levels", "a report of GPUs and switches")
    entry = an_object(value, TOOL, place)
    said = entry.get("value")
    if said is not None and str(said).strip():
        yield HealthLine(place, str(said).strip()[:400])
    for name, child in an_object(entry.get("children", {}), TOOL, f"children of {place}").items():
        yield from _lines(f"{place} / {name}", child, depth + 1)
