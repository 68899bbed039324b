# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""YAML as Kubernetes reads it, for every text of others: charts, releases, definitions, manifests, ConfigMaps.

kubectl, Helm and the API server read with kubernetes-sigs/yaml: go-yaml v2 (its goyaml.v2/resolve.go), then JSON
(yaml.go). So `yes`, `on` and `y` are booleans as in YAML 1.1, `0755` and `0o755` are octal, and keys become texts. But
`=`, dates and `22:30` are texts, a key given twice counts as the last one says, and unknown tags are ignored. PyYAML's
own safe loader has the whole of YAML 1.1: it stops at a bare `=`, and makes objects of dates that JSON cannot hold.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable
from functools import cache
from typing import Any

_STANDARD = "tag:yaml.org,2002:"
NULL, BOOL, NUMBER, FLOAT, BINARY, MERGE = (
    _STANDARD + name for name in ("null", "bool", "int", "float", "binary", "merge")
)
_INTEGER = re.compile(r"[-+]?(?:0[xX][0-9a-fA-F]+|0[oO]?[0-7]+|0[bB][01]+|[1-9][0-9]*|0)")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_OCTAL = re.compile(r"([-+]?)0[oO]?([0-7]+)")
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
# What begins like a number: whether it is one, `number` says.
_LIKE_A_NUMBER = re.compile(r"[-+]?\.?_*[0-9]|[-+]?\.[iInN]")
_NULLS = re.compile(r"(?:~|null|Null|NULL|)$")
_WORDS = {
    **dict.fromkeys(("yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
}
_LETTERS = {"y": True, "Y": True, "n": False, "N": False}


def number(text: str) -> int | float | None:
    """Return the number that an unquoted scalar is, None for a text."""
    if len(text) > 64:
        return None
    plain = text.replace("_", "")
    if _INTEGER.fullmatch(plain):
        octal = _OCTAL.fullmatch(plain)
        return int(f"{octal[1]}0o{octal[2]}", 0) if octal else int(plain, 0)
    if _FLOAT.fullmatch(plain):
        found = float(plain)
        # What no number can hold is a text.
        return found if math.isfinite(found) else None
    return None


def _resolvers(words: dict[str, bool]) -> dict[str, list[tuple[str, re.Pattern[str]]]]:
    """Return the tags of unquoted scalars as PyYAML wants them: by their first letter, with a pattern."""
    pattern = re.compile(f"(?:{'|'.join(words)})$")
    found: dict[str, list[tuple[str, re.Pattern[str]]]] = {word[0]: [(BOOL, pattern)] for word in words}
    for first in ("", "~", "n", "N"):
        found[first] = [*found.get(first, []), (NULL, _NULLS)]
    found.update({first: [(NUMBER, _LIKE_A_NUMBER)] for first in "-+.0123456789"})
    found["<"] = [(MERGE, re.compile("<<$"))]
    return found


@cache
def parser() -> Any:
    """Return PyYAML's loader that only parses safely: libyaml's where it is there, which is several times faster."""
    # Third-party imports stay inside functions: ansible-test's import sanity has no third-party packages.
    import yaml

    return getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@cache
def kubernetes_loader(*, strict: bool = False) -> Any:
    """Return a loader of PyYAML that reads as Kubernetes does.

    Args:
        strict: for files of our own formats: a key that is no text or is given twice is an error, and so is an unknown
            tag; `y` and `n` are texts.
    """

    class Loader(parser()):  # type: ignore[misc,unused-ignore]
        """Builds a document from its nodes. What holds itself never comes here."""

        yaml_implicit_resolvers = _resolvers(_WORDS if strict else {**_WORDS, **_LETTERS})

        def construct_document(self, node: Any) -> Any:
            """Return the data of a document."""
            return _built(node, strict)

    return Loader


def _built(node: Any, strict: bool) -> Any:
    if strict and node.tag not in _TAGS:
        raise _problem(f"the tag {node.tag} is not known", node)
    if node.id == "scalar":
        read = _READERS.get(node.tag)
        if strict and node.tag == NUMBER and _NOT_FINITE.fullmatch(node.value):
            # Each field says what it takes.
            return float(node.value.replace(".", ""))
        return node.value if read is None else read(node)
    if node.id == "sequence":
        return [_built(child, strict) for child in node.value]
    merged: dict[str, Any] = {}
    found: dict[str, Any] = {}
    for key_node, value_node in node.value:
        if key_node.tag == MERGE:
            for part in value_node.value if value_node.id == "sequence" else (value_node,):
                if part.id != "mapping":
                    raise _problem("a merge key (<<) names something that is not a mapping", part)
                # Of several the first one counts.
                merged = {**_built(part, strict), **merged}
            continue
        key = _key(key_node, strict)
        if strict and key in found:
            raise _problem(f"key {key!r} is given twice", key_node)
        found[key] = _built(value_node, strict)
    return {**merged, **found} if merged else found


def _key(node: Any, strict: bool) -> str:
    if node.id != "scalar":
        raise _problem("a mapping or list is used as a key", node)
    key = _built(node, strict)
    if isinstance(key, str):
        return key
    if strict or key is None:
        raise _problem(f"key {key!r} is not text", node)
    return str(key).lower()


def _problem(said: str, node: Any) -> Exception:
    import yaml

    return yaml.constructor.ConstructorError(None, None, said, node.start_mark)


def _number(node: Any) -> int | float | str:
    found = number(node.value)
    if found is None and _NOT_FINITE.fullmatch(node.value):
        raise _problem(f"{node.value} is a number that JSON cannot hold", node)
    return node.value if found is None else found


def _float(node: Any) -> float | str:
    found = _number(node)
    return found if isinstance(found, str) else float(found)


def _binary(node: Any) -> str:
    try:
        return base64.b64decode("".join(node.value.split()), validate=True).decode("utf-8", "replace")
    except ValueError as error:
        raise _problem(f"is not base64: {error}", node) from None


_READERS: dict[str, Callable[[Any], Any]] = {
    NULL: lambda _node: None,
    BOOL: lambda node: {**_WORDS, **_LETTERS}.get(node.value, node.value),
    NUMBER: _number,
    FLOAT: _float,
    BINARY: _binary,
}
_TAGS = {*_READERS, MERGE, *(_STANDARD + name for name in ("str", "seq", "map", "timestamp"))}
