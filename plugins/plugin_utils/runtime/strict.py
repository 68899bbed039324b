# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Strict reading of YAML (and so JSON) into dataclasses: nothing guessed, nothing converted, every problem listed."""

from __future__ import annotations

import math
import types
from collections.abc import Iterable
from dataclasses import MISSING, Field, fields, is_dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from ..outcome.errors import BringupError, InputError, ProblemsError

T = TypeVar("T")
_WORDS = {str: "text", int: "a whole number", float: "a number", bool: "true or false", type(None): "null"}


@cache
def _loader() -> Any:
    # Third-party imports stay inside functions: ansible-test's import sanity has no third-party packages.
    import yaml

    # libyaml's parser is several times faster; the rules below are the same over both.
    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class StrictLoader(base):  # type: ignore[misc,unused-ignore]
        """Safe loader that refuses duplicate keys and leaves days as text."""

    def mapping(loader: Any, node: Any) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _value in node.value:
            key = loader.construct_object(key_node, deep=True)
            if not isinstance(key, str):
                raise yaml.constructor.ConstructorError(None, None, f"key {key!r} is not text", key_node.start_mark)
            if key in seen:
                raise yaml.constructor.ConstructorError(None, None, f"key {key!r} is given twice", key_node.start_mark)
            seen.add(key)
        return dict(loader.construct_pairs(node, deep=True))

    # Days stay text: YAML would turn 2026-01-31 into a date object, JSON would not.
    StrictLoader.yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    StrictLoader.add_constructor("tag:yaml.org,2002:map", mapping)
    return StrictLoader


def parse_yaml(text: str, source: str) -> Any:
    """Return the one document of a YAML or JSON text; days stay text.

    Raises:
        InputError: not YAML, a key twice, a key that is not text, or more than one document.
    """
    import yaml

    try:
        return yaml.load(text, Loader=_loader())
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{source}:{mark.line + 1}" if mark else source
        problem = getattr(error, "problem", None) or str(error)
        raise InputError(where, f"not valid YAML: {problem}.", "correct the file") from None
    except (ValueError, RecursionError) as error:
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
    """Return `did you mean 'x' or 'y'?`, or the list of what is known if nothing is near."""
    choices = sorted(known)
    near = get_close_matches(word, choices, n=3, cutoff=0.55)
    if near:
        return f"{intro} {' or '.join(repr(name) for name in near)}?"
    return f"known: {', '.join(choices)}" if choices else "nothing is known here"


def decode(kind: type[T], data: Any, source: str) -> T:
    """Return plain data as that dataclass: text, numbers, optional values, tuples, dicts and dataclasses in it.

    Raises:
        ProblemsError: every unknown key (with the nearest known one), missing field and wrong type.
        InputError: the value's own check refused it.
    """
    problems: list[BringupError] = []
    value = _value(kind, data, source, "", problems)
    if problems:
        raise ProblemsError(source, tuple(problems))
    return value  # type: ignore[no-any-return]


def _value(kind: Any, data: Any, source: str, path: str, problems: list[BringupError]) -> Any:
    if is_dataclass(kind):
        return _dataclass(kind, data, source, path, problems)
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        if data is None and types.NoneType in inner:
            return None
        plain = [option for option in inner if option is not types.NoneType]
        return _value(plain[0], data, source, path, problems)
    if origin is Literal:
        if data not in inner or isinstance(data, bool):
            hint = nearest_hint(str(data), [str(word) for word in inner])
            problems.append(InputError(_at(source, path), f"is {data!r}, expected one of {_listed(inner)}.", hint))
        return data
    if origin is tuple:
        if not isinstance(data, list):
            return _wrong_type(data, "a list", source, path, problems)
        return tuple(_value(inner[0], entry, source, f"{path}[{n}]", problems) for n, entry in enumerate(data))
    if origin is dict:
        if not isinstance(data, dict):
            return _wrong_type(data, "a mapping", source, path, problems)
        return {key: _value(inner[1], entry, source, f"{path}.{key}", problems) for key, entry in data.items()}
    return _scalar(kind, data, source, path, problems)


def _dataclass(kind: Any, data: Any, source: str, path: str, problems: list[BringupError]) -> Any:
    if not isinstance(data, dict):
        return _wrong_type(data, "a mapping", source, path, problems)
    known: dict[str, Field[Any]] = {entry.name: entry for entry in fields(kind) if entry.init}
    hints = _type_hints(kind)
    before = len(problems)
    for key in data:
        if key not in known:
            problems.append(InputError(_at(source, f"{path}.{key}"), "unknown key.", nearest_hint(str(key), known)))
    for name, entry in known.items():
        if name not in data and entry.default is MISSING and entry.default_factory is MISSING:
            problems.append(InputError(_at(source, f"{path}.{name}"), "missing.", f"add {name}"))
    arguments = {
        name: _value(hints[name], data[name], source, f"{path}.{name}", problems) for name in known if name in data
    }
    if len(problems) > before:
        return None
    try:
        return kind(**arguments)
    except InputError as error:
        problems.append(InputError(_at(source, path), error.reason, error.hint))
        return None


@cache
def _type_hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


def _scalar(kind: Any, data: Any, source: str, path: str, problems: list[BringupError]) -> Any:
    if kind is Any:
        return data
    if kind is float and isinstance(data, int) and not isinstance(data, bool):
        return float(data)
    if isinstance(data, kind) and not (isinstance(data, bool) and kind is not bool):
        if isinstance(data, float) and not math.isfinite(data):
            return _wrong_type(data, "a finite number", source, path, problems)
        return data
    return _wrong_type(data, _WORDS.get(kind, str(kind)), source, path, problems)


def _wrong_type(data: Any, expected: str, source: str, path: str, problems: list[BringupError]) -> None:
    found = "a list" if isinstance(data, list) else "a mapping" if isinstance(data, dict) else repr(data)
    problems.append(InputError(_at(source, path), f"is {found}, expected {expected}.", "correct the value"))


def _at(source: str, path: str) -> str:
    return f"{source}: {path.lstrip('.')}" if path else source


def _listed(words: Iterable[Any]) -> str:
    return ", ".join(str(word) for word in words)
