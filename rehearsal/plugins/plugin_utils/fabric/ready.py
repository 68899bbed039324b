# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Waits until the simulated fabric matches the model: `python launch.py rehearsal.fabric.ready <directory>`.

Ends with 0 when the subnet managers have brought up every port that they can reach.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from time import monotonic, sleep

from .simulator import SCRIPT

_LIMIT_S = 110.0


def main(directory: Path) -> int:
    """Poll until the fabric is ready or the time is up."""
    script = json.loads((directory / SCRIPT).read_text(encoding="utf-8"))
    deadline = monotonic() + _LIMIT_S
    found = ""
    while monotonic() < deadline:
        found = _missing(script, directory)
        if not found:
            return 0
        sleep(0.3)
    print(f"the simulated fabric is not ready: {found}", flush=True)
    return 1


def _missing(script: dict[str, object], directory: Path) -> str:
    """Return what is still missing; empty if nothing is."""
    active = _reported(script, directory, "iblinkinfo", "-l").count("Active/")
    if active != script["active_ends"]:
        return f"{active} of {script['active_ends']} link ends are Active"
    managers = _reported(script, directory, "saquery", "-s").count("EndPortLid") if script["managers"] else 0
    return "" if managers == script["managers"] else f"{managers} of {script['managers']} subnet managers answer"


def _reported(script: dict[str, object], directory: Path, tool: str, *arguments: str) -> str:
    argv = [str(dict(script["tools"])[tool]), *arguments]  # type: ignore[call-overload]
    environment = {**os.environ, **dict(script["client"])}  # type: ignore[call-overload]
    try:
        done = subprocess.run(
            argv, env=environment, cwd=directory, capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return done.stdout


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
