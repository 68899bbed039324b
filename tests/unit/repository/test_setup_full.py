# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""`make setup-full` installs what `FULL=1` runs once for a user, and anew where anything of it differs."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

# In place of Python: tells what it was asked for, makes an environment, and installs what the lock names.
_PYTHON = """#!/bin/sh
case "$1 $2" in
"-c "*) echo "${FAKE_VERSION:-3.13}" ;;
"-m venv") echo "venv" >>"$HOME/asked"; mkdir -p "$4/bin"; cp "$0" "$4/bin/python" ;;
"-m pip")
  echo "pip" >>"$HOME/asked"
  [ -z "${FAKE_FAILS:-}" ] || exit 1
  for last in "$@"; do :; done
  cp "$last" "$(dirname "$4")/installed" ;;
esac
"""


class Clone:
    """A checkout with nothing but the setup, of a user with that home."""

    def __init__(self, repository: Path, root: Path, home: Path) -> None:
        self.root, self.home = root, home
        for directory in ("tools", "requirements", ".cache/venv/bin"):
            (root / directory).mkdir(parents=True)
        shutil.copy(repository / "tools" / "setup_full", root / "tools")
        self.lock("load==1\n")
        python = root / ".cache/venv/bin/python"
        python.write_text(_PYTHON)
        python.chmod(0o755)

    def lock(self, text: str) -> None:
        (self.root / "requirements" / "full-load.txt").write_text(text)

    def setup(self, *names: str, **environ: str) -> subprocess.CompletedProcess[str]:
        given = {"PATH": os.environ["PATH"], "HOME": str(self.home), **environ}
        argv = [str(self.root / "tools" / "setup_full"), *names]
        return subprocess.run(argv, env=given, capture_output=True, text=True, check=False, timeout=60)

    @property
    def installed(self) -> Path:
        return self.root / ".cache" / "full-load" / "bin" / "installed"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    made = tmp_path / "home"
    made.mkdir()
    return made


@pytest.fixture
def clone(repository: Path, tmp_path: Path, home: Path) -> Clone:
    return Clone(repository, tmp_path / "one", home)


def asked(home: Path) -> list[str]:
    return (home / "asked").read_text().split()


def test_a_second_clone_has_at_once_what_the_first_installed(
    repository: Path, tmp_path: Path, clone: Clone, home: Path
) -> None:
    first = clone.setup()
    assert first.returncode == 0 and "load: 1 locked packages" in first.stdout, first.stderr
    # As earlier releases left it: the programs themselves in the checkout.
    other = Clone(repository, tmp_path / "two", home)
    (other.root / ".cache" / "full-load" / "bin").mkdir(parents=True)
    second = other.setup()
    assert second.returncode == 0 and second.stdout == "", second.stderr
    assert asked(home) == ["venv", "pip"]
    assert other.installed.read_text() == clone.installed.read_text() == "load==1\n"
    assert other.installed.resolve() == clone.installed.resolve()
    assert clone.installed.resolve().is_relative_to(home / ".cache" / "gpufleet" / "full")


def test_another_lock_and_another_python_have_an_environment_of_their_own(clone: Clone, home: Path) -> None:
    places = set()
    for text, version in (("load==1\n", "3.13"), ("load==2\n", "3.13"), ("load==2\n", "3.12")):
        clone.lock(text)
        assert clone.setup(FAKE_VERSION=version).returncode == 0
        assert clone.installed.read_text() == text
        places.add(clone.installed.resolve())
    assert len(places) == 3 and len(asked(home)) == 6
    # What was there before is there still, for other clones.
    assert all(place.exists() for place in places)


def test_a_set_that_nobody_used_for_a_month_is_removed(clone: Clone, home: Path) -> None:
    places = []
    for number in range(3):
        clone.lock(f"load=={number}\n")
        assert clone.setup().returncode == 0
        places.append(clone.installed.resolve().parents[1])
    half = places[0].with_name("load-" + "0" * 16)
    half.mkdir()
    for days, used in ((31, places[0] / ".stamp"), (28, places[1] / ".stamp"), (31, places[2] / ".stamp"), (31, half)):
        os.utime(used, (time.time() - days * 86400,) * 2)
    answer = clone.setup()
    assert answer.returncode == 0 and answer.stderr == ""
    assert [place.exists() for place in (*places, half)] == [False, True, True, False]
    assert answer.stdout.count("which nobody used for a month") == 2
    # It was old and is asked for now, so it counts anew.
    assert clone.installed.exists() and (places[2] / ".stamp").stat().st_mtime > time.time() - 3600
    assert clone.setup().stdout == ""


def test_what_was_not_installed_to_its_end_is_installed_anew(clone: Clone, home: Path) -> None:
    assert clone.setup(FAKE_FAILS="1").returncode != 0
    assert not (clone.root / ".cache" / "full-load").exists()
    assert clone.setup().returncode == 0 and clone.installed.exists()
    assert asked(home) == ["venv", "pip"] * 2
    # Nor does one count whose interpreter has gone.
    (clone.installed.parent / "python").unlink()
    assert clone.setup().returncode == 0 and len(asked(home)) == 6


def test_the_cache_is_where_the_user_keeps_caches(clone: Clone, tmp_path: Path) -> None:
    assert clone.setup(XDG_CACHE_HOME=str(tmp_path / "elsewhere")).returncode == 0
    assert clone.installed.resolve().is_relative_to(tmp_path / "elsewhere" / "gpufleet" / "full")


def test_a_set_that_does_not_exist_is_named(clone: Clone) -> None:
    answer = clone.setup("lode")
    assert answer.returncode == 1 and "no requirements/full-lode.txt" in answer.stderr
