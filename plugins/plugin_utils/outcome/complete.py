# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tells what saved data lacks of the value object that was saved: every field is written, so every field must be there.

Read by its default, a field that is gone would say that nothing was wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Generic, Union, get_args, get_origin, get_type_hints

from .codec import from_plain
from .errors import InputError

_Look = Callable[[Any, str], Iterator[str]]


def require_complete(kind: type[Any], data: Any, source: str, hint: str) -> None:
    """Refuse data that is not that value object, or lacks a field of it, also one that has a default.

    Raises:
        InputError: an unknown key, a wrong type, or the first field that is not there.
    """
    from_plain(kind, data, source)
    look: _Look = _look_into(kind)  # type: ignore[arg-type]  # a class is hashable, which type[Any] does not say
    lacking = next(look(data, ""), None)
    if lacking is not None:
        raise InputError(source, f"has no {lacking.lstrip('.')}, which is always written.", hint)


@cache
def _look_into(kind: Any) -> _Look:
    """Return what finds the fields that data of that type lacks, each by its path."""
    origin, inner = get_origin(kind), get_args(kind)
    whole = origin or kind
    if isinstance(whole, type) and is_dataclass(whole):
        hints, given = get_type_hints(whole), _given(kind, {})
        return _of_fields({entry.name: _filled(hints[entry.name], given) for entry in fields(whole) if entry.init})
    if origin in (Union, UnionType):
        others = [entry for entry in inner if entry is not NoneType]
        return _look_into(others[0]) if len(others) == 1 else _nothing
    if origin is tuple and inner[1:] == (...,):
        return _of_entries(_look_into(inner[0]), enumerate)
    if origin is dict:
        return _of_entries(_look_into(inner[1]), dict.items)
    return _nothing


def _given(kind: Any, outer: dict[Any, Any]) -> dict[Any, Any]:
    """Return by type variable what a class and its bases were given."""
    whole, inner = get_origin(kind) or kind, get_args(kind)
    found = dict(zip(getattr(whole, "__parameters__", ()), (_filled(entry, outer) for entry in inner), strict=False))
    for base in getattr(whole, "__orig_bases__", ()):
        if get_origin(base) is not Generic:
            found = _given(base, found) | found
    return found


def _filled(kind: Any, given: dict[Any, Any]) -> Any:
    """Return a type with what its class was given for type variables."""
    if kind in given:
        return given[kind]
    open_ones = getattr(kind, "__parameters__", ())
    return kind[tuple(given[entry] for entry in open_ones)] if open_ones else kind


def _nothing(_data: Any, _path: str) -> Iterator[str]:
    yield from ()


def _of_fields(kinds: dict[str, Any]) -> _Look:
    def look(data: Any, path: str) -> Iterator[str]:
        if data is None:
            return
        for name, kind in kinds.items():
            if name not in data:
                yield f"{path}.{name}"
            else:
                yield from _look_into(kind)(data[name], f"{path}.{name}")

    return look


def _of_entries(inner: _Look, entries: Callable[[Any], Any]) -> _Look:
    if inner is _nothing:
        return _nothing

    def look(data: Any, path: str) -> Iterator[str]:
        for place, entry in entries(data) if data is not None else ():
            yield from inner(entry, f"{path}[{place}]")

    return look
