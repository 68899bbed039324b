# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The collection as users get it: built, installed offline into an empty directory, rehearsed without any setting."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from rehearsal_harness import ROOT, left_behind

pytestmark = pytest.mark.drawn(1, of="runs from elsewhere", whole=True)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory that holds the installed collection and nothing else."""
    home = tmp_path_factory.mktemp("installed")
    source = home / "source"
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    ).stdout.split(b"\0")
    for name in filter(None, (raw.decode() for raw in listed)):
        if (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, source / name)
    galaxy = [sys.executable, "-m", "ansible", "galaxy", "collection"]
    subprocess.run([*galaxy, "build", "--output-path", str(home)], cwd=source, check=True, capture_output=True)
    tarball = next(home.glob("gpufleet-bringup-*.tar.gz"))
    work = home / "work"
    work.mkdir()
    # Neither from the checkout nor with its PYTHONPATH, nor with what lies in the user's home (ansible-lint installs
    # there): galaxy would find the collection and install nothing.
    install = [*galaxy, "install", "--offline", "-p", str(work / "collections"), str(tarball)]
    bare = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    bare |= {"ANSIBLE_HOME": str(home / "ansible"), "ANSIBLE_COLLECTIONS_PATH": str(work / "collections")}
    subprocess.run(install, cwd=work, env=bare, check=True, capture_output=True)
    return work


def test_the_tarball_holds_nothing_of_development(installed: Path) -> None:
    root = installed / "collections/ansible_collections/gpufleet/bringup"
    assert (root / "recipes/registry.yaml").is_file()
    for name in (".git", ".cache", ".run", ".ci", "bench", "tests/data"):
        assert not (root / name).exists(), name


def test_the_command_line_of_the_installed_collection_answers(installed: Path) -> None:
    program = installed / "collections/ansible_collections/gpufleet/bringup/bin/gpufleet"
    environment = {"PATH": os.environ["PATH"], "HOME": str(installed), "GPUFLEET_PYTHON": sys.executable}
    asked = [str(program), "query", "components.nfd.namespace", "--service", "eks", "--accelerator", "h100"]
    done = subprocess.run(asked, cwd="/", env=environment, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("node-feature-discovery\n", "")


def test_a_rehearsal_from_the_installed_collection_passes(installed: Path) -> None:
    keep = {"PATH", "HOME", "LANG"}
    environ = {name: value for name, value in os.environ.items() if name in keep}
    environ |= {"ANSIBLE_COLLECTIONS_PATH": str(installed / "collections"), "PWD": str(installed), "LC_ALL": "C.UTF-8"}
    argv = [
        sys.executable,
        "-m",
        "ansible",
        "playbook",
        "gpufleet.bringup.rehearse",
        "-e",
        "gpufleet_rehearsal_nodes=3",
    ]
    gates = ["-e", "gpufleet_gates=facility,nodes,gpu_stack"]
    done = subprocess.run([*argv, *gates], cwd=installed, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert (installed / ".run/latest/report.html").is_file()
    # Without ansible.cfg there is no callback: the verb itself prints the table.
    assert "REHEARSAL passed for facility, nodes, gpu_stack" in done.stdout
    assert not left_behind(installed / ".run")
