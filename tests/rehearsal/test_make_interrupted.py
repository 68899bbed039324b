# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""`make rehearse` ends within 15 s, with nothing left, when nobody attends to it any more: in each of its phases."""

from __future__ import annotations

import fcntl
import os
import pty
import secrets
import shutil
import signal
import subprocess
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from real_toolchain import build_toolchain, path_with, real_go
from rehearsal_harness import ROOT, left_behind

from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.toolchain.store import default_cache

LIMIT_S = 15.0
MARK = "GPUFLEET_TEST_INTERRUPTED"


@dataclass
class Begun:
    """A make that runs, and the other end of what it writes to."""

    process: subprocess.Popen[bytes]
    output: int
    mark: str
    text: bytes = field(default=b"", repr=False)

    def await_text(self, said: str, limit_s: float = 240) -> None:
        """Read until something is said."""
        deadline = time.monotonic() + limit_s
        while said.encode() not in self.text and time.monotonic() < deadline:
            with suppress(BlockingIOError):
                chunk = os.read(self.output, 65536)
                assert chunk, f"ended before {said!r}: {self.text[-3000:].decode()}"
                self.text += chunk
            time.sleep(0.05)
        assert said.encode() in self.text, self.text[-3000:].decode()

    def left(self) -> list[str]:
        """Every process that make started and that still runs."""
        found = []
        for entry in Path("/proc").iterdir():
            with suppress(OSError):
                if entry.name.isdigit() and f"{MARK}={self.mark}".encode() in (entry / "environ").read_bytes():
                    found.append(f"{entry.name} {(entry / 'cmdline').read_bytes().decode(errors='replace')}")
        return found


Begin = Callable[[Path, str, dict[str, object]], Begun]


def interrupt_make(begun: Begun) -> None:
    """SIGINT to make alone, as a program that started it would send it."""
    begun.process.send_signal(signal.SIGINT)


def close_output(begun: Begun) -> None:
    """Nobody reads the pipe any more (`make rehearse | head -1`), or the terminal is gone."""
    os.close(begun.output)
    begun.output = -1


# How it is started, and what happens to it.
WAYS = {
    "SIGINT to make alone": (False, interrupt_make),
    "output pipe closed": (False, close_output),
    "terminal closed": (True, close_output),
}


@pytest.fixture
def begin() -> Iterator[Begin]:
    """Return a function that starts `make rehearse` in a directory, at a terminal or into a pipe."""
    started: list[Begun] = []

    def start(directory: Path, way: str, variables: dict[str, object]) -> Begun:
        terminal, _happens = WAYS[way]
        ours, theirs = pty.openpty() if terminal else os.pipe()
        os.set_blocking(ours, False)
        mark = secrets.token_hex(8)

        def prepare() -> None:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            if terminal:
                fcntl.ioctl(1, termios.TIOCSCTTY, 0)

        local = directory / "local"
        local.mkdir(exist_ok=True)
        environ = {**os.environ, MARK: mark, "ANSIBLE_LOCAL_TEMP": str(local), "PATH": str(variables.pop("PATH"))}
        words = " ".join(f"-e {name}={value}" for name, value in variables.items())
        argv = ["make", "rehearse", "NODES=2", "GATES=facility,nodes", f"ARGS={words}"]
        root = directory if (directory / "Makefile").exists() else ROOT
        process = subprocess.Popen(
            argv, cwd=root, env=environ, stdin=theirs if terminal else subprocess.DEVNULL, stdout=theirs, stderr=theirs,
            preexec_fn=prepare, start_new_session=True,
        )  # fmt: skip
        os.close(theirs)
        started.append(Begun(process, ours, mark))
        return started[-1]

    yield start
    for begun in started:
        if begun.output >= 0:
            os.close(begun.output)
        for line in begun.left():
            with suppress(ProcessLookupError):
                os.kill(int(line.split()[0]), signal.SIGKILL)
        begun.process.wait()


def ends_with_nothing_left(begun: Begun, way: str, work: Path) -> None:
    """Let it happen, and see that everything is gone in time."""
    began = time.monotonic()
    WAYS[way][1](begun)
    while (begun.process.poll() is None or begun.left()) and time.monotonic() - began < LIMIT_S:
        time.sleep(0.05)
    taken = time.monotonic() - began
    assert begun.process.poll() is not None, f"make still runs after {taken:.0f} s"
    assert not begun.left()
    assert begun.process.returncode != 0
    assert not left_behind(work)
    assert list((work / "local").iterdir()) == []
    assert not (work / "rehearsal" / "cluster").exists()
    # A build and an installation that were begun.
    assert not list(work.glob("cache/.build-*"))


def places(work: Path) -> dict[str, object]:
    """Variables of a rehearsal that has everything of its own below a directory."""
    names = {"gpufleet_rehearsal_dir": "rehearsal", "gpufleet_run_dir": "runs"}
    return {"PATH": os.environ["PATH"], **{name: work / place for name, place in names.items()}}


@pytest.mark.drawn(1)
@pytest.mark.parametrize("way", WAYS)
def test_while_hosts_are_asked(way: str, tmp_path: Path, begin: Begin) -> None:
    build_toolchain()
    begun = begin(tmp_path, way, places(tmp_path))
    begun.await_text("Ask the tools of the host")
    ends_with_nothing_left(begun, way, tmp_path)


@pytest.mark.long("installs and builds anew, to be ended in it")
@pytest.mark.drawn(1)
@pytest.mark.parametrize("way", WAYS)
def test_while_the_toolchain_is_built(way: str, tmp_path: Path, begin: Begin) -> None:
    variables = {**places(tmp_path), "PATH": path_with(real_go(), os.environ)}
    begun = begin(tmp_path, way, {**variables, "gpufleet_rehearsal_cache": tmp_path / "cache"})
    begun.await_text("toolchain: building")
    time.sleep(2)
    assert list(tmp_path.glob("cache/.build-*"))
    ends_with_nothing_left(begun, way, tmp_path)


@pytest.mark.long("installs and builds anew, to be ended in it")
@pytest.mark.parametrize("way", ["SIGINT to make alone"])
def test_while_packages_are_fetched(way: str, tmp_path: Path, begin: Begin) -> None:
    if not shutil.which("apt-get"):
        pytest.skip("no apt here")
    build_toolchain()
    (tmp_path / "cache").mkdir()
    for built in default_cache(os.environ).glob("*-????????????????"):
        (tmp_path / "cache" / built.name).symlink_to(built)
    begun = begin(tmp_path, way, {**places(tmp_path), "gpufleet_rehearsal_cache": tmp_path / "cache"})
    begun.await_text("rehearsal: fetching")
    ends_with_nothing_left(begun, way, tmp_path)


@pytest.mark.long("installs and builds anew, to be ended in it")
@pytest.mark.drawn(1)
@pytest.mark.parametrize("way", WAYS)
def test_while_the_environment_is_made(way: str, tmp_path: Path, begin: Begin) -> None:
    for name in ("Makefile", "tools", "requirements"):
        (shutil.copytree if (ROOT / name).is_dir() else shutil.copy)(ROOT / name, tmp_path / name)
    begun = begin(tmp_path, way, places(tmp_path))
    begun.await_text("locked packages")
    time.sleep(2)
    ends_with_nothing_left(begun, way, tmp_path)
