# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""JSON for every value object: dataclasses to plain data and strictly back."""

from __future__ import annotations

import json
from collections.abc import Callable
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from .errors import InputError
from .model import Scalar

T = TypeVar("T")
_POINTS = tuple[tuple[float, float], ...]


@cache
def _converter() -> Any:
    # Third-party imports stay inside functions: ansible-test's import sanity has no third-party packages.
    from cattrs import Converter

    converter = Converter(forbid_extra_keys=True, detailed_validation=True)
    # cattrs converts by default: None would become the text "None". Nothing is converted here, except 1 to 1.0.
    for kind, allowed in ((str, (str,)), (bool, (bool,)), (int, (int,)), (float, (int, float))):
        converter.register_structure_hook(kind, _only(kind, allowed))
    converter.register_structure_hook(Scalar, _scalar)
    # Curves have thousands of points; number by number through the converter they would take seconds.
    converter.register_structure_hook_func(lambda kind: kind == _POINTS, _points)
    # An enum of words is a str already; without this it would stay the enum, which Ansible does not store.
    converter.register_unstructure_hook(str, _word)
    return converter


def _word(value: Any) -> Any:
    return value.value if isinstance(value, Enum) else value


def _only(kind: type[Any], allowed: tuple[type[Any], ...]) -> Callable[[Any, Any], Any]:
    def structure(value: Any, wanted: Any) -> Any:
        if not isinstance(value, allowed) or (isinstance(value, bool) and kind is not bool):
            raise TypeError(f"expected {kind.__name__}, found {type(value).__name__}")
        # Called for subclasses too: an enum of words is made from one of its words.
        return wanted(value)

    return structure


def _points(value: Any, _kind: Any) -> tuple[tuple[float, float], ...]:
    found = []
    for x, y in value:
        if type(x) not in (int, float) or type(y) not in (int, float):
            raise TypeError(f"expected a point of two numbers, found {x!r} and {y!r}")
        found.append((float(x), float(y)))
    return tuple(found)


def _scalar(value: Any, _kind: Any) -> Any:
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    raise TypeError(f"expected text, a number, true, false or null, found {type(value).__name__}")


def prepare(*kinds: type[Any]) -> None:
    """Build what reads and writes value objects of those classes now, instead of with the first of each."""
    for kind in kinds:
        _converter().get_structure_hook(kind)
        _converter().get_unstructure_hook(kind)


def to_plain(value: Any) -> Any:
    """Return the value object as dicts, lists and scalars."""
    return _converter().unstructure(value)


def from_plain(kind: type[T], data: Any, source: str) -> T:
    """Return plain data as a value object of that class.

    Args:
        kind: the dataclass.
        data: dicts, lists and scalars.
        source: where the data came from, for the error.

    Raises:
        InputError: unknown key, missing field or wrong type; the message lists each with its path.
    """
    from cattrs import transform_error
    from cattrs.errors import BaseValidationError

    try:
        return _converter().structure(data, kind)  # type: ignore[no-any-return]
    except InputError:
        raise
    except BaseValidationError as error:
        own = _own_error(error)
        if own is not None:
            raise own from None
        raise InputError(source, f"not a valid {kind.__name__}: {'; '.join(transform_error(error))}.") from None
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise InputError(source, f"not a valid {kind.__name__}: {error}.") from None


def _own_error(group: BaseException) -> InputError | None:
    """Return an InputError raised by a value object's own check inside cattrs' group, if there is one."""
    for inner in getattr(group, "exceptions", ()):
        if isinstance(inner, InputError):
            return inner
        found = _own_error(inner)
        if found is not None:
            return found
    return None


def dumps(value: Any) -> str:
    """Return the value object as indented JSON with sorted keys: the same value always gives the same bytes."""
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
