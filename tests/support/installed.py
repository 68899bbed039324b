# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The collections as users get them: built, and installed offline into a directory that holds nothing else."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from rehearsal_harness import ROOT

# What of the environment of the tests a user has, too; the checkout's own variables are left out.
KEPT = ("PATH", "HOME", "LANG")


def copied_checkout(source: Path) -> Path:
    """Copy the files of the checkout as it stands, without what git ignores; return where they are."""
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
    return source


def installed_collection(home: Path) -> Path:
    """Build the tarballs of what git tracks, as `make build` does, and install gpufleet.bringup below `home`; return
    the empty working directory, which has the collection in `collections`."""
    subprocess.run([sys.executable, "-m", "tools.tarball", str(home)], cwd=ROOT, check=True, capture_output=True)
    work = home / "work"
    work.mkdir()
    _install(home, "bringup")
    return work


def with_rehearsal(work: Path) -> Path:
    """Install gpufleet.rehearsal beside it, and return the directory."""
    _install(work.parent, "rehearsal")
    return work


def _install(home: Path, name: str) -> None:
    work, tarball = home / "work", next(home.glob(f"gpufleet-{name}-*.tar.gz"))
    # Neither from the checkout nor with its PYTHONPATH, nor with what lies in the user's home (ansible-lint installs
    # there): galaxy would find the collection and install nothing.
    install = [sys.executable, "-m", "ansible", "galaxy", "collection", "install", "--offline"]
    install += ["-p", str(work / "collections"), str(tarball)]
    bare = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    bare |= {"ANSIBLE_HOME": str(home / "ansible"), "ANSIBLE_COLLECTIONS_PATH": str(work / "collections")}
    subprocess.run(install, cwd=work, env=bare, check=True, capture_output=True)


def environment_of(work: Path) -> dict[str, str]:
    """Return the environment of a user of that directory, with the collection's own program and those of the tests'
    interpreter first on PATH."""
    kept = {name: os.environ[name] for name in KEPT if name in os.environ}
    own = work / "collections" / "ansible_collections" / "gpufleet" / "bringup" / "bin"
    programs = os.pathsep.join((str(own), str(Path(sys.executable).parent), kept["PATH"]))
    return kept | {
        "PATH": programs, "PWD": str(work), "LC_ALL": "C.UTF-8", "ANSIBLE_COLLECTIONS_PATH": str(work / "collections"),
    }  # fmt: skip
