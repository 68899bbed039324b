# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Reads JSON output of a tool and checks its shape."""

from __future__ import annotations

import json
from typing import Any, NoReturn

from .text import document, unreadable

_MOST = 1e300


def read_json(output: str, tool: str) -> Any:
    """Return the JSON document that a tool printed.

    Raises:
        InputError: it is no JSON, or has a number that JSON does not allow (NaN).
    """

    def refuse(word: str) -> NoReturn:
        raise ValueError(word)

    try:
        return json.loads(document(output), parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise unreadable(tool, f"{output[:60]} ({str(error)[:80]})", "a whole JSON document") from None


def an_object(value: Any, tool: str, name: str) -> dict[str, Any]:
    """Return the value if it is an object.

    Raises:
        InputError: it is something else.
    """
    if not isinstance(value, dict):
        raise unreadable(tool, f"{name} is a {type(value).__name__}", f"an object for {name}")
    return value


def a_list(value: Any, tool: str, name: str) -> list[Any]:
    """Return the value if it is a list.

    Raises:
        InputError: it is something else.
    """
    if not isinstance(value, list):
        raise unreadable(tool, f"{name} is a {type(value).__name__}", f"a list for {name}")
    return value


def words(entry: dict[str, Any], name: str, tool: str) -> str:
    """Return a text of an object, empty if it is missing or null.

    Raises:
        InputError: it is no text.
    """
    value = entry.get(name)
    if value is not None and not isinstance(value, str):
        raise unreadable(tool, f"{name} is {value!r}"[:120], f"a text for {name}")
    return (value or "").strip()


def amount(entry: dict[str, Any], name: str, tool: str) -> float:
    """Return a number of an object.

    Raises:
        InputError: it is none.
    """
    value = entry.get(name)
    # JSON allows numbers that are too large for a float.
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not -_MOST <= value <= _MOST:
        raise unreadable(tool, f"{name} is {value!r}"[:120], f"a number for {name}")
    return float(value)
