# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Runs ibsim with its console on a named pipe: `python launch.py rehearsal.fabric.simulator <directory>`.

Write access to `<directory>/console` allows breaking the fabric while it runs (`Unlink "H-..."[1]`). Counters that grow
in the model are raised twice a second, those that grow under load once `<directory>/loaded` exists. Hosts request the
output of `ibstat` here.
"""

from __future__ import annotations

import errno
import json
import os
import re
import select
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from time import monotonic, sleep
from typing import IO, Any, cast

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.process import bound_to_parent

from .net import Console

# Output of `ibstat` on a host, kept for as long as the simulator reports the same state of the host's adapters. The
# real programs handle one adapter each and create a tree of some hundred files at every start: sixteen starts for a
# host with eight adapters, one after the other on the whole fabric. So the tool of a host requests the output here
# (rehearsal/recipes/fabric/tool.sh). The programs run only if the state of a port, or a file of the host, changed since
# their last run.
#
# Both are named pipes below <rehearsal dir>/fabric/ that every host has a link to. A client holds the fabric's lock.
# - ask: one line, `<host> <word>`
# - answer: `<host> <word>`, then the output of ibstat; nothing more if the tool has to run it itself

ASK, ANSWER = "ask", "answer"
HERE = "GPUFLEET_REHEARSAL_FABRIC_HERE"
"""If set, the tool of a host runs the real programs itself."""
_ORDER = re.compile(r"([\w.-]+) (\w+)")
_PROGRAMS_S = 60.0
_READER_S = 5.0
_TURN_S = 0.001

Key = tuple[str, str, str]


class Adapters:
    """Output of `ibstat` by host."""

    def __init__(self, hosts: Path, console: Console, run: Callable[[Path], str | None] | None = None) -> None:
        """Start with nothing kept. `run` returns the output of the real programs on a host, None if they fail."""
        self._hosts = hosts
        self._console = console
        self._run = run or _ibstat
        self._kept: dict[str, tuple[Key, str]] = {}

    def answer(self, order: str) -> tuple[str, str] | None:
        """Return the first line of the response and the rest; None if the request is not valid."""
        found = _ORDER.fullmatch(order)
        if found is None:
            return None
        host = self._hosts / found.group(1)
        return order, self._of(host) if (host / "out" / "hcas.tsv").is_file() else ""

    def _of(self, host: Path) -> str:
        before = self._key(host)
        kept = self._kept.get(host.name)
        if before is not None and kept is not None and kept[0] == before:
            return kept[1]
        printed = self._run(host)
        if before is None or printed is None:
            return printed or ""
        # Only if nothing changed while they ran.
        if self._key(host) == before:
            self._kept[host.name] = (before, printed)
        return printed

    def _key(self, host: Path) -> Key | None:
        """Return everything on which the output of the programs depends; None if the simulator does not respond."""
        out = host / "out"
        own = (out / "hcas.tsv").read_text(encoding="utf-8")
        idents = [ident for ident in (line.split("\t")[1] for line in own.splitlines()) if ident != "-"]
        states = self._console.states(idents)
        if not all(f'"{ident}"\tnodeguid' in states for ident in idents):
            return None
        return states, own, (out / "ibstat.txt").read_text(encoding="utf-8")


def _ibstat(host: Path) -> str | None:
    try:
        done = subprocess.run(
            [str(host / "bin" / "ibstat")], env={**os.environ, HERE: "1"}, capture_output=True, text=True,
            stdin=subprocess.DEVNULL, timeout=_PROGRAMS_S, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 and done.stdout and not done.stderr else None


def make_pipes(directory: Path) -> None:
    """Make the two pipes."""
    for name in (ASK, ANSWER):
        os.mkfifo(directory / name, 0o600)


def give(path: Path, text: str) -> None:
    """Write a response to the reader of the pipe; give up if there is none in time."""
    deadline = time.monotonic() + _READER_S
    while True:
        try:
            pipe = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
            break
        except OSError as error:
            if error.errno != errno.ENXIO or time.monotonic() >= deadline:
                return
        time.sleep(_TURN_S)
    try:
        os.set_blocking(pipe, True)
        with open(pipe, "wb") as stream:
            stream.write(text.encode())
    except BrokenPipeError:
        # The reader ended before it had read everything.
        return


CONSOLE = "console"
NET_FILE = "fabric.net"
SCRIPT = "console.json"
LOADED = "loaded"
_STEP_S = 0.5
_START_LIMIT_S = 30.0
_MOST = 4096


def serving(socket_name: str) -> bool:
    """Return whether a simulator of that name accepts clients. Its socket is an abstract one."""
    return f"@{socket_name}:ctl" in Path("/proc/net/unix").read_text(errors="replace")


def main(directory: Path) -> int:
    """Run the simulator until it ends; return its exit code."""
    script = json.loads((directory / SCRIPT).read_text(encoding="utf-8"))
    pipe = directory / CONSOLE
    pipe.unlink(missing_ok=True)
    os.mkfifo(pipe, 0o600)
    # Open for reading and writing: without a writer the simulator would get the end of its console.
    reported = os.open(pipe, os.O_RDWR)
    simulator = subprocess.Popen(
        [script["ibsim"], "-s", *script["sizes"], str(directory / NET_FILE)], stdin=reported, stdout=subprocess.PIPE,
        cwd=directory, env={**os.environ, **script["environment"]}, preexec_fn=bound_to_parent(),
    )  # fmt: skip
    console = Console(reported, cast(IO[bytes], simulator.stdout).fileno())
    deadline = monotonic() + _START_LIMIT_S
    while simulator.poll() is None and monotonic() < deadline and not serving(os.environ["IBSIM_SOCKNAME"]):
        console.pass_on()
        sleep(0.02)
    for line in script["start"]:
        console.tell(line)
        console.pass_on()
    (directory / "told").touch()
    _serve(directory, simulator, console, script["growth"], script["under_load"])
    return simulator.returncode or 1


def _serve(
    directory: Path, simulator: subprocess.Popen[bytes], console: Console, growing: list[dict[str, Any]],
    under_load: list[str],
) -> None:  # fmt: skip
    """Raise growing counters and respond to hosts until the simulator ends."""
    adapters = Adapters(directory.parent / "hosts", console)
    # Open for writing as well, so that it never reaches its end.
    with open(os.open(directory / ASK, os.O_RDWR | os.O_NONBLOCK), "rb", buffering=0) as requested:
        began = monotonic()
        due = began
        while simulator.poll() is None:
            if monotonic() >= due:
                due = monotonic() + _STEP_S
                for counter in growing:
                    value = counter["start"] + round((monotonic() - began) * counter["per_s"])
                    console.tell(f"{counter['command']}{value}")
                while under_load and (directory / LOADED).exists():
                    console.tell(under_load.pop())
            waiting = [requested.fileno(), console.said]
            ready = select.select(waiting, [], [], max(due - monotonic(), 0.0))[0]
            if requested.fileno() in ready:
                for order in (requested.read(_MOST) or b"").decode(errors="replace").splitlines():
                    found = adapters.answer(order)
                    if found is not None:
                        give(directory / ANSWER, f"{found[0]}\n{found[1]}")
            if console.said in ready and console.pass_on():
                # Its output has ended, so the process is about to end.
                simulator.wait()


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
