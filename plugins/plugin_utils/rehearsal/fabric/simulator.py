# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Runs ibsim with its console on a named pipe: `python launch.py rehearsal.fabric.simulator <directory>`.

Whoever may write into `<directory>/console` can break the fabric while it runs (`Unlink "H-..."[1]`). Counters that
the model lets grow are raised twice a second.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from time import monotonic, sleep

from ..lifecycle.children import bound_to_parent

CONSOLE = "console"
NET_FILE = "fabric.net"
SCRIPT = "console.json"
_STEP_S = 0.5
_START_LIMIT_S = 30.0


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
    console = os.open(pipe, os.O_RDWR)
    simulator = subprocess.Popen(
        [script["ibsim"], "-s", *script["sizes"], str(directory / NET_FILE)], stdin=console, cwd=directory,
        env={**os.environ, **script["environment"]}, preexec_fn=bound_to_parent(),
    )  # fmt: skip
    deadline = monotonic() + _START_LIMIT_S
    while simulator.poll() is None and monotonic() < deadline and not serving(os.environ["IBSIM_SOCKNAME"]):
        sleep(0.02)
    for line in script["start"]:
        _tell(console, line)
    (directory / "told").touch()
    growing = script["growth"]
    began = monotonic()
    while simulator.poll() is None:
        for counter in growing:
            value = counter["start"] + round((monotonic() - began) * counter["per_s"])
            _tell(console, f"{counter['command']}{value}")
        sleep(_STEP_S)
    return simulator.returncode or 1


def _tell(console: int, line: str) -> None:
    os.write(console, f"{line}\n".encode())


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
