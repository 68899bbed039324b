# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What RETURN of a module says, and where a value or a type is not as it says."""

from __future__ import annotations

import ast
import types
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints

import yaml
from both import of_both

MODULES = {path.stem: path for path in of_both("plugins/modules/[!_]*.py")}
_SCALARS: dict[str, tuple[type, ...]] = {"str": (str,), "int": (int,), "float": (float, int), "bool": (bool,)}


@cache
def returned(module: str) -> dict[str, Any]:
    """Return RETURN of a module."""
    for node in ast.parse(MODULES[module].read_text("utf-8")).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "RETURN":
            return yaml.safe_load(ast.literal_eval(node.value)) or {}
    raise AssertionError(f"{module} has no RETURN")


def described(module: str, path: str) -> dict[str, Any]:
    """Return what RETURN says of the value at that path (`verdict.blocking`)."""
    found: dict[str, Any] = {"contains": returned(module)}
    for name in path.split("."):
        found = found["contains"][name]
    return found


def misfits(value: Any, described: dict[str, Any], path: str = "") -> Iterator[str]:
    """Yield where a value that a module returned is not as described."""
    kind = described["type"]
    if value is None or kind == "raw":
        return
    if kind == "list":
        if not isinstance(value, list | tuple):
            yield f"{path}: {type(value).__name__} for a list"
            return
        # Of lists in lists RETURN says no more.
        one = {"type": described.get("elements", "raw"), "contains": described.get("contains")}
        for number, entry in enumerate(value):
            yield from misfits(entry, one, f"{path}[{number}]")
    elif kind == "dict":
        if not isinstance(value, dict):
            yield f"{path}: {type(value).__name__} for a dictionary"
            return
        inner = described.get("contains")
        if inner is None:
            return
        yield from (f"{path}.{name}: not described" for name in sorted(value.keys() - inner.keys()))
        always = {name for name, entry in inner.items() if entry["returned"] in ("always", "success")}
        yield from (f"{path}.{name}: not returned" for name in sorted(always - value.keys()))
        for name in value.keys() & inner.keys():
            yield from misfits(value[name], inner[name], f"{path}.{name}")
    elif kind in _SCALARS and not isinstance(value, _SCALARS[kind]):
        yield f"{path}: {type(value).__name__} for {kind}"


def unlike(kind: Any, described: dict[str, Any], path: str, *, more: frozenset[str] = frozenset()) -> Iterator[str]:
    """Yield where the fields of a result's type are not those described; `more` are added when it is told."""
    kind = _inner(kind)
    inner = described.get("contains")
    if not is_dataclass(kind) or inner is None:
        return
    hints = get_type_hints(kind)
    names = {entry.name for entry in fields(kind)}
    yield from (f"{path}.{name}: not described" for name in sorted(names - inner.keys()))
    yield from (f"{path}.{name}: not returned" for name in sorted(inner.keys() - names - more))
    for name in names & inner.keys():
        yield from unlike(hints[name], inner[name], f"{path}.{name}", more=more)


def _inner(kind: Any) -> Any:
    """Return what a tuple has of, or what an optional value is."""
    while get_origin(kind) in (tuple, Union, types.UnionType):
        kind = next(entry for entry in get_args(kind) if entry not in (type(None), ...))
    return kind
