# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The reading after one load as the reading before the next, where the next begins at once.

Between both nothing of ours runs but the decision about the first gate. What happens meanwhile then falls into the
second load's bracket, where otherwise it would be in neither. Only a reading that saw the host counts, and only for as
long as a person would call both the same moment.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from ..outcome.errors import InputError
from .host_evidence import HostEvidence, evidence_file, read_evidence, write_evidence
from .load_state import load_kind, tools_asked_again

LOADING_GATES = ("fabric_validation", "training_acceptance", "inference_acceptance")
# Seconds. A gate of a thousand hosts takes longer to decide: their readings are older, and they are read again.
FRESH_S = 60.0
# From the answer which hosts are read again to the load itself.
_ON_THE_WAY_S = 60.0


def just_read(run_dir: Path, gate: str, hosts: Iterable[str], now: datetime | None = None) -> tuple[str, ...]:
    """Return the hosts that were just read after the load of a gate, so that the next load needs no other reading."""
    moment = now or datetime.now(UTC)
    return tuple(host for host in hosts if _fresh(run_dir, gate, host, moment, FRESH_S) is not None)


def take_over(run_dir: Path, gate: str, hosts: Iterable[str], now: datetime | None = None) -> tuple[str, ...]:
    """Write the newest reading after another load as the one before this gate's load, for hosts that have none; return
    them. Each keeps its own time and says whose it is.

    Raises:
        OSError: the run directory cannot be written.
    """
    moment = now or datetime.now(UTC)
    taken = []
    for host in hosts:
        if (run_dir / evidence_file(host, load_kind(gate, "before"))).exists():
            continue
        others = (other for other in LOADING_GATES if other != gate)
        found = [
            (entry.started, other, entry)
            for other in others
            if (entry := _fresh(run_dir, other, host, moment, FRESH_S + _ON_THE_WAY_S)) is not None
        ]
        if found:
            _started, other, entry = max(found, key=lambda item: item[0])
            reason = f"read after the load of gate {other}, which nothing of this run followed"
            write_evidence(run_dir, replace(entry, reason=reason), load_kind(gate, "before"))
            taken.append(host)
    return tuple(taken)


def _fresh(run_dir: Path, gate: str, host: str, now: datetime, limit_s: float) -> HostEvidence | None:
    """Return a host's reading after a load if it is whole and at most so old."""
    try:
        found = read_evidence(run_dir / evidence_file(host, load_kind(gate, "after")))
        began = datetime.fromisoformat(found.started)
    except (InputError, ValueError):
        return None
    wanted = {tool.name for tool in tools_asked_again()}
    whole = found.reached and not found.reason and wanted <= found.tools.keys()
    return found if whole and 0 <= (now - began).total_seconds() <= limit_s else None
