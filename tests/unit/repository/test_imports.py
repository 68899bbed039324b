# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Import rules that the contracts of import-linter cannot say."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path, PurePath

import pytest

OURS = "ansible_collections.gpufleet"
ROOT_PACKAGE = f"{OURS}.bringup"
REHEARSAL = f"{OURS}.rehearsal"
PLACE = PurePath("rehearsal")
OWN_ROOMS = PLACE / "plugins/plugin_utils"
REHEARSAL_MAY_IMPORT = {"outcome", "runtime", "clients", "hardware"}


def imported(name: PurePath, source: str) -> Iterator[str]:
    """Absolute names of everything that a file of the collection imports, relative imports and lazy ones included."""
    package = (*(OURS if name.is_relative_to(PLACE) else ROOT_PACKAGE).split("."), *name.parent.parts)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            module = ".".join(part for part in (base, node.module) if part)
            yield from (f"{module}.{alias.name}" for alias in node.names)


def is_rehearsal(module: str) -> bool:
    return module == REHEARSAL or module.startswith(f"{REHEARSAL}.")


# The one place that takes a loader of PyYAML, and gives it other rules: PyYAML's own stop at a bare `=`.
YAML_READER = PurePath("plugins/plugin_utils/runtime/foreign_yaml.py")


def yaml_readers(source: str) -> set[str]:
    """What of PyYAML a source reads with: its loaders, and the functions that choose one."""
    tree = ast.parse(source)
    names = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    names |= {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "yaml":
            names |= {alias.name for alias in node.names}
    functions = {"safe_load", "safe_load_all", "full_load", "full_load_all", "unsafe_load", "unsafe_load_all"}
    loaders = {f"{c}{kind}Loader" for c in ("", "C") for kind in ("", "Base", "Safe", "Full", "Unsafe")}
    return names & (functions | loaders)


@pytest.mark.parametrize(
    "source",
    [
        "import yaml\nyaml.safe_load(text)",
        "def f():\n    from yaml import safe_load_all",
        "import yaml\nyaml.load_all(text, Loader=getattr(yaml, 'CSafeLoader', yaml.SafeLoader))",
    ],
)
def test_a_reader_of_pyyaml_is_seen(source: str) -> None:
    assert yaml_readers(source)
    assert not yaml_readers("import yaml\nyaml.dump(data, Dumper=yaml.SafeDumper)")


def test_yaml_is_read_in_one_way(repository: Path, python_files: tuple[Path, ...]) -> None:
    found = {
        name
        for name in python_files
        if name.parts[0] in ("plugins", "rehearsal", "tools") and yaml_readers((repository / name).read_text("utf-8"))
    }
    assert found == {YAML_READER}


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("from ....rehearsal.plugins.plugin_utils.model import derive", "plugins/plugin_utils/x.py"),
        ("from .....rehearsal.plugins.plugin_utils import model", "plugins/plugin_utils/verdict/x.py"),
        (f"def f():\n    import {REHEARSAL}.plugins.plugin_utils.model", "plugins/action/check.py"),
        (f"from {REHEARSAL}.plugins.plugin_utils import model", "plugins/action/check.py"),
        ("from ..model import derive", "rehearsal/plugins/plugin_utils/hosts/x.py"),
    ],
)
def test_an_import_of_the_rehearsal_is_seen(source: str, name: str) -> None:
    assert any(map(is_rehearsal, imported(PurePath(name), source)))


def test_nothing_of_the_first_collection_imports_the_second(repository: Path, python_files: tuple[Path, ...]) -> None:
    offenders = []
    for name in python_files:
        if name.parts[0] in ("plugins", "bin"):
            modules = imported(name, (repository / name).read_text("utf-8"))
            offenders += [f"{name} imports {module}" for module in modules if is_rehearsal(module)]
    assert offenders == []


def test_the_rehearsal_imports_facts_only(repository: Path, python_files: tuple[Path, ...]) -> None:
    core = f"{ROOT_PACKAGE}.plugins.plugin_utils."
    offenders = []
    for name in python_files:
        if name.is_relative_to(OWN_ROOMS):
            for module in imported(name, (repository / name).read_text("utf-8")):
                if module.startswith(core) and module.removeprefix(core).split(".")[0] not in REHEARSAL_MAY_IMPORT:
                    offenders.append(f"{name} imports {module}")
    assert offenders == []
