# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Reads saved verdicts, also those of earlier releases. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..outcome.codec import from_plain
from ..outcome.errors import InputError
from ..outcome.gates import GATE_IDS
from ..outcome.model import Status
from .gate import GateVerdict
from .run import RunRecord

_VERSIONS, _ELSEWHERE = (1, 2), "judge it with the release that made it"


def record_from_plain(plain: Any, source: str) -> RunRecord:
    """Return the record of a run (run.json); `source` names the file for the error.

    Version 1 is of releases that kept no digests of the run's files.

    Raises:
        InputError: unknown key, missing field or wrong type, or it is of a later release.
    """
    if isinstance(plain, Mapping) and isinstance(plain.get("gates"), list):
        plain = {**plain, "gates": [_verdict(gate) for gate in plain["gates"]]}
    record = from_plain(RunRecord, plain, source)
    if record.schema_version not in _VERSIONS:
        reason = (
            f"its schema_version is {record.schema_version}, this release knows {' and '.join(map(str, _VERSIONS))}."
        )
        raise InputError(source, reason, _ELSEWHERE)
    unknown = [gate for gate in record.scope if gate not in GATE_IDS]
    if unknown:
        raise InputError(source, f"has gate {unknown[0]!r} in its scope, which this release does not know.", _ELSEWHERE)
    return _with_all_gates(record)


def _with_all_gates(record: RunRecord) -> RunRecord:
    """Return the record with those gates as undecided that the release of the run did not have."""
    found = {verdict.gate: verdict for verdict in record.gates}
    later = {
        gate: GateVerdict(gate=gate, status=Status.PENDING, message="not a gate of the release that made this run")
        for gate in GATE_IDS
    }
    return replace(record, gates=tuple((later | found).values()))


def _verdict(plain: Any) -> Any:
    """Return a gate's verdict in today's form. Version 1 had `headline`, and checks not declared as `id (reason)`."""
    if not isinstance(plain, Mapping) or plain.get("schema_version") != 1:
        return plain
    verdict = {**plain, "schema_version": 2}
    if "headline" in verdict:
        verdict["key_figure"] = verdict.pop("headline")
    if isinstance(verdict.get("not_declared"), list):
        verdict["not_declared"] = [_not_declared(text) for text in verdict["not_declared"]]
    return verdict


def _not_declared(text: Any) -> Any:
    if not isinstance(text, str):
        return text
    check, _parenthesis, reason = text.partition(" (")
    return {"id": check, "title": "", "reason": reason.removesuffix(")")}
