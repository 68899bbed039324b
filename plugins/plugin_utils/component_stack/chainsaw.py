# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The assertions of a component's health check, in the form of Kyverno chainsaw. Pure.

A `Test` has steps that `assert` (some object matches) or `error` (no object matches). A plain document asserts itself.
A key in parentheses is a JMESPath expression over the object at its place, and its result is compared with the tree
at that key: `(availableReplicas > `0`): true` (documentation of chainsaw, "Assertion trees"; NVIDIA/aicr pkg/chainsaw:
what its own health checks use). Other special keys and values (a loop, a binding, an escape) are recognised as in
kyverno/kyverno-json pkg/core/expression/expression.go and refused, as are options of a test that change what it
asserts (kyverno/chainsaw pkg/apis/v1alpha1: `skip`, `cluster`, `compiler`). Nothing is guessed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from ..outcome.errors import InputError
from ..runtime.strict import parse_yaml_documents

# JMESPath, the language of the expressions in health checks: the package `jmespath`, with our errors. By the
# specification it is stricter than the package (jmespath.org, "JMESPath Specification"): `<`, `<=`, `>`, `>=` order
# numbers only, so that '1.10' is never less than '1.9', and true is no number. A function that does not exist is an
# error when the text is parsed, not at the first value.
# The longest of upstream's health checks has some 400 characters. A text is parsed recursively.
_LONGEST = 4000
_PACKAGE = "jmespath (pip install jmespath)"


@dataclass(frozen=True, slots=True)
class Expression:
    """A parsed expression. `names` are the fields that it names anywhere. `of(value)` evaluates it.

    `of` raises InputError where it cannot be evaluated, because a function does not accept the value that it gets.
    """

    text: str
    names: frozenset[str]
    of: Callable[[Any], Any] = field(compare=False, repr=False)


@cache
def parse(text: str) -> Expression:
    """Parse an expression.

    Raises:
        InputError: it is invalid, names a function that does not exist, or the package is not installed.
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
        raise InputError(subject, f"is not known here: {_reported(error)}.") from None
    known = Functions().FUNCTION_TABLE
    for node in nodes:
        if node["type"] == "function_expression":
            _require_function(node, known, subject)
    names = frozenset(node["value"] for node in nodes if node["type"] == "field")
    return Expression(text, names, lambda value: _requested(tree, value, subject))


def _nodes(tree: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield tree
    for child in tree.get("children", ()):
        # The children of a slice are numbers.
        if isinstance(child, Mapping):
            yield from _nodes(child)


def _require_function(node: Mapping[str, Any], known: Mapping[str, Any], subject: str) -> None:
    """Raise InputError for a function that does not exist, or with a wrong number of arguments."""
    name, count = node["value"], len(node["children"])
    if name not in known:
        raise InputError(subject, f"{name}() is not known here; {', '.join(sorted(known))} are.")
    takes = known[name]["signature"]
    if count < len(takes) or (count > len(takes) and not takes[-1].get("variadic")):
        raise InputError(subject, f"{name}() with {count} arguments is not known here; it takes {len(takes)}.")


def _requested(tree: Mapping[str, Any], value: Any, subject: str) -> Any:
    from jmespath.exceptions import JMESPathError

    try:
        return _interpreter().visit(tree, value)
    except (JMESPathError, RecursionError, ArithmeticError, TypeError) as error:
        raise InputError(subject, f"says nothing: {_reported(error)}.") from None


@cache
def _interpreter() -> Any:
    from jmespath.functions import Functions, signature
    from jmespath.visitor import Options, TreeInterpreter

    # The package has no types, so mypy knows neither its classes nor its decorator.
    class OurFunctions(Functions):  # type: ignore[misc]
        """Does not find the number 1 in a list of booleans."""

        @signature({"types": ["array", "string"]}, {"types": []})  # type: ignore[untyped-decorator]
        def _func_contains(self, where: Any, what: Any) -> bool:
            if isinstance(where, str):
                return isinstance(what, str) and what in where
            return any(same(entry, what) for entry in where)

    class Interpreter(TreeInterpreter):  # type: ignore[misc]
        """Orders numbers only."""

        def visit_comparator(self, node: Mapping[str, Any], value: Any) -> Any:
            """Return the result of a comparison. It is null where anything but numbers is to be ordered."""
            sides = [self.visit(child, value) for child in node["children"]]
            if node["value"] in ("eq", "ne"):
                return same(*sides) == (node["value"] == "eq")
            return self.COMPARATOR_FUNC[node["value"]](*sides) if all(map(_is_number, sides)) else None

    return Interpreter(Options(custom_functions=OurFunctions()))


def _reported(error: Exception) -> str:
    """Return an error in one line. The package shows the place in the lines below it."""
    from jmespath.exceptions import JMESPathTypeError

    if isinstance(error, JMESPathTypeError):
        return (
            f"{error.function_name}() is asked of a {error.actual_type}; it takes {' or '.join(error.expected_types)}"
        )
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".:")[:200]


def same(left: Any, right: Any) -> bool:
    """Tell whether two values are equal as JSON: true is no number, at any depth."""
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    return isinstance(left, bool) == isinstance(right, bool) and bool(left == right)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


API = "chainsaw.kyverno.io/"
_HINT = "assert with plain fields and expressions in JMESPath; see docs/validate.md"
_EXPRESSION = re.compile(r"\((.+)\)", re.DOTALL)
# A loop, a binding, an escape. As the name of a field it would never match.
_SPECIAL = re.compile(r"~\w*\..*|.*->\s*\w+|\\.+\\", re.DOTALL)
# Fields that do not change what is asserted. All others do, or may in a later release.
_FIELDS = {
    "test": {
        "concurrent", "delayBeforeCleanup", "deletionPropagationPolicy", "description", "failFast",
        "fastNamespaceDeletion", "forceTerminationGracePeriod", "namespace", "skipDelete", "steps", "timeouts",
    },
    "step": {"name", "description", "try", "timeouts"},
    "operation": {"resource", "timeout"},
}  # fmt: skip
# Annotation of the upstream tool on a check that is meant to have no assertions.
_NOTHING_ASSERTED = "aicr/no-op-check"
Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Assertion:
    """One assertion. `wanted` is the tree. With `must` an object has to match, without it (`error`) none may."""

    api_version: str
    kind: str
    must: bool
    name: str = ""
    namespace: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    wanted: dict[str, Any] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """Its object, for messages."""
        place = "/".join(filter(None, (self.namespace, self.name))) or "any"
        return f"{self.kind} {place}"


def assertions_of(text: str, source: str) -> tuple[Assertion, ...]:
    """Return the assertions of a health check in order. There are none if each of its documents declares that.

    Raises:
        InputError: it is no YAML, asserts nothing, or has an operation or expression that is not supported.
    """
    found: list[Assertion] = []
    for document in parse_yaml_documents(text, source):
        if not isinstance(document, dict):
            raise InputError(source, "is no mapping.", "write the assertions, not the name of a file that has them")
        if not str(document.get("apiVersion", "")).startswith(API):
            found.append(_assertion(document, True, source))
            continue
        own = list(_of_test(document, source))
        annotations = (document.get("metadata") or {}).get("annotations") or {}
        if not own and annotations.get(_NOTHING_ASSERTED) != "true":
            raise InputError(source, "asserts nothing, so it proves nothing.", _HINT)
        found += own
    return tuple(found)


def _of_test(document: Json, source: str) -> Iterator[Assertion]:
    spec = document.get("spec") or {}
    _require_fields(spec, "test", source)
    namespace = str(spec.get("namespace") or "")
    _require_known(namespace, source)
    for step in spec.get("steps") or ():
        _require_fields(step, "step", source)
        for operation in step.get("try") or ():
            kinds = set(operation) - {"description"}
            if kinds not in ({"assert"}, {"error"}):
                raise InputError(
                    source, f"has the operation {', '.join(sorted(kinds))}; assert and error are known.", _HINT
                )
            kind = kinds.pop()
            _require_fields(operation[kind] or {}, "operation", source)
            resource = (operation[kind] or {}).get("resource")
            if not isinstance(resource, dict):
                raise InputError(source, f"an operation {kind} has no resource.", _HINT)
            yield _assertion(resource, kind == "assert", source, namespace)


def _require_fields(found: Json, place: str, source: str) -> None:
    for name in sorted(set(map(str, found)) - _FIELDS[place]):
        raise InputError(source, f"has {name!r} in the {place}, which is not known here.", _HINT)


def _assertion(resource: Json, must: bool, source: str, namespace: str = "") -> Assertion:
    """Return an assertion. An object without a namespace is in that of its test (kyverno/chainsaw
    pkg/engine/namespacer/namespacer.go).
    """
    metadata = resource.get("metadata") or {}
    if not resource.get("apiVersion") or not resource.get("kind"):
        raise InputError(source, "asserts something without apiVersion and kind.", _HINT)
    wanted = {key: value for key, value in resource.items() if key not in ("apiVersion", "kind", "metadata")}
    more = {key: value for key, value in metadata.items() if key not in ("name", "namespace", "labels")}
    tree = wanted | ({"metadata": more} if more else {})
    # A name that is an expression, such as ($namespace), would be taken literally and never be found.
    _require_known([tree, metadata], source)
    return Assertion(
        api_version=str(resource["apiVersion"]),
        kind=str(resource["kind"]),
        must=must,
        name=str(metadata.get("name") or ""),
        namespace=str(metadata.get("namespace") or namespace),
        labels={str(key): str(value) for key, value in (metadata.get("labels") or {}).items()},
        wanted=tree,
    )


def _require_known(tree: Any, source: str) -> None:
    """Raise InputError for expressions that would be evaluated in another way than their author means."""
    if isinstance(tree, list):
        for entry in tree:
            _require_known(entry, source)
        return
    for key, value in tree.items() if isinstance(tree, dict) else ():
        text = _EXPRESSION.fullmatch(str(key))
        if text is not None:
            try:
                parse(text[1])
            except InputError as error:
                raise InputError(source, f"expression {key}: {error.reason}", _HINT) from None
        elif str(key).startswith(("~", "(")) or str(key).endswith(")") or _SPECIAL.fullmatch(str(key)):
            raise InputError(source, f"key {key!r} is not known here.", _HINT)
        _require_known(value, source)
    if isinstance(tree, str) and (_EXPRESSION.fullmatch(tree) or _SPECIAL.fullmatch(tree)):
        raise InputError(source, f"value {tree!r} is an expression, which is not known here.", _HINT)


def mismatch(wanted: Any, found: Any, path: str = "") -> str:
    """Return where an object does not match, with both values. Empty if it matches.

    Raises:
        InputError: an expression cannot be evaluated, because a function does not accept the value that it gets.
    """
    if isinstance(wanted, Mapping):
        # An empty tree requires that a value exists (kyverno/kyverno-json pkg/core/assertion/assertion.go, `mapNode`).
        if not wanted and found is None:
            return f"{path or 'it'} is null, expected a value"
        for key, value in wanted.items():
            text = _EXPRESSION.fullmatch(str(key))
            if text is not None:
                reported = _messages(text[1], value, found, path)
            elif not isinstance(found, Mapping) or key not in found:
                reported = f"{path}.{key} is not there".lstrip(".")
            else:
                reported = mismatch(value, found[key], f"{path}.{key}".lstrip("."))
            if reported:
                return reported
        return ""
    if isinstance(wanted, list):
        if not isinstance(found, list) or len(found) != len(wanted):
            return f"{path} has {len(found) if isinstance(found, list) else 'no'} entries, expected {len(wanted)}"
        pairs = enumerate(zip(wanted, found, strict=True))
        return next(filter(None, (mismatch(w, f, f"{path}[{n}]") for n, (w, f) in pairs)), "")
    return "" if same(wanted, found) else f"{path} is {_shown(found)}, expected {_shown(wanted)}"


def _messages(text: str, value: Any, found: Any, path: str) -> str:
    """Return how the result of an expression differs from the wanted value. Empty if it does not."""
    actual = parse(text).of(found)
    if isinstance(value, Mapping | list):
        return mismatch(value, actual, f"{path}.({text})".lstrip("."))
    return "" if same(value, actual) else f"{path or 'it'}: {text} is {_shown(actual)}, expected {_shown(value)}"


def asked_of(assertion: Assertion, found: Any) -> tuple[str, str]:
    """Return where an object does not match an assertion, and why that is not known. Both are empty if it matches."""
    try:
        return mismatch(assertion.wanted, found), ""
    except InputError as error:
        return "", f"{error.subject} {error.reason}"


def pruned(wanted: Any, found: Any) -> Any:
    """Return the part of an object that an assertion reads. Only this part is saved."""
    if isinstance(wanted, Mapping) and isinstance(found, Mapping):
        kept = {key: pruned(value, found[key]) for key, value in wanted.items() if key in found}
        for key in wanted:
            text = _EXPRESSION.fullmatch(str(key))
            if text is not None:
                expression = parse(text[1])
                part = {name: found[name] for name in expression.names if name in found}
                kept |= part if _answer(expression, part) == _answer(expression, found) else found
        return kept
    if isinstance(wanted, list) and isinstance(found, list) and len(wanted) == len(found):
        return [pruned(w, f) for w, f in zip(wanted, found, strict=True)]
    return found


def _answer(expression: Expression, value: Any) -> tuple[Any, str]:
    """Return the result of an expression for a value, and why it has none."""
    try:
        return expression.of(value), ""
    except InputError as error:
        return None, error.reason


def _shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)[:120]
