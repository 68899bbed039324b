# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Whether a saved run is a rehearsal: computed from its files, so that no single field makes it a real one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..outcome.codec import load_json
from ..outcome.errors import InputError
from ..outcome.gates import API_GATES
from ..outcome.model import Status
from ..runtime.files import BASELINE, CLUSTER, SITE
from ..verdict.run import RunRecord

_PLAYBOOK = re.compile(r"\brehearse(\.yml)?\b")
_NOTE = "rehearsal:"


def signs_of_rehearsal(run_dir: Path, record: RunRecord) -> tuple[str, ...]:
    """Return the signs that a run was made on simulated hardware, beside the field of its record; empty if there are
    none."""
    return tuple(_signs(run_dir, record))


def _signs(run_dir: Path, record: RunRecord) -> Iterator[str]:
    if _read(run_dir / SITE).get("rehearsal") is True:
        yield f"{SITE} says that its hosts are simulated"
    cluster = _read(run_dir / CLUSTER)
    if cluster.get("simulated_nodes"):
        yield f"{CLUSTER}: {cluster['simulated_nodes']} simulated nodes"
    if cluster.get("rehearsal") is True:
        yield f"{CLUSTER}: the cluster was started for a rehearsal"
    if _read(run_dir / BASELINE).get("rehearsal") is True:
        yield f"{BASELINE} is that of rehearsals"
    if _PLAYBOOK.search(record.command):
        yield "it was started by playbook rehearse"
    if any(note.startswith(_NOTE) for note in record.notes):
        yield "its notes are those of a rehearsal"
    suites = [path.stem for path in sorted((run_dir / "ctrf").glob("*.json")) if _suite_says_so(path)]
    if suites:
        yield f"ctrf/{suites[0]}.json is of a rehearsal"
    if _read(run_dir / "evidence" / "readiness" / "snapshot.json").get("rehearsal") is True:
        yield "its snapshot is of a rehearsal"


def unknown_cluster(run_dir: Path, record: RunRecord, *, kubernetes: bool) -> str:
    """Return why it is unknown whether the cluster of a run was simulated; empty where it is known, or none was
    used."""
    # For these, preflight has read the nodes of the cluster.
    decided = any(record.gate(gate).status not in (Status.PENDING, Status.SKIPPED) for gate in API_GATES)
    if not kubernetes or not decided or isinstance(_read(run_dir / CLUSTER).get("simulated_nodes"), int):
        return ""
    return f"{CLUSTER}: does not say how many nodes are simulated, so it is not known whether this was a real cluster"


def _suite_says_so(path: Path) -> bool:
    extra = _read(path).get("extra")
    return isinstance(extra, dict) and extra.get("rehearsal") is True


def _read(path: Path) -> dict[str, Any]:
    """Return a document of the run. One that cannot be read is empty here, and is reported where the run is judged by
    it."""
    try:
        found = load_json(path) if path.is_file() else {}
    except InputError:
        return {}
    return found if isinstance(found, dict) else {}
