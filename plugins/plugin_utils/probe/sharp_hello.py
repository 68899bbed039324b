# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Parser of `sharp_hello`, SHARP's own test: one job, one barrier at the aggregation node next to the adapter.

Sources: NVIDIA SHARP's manual 2.6.1, "Testing NVIDIA SHARP Setup" (function, options, first line). The last line
`Passed`, and an exit status other than 0 without it: scripts that run it on clusters (`check_sharp_hello` of a Slurm
topology tool). A run without aggregation manager: the report of a B200 cluster, "SHARP Not Operational" (lines `ERROR
...` and `sharp_coll_init failed: Cannot create SHARP job`). A complete successful run is public only as a picture, so
the parser needs no other line of it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .text import plain, unreadable

TOOL = "sharp_hello"
_PASSED = re.compile(r"^\s*(?:\[[^\]]*\]\s*)*Test Passed\b", re.I)
_BAD = re.compile(r"\bERROR\b|\bfailed\b|\bFailed\b")
_MOST = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class SharpJob:
    """Result of the job. `problems` are the lines with the reason of a failure."""

    passed: bool
    problems: tuple[str, ...] = ()


def parse(text: str) -> SharpJob:
    """Return the result of the job.

    Raises:
        InputError: it neither passed at its end nor reports what went wrong.
    """
    lines = [line.strip() for line in plain(text).splitlines() if line.strip()]
    if lines and _PASSED.search(lines[-1]):
        return SharpJob(passed=True)
    problems = tuple(line[:200] for line in lines if _BAD.search(line))
    if not problems:
        raise unreadable(TOOL, lines[-1][-80:] if lines else "", "`Test Passed` in its last line")
    return SharpJob(passed=False, problems=problems[-_MOST:])
