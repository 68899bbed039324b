# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Log lines of a pod from which it follows why a program could not run: messages of libc, PyTorch and NCCL.

Each wording is from a public report: pytorch #73682 and #80772 (torchrun cannot resolve its rendezvous host), kubeflow
trainer #3783 (ssh of Open MPI cannot resolve the launcher), pytorch #16979, torchtitan #853 and pytorch/ci-infra #490
(/dev/shm too small, in three wordings).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

NAME, SHARED_MEMORY = "name-resolution", "shared-memory"
_LONGEST = 200
_PATTERNS = (
    (
        SHARED_MEMORY,
        re.compile(
            r"insufficient shared memory|creating shared memory segment|failed to extend /dev/shm",
            re.I,
        ),
    ),
    (
        NAME,
        re.compile(
            r"host not found|Name or service not known|Temporary failure in name resolution"
            r"|Could not resolve hostname|nodename nor servname provided|gai error|No address associated with hostname",
            re.I,
        ),
    ),
)


@dataclass(frozen=True, slots=True)
class ErrorLine:
    """Meaning of a line (NAME or SHARED_MEMORY), and the line itself."""

    says: str
    text: str


def find_error(log: str) -> ErrorLine | None:
    """Return the first line of a log that explains why the program could not run; None without one.

    Shared memory comes before names: a program that shares memory has resolved its peers.
    """
    lines = log.splitlines()
    for says, pattern in _PATTERNS:
        for line in lines:
            if pattern.search(line) or (says == SHARED_MEMORY and _full(line)):
                return ErrorLine(says, " ".join(line.split())[:_LONGEST])
    return None


def _full(line: str) -> bool:
    lowered = line.lower()
    return "no space left on device" in lowered[max(lowered.find("/dev/shm"), 0) :] and "/dev/shm" in lowered


def last_line(log: str) -> str:
    """Return the last line of a log that is not blank, for messages; empty without one."""
    words = (" ".join(line.split()) for line in reversed(log.splitlines()))
    return next((line for line in words if line), "")[:_LONGEST]
