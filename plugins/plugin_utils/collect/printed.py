# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What tools of a host printed, parsed one by one, from its saved evidence."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..outcome.errors import InputError
from ..runtime.host_tools import HostTool
from ..site.model import DriverOwner
from .host_evidence import DRIVERS, HOSTS, HostEvidence, evidence_file, read_evidence
from .tool_reading import read_tool


def read_tools(host: str, run_dir: Path, owner: DriverOwner, tools: Sequence[HostTool]) -> list[Any]:
    """Return what these tools printed on a host, parsed, each a ProbeFailure where there is nothing usable."""
    evidence, _unread = evidence_of(host, run_dir, HOSTS)
    driver = evidence if owner is DriverOwner.HOST else evidence_of(host, run_dir, DRIVERS)[0]
    return [value_of(tool, driver if tool.asks_driver else evidence) for tool in tools]


def evidence_of(host: str, run_dir: Path, kind: str) -> tuple[HostEvidence, str]:
    """Return what was collected of a host, and why there is nothing usable: `missing`, `unreadable`, `unreachable`."""
    path = run_dir / evidence_file(host, kind)
    if not path.is_file():
        return HostEvidence(host=host, reached=False, reason="nothing was collected from this host"), "missing"
    try:
        evidence = read_evidence(path)
    except InputError as error:
        return HostEvidence(host=host, reached=False, reason=str(error)), "unreadable"
    return evidence, "" if evidence.reached else "unreachable"


def value_of(tool: HostTool, evidence: HostEvidence) -> Any:
    """Return what a tool printed, parsed; a ProbeFailure where there is nothing usable."""
    run = evidence.tools.get(tool.name) if evidence.reached else None
    return read_tool(tool, run, evidence.reason)
