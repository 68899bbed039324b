# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A tool that gave nothing usable: the check that owns the tool reports it, every other check waits for that one."""

from __future__ import annotations

from ...collect.tool_reading import ProbeFailure
from ...outcome.model import Evidence, Outcome
from .answer import Answer


def tool_failure(answer: Answer, failure: ProbeFailure, where: str, path: str) -> Outcome:
    """Return the outcome for a tool that gave nothing usable on host `where`; `path` is the evidence file."""
    tool, text = failure.tool, failure.text[:400]
    if tool.owner != answer.spec.id:
        return answer.blocked(by=tool.owner, because=f"`{tool.shown}` gave nothing usable")
    hint = f"`{tool.shown}` on {where}: {tool.advice[failure.kind]}"
    evidence = (Evidence(tool.shown, where, text, path),)
    return answer.unknown(f"{tool.cause}-{failure.kind}", text, hint, evidence=evidence)
