# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Starts torchrun in a pod, and says before it how far the pod has come.

torchrun's agents first wait for each other and only then start their workers, so a late pod delays the workers of all
pods alike and no worker can tell who was late (torch/distributed/elastic/agent/server/api.py, `_initialize_workers`).
What differs is when a pod's own container began, found the meeting point by its name, and had loaded PyTorch: one JSON
line each, `pod` with `phase` started, resolved, loaded, and `at` in seconds since 1970 by its node's clock.

Arguments: those of torchrun, without the node's rank and the meeting point, which come from the environment
(JOB_COMPLETION_INDEX, MEETING). Needs Python 3.9 and PyTorch.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time

SCHEMA_VERSION = 2
_WAIT_S = 1.0


def say(phase: str) -> None:
    """Write a line, in one piece."""
    words = {
        "schema_version": SCHEMA_VERSION, "event": "pod", "phase": phase,
        "index": int(os.environ["JOB_COMPLETION_INDEX"]), "at": round(time.time(), 3),
    }  # fmt: skip
    os.write(1, (json.dumps(words, separators=(",", ":")) + "\n").encode())


def wait_for(name: str) -> None:
    """Return as soon as a name can be resolved: it is there as soon as the pod of index 0 is."""
    told = False
    while True:
        try:
            socket.getaddrinfo(name, None)
            return
        except OSError as error:
            if not told:
                os.write(2, f"waiting for {name}: {error.strerror}\n".encode())
            told = True
            time.sleep(_WAIT_S)


def main(words: list[str]) -> None:
    """Wait, load, and become torchrun."""
    say("started")
    meeting = os.environ["MEETING"]
    wait_for(meeting)
    say("resolved")
    # A slow disk or an image that is fetched as it is read shows here, and not as a late worker of all hosts.
    import torch  # noqa: F401

    say("loaded")
    place = ["--node-rank", os.environ["JOB_COMPLETION_INDEX"], "--master-addr", meeting]
    # torchrun is the console script of this module; so it is certainly that of this Python.
    os.execv(sys.executable, [sys.executable, "-m", "torch.distributed.run", *place, *words])


if __name__ == "__main__":
    main(sys.argv[1:])
