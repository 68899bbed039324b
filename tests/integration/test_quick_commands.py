# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Commands of the pages and of help texts that need no cluster, as typed, from the installed tarball; the rest of them
runs every night (tests/rehearsal/test_documented_commands.py)."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from documented import Command, commands_of, example_of_help, user_pages, write_files
from installed import environment_of, installed_collection

ROOT = Path(__file__).resolve().parents[2]
CRASHES = ("Traceback", "is undefined", "this is a defect", "Unexpected failure", "ERROR! ")
_OF_PAGES = {
    page: [each for each in commands_of(ROOT, page) if each.needs_no_cluster and not each.not_run]
    for page in user_pages(ROOT)
}
QUICK = {page: found for page, found in _OF_PAGES.items() if found}


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The directory of a user who installed the tarball, copied the example inventory and wrote the files of pages."""
    directory = installed_collection(tmp_path_factory.mktemp("quick"))
    shutil.copytree(ROOT / "inventories" / "example", directory / "inventory")
    shutil.copytree(ROOT / "inventories" / "example", directory / "my-site")
    write_files(ROOT, directory)
    yield directory


def _run(command: str, work: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", command], cwd=work, env=environment_of(work), capture_output=True, text=True, check=False,
        stdin=subprocess.DEVNULL, timeout=300,
    )  # fmt: skip


def _wrong(command: Command, work: Path) -> str:
    """Return how a command ended otherwise than its page says; empty if it did not."""
    done = _run(command.text, work)
    said = done.stdout + done.stderr
    crashes = [word for word in CRASHES if word in said]
    if done.returncode == command.status and not crashes:
        return ""
    return f"{command}\nended with {done.returncode}, announced is {command.status}; {crashes}\n{said[-2500:]}"


@pytest.mark.drawn(4)
@pytest.mark.parametrize("page", QUICK)
def test_commands_that_need_no_cluster_work_as_typed(work: Path, page: str) -> None:
    failed = [text for command in QUICK[page] if (text := _wrong(command, work))]
    assert not failed, "\n\n".join(failed)


def test_the_examples_of_help_work_as_typed(work: Path) -> None:
    names = re.findall(r"^    ([a-z-]+) ", _run("gpufleet --help", work).stdout, re.MULTILINE)
    assert {"recipe", "explain", "status", "history"} <= set(names)
    examples = {name: example_of_help(_run(f"gpufleet {name} --help", work).stdout) for name in names}
    assert all(text.startswith(f"gpufleet {name}") for name, text in examples.items()), examples
    commands = [Command("--help", 0, text) for text in examples.values()]
    failed = [text for command in commands if command.needs_no_cluster and (text := _wrong(command, work))]
    assert not failed, "\n\n".join(failed)


def test_every_target_of_make_help_is_one() -> None:
    make = ["make", "--no-print-directory", "-C", str(ROOT)]
    listed = subprocess.run([*make, "help"], capture_output=True, text=True, check=True).stdout
    targets = re.findall(r"^  make (\S+)", listed, re.MULTILINE)
    assert len(targets) > 20
    for target in targets:
        done = subprocess.run([*make, "-n", target], capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"make {target}: {done.stderr}"
