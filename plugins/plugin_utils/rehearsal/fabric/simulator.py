# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Runs ibsim with its console on a named pipe: `python launch.py rehearsal.fabric.simulator <directory>`.

Whoever may write into `<directory>/console` can break the fabric while it runs (`Unlink "H-..."[1]`). Counters that
the model lets grow are raised twice a second, those that a load adds to once `<directory>/loaded` is there. Hosts ask
what `ibstat` says (see adapters.py).
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from pathlib import Path
from time import monotonic, sleep
from typing import IO, Any, cast

from ...runtime.bound import bound_to_parent
from .adapters import ANSWER, ASK, Adapters, give
from .console import Console

CONSOLE = "console"
NET_FILE = "fabric.net"
SCRIPT = "console.json"
LOADED = "loaded"
_STEP_S = 0.5
_START_LIMIT_S = 30.0
_MOST = 4096


def serving(socket_name: str) -> bool:
    """Whether a simulator of that name accepts clients; its socket is an abstract one."""
    return f"@{socket_name}:ctl" in Path("/proc/net/unix").read_text(errors="replace")


def main(directory: Path) -> int:
    """Run the simulator until it ends; return its exit code."""
    script = json.loads((directory / SCRIPT).read_text(encoding="utf-8"))
    pipe = directory / CONSOLE
    pipe.unlink(missing_ok=True)
    os.mkfifo(pipe, 0o600)
    # Open for reading and writing: without a writer the simulator would see the end of its console.
    told = os.open(pipe, os.O_RDWR)
    simulator = subprocess.Popen(
        [script["ibsim"], "-s", *script["sizes"], str(directory / NET_FILE)], stdin=told, stdout=subprocess.PIPE,
        cwd=directory, env={**os.environ, **script["environment"]}, preexec_fn=bound_to_parent(),
    )  # fmt: skip
    console = Console(told, cast(IO[bytes], simulator.stdout).fileno())
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
    """Raise what grows, or has grown under a load, and answer hosts until the simulator ends."""
    adapters = Adapters(directory.parent / "hosts", console)
    # Open for writing as well: never at its end.
    with open(os.open(directory / ASK, os.O_RDWR | os.O_NONBLOCK), "rb", buffering=0) as asked:
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
            waiting = [asked.fileno(), console.said]
            ready = select.select(waiting, [], [], max(due - monotonic(), 0.0))[0]
            if asked.fileno() in ready:
                for order in (asked.read(_MOST) or b"").decode(errors="replace").splitlines():
                    found = adapters.answer(order)
                    if found is not None:
                        give(directory / ANSWER, f"{found[0]}\n{found[1]}")
            if console.said in ready and console.pass_on():
                # Its output has ended, and so it will.
                simulator.wait()


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
