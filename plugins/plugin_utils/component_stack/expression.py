# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""JMESPath, in which health checks of recipes are written: the package `jmespath`, with the errors of ours.

Stricter than in the package, by the specification (jmespath.org, "JMESPath Specification"): `<`, `<=`, `>`, `>=` order
numbers alone, so that '1.10' is never found to be less than '1.9'; true is no number. A function that does not exist
is an error of the text, not of the first value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from ..outcome.errors import InputError

# Of upstream's health checks the longest has some 400 characters; a text is read recursively.
_LONGEST = 4000
_PACKAGE = "jmespath (pip install jmespath)"


@dataclass(frozen=True, slots=True)
class Expression:
    """A parsed expression: `names` are the fields that it names anywhere; `of(value)` is what it says of a value.

    `of` raises InputError where it cannot be asked of a value: a function does not take what lies there.
    """

    text: str
    names: frozenset[str]
    of: Callable[[Any], Any] = field(compare=False, repr=False)


@cache
def parse(text: str) -> Expression:
    """Return an expression.

    Raises:
        InputError: it is none, names a function that does not exist, or the package is not installed.
    """
    subject = f"expression {text[:80]!r}"
    try:
        from jmespath import compile as compiled
        from jmespath.exceptions import JMESPathError
        from jmespath.functions import Functions
    except ImportError:
        raise InputError(subject, f"cannot be read without the Python package {_PACKAGE}.") from None
    if len(text) > _LONGEST:
        raise InputError(subject, f"has {len(text)} characters, more than {_LONGEST}.")
    try:
        tree = compiled(text).parsed
        nodes = tuple(_nodes(tree))
    except (JMESPathError, RecursionError) as error:
        raise InputError(subject, f"is not known here: {_said(error)}.") from None
    known = Functions().FUNCTION_TABLE
    for node in nodes:
        if node["type"] == "function_expression":
            _require_function(node, known, subject)
    names = frozenset(node["value"] for node in nodes if node["type"] == "field")
    return Expression(text, names, lambda value: _asked(tree, value, subject))


def _nodes(tree: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield tree
    for child in tree.get("children", ()):
        # A slice has numbers as children.
        if isinstance(child, Mapping):
            yield from _nodes(child)


def _require_function(node: Mapping[str, Any], known: Mapping[str, Any], subject: str) -> None:
    """Refuse a function that does not exist, or that takes another number of arguments."""
    name, count = node["value"], len(node["children"])
    if name not in known:
        raise InputError(subject, f"{name}() is not known here; {', '.join(sorted(known))} are.")
    takes = known[name]["signature"]
    if count < len(takes) or (count > len(takes) and not takes[-1].get("variadic")):
        raise InputError(subject, f"{name}() with {count} arguments is not known here; it takes {len(takes)}.")


def _asked(tree: Mapping[str, Any], value: Any, subject: str) -> Any:
    from jmespath.exceptions import JMESPathError

    try:
        return _interpreter().visit(tree, value)
    except (JMESPathError, RecursionError, ArithmeticError, TypeError) as error:
        raise InputError(subject, f"says nothing: {_said(error)}.") from None


@cache
def _interpreter() -> Any:
    from jmespath.functions import Functions, signature
    from jmespath.visitor import Options, TreeInterpreter

    # The package has no types: mypy knows neither its classes nor its decorator.
    class OurFunctions(Functions):  # type: ignore[misc]
        """Finds the number 1 in no list of booleans."""

        @signature({"types": ["array", "string"]}, {"types": []})  # type: ignore[untyped-decorator]
        def _func_contains(self, where: Any, what: Any) -> bool:
            if isinstance(where, str):
                return isinstance(what, str) and what in where
            return any(same(entry, what) for entry in where)

    class Interpreter(TreeInterpreter):  # type: ignore[misc]
        """Orders numbers alone."""

        def visit_comparator(self, node: Mapping[str, Any], value: Any) -> Any:
            """Return what a comparison says; null where the order of anything but numbers is asked for."""
            sides = [self.visit(child, value) for child in node["children"]]
            if node["value"] in ("eq", "ne"):
                return same(*sides) == (node["value"] == "eq")
            return self.COMPARATOR_FUNC[node["value"]](*sides) if all(map(_is_number, sides)) else None

    return Interpreter(Options(custom_functions=OurFunctions()))


def _said(error: Exception) -> str:
    """Return an error in one line; the package shows the place in the text below it."""
    from jmespath.exceptions import JMESPathTypeError

    if isinstance(error, JMESPathTypeError):
        return (
            f"{error.function_name}() is asked of a {error.actual_type}; it takes {' or '.join(error.expected_types)}"
        )
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".:")[:200]


def same(left: Any, right: Any) -> bool:
    """Tell whether two values are the same as JSON: true is no number, at any depth."""
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    return isinstance(left, bool) == isinstance(right, bool) and bool(left == right)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
