# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a chart reads a value, by rendering: with it, without it, and with another one in its place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.helm.helm import HelmError
from tools.chart_files import Path_
from tools.chart_objects import objects_of, steady

_WORD = "gpufleet-probe"
# What a path may take that no recipe sets: what it is says no one, so one of these has to change something.
_ANY = ({_WORD: _WORD}, [{"key": _WORD, "operator": "Exists"}], _WORD, True, False, 17)
_ABSENT = object()


class Probe:
    """Renders one set of values again and again; two renderings of the same are taken first, for what is made anew."""

    def __init__(self, render: Callable[[Mapping[str, Any]], str], values: Mapping[str, Any]) -> None:
        """Keep both; nothing is rendered yet."""
        self._render, self._values = render, values
        self._base: tuple[Any, Any] | None = None

    def reads(self, path: Path_) -> bool:
        """Tell whether another value at a path, or none, renders to something else.

        Raises:
            HelmError: the values themselves do not render.
        """
        there = _at(self._values, path)
        tried = _ANY if there is _ABSENT else (_ABSENT, *_others(there))
        return any(self._differs(_put(self._values, path, value)) for value in tried)

    def _differs(self, values: Mapping[str, Any]) -> bool:
        if self._base is None:
            first = objects_of(self._render(self._values))
            self._base = first, steady(first, objects_of(self._render(self._values)))
        first, usual = self._base
        try:
            return bool(steady(first, objects_of(self._render(values))) != usual)
        except HelmError as error:
            # What stops a template was read. A schema that knows no such key says so.
            return "Additional property" not in f"{error.reason} {error.evidence}"


def _others(value: Any) -> Iterator[Any]:
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int | float):
        yield value + 1
    elif isinstance(value, str):
        yield f"{value}-{_WORD}"
    elif isinstance(value, list):
        yield [*value, *(value[:1] or [_WORD])]
    else:
        yield from _ANY


def _at(values: Any, path: Path_) -> Any:
    for step in path:
        if not isinstance(values, Mapping) or step not in values:
            return _ABSENT
        values = values[step]
    return values


def _put(values: Any, path: Path_, value: Any) -> dict[str, Any]:
    below = dict(values) if isinstance(values, Mapping) else {}
    if path[1:]:
        below[path[0]] = _put(below.get(path[0]), path[1:], value)
    elif value is _ABSENT:
        below.pop(path[0], None)
    else:
        below[path[0]] = value
    return below
