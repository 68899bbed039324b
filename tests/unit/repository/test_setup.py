# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""`make setup` provides the packages of the system that are missing, or names them before it does anything else."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from time import monotonic

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import NotFoundError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.progress import Progress
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.lifecycle.bring_up import bring_up
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.lifecycle.request import (
    PROGRAMS,
    RehearsalRequest,
    refuse_missing_programs,
)

HIDDEN = ("ssh-keygen", "sudo", "apt-get", "id", "git")


@pytest.fixture
def checkout(repository: Path, tmp_path: Path) -> Path:
    """A checkout with nothing but the setup, and a PATH without what is hidden."""
    (tmp_path / "tools").mkdir()
    for name in ("setup", "attended.py"):
        shutil.copy(repository / "tools" / name, tmp_path / "tools" / name)
    (tmp_path / "requirements").mkdir()
    for name in ("python3.11.txt", "python3.12.txt"):
        (tmp_path / "requirements" / name).write_text("nothing\n")
    programs = tmp_path / "bin"
    programs.mkdir()
    for directory in (Path("/usr/bin"), Path("/bin")):
        for program in directory.iterdir():
            if program.name not in HIDDEN and not (programs / program.name).is_symlink():
                (programs / program.name).symlink_to(program)
    return tmp_path


def add(checkout: Path, name: str, script: str) -> None:
    path = checkout / "bin" / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def run_setup(checkout: Path) -> subprocess.CompletedProcess[str]:
    environ = {"PATH": str(checkout / "bin"), "HOME": str(checkout)}
    argv = [str(checkout / "tools" / "setup")]
    return subprocess.run(argv, env=environ, capture_output=True, text=True, check=False, timeout=120)


def test_a_user_who_may_not_install_is_told_the_command_at_once(checkout: Path) -> None:
    add(checkout, "id", "echo 1000")
    add(checkout, "apt-get", f"echo tried >>{checkout}/log")
    (checkout / ".git").mkdir()
    began = monotonic()
    done = run_setup(checkout)
    assert monotonic() - began < 10
    assert done.returncode == 1
    assert "missing and could not be installed, packages of the system: openssh-client git\n" in done.stderr
    assert "As root: apt-get install openssh-client git\n" in done.stderr
    # Nothing was begun.
    assert not (checkout / "log").exists()
    assert not (checkout / ".cache").exists()


@pytest.mark.quickly(1)
@pytest.mark.parametrize("user", ["root", "sudo"])
def test_who_may_install_has_it_installed(user: str, checkout: Path) -> None:
    add(checkout, "id", "echo 0" if user == "root" else "echo 1000")
    if user == "sudo":
        add(checkout, "sudo", f'echo "$@" >>{checkout}/sudo; shift; exec "$@"')
    made = f"printf '#!/bin/sh\\n' >{checkout}/bin/ssh-keygen; chmod +x {checkout}/bin/ssh-keygen"
    add(checkout, "apt-get", f'echo "$@" >>{checkout}/log; {made}')
    done = run_setup(checkout)
    assert "setup: installing openssh-client (apt-get)" in done.stdout
    assert (checkout / "log").read_text() == "-qq install -y --no-install-recommends openssh-client\n"
    assert (checkout / "sudo").exists() == (user == "sudo")
    # It went on: to requirements that this checkout does not really have.
    assert "requirements/python3.1" in done.stdout
    assert "packages of the system" not in done.stderr


def test_without_apt_the_packages_are_named_all_the_same(checkout: Path) -> None:
    add(checkout, "id", "echo 0")
    done = run_setup(checkout)
    assert (done.returncode, done.stdout) == (1, "")
    assert "As root: apt-get install openssh-client\n" in done.stderr


def test_the_playbook_without_make_names_the_same(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    refuse_missing_programs()
    monkeypatch.setenv("PATH", str(tmp_path))
    directory, cache = tmp_path / "rehearsal", tmp_path / "cache"
    request = RehearsalRequest(directory=directory, cache=cache, collection=tmp_path, nodes=())
    with pytest.raises(NotFoundError) as caught:
        bring_up(request, Progress())
    assert not directory.exists() and not cache.exists()
    assert caught.value.subject == "programs ssh-keygen, flock, awk"
    assert caught.value.hint == (
        "as root: apt-get install mawk openssh-client util-linux (RHEL: dnf install gawk openssh-clients util-linux)"
    )


def test_setup_and_playbook_need_the_same(repository: Path) -> None:
    text = (repository / "tools" / "setup").read_text()
    for program, (package, _rhel) in PROGRAMS.items():
        assert f"command -v {program} >/dev/null || printf ' {package}'" in text
