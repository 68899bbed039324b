# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a component's health check asserts, in the form of Kyverno chainsaw. Pure.

A `Test` has steps that `assert` (some object is so) or `error` (no object is so); a plain document asserts itself. A
key in parentheses is an expression over the object at its place: `(availableReplicas > `0`): true` (documentation of
chainsaw, "Assertion trees"). Of expressions the comparisons and `length()` are known here; nothing else is guessed at.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..outcome.errors import InputError
from ..runtime.strict import parse_yaml_documents

API = "chainsaw.kyverno.io/"
_HINT = "assert with plain fields, comparisons and length(); see docs/validate.md"
_EXPRESSION = re.compile(r"\((.+)\)", re.DOTALL)
_COMPARED = re.compile(r"(.+?)\s*(>=|<=|==|!=|>|<)\s*(.+)", re.DOTALL)
_PATH = re.compile(r"[A-Za-z_][\w-]*(\.[A-Za-z_][\w-]*)*")
_LENGTH = re.compile(r"length\(\s*(@|[\w.-]+)\s*\)")
_ORDERS = {">": (1,), "<": (-1,), ">=": (1, 0), "<=": (-1, 0)}
Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Assertion:
    """One assertion: `wanted` is the tree, `must` whether an object is to be so (`error` in chainsaw: none may be)."""

    api_version: str
    kind: str
    must: bool
    name: str = ""
    namespace: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    wanted: dict[str, Any] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """What it is about, for people."""
        place = "/".join(filter(None, (self.namespace, self.name))) or "any"
        return f"{self.kind} {place}"


def assertions_of(text: str, source: str) -> tuple[Assertion, ...]:
    """Return what a health check asserts, in its order.

    Raises:
        InputError: it is no YAML, asserts nothing, or has an operation or expression that is not known here.
    """
    found: list[Assertion] = []
    for document in parse_yaml_documents(text, source):
        if not isinstance(document, dict):
            raise InputError(source, "is no mapping.", "write the assertions, not the name of a file that has them")
        if str(document.get("apiVersion", "")).startswith(API):
            found += _of_test(document, source)
        else:
            found.append(_assertion(document, True, source))
    if not found:
        raise InputError(source, "asserts nothing, so it proves nothing.", _HINT)
    return tuple(found)


def _of_test(document: Json, source: str) -> Iterator[Assertion]:
    for step in (document.get("spec") or {}).get("steps") or ():
        for name in set(step) - {"name", "description", "try", "timeouts"}:
            raise InputError(source, f"has {name!r} in a step, which is not known here.", _HINT)
        for operation in step.get("try") or ():
            kinds = set(operation) - {"description"}
            if kinds not in ({"assert"}, {"error"}):
                raise InputError(
                    source, f"has the operation {', '.join(sorted(kinds))}; assert and error are known.", _HINT
                )
            kind = kinds.pop()
            resource = (operation[kind] or {}).get("resource")
            if not isinstance(resource, dict):
                raise InputError(source, f"an operation {kind} has no resource.", _HINT)
            yield _assertion(resource, kind == "assert", source)


def _assertion(resource: Json, must: bool, source: str) -> Assertion:
    metadata = resource.get("metadata") or {}
    if not resource.get("apiVersion") or not resource.get("kind"):
        raise InputError(source, "asserts something without apiVersion and kind.", _HINT)
    wanted = {key: value for key, value in resource.items() if key not in ("apiVersion", "kind", "metadata")}
    more = {key: value for key, value in metadata.items() if key not in ("name", "namespace", "labels")}
    tree = wanted | ({"metadata": more} if more else {})
    _require_known(tree, source)
    return Assertion(
        api_version=str(resource["apiVersion"]),
        kind=str(resource["kind"]),
        must=must,
        name=str(metadata.get("name") or ""),
        namespace=str(metadata.get("namespace") or ""),
        labels={str(key): str(value) for key, value in (metadata.get("labels") or {}).items()},
        wanted=tree,
    )


def _require_known(tree: Any, source: str) -> None:
    """Refuse expressions that would be evaluated otherwise than their author means."""
    if isinstance(tree, list):
        for entry in tree:
            _require_known(entry, source)
        return
    for key, value in tree.items() if isinstance(tree, dict) else ():
        text = _EXPRESSION.fullmatch(str(key))
        if text is not None:
            try:
                _evaluated(text[1], {})
            except InputError as error:
                raise InputError(source, f"expression {key}: {error.reason}", _HINT) from None
        elif str(key).startswith(("~", "(")) or str(key).endswith(")"):
            raise InputError(source, f"key {key!r} is not known here.", _HINT)
        _require_known(value, source)
    if isinstance(tree, str) and _EXPRESSION.fullmatch(tree):
        raise InputError(source, f"value {tree!r} is an expression, which is not known here.", _HINT)


def mismatch(wanted: Any, found: Any, path: str = "") -> str:
    """Return where an object is not as wanted, with both values, empty if it is."""
    if isinstance(wanted, Mapping):
        for key, value in wanted.items():
            text = _EXPRESSION.fullmatch(str(key))
            if text is not None:
                actual = _evaluated(text[1], found)
                told = (
                    ""
                    if actual == value
                    else f"{path or 'it'}: {text[1]} is {_shown(actual)}, expected {_shown(value)}"
                )
            elif not isinstance(found, Mapping) or key not in found:
                told = f"{path}.{key} is not there".lstrip(".")
            else:
                told = mismatch(value, found[key], f"{path}.{key}".lstrip("."))
            if told:
                return told
        return ""
    if isinstance(wanted, list):
        if not isinstance(found, list) or len(found) != len(wanted):
            return f"{path} has {len(found) if isinstance(found, list) else 'no'} entries, expected {len(wanted)}"
        pairs = enumerate(zip(wanted, found, strict=True))
        return next(filter(None, (mismatch(w, f, f"{path}[{n}]") for n, (w, f) in pairs)), "")
    return "" if wanted == found else f"{path} is {_shown(found)}, expected {_shown(wanted)}"


def pruned(wanted: Any, found: Any) -> Any:
    """Return the part of an object that an assertion looks at: no more of it is kept."""
    if isinstance(wanted, Mapping) and isinstance(found, Mapping):
        kept = {key: pruned(value, found[key]) for key, value in wanted.items() if key in found}
        for key in wanted:
            text = _EXPRESSION.fullmatch(str(key))
            if text is not None:
                names = re.findall(r"[A-Za-z_][\w-]*", re.sub(r"`[^`]*`|'[^']*'", "", text[1]))
                kept |= {name: found[name] for name in names if name in found and name not in kept}
        return kept
    if isinstance(wanted, list) and isinstance(found, list) and len(wanted) == len(found):
        return [pruned(w, f) for w, f in zip(wanted, found, strict=True)]
    return found


def _shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)[:120]


def _evaluated(text: str, at: Any) -> Any:
    """Return the value of an expression over what lies at its place; a comparison with nothing is not true."""
    compared = _COMPARED.fullmatch(text.strip())
    if compared is None:
        return _operand(text, at)
    left, right = _operand(compared[1], at), _operand(compared[3], at)
    if compared[2] in ("==", "!="):
        return (left == right) == (compared[2] == "==")
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in (left, right))
    return numbers and ((left > right) - (left < right)) in _ORDERS[compared[2]]


def _operand(text: str, at: Any) -> Any:
    word = text.strip()
    if word.startswith("`") and word.endswith("`"):
        try:
            return json.loads(word[1:-1])
        except ValueError:
            raise InputError("literal", f"{word} is no JSON.") from None
    if word.startswith("'") and word.endswith("'"):
        return word[1:-1]
    length = _LENGTH.fullmatch(word)
    if length is not None:
        value = at if length[1] == "@" else _at(length[1], at)
        return len(value) if isinstance(value, list | dict | str) else None
    if _PATH.fullmatch(word):
        return _at(word, at)
    raise InputError("expression", f"{word!r} is not known here.")


def _at(path: str, value: Any) -> Any:
    for key in path.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value
