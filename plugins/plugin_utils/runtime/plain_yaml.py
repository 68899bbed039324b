# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""YAML of others, with limits: a few lines of aliases expand to more than any memory, a few brackets to any depth."""

from __future__ import annotations

import re
from typing import Any

from .kubernetes_yaml import kubernetes_loader

MAX_DEPTH = 100
MAX_NODES = 500_000
# A level of block style takes a column before the first word of a line, one of flow style a bracket where a value may
# begin: within both nothing is deep. Prose with brackets in it is no nesting.
_INDENTED = re.compile(r"^[ \t?:-]{200}", re.MULTILINE)
_BRACKET = re.compile(r"(?:^|[-?:,\[{]|[&!][^\s\[{]*)[ \t]*(?=[\[{])", re.MULTILINE)
_OTHER_BREAKS = re.compile("[\r\x85\u2028\u2029]")
_ANCHOR = re.compile(r"(?:^|[\s\[{,:?-])&[^\s&]", re.MULTILINE)


class PlainYamlError(ValueError):
    """A text that is not YAML, or passes a limit: what is wrong, and its line from 1 (0: unknown)."""

    def __init__(self, said: str, line: int = 0) -> None:
        """Keep both."""
        super().__init__(f"line {line}: {said}" if line else said)
        self.said, self.line = said, line


def documents(text: str, loader_class: Any = None) -> list[Any]:
    """Return the documents of a YAML text.

    Args:
        text: the text.
        loader_class: a loader of PyYAML; by default one that reads as Kubernetes does.

    Raises:
        PlainYamlError: not YAML, or a limit is passed.
        ValueError: a value is not what its form promises.
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
            # Before it is built: building is what writes them out.
            if aliased:
                _check_size(node)
            found.append(loader.construct_document(node))
        return found
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        said = str(getattr(error, "problem", None) or error).splitlines()[0][:200]
        raise PlainYamlError(said, mark.line + 1 if mark else 0) from None
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
    """Refuse nesting from the events of a text: what makes a tree of them calls itself, and dies of a deep one.

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
    """Refuse a tree of nodes that is deeper or larger than the limits once its aliases are written out.

    Raises:
        PlainYamlError: it is.
    """
    # What is aliased is one node: it is counted once, and its size added wherever it stands.
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
