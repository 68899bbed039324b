# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sizes and headers that the house style promises."""

from __future__ import annotations

import ast
from pathlib import Path

MAX_FILE_LINES = 800
MAX_FUNCTION_LINES = 60
WITH_HEADER = {".py", ".yml", ".yaml", ".j2", ".sh", ".cfg", ".toml", ".in"}
LICENCE = "SPDX-License-Identifier: GPL-3.0-or-later"


def test_python_files_stay_short(repository: Path, python_files: tuple[Path, ...]) -> None:
    lines = {str(name): len((repository / name).read_text("utf-8").splitlines()) for name in python_files}
    assert {name: count for name, count in lines.items() if count > MAX_FILE_LINES} == {}


def test_functions_stay_short(repository: Path, python_files: tuple[Path, ...]) -> None:
    long = []
    for name in python_files:
        for node in ast.walk(ast.parse((repository / name).read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno is not None:
                count = node.end_lineno - node.lineno + 1
                if count > MAX_FUNCTION_LINES:
                    long.append(f"{name}:{node.lineno} {node.name}: {count} lines")
    assert long == []


def _frozen_with_slots(node: ast.ClassDef) -> bool:
    words = {word.arg for call in node.decorator_list if isinstance(call, ast.Call) for word in call.keywords}
    return {"frozen", "slots"} <= words and any("Generic[" in ast.unparse(base) for base in node.bases)


def test_generic_dataclasses_can_be_made_by_every_python(repository: Path, python_files: tuple[Path, ...]) -> None:
    # `Name[Kind](...)` sets an attribute, which a frozen one with slots refuses before Python 3.13 with a TypeError.
    found = []
    texts = {name: (repository / name).read_text("utf-8") for name in python_files}
    for name, text in texts.items():
        for node in ast.walk(ast.parse(text)) if "Generic[" in text else ():
            if isinstance(node, ast.ClassDef) and _frozen_with_slots(node):
                found.append(f"{name}:{node.lineno} {node.name}")
    assert found == []


def test_every_file_carries_its_licence(repository: Path, files: tuple[Path, ...]) -> None:
    missing = []
    for name in files:
        if name.suffix in WITH_HEADER and name.parts[:2] != ("tests", "data"):
            text = (repository / name).read_text("utf-8")
            if text.strip() and LICENCE not in "\n".join(text.splitlines()[:5]):
                missing.append(str(name))
    assert missing == []


def test_python_files_postpone_annotations(repository: Path, python_files: tuple[Path, ...]) -> None:
    wanted = "from __future__ import annotations"
    texts = {str(name): (repository / name).read_text("utf-8") for name in python_files}
    assert [name for name, text in texts.items() if text and wanted not in text] == []


def test_init_files_are_empty(repository: Path, python_files: tuple[Path, ...]) -> None:
    inits = (name for name in python_files if name.name == "__init__.py")
    written = [str(name) for name in inits if (repository / name).stat().st_size]
    # These say how what is below them is imported, before any of it is.
    assert written == ["plugins/plugin_utils/__init__.py", "rehearsal/plugins/plugin_utils/__init__.py"]
    for name in written:
        assert (repository / name).read_text("utf-8").endswith("\n\nimport_compiled(__name__)\n")


def test_there_is_no_sanity_ignore_file(files: tuple[Path, ...]) -> None:
    assert [str(name) for name in files if name.name.startswith("ignore-")] == []
