# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Reads YAML of third parties as Kubernetes does, with limits on what a few lines can expand to."""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable
from functools import cache
from typing import Any

# YAML as Kubernetes reads it, for all third-party text: charts, releases, definitions, manifests, ConfigMaps.
#
# kubectl, Helm and the API server read with kubernetes-sigs/yaml: go-yaml v2 (its goyaml.v2/resolve.go), then JSON
# (yaml.go). So `yes`, `on` and `y` are booleans as in YAML 1.1, `0755` and `0o755` are octal, and keys become texts.
# But `=`, dates and `22:30` are texts, the last value of a repeated key counts, and unknown tags are ignored. PyYAML's
# own safe loader implements all of YAML 1.1: it stops at a bare `=`, and turns dates into objects that JSON cannot
# hold.

_STANDARD = "tag:yaml.org,2002:"
NULL, BOOL, NUMBER, FLOAT, BINARY, MERGE = (
    _STANDARD + name for name in ("null", "bool", "int", "float", "binary", "merge")
)
_INTEGER = re.compile(r"[-+]?(?:0[xX][0-9a-fA-F]+|0[oO]?[0-7]+|0[bB][01]+|[1-9][0-9]*|0)")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_OCTAL = re.compile(r"([-+]?)0[oO]?([0-7]+)")
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
# Starts like a number. Whether it is one is decided by `number`.
_LIKE_A_NUMBER = re.compile(r"[-+]?\.?_*[0-9]|[-+]?\.[iInN]")
_NULLS = re.compile(r"(?:~|null|Null|NULL|)$")
_WORDS = {
    **dict.fromkeys(("yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
}
_LETTERS = {"y": True, "Y": True, "n": False, "N": False}


def number(text: str) -> int | float | None:
    """Return the number of an unquoted scalar, None for a text."""
    if len(text) > 64:
        return None
    plain = text.replace("_", "")
    if _INTEGER.fullmatch(plain):
        octal = _OCTAL.fullmatch(plain)
        return int(f"{octal[1]}0o{octal[2]}", 0) if octal else int(plain, 0)
    if _FLOAT.fullmatch(plain):
        found = float(plain)
        # A number too large for a float is a text.
        return found if math.isfinite(found) else None
    return None


def _resolvers(words: dict[str, bool]) -> dict[str, list[tuple[str, re.Pattern[str]]]]:
    """Return the tags of unquoted scalars as PyYAML needs them: by first letter, with a pattern."""
    pattern = re.compile(f"(?:{'|'.join(words)})$")
    found: dict[str, list[tuple[str, re.Pattern[str]]]] = {word[0]: [(BOOL, pattern)] for word in words}
    for first in ("", "~", "n", "N"):
        found[first] = [*found.get(first, []), (NULL, _NULLS)]
    found.update({first: [(NUMBER, _LIKE_A_NUMBER)] for first in "-+.0123456789"})
    found["<"] = [(MERGE, re.compile("<<$"))]
    return found


@cache
def parser() -> Any:
    """Return PyYAML's safe loader. The one of libyaml, where installed, is several times faster."""
    # Third-party imports stay inside functions: ansible-test's import sanity has no third-party packages.
    import yaml

    return getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@cache
def kubernetes_loader(*, strict: bool = False) -> Any:
    """Return a PyYAML loader that reads as Kubernetes does.

    Args:
        strict: for our own file formats: a key that is no text or is repeated is an error, and so is an unknown tag;
            `y` and `n` are texts.
    """

    class Loader(parser()):  # type: ignore[misc,unused-ignore]
        """Builds a document from its nodes. Nodes that contain themselves were refused before."""

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
            # Every field checks its own type.
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
                # Of several merged mappings the first one counts.
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


def _problem(reported: str, node: Any) -> Exception:
    import yaml

    return yaml.constructor.ConstructorError(None, None, reported, node.start_mark)


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


# Limits: a few lines of aliases can expand beyond any memory, a few brackets nest to any depth.

MAX_DEPTH = 100
MAX_NODES = 500_000
# In block style a level takes a column before the first word of a line, in flow style a bracket where a value may
# begin. Within both limits nothing is deep. Brackets within prose are no nesting.
_INDENTED = re.compile(r"^[ \t?:-]{200}", re.MULTILINE)
_BRACKET = re.compile(r"(?:^|[-?:,\[{]|[&!][^\s\[{]*)[ \t]*(?=[\[{])", re.MULTILINE)
_OTHER_BREAKS = re.compile("[\r\x85\u2028\u2029]")
_ANCHOR = re.compile(r"(?:^|[\s\[{,:?-])&[^\s&]", re.MULTILINE)


class PlainYamlError(ValueError):
    """A text is not YAML, or passes a limit: the problem, and its line from 1 (0: unknown)."""

    def __init__(self, reported: str, line: int = 0) -> None:
        """Keep both."""
        super().__init__(f"line {line}: {reported}" if line else reported)
        self.said, self.line = reported, line


def documents(text: str, loader_class: Any = None) -> list[Any]:
    """Return the documents of a YAML text.

    Args:
        text: the text.
        loader_class: a loader of PyYAML; by default one that reads as Kubernetes does.

    Raises:
        PlainYamlError: not YAML, or a limit is passed.
        ValueError: a value that does not have the form of its tag.
    """
    import yaml

    loader, loader_class = None, loader_class or kubernetes_loader()
    aliased = "*" in text and _ANCHOR.search(text)
    try:
        if not _is_flat(text):
            _check_depth(loader_class(text))
        loader = loader_class(text)
        found = []
        while loader.check_node():
            node = loader.get_node()
            # Before it is built, since building expands the aliases.
            if aliased:
                _check_size(node)
            found.append(loader.construct_document(node))
        return found
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        reported = str(getattr(error, "problem", None) or error).splitlines()[0][:200]
        raise PlainYamlError(reported, mark.line + 1 if mark else 0) from None
    except RecursionError:
        raise PlainYamlError(f"nested deeper than {MAX_DEPTH} levels") from None
    finally:
        if loader is not None:
            loader.dispose()


def _is_flat(text: str) -> bool:
    if _INDENTED.search(text) or _OTHER_BREAKS.search(text):
        return False
    return text.count("[") + text.count("{") < MAX_DEPTH or len(_BRACKET.findall(text)) < MAX_DEPTH


def _check_depth(loader: Any) -> None:
    """Refuse deep nesting while parsing events: building the tree is recursive and would overflow the stack.

    Raises:
        PlainYamlError: it is too deep.
    """
    import yaml

    depth = 0
    try:
        while loader.check_event():
            event = loader.get_event()
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > MAX_DEPTH:
                raise PlainYamlError(f"nested deeper than {MAX_DEPTH} levels", event.start_mark.line + 1)
    finally:
        loader.dispose()


def _check_size(root: Any) -> None:
    """Refuse a tree of nodes that is deeper or larger than the limits once its aliases are expanded.

    Raises:
        PlainYamlError: it is.
    """
    # An aliased node is counted once, and its size is added at every place that refers to it.
    sizes: dict[int, int] = {}
    within: set[int] = set()
    open_nodes: list[tuple[Any, int, bool]] = [(root, 0, False)]
    while open_nodes:
        node, depth, counted = open_nodes.pop()
        children = _children(node)
        if counted:
            within.discard(id(node))
            sizes[id(node)] = 1 + sum(sizes[id(child)] for child in children)
            if sizes[id(node)] > MAX_NODES:
                raise PlainYamlError(f"has more than {MAX_NODES} values with its aliases written out")
        elif id(node) in within:
            raise PlainYamlError("holds itself by an alias")
        elif id(node) not in sizes:
            if depth > MAX_DEPTH:
                raise PlainYamlError(f"nested deeper than {MAX_DEPTH} levels")
            within.add(id(node))
            open_nodes.append((node, depth, True))
            open_nodes.extend((child, depth + 1, False) for child in children)


def _children(node: Any) -> list[Any]:
    if not isinstance(node.value, list):
        return []
    return [part for entry in node.value for part in (entry if isinstance(entry, tuple) else (entry,))]
