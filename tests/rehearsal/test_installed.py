# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The collections as users get them: built, installed offline into an empty directory, rehearsed without a setting."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from installed import environment_of, installed_collection, with_rehearsal
from rehearsal_harness import left_behind

pytestmark = pytest.mark.drawn(1, of="runs from elsewhere", whole=True)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory that holds the installed collection and nothing else."""
    return installed_collection(tmp_path_factory.mktemp("installed"))


@pytest.fixture(scope="module")
def with_second(installed: Path) -> Path:
    """The same directory, from now on with the collection that rehearses."""
    return with_rehearsal(installed)


def _play(work: Path, *words: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "ansible", "playbook", *words]
    return subprocess.run(argv, cwd=work, env=environment_of(work), capture_output=True, text=True, check=False)


def test_the_tarball_holds_nothing_of_development_nor_of_a_rehearsal(installed: Path) -> None:
    root = installed / "collections/ansible_collections/gpufleet/bringup"
    own = [path for path in root.rglob("*.py") if b"gpufleet.rehearsal.plugins" in path.read_bytes()]
    assert [str(path.relative_to(root)) for path in own if not path.is_relative_to(root / "tests")] == []
    assert not (root / "rehearsal").exists() and not (root / "roles/rehearsal").exists()
    assert (root / "recipes/registry.yaml").is_file() and (root / "docs/reference/settings.md").is_file()
    for name in (".git", ".cache", ".run", ".ci", "bench", "tests/data"):
        assert not (root / name).exists(), name


def test_the_command_line_of_the_installed_collection_answers(installed: Path) -> None:
    program = installed / "collections/ansible_collections/gpufleet/bringup/bin/gpufleet"
    environment = {"PATH": os.environ["PATH"], "HOME": str(installed), "GPUFLEET_PYTHON": sys.executable}
    asked = [str(program), "query", "components.nfd.namespace", "--service", "eks", "--accelerator", "h100"]
    done = subprocess.run(asked, cwd="/", env=environment, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("node-feature-discovery\n", "")


@pytest.mark.parametrize("playbook", ["rehearse", "rehearse_faults", "rehearse_stop"])
def test_without_the_second_collection_a_rehearsal_says_how_to_get_it(installed: Path, playbook: str) -> None:
    # Before the tests that install it.
    done = _play(installed, f"gpufleet.bringup.{playbook}", "-e", "gpufleet_rehearsal_nodes=3")
    assert done.returncode != 0 and not (installed / ".run").exists()
    (error,) = [line for line in done.stdout.splitlines() if line.startswith("error ")]
    assert error.startswith("error    collection gpufleet.rehearsal: is not installed")
    assert "Fix: ansible-galaxy collection install gpufleet-rehearsal-" in error and ".tar.gz" in error


def test_a_rehearsal_from_the_installed_collections_passes(with_second: Path) -> None:
    installed = with_second
    gates = ["-e", "gpufleet_gates=facility,nodes,gpu_stack"]
    done = _play(installed, "gpufleet.bringup.rehearse", "-e", "gpufleet_rehearsal_nodes=3", *gates)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert (installed / ".run/latest/report.html").is_file()
    # Without ansible.cfg there is no callback: what the run ended with is printed all the same, once, and at the end.
    end = done.stdout[done.stdout.index("PLAY RECAP") :]
    assert "REHEARSAL passed for facility, nodes, gpu_stack" in end and done.stdout.count("verdict  ") == 1
    assert f"report   {installed / '.run'}" in end and end.count("key figure") == 1
    assert not left_behind(installed / ".run")
