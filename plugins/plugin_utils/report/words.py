# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Words for numbers: sizes, durations, names that follow each other. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

from ..outcome.model import Axis, Scalar

_NUMBERED = re.compile(r"(.*?)(\d+)")
_AT_SIZE = re.compile(r" at (\d+) B$")
_BINARY = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def number(value: Scalar) -> str:
    """Return a value with at most five significant digits, words as they are."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None or isinstance(value, str):
        return value or "none"
    if isinstance(value, int) or (math.isfinite(value) and value == int(value) and abs(value) < 1e15):
        return str(int(value))
    return f"{value:.5g}"


def size(count: float) -> str:
    """Return bytes in binary units: `64 KiB`, `8 GiB`."""
    step = 0
    while abs(count) >= 1024 and step < len(_BINARY) - 1:
        count, step = count / 1024, step + 1
    return f"{count:.3g} {_BINARY[step]}"


def with_unit(value: Scalar, unit: str) -> str:
    """Return the value with its unit; counts have none."""
    if unit == "B" and isinstance(value, (int, float)) and not isinstance(value, bool):
        return size(value)
    return f"{number(value)} {unit}".strip() if unit != "count" else number(value)


def tick(value: float, axis: Axis) -> str:
    """Return the label of a place on an axis."""
    return size(value) if axis.unit == "B" else number(value)


def measure_name(name: str) -> str:
    """Return the name of a measure with sizes in binary units: `busbw at 64 MiB`."""
    return _AT_SIZE.sub(lambda found: f" at {size(float(found[1]))}", name)


def axis_title(axis: Axis) -> str:
    """Return the title of an axis, with its unit where the ticks do not have it."""
    return axis.name if axis.unit in ("", "B", "count") else f"{axis.name} ({axis.unit})"


def compressed(names: Iterable[str], most: int = 12) -> str:
    """Return names with runs of numbers merged: `gpu001 to gpu400, gpu402`; beyond `most` runs only counted."""
    runs: list[list[str]] = []
    for name in names:
        if runs and _follows(runs[-1][-1], name):
            runs[-1].append(name)
        else:
            runs.append([name])
    left = sum(map(len, runs[most:]))
    return ", ".join(map(_reported, runs[:most])) + (f" and {left} more" if left else "")


def _follows(left: str, right: str) -> bool:
    one, two = _NUMBERED.fullmatch(left), _NUMBERED.fullmatch(right)
    return bool(one and two) and one[1] == two[1] and int(two[2]) == int(one[2]) + 1  # type: ignore[index]


def _reported(run: list[str]) -> str:
    return ", ".join(run) if len(run) < 3 else f"{run[0]} to {run[-1]}"
