# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The program bin/gpufleet as a process: where it may stand, with which interpreter, and how it ends in a pipe."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from gpufleet_command import Command

QUERY = ("query", "components.nfd.namespace", "--service", "eks")
RECIPE = ("recipe", "--service", "eks", "--format", "json")
_ROOM = "ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe"
NOT_NEEDED = {"ansible", "yaml", "cattrs", "kubernetes", "sqlalchemy", f"{_ROOM}.output", f"{_ROOM}.pools"}
NOT_NEEDED |= {f"{_ROOM.rpartition('.')[0]}.{name}" for name in ("outcome.model", "runtime.strict")}


@pytest.fixture
def elsewhere(tmp_path: Path, repository: Path) -> Path:
    """The collection as it is installed: at another place, without what a checkout has."""
    root = tmp_path / "collections" / "ansible_collections" / "gpufleet" / "bringup"
    for name in ("bin", "plugins", "recipes"):
        shutil.copytree(repository / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy2(repository / "galaxy.yml", root / "galaxy.yml")
    return root


def test_it_works_from_any_directory_and_through_a_link(program: Command, repository: Path, tmp_path: Path) -> None:
    link = tmp_path / "bin" / "gpufleet"
    link.parent.mkdir()
    link.symlink_to(repository / "bin" / "gpufleet")
    python = {"GPUFLEET_PYTHON": sys.executable}
    assert program(*QUERY, cwd=tmp_path, start=link, **python).out == "node-feature-discovery\n"
    command = ["sh", "-c", f"cd '{repository}/bin' && ./gpufleet {' '.join(QUERY)} && sh gpufleet {' '.join(QUERY)}"]
    done = subprocess.run(command, env=os.environ | python, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["node-feature-discovery"] * 2


def test_an_installed_one_reads_its_own_tree_and_writes_nothing_beside_it(
    program: Command, elsewhere: Path, tmp_path: Path
) -> None:
    registry = elsewhere / "recipes" / "registry.yaml"
    text = registry.read_text(encoding="utf-8")
    registry.write_text(text.replace("defaultNamespace: node-feature-discovery", "defaultNamespace: elsewhere"))
    before = set(elsewhere.rglob("*"))
    ended = program(*QUERY, cwd=tmp_path, start=elsewhere / "bin" / "gpufleet", GPUFLEET_PYTHON=sys.executable)
    assert (ended.out, ended.err) == ("elsewhere\n", "")
    assert set(elsewhere.rglob("*")) == before


@pytest.mark.parametrize(
    "head",
    [
        "#!{python}\n# more\n",
        '#!/bin/sh\n\'\'\'exec\' "{python}" "$0" "$@"\n',
        "#!/bin/sh\n'''exec' {python} \"$0\" \"$@\"\n",
        "#!/usr/bin/env python-of-ansible\n# more\n",
    ],
)
def test_the_interpreter_is_that_of_ansible_playbook(
    program: Command, elsewhere: Path, tmp_path: Path, head: str
) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    python = programs / "python-of-ansible"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n', encoding="utf-8")
    playbook = programs / "ansible-playbook"
    playbook.write_text(head.format(python=python), encoding="utf-8")
    # One that has nothing: who starts it would be told which package is missing.
    bare = programs / "python3"
    bare.write_text('#!/bin/sh\necho "the wrong Python" >&2\nexit 70\n', encoding="utf-8")
    for file in (python, playbook, bare):
        file.chmod(0o755)
    ended = program(*QUERY, start=elsewhere / "bin" / "gpufleet", PATH=f"{programs}:/usr/bin:/bin")
    assert (ended.code, ended.out) == (0, "node-feature-discovery\n")


def test_a_package_that_is_missing_is_named_with_the_interpreter(program: Command, tmp_path: Path) -> None:
    python = tmp_path / "bare"
    # Without site there are no packages but Python's own.
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n', encoding="utf-8")
    python.chmod(0o755)
    ended = program("recipe", "--service", "eks", GPUFLEET_PYTHON=str(python), XDG_CACHE_HOME=str(tmp_path / "new"))
    assert (ended.code, ended.out) == (2, "")
    assert "Python package yaml: is not installed" in ended.err
    assert "requirements.txt" in ended.err
    assert "Traceback" not in ended.err


def test_a_reader_who_has_gone_hears_nothing(repository: Path, kept: Path) -> None:
    command = f"'{repository}/bin/gpufleet' list --format json 2>errors | head -1; cat errors"
    environment = os.environ | {"XDG_CACHE_HOME": str(kept), "GPUFLEET_PYTHON": sys.executable}
    done = subprocess.run(
        ["bash", "-c", command], cwd=kept, env=environment, capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr) == ("{\n", "")


def test_a_full_disk_behind_the_output_is_told(repository: Path, kept: Path) -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        environment = os.environ | {"XDG_CACHE_HOME": str(kept), "GPUFLEET_PYTHON": sys.executable}
        command = [str(repository / "bin" / "gpufleet"), *QUERY]
        done = subprocess.run(command, env=environment, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (8, "gpufleet: standard output: No space left on device.\n")


@pytest.mark.parametrize("asked", [QUERY, RECIPE], ids=["query", "recipe"])
def test_neither_ansible_nor_what_is_not_needed_is_imported(
    program: Command, repository: Path, kept: Path, asked: Sequence[str]
) -> None:
    assert program(*QUERY, GPUFLEET_PYTHON=sys.executable).code == 0
    script = (
        "import runpy, sys\n"
        f"sys.argv = ['gpufleet', *{[*asked]!r}]\n"
        "try:\n    runpy.run_path(sys.path.pop(0), run_name='__main__')\n"
        "except SystemExit as end:\n    assert not end.code\n"
        f"print(sorted({NOT_NEEDED!r} & set(sys.modules)))\n"
    )
    start = repository / "plugins" / "plugin_utils" / "cli" / "start.py"
    environment = {"PATH": os.environ["PATH"], "XDG_CACHE_HOME": str(kept), "PYTHONPATH": str(start)}
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(start)!r})\n{script}"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("gpufleet rec", {"recipe"}),
        ("gpufleet up", {"upgrade-check"}),
        ("gpufleet recipe --acc", {"--accelerator"}),
        ("gpufleet recipe --service ek", {"eks"}),
        ("gpufleet values nvidia-dra", {"nvidia-dra-driver-gpu"}),
        ("gpufleet recipe --format j", {"json"}),
        ("gpufleet upgrade-check --kuber", {"--kubernetes"}),
    ],
)
def test_a_shell_completes_commands_flags_and_values(
    program: Command, tmp_path: Path, line: str, words: set[str]
) -> None:
    answer = tmp_path / "answer"
    asked = {"_ARGCOMPLETE": "1", "_ARGCOMPLETE_STDOUT_FILENAME": str(answer), "_ARGCOMPLETE_IFS": "\n"}
    shell = {"COMP_LINE": line, "COMP_POINT": str(len(line)), "COMP_TYPE": "9"}
    program(GPUFLEET_PYTHON=sys.executable, **asked, **shell)
    assert {word.strip() for word in answer.read_text(encoding="utf-8").split("\n")} == words


def test_without_the_package_nothing_is_completed_and_nothing_said(program: Command, tmp_path: Path) -> None:
    python = tmp_path / "bare"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n', encoding="utf-8")
    python.chmod(0o755)
    asked = {"_ARGCOMPLETE": "1", "COMP_LINE": "gpufleet rec", "COMP_POINT": "12"}
    ended = program(GPUFLEET_PYTHON=str(python), **asked)
    assert (ended.out, ended.err) == ("", "")
