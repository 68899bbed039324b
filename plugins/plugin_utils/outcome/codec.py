# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Converts plain data strictly to dataclasses and back, and reads saved outcomes.

An error names every place that does not fit.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Generic, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from .errors import InputError
from .model import Outcome, Scalar, blocked_cause

T = TypeVar("T")
_POINTS = tuple[tuple[float, float], ...]
_WORDS = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}


@dataclass(frozen=True, slots=True)
class Misfit:
    """One place where data does not fit a class.

    - `path`: the place, as `a.b[0].c`.
    - `reason`: what is wrong there.
    - `hint`: the fix, where it is known.
    - `word`: an unknown key, or a value that is no choice.
    - `known`: the keys or choices that are allowed there.
    """

    path: str
    reason: str
    hint: str = ""
    word: str = ""
    known: tuple[str, ...] = ()


class MisfitsError(Exception):
    """Data does not fit a class; `misfits` has every place."""

    def __init__(self, misfits: tuple[Misfit, ...]) -> None:
        super().__init__(misfits)
        self.misfits = misfits


class _WrongValueError(Exception):
    """A value has another type, or is not one of the choices."""

    def __init__(self, reason: str, word: str = "", known: tuple[str, ...] = ()) -> None:
        super().__init__(reason)
        self.reason, self.word, self.known = reason, word, known


class _PartsError(Exception):
    """Entries of a list or mapping are wrong: `parts` has them with their places, `[0]` or `.key`."""

    def __init__(self, parts: list[tuple[str, Exception]]) -> None:
        super().__init__(parts)
        self.parts = parts


def _wrong_type(value: Any, expected: str) -> _WrongValueError:
    found = "a list" if isinstance(value, list) else "a mapping" if isinstance(value, dict) else repr(value)
    return _WrongValueError(f"is {found}, expected {expected}.")


@cache
def _converter(finite: bool) -> Any:
    """Return cattrs' converter. With `finite` it refuses NaN and infinity, which no person writes into a file."""
    # Third-party imports stay inside functions: ansible-test's import sanity has no third-party packages.
    from cattrs import Converter

    converter = Converter(forbid_extra_keys=True, detailed_validation=True)
    # By default cattrs converts values: None would become the text "None". Here only 1 becomes 1.0.
    for kind, allowed in ((str, (str,)), (bool, (bool,)), (int, (int,)), (float, (int, float))):
        converter.register_structure_hook(kind, _only(kind, allowed, finite=finite))
    for fits, factory in ((is_dataclass, _dataclass), (_is_list, _list), (_is_mapping, _mapping)):
        converter.register_structure_hook_factory(fits, lambda kind, factory=factory: factory(kind, converter))
    converter.register_structure_hook_func(_is_literal, _choice)
    converter.register_structure_hook(Scalar, _scalar)
    # Curves have thousands of points; number by number through the converter they would take seconds.
    converter.register_structure_hook_func(lambda kind: kind == _POINTS, _points)
    # A member of a text enum is a str already. Without this hook it would stay an enum, which Ansible does not store.
    converter.register_unstructure_hook(str, _word)
    return converter


def _word(value: Any) -> Any:
    return value.value if isinstance(value, Enum) else value


def _only(kind: type[Any], allowed: tuple[type[Any], ...], *, finite: bool) -> Callable[[Any, Any], Any]:
    def structure(value: Any, wanted: Any) -> Any:
        if not isinstance(value, allowed) or (isinstance(value, bool) and kind is not bool):
            raise _wrong_type(value, _WORDS[kind])
        if finite and isinstance(value, float) and not math.isfinite(value):
            raise _wrong_type(value, "a finite number")
        # Also called for subclasses: a text enum is made from one of its values.
        if issubclass(wanted, Enum) and value not in (known := tuple(str(entry.value) for entry in wanted)):
            raise _WrongValueError(f"is {value!r}, expected one of {', '.join(known)}.", str(value), known)
        return wanted(value)

    return structure


def _dataclass(kind: Any, converter: Any) -> Callable[[Any, Any], Any]:
    structure = converter.gen_structure_attrs_fromdict(kind)

    def checked(value: Any, wanted: Any) -> Any:
        if not isinstance(value, dict):
            raise _wrong_type(value, "a mapping")
        return structure(value, wanted)

    return checked


def _is_list(kind: Any) -> bool:
    return get_origin(kind) is tuple and get_args(kind)[1:] == (...,)


def _is_mapping(kind: Any) -> bool:
    origin: Any = get_origin(kind)
    return origin is dict


def _is_literal(kind: Any) -> bool:
    origin: Any = get_origin(kind)
    return origin is Literal


def _list(kind: Any, converter: Any) -> Callable[[Any, Any], Any]:
    inner = get_args(kind)[0]
    structure = converter.get_structure_hook(inner)

    def entries(value: Any, _wanted: Any) -> Any:
        if not isinstance(value, (list, tuple)):
            raise _wrong_type(value, "a list")
        try:
            return tuple([structure(entry, inner) for entry in value])
        except Exception:  # noqa: BLE001 - each entry is tried again below, and what it raises is kept
            parts = [(f"[{number}]", entry) for number, entry in enumerate(value)]
            raise _PartsError(_failing(parts, structure, inner)) from None

    return entries


def _mapping(kind: Any, converter: Any) -> Callable[[Any, Any], Any]:
    names, inner = get_args(kind)
    name_of, structure = converter.get_structure_hook(names), converter.get_structure_hook(inner)

    def entries(value: Any, _wanted: Any) -> Any:
        if not isinstance(value, dict):
            raise _wrong_type(value, "a mapping")
        try:
            return {name_of(name, names): structure(entry, inner) for name, entry in value.items()}
        except Exception:  # noqa: BLE001 - each entry is tried again below, and what it raises is kept
            wrong = _failing([(f".{name}", name) for name in value], name_of, names)
            wrong += _failing([(f".{name}", entry) for name, entry in value.items()], structure, inner)
            raise _PartsError(wrong) from None

    return entries


def _failing(
    parts: list[tuple[str, Any]], structure: Callable[[Any, Any], Any], kind: Any
) -> list[tuple[str, Exception]]:
    found: list[tuple[str, Exception]] = []
    for place, value in parts:
        try:
            structure(value, kind)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is reported with its place
            found.append((place, error))
    return found


def _choice(value: Any, kind: Any) -> Any:
    choices = get_args(kind)
    if value not in choices or isinstance(value, bool):
        words = tuple(str(choice) for choice in choices)
        raise _WrongValueError(f"is {value!r}, expected one of {', '.join(words)}.", str(value), words)
    return value


def _points(value: Any, _kind: Any) -> tuple[tuple[float, float], ...]:
    found = []
    for x, y in value:
        if type(x) not in (int, float) or type(y) not in (int, float):
            raise _WrongValueError(f"has the point {x!r}, {y!r}, expected two numbers.")
        found.append((float(x), float(y)))
    return tuple(found)


def _scalar(value: Any, _kind: Any) -> Any:
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    raise _wrong_type(value, "text, a number, true, false or null")


def prepare(*kinds: type[Any]) -> None:
    """Build the converters of these classes up front, instead of with the first object of each."""
    for kind in kinds:
        _converter(False).get_structure_hook(kind)
        _converter(False).get_unstructure_hook(kind)


def to_plain(value: Any) -> Any:
    """Return the value object as dicts, lists and scalars."""
    return _converter(False).unstructure(value)


def structure(kind: type[T], data: Any, *, finite: bool = False) -> T:
    """Return plain data as an object of that type.

    The type is a dataclass, or text, numbers, choices, optional values, and lists and mappings of them.

    Raises:
        MisfitsError: unknown keys, missing fields, wrong types, and whatever the check of a dataclass refused.
    """
    try:
        return _converter(finite).structure(data, kind)  # type: ignore[no-any-return]
    except Exception as error:  # noqa: BLE001 - whatever it is, the data does not fit
        raise MisfitsError(tuple(_misfits(error, ""))) from None


def _misfits(error: Exception, path: str) -> Iterator[Misfit]:
    from cattrs.errors import BaseValidationError, ForbiddenExtraKeysError

    if isinstance(error, _PartsError):
        for place, inner in error.parts:
            yield from _misfits(inner, f"{path}{place}")
    elif isinstance(error, BaseValidationError):
        parts = [(place, inner) for inner in error.exceptions for place in (_place(inner),)]
        # Unknown keys first: a misspelled key explains most missing fields.
        for place, inner in sorted(parts, key=lambda part: not isinstance(part[1], ForbiddenExtraKeysError)):
            if isinstance(inner, KeyError) and place == f".{inner.args[0]}":
                yield Misfit(f"{path}{place}", "missing.", f"add {inner.args[0]}")
            else:
                yield from _misfits(inner, f"{path}{place}")
    elif isinstance(error, ForbiddenExtraKeysError):
        known = tuple(entry.name for entry in fields(error.cl) if entry.init)
        for key in sorted(map(str, error.extra_fields)):
            yield Misfit(f"{path}.{key}", "unknown key.", word=key, known=known)
    elif isinstance(error, InputError):
        yield Misfit(path, error.reason, error.hint)
    elif isinstance(error, _WrongValueError):
        yield Misfit(path, error.reason, word=error.word, known=error.known)
    else:
        yield Misfit(path, f"does not fit: {type(error).__name__}: {error}.")


def _place(error: BaseException) -> str:
    """Return the place of the error within its object, from cattrs: `.field`, or empty for the whole."""
    from cattrs.errors import AttributeValidationNote, IterableValidationNote

    for note in getattr(error, "__notes__", ()):
        if isinstance(note, AttributeValidationNote):
            return f".{note.name}"
        if isinstance(note, IterableValidationNote):
            return f"[{note.index}]"
    return ""


def from_plain(kind: type[T], data: Any, source: str) -> T:
    """Return plain data as a value object of that class.

    Args:
        kind: the dataclass.
        data: dicts, lists and scalars.
        source: where the data came from, for the error.

    Raises:
        InputError: unknown key, missing field or wrong type; the message lists each with its path.
    """
    try:
        return structure(kind, data)
    except MisfitsError as error:
        places = "; ".join(f"{misfit.path.lstrip('.')} {misfit.reason}".strip() for misfit in error.misfits)
        raise InputError(source, f"not a valid {kind.__name__}: {places}") from None


def dumps(value: Any) -> str:
    """Return the object as indented JSON with sorted keys. Equal objects give equal bytes."""
    return json.dumps(to_plain(value), indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def load_json(path: Path) -> Any:
    """Return the JSON of a file.

    Raises:
        InputError: the file cannot be read or is not JSON.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(str(path), f"cannot be read: {error.strerror}.") from None
    except ValueError as error:
        raise InputError(str(path), f"not JSON: {error}.") from None


def load(kind: type[T], path: Path) -> T:
    """Return the value object saved in a JSON file (see load_json and from_plain for errors)."""
    return from_plain(kind, load_json(path), str(path))


# Finds missing fields in saved data. Every field is written, so every field has to be there.
#
# Filled in with its default, a missing field would read as "nothing is wrong".

_Look = Callable[[Any, str], Iterator[str]]


def require_complete(kind: type[Any], data: Any, source: str, hint: str) -> None:
    """Refuse data that does not fit the class or lacks one of its fields, even one with a default.

    Raises:
        InputError: an unknown key, a wrong type, or the first field that is missing.
    """
    from_plain(kind, data, source)
    look: _Look = _look_into(kind)  # type: ignore[arg-type]  # a class is hashable, which type[Any] does not say
    lacking = next(look(data, ""), None)
    if lacking is not None:
        raise InputError(source, f"has no {lacking.lstrip('.')}, which is always written.", hint)


@cache
def _look_into(kind: Any) -> _Look:
    """Return a function that yields the path of each field that data of that type lacks."""
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
    """Return the type arguments of a class and its bases, by type variable."""
    whole, inner = get_origin(kind) or kind, get_args(kind)
    found = dict(zip(getattr(whole, "__parameters__", ()), (_filled(entry, outer) for entry in inner), strict=False))
    for base in getattr(whole, "__orig_bases__", ()):
        if get_origin(base) is not Generic:
            found = _given(base, found) | found
    return found


def _filled(kind: Any, given: dict[Any, Any]) -> Any:
    """Return a type with its type variables filled in."""
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


# Reads saved outcomes, also those of earlier releases.

# Earlier releases had no field `blocked_by`: the check is only in the cause.
_OLD_CAUSE = blocked_cause("")


def outcome_from_plain(plain: Mapping[str, Any], source: str) -> Outcome:
    """Return an outcome read from JSON; `source` names the file for the error.

    Raises:
        InputError: unknown key, missing field, wrong type, or an invariant of Outcome does not hold.
    """
    cause = plain.get("cause")
    if "blocked_by" not in plain and isinstance(cause, str):
        plain = {**plain, "blocked_by": cause.removeprefix(_OLD_CAUSE) if cause.startswith(_OLD_CAUSE) else ""}
    return from_plain(Outcome, plain, source)
