# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""One CTRF report of a whole run, for pipelines that take one: the suites of its gates or phases in their order."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from ..outcome.codec import load_json
from ..outcome.gates import GATE_IDS
from ..outcome.model import Status
from ..runtime.files import file_mode, make_dirs, write_atomic
from ..verdict.run import RunRecord
from .ctrf import document_of, times_of
from .suites import ctrf_path

WHOLE = "all"


def write_whole(run_dir: Path, record: RunRecord, version: str) -> Path | None:
    """Write the report from the suites that are there, and a copy where the run was asked for one.

    Args:
        run_dir: the run directory.
        record: names the gates and phases, and where the copy goes.
        version: of this collection.

    Returns:
        Its path; None where the run has no suite.

    Raises:
        BringupError: a suite cannot be read, or the copy cannot be written.
    """
    tests = [test for path in _suites(run_dir, record) for test in load_json(path)["results"]["tests"]]
    if not tests:
        return None
    text = json.dumps(_whole(tests, record, version), indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    path = ctrf_path(run_dir, WHOLE)
    write_atomic(path, text)
    if record.ctrf_dest:
        copy = Path(record.ctrf_dest).expanduser()
        make_dirs(copy.parent)
        write_atomic(copy, text, file_mode(run_dir))
    return path


def _suites(run_dir: Path, record: RunRecord) -> list[Path]:
    """Return the files in the order of gates and phases, each with those of third parties after it."""
    names = [gate for gate in GATE_IDS if gate in record.scope] + [verdict.gate for verdict in record.phases]
    found = []
    for name in dict.fromkeys(names):
        own = ctrf_path(run_dir, name)
        found += [own] if own.is_file() else []
        found += sorted(own.parent.glob(f"{name}.*.json"))
    return found


def _whole(tests: list[dict[str, Any]], record: RunRecord, version: str) -> dict[str, Any]:
    counts = Counter(str(test["status"]) for test in tests)
    summary = {status.value: counts[status.value] for status in Status} | {"tests": len(tests)} | times_of(tests)
    name = " ".join(("REHEARSAL",) * record.rehearsal + (f"{record.site} {record.run_id}",))
    about = {"rehearsal": record.rehearsal, "run": record.run_id, "site": record.site}
    return document_of(name, tests, summary, record.run_id, version, about)
