# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What parsers make of a tool's output is read: a field that no judge, snapshot or report reads is a fact that was
asked for and decides nothing. Those that may be so are listed with the reason in tests/data/unread_fields.yaml."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import yaml

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.tool_reading import parser_place
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.host_tools import load_host_tools


def test_every_field_of_a_parser_is_read_or_listed(repository: Path) -> None:
    core = repository / "plugins/plugin_utils"
    used = {name for path in sorted(core.rglob("*.py")) for name in _read_in(core, path)}
    # Parsers of one check stand in its file.
    modules = {parser_place(tool.parser)[0] for tool in load_host_tools().tools}
    of_checks = {core.joinpath(*name.partition(".plugin_utils.")[2].split(".")).with_suffix(".py") for name in modules}
    files = {*(core / "probe").glob("*.py"), *of_checks}
    unread = {field for path in sorted(files) for field in _fields(path, used)}
    listed = yaml.safe_load((repository / "tests/data/unread_fields.yaml").read_text(encoding="utf-8"))
    fields = [field for group in listed for field in group["fields"]]
    assert sorted(unread) == sorted(fields), "a field that nobody reads, or one in the list that is read"
    assert all(group["reason"] for group in listed)


def _read_in(core: Path, path: Path) -> Iterator[str]:
    """Return what a file reads: a parser reads nothing, and what a value's own methods read, its users read."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    room = path.relative_to(core).parts[0]
    if room == "probe":
        places: list[ast.stmt] = [
            entry for value in _values(tree) for entry in value.body if isinstance(entry, ast.FunctionDef)
        ]
    else:
        places = [entry for entry in tree.body if not _parses(entry)]
    for place in places:
        yield from (node.attr for node in ast.walk(place) if isinstance(node, ast.Attribute))


def _parses(entry: ast.AST) -> bool:
    return isinstance(entry, ast.FunctionDef) and entry.name.partition("_")[0] == "parse"


def _values(tree: ast.Module) -> Iterator[ast.ClassDef]:
    """Return the public classes of values."""
    classes = (entry for entry in tree.body if isinstance(entry, ast.ClassDef) and not entry.name.startswith("_"))
    for entry in classes:
        if any("dataclass" in ast.dump(decorator) for decorator in entry.decorator_list):
            yield entry


def _fields(path: Path, used: set[str]) -> Iterator[str]:
    for value in _values(ast.parse(path.read_text(encoding="utf-8"))):
        for entry in value.body:
            if isinstance(entry, ast.AnnAssign) and isinstance(entry.target, ast.Name) and entry.target.id not in used:
                yield f"{path.stem}.{value.name}.{entry.target.id}"
