# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs the tools of simulated hosts in a small process of its own, as module host_probe does on a node.

Every tool is started by a fork, which costs what the process holds: some 20 ms of CPU in a worker of pytest that has
collected all tests, and 2 ms here. A host has fifty tools.
"""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

# Where the collection is importable by its name; this file is run by its path, too.
_PACKAGES = Path(__file__).resolve().parents[2] / ".cache"
_MODULE = "ansible_collections.gpufleet.bringup.plugins.module_utils.node_tools"


def run_host_tools(path: str, requests: list[dict[str, Any]], max_output_bytes: int) -> dict[str, dict[str, Any]]:
    """Return what every tool did, as `run_tools` does.

    Args:
        path: PATH of the host.
        requests: what is run.
        max_output_bytes: how much of what a tool prints is kept.

    Raises:
        RuntimeError: the process ended.
    """
    process = _started()
    assert process.stdin is not None and process.stdout is not None
    asked = {"path": path, "requests": requests, "max_output_bytes": max_output_bytes}
    try:
        process.stdin.write(json.dumps(asked) + "\n")
        process.stdin.flush()
        answer = process.stdout.readline()
    except BrokenPipeError:
        answer = ""
    if not answer:
        _started.cache_clear()
        raise RuntimeError(f"the process that runs tools of hosts ended with {process.wait()}")
    found: dict[str, dict[str, Any]] = json.loads(answer)
    return found


@cache
def _started() -> subprocess.Popen[str]:
    """The process; it ends when its input does, so with its parent."""
    process = subprocess.Popen(
        [sys.executable, str(Path(__file__).resolve())], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    atexit.register(_end, process)
    return process


def _end(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.close()
    process.wait()


def main() -> None:
    """Answer one line of JSON with another until the input ends."""
    import importlib

    sys.path[0] = str(_PACKAGES)
    run_tools = importlib.import_module(_MODULE).run_tools
    for line in sys.stdin:
        asked = json.loads(line)
        os.environ["PATH"] = asked["path"]
        print(json.dumps(run_tools(asked["requests"], asked["max_output_bytes"])), flush=True)


if __name__ == "__main__":
    main()
