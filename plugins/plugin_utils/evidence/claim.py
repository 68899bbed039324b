# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a statement proves, from its entries for every gate: no single field makes it an acceptance. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from ..outcome.errors import InputError
from ..outcome.gates import GATE_IDS
from ..outcome.model import Status

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "https://github.com/gpufleet/bringup/blob/main/docs/evidence.md#statement-v1"
SCHEMA_VERSION = 1
# The exact set of fields of a predicate.
FIELDS = frozenset((
    "acceptances", "attestedAt", "attestedBy", "claim", "expired", "filesWrittenAfter", "gates", "ownLimits", "phases",
    "quarantine", "recipe", "redaction", "rehearsal", "run", "schemaVersion", "scope", "signsOfRehearsal", "snapshot",
    "software", "waivers",
))  # fmt: skip
_OPEN = (Status.PASSED.value, Status.SKIPPED.value)


class Answer(Enum):
    """The results of verifying a statement, in order of precedence."""

    INVALID = "invalid"
    INCOMPLETE = "incomplete"
    FAILED_GATES = "valid with failed gates"
    VALID = "valid"

    @property
    def exit_code(self) -> int:
        """The exit code of the command."""
        return {"valid": 0, "valid with failed gates": 1, "invalid": 2, "incomplete": 3}[self.value]


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What a statement claims, if it is genuine, and why it is not more than that."""

    answer: Answer
    reasons: tuple[str, ...] = ()


def claim_of(predicate: Mapping[str, Any]) -> Claim:
    """Return what a predicate claims.

    Raises:
        InputError: it lacks a field of this release, or is of a later one.
    """
    try:
        missing = tuple(_no_acceptance(predicate))
        gates = {entry["gate"]: entry for entry in predicate["gates"]}
        failed = tuple(
            f"gate {gate} is {gates[gate]['status']}"
            for gate in predicate["scope"]
            if gates[gate]["status"] not in (*_OPEN, Status.PENDING.value)
        )
        undecided = tuple(
            f"gate {gate} was not decided"
            for gate in predicate["scope"]
            if gates[gate]["status"] == Status.PENDING.value
        )
    except (KeyError, TypeError, AttributeError, ValueError):
        hint = "sign the run again: gpufleet evidence RUN"
        raise InputError("statement", "does not say what a statement of this release says.", hint) from None
    if missing:
        return Claim(answer=Answer.INCOMPLETE, reasons=(*missing, *failed))
    if failed:
        return Claim(answer=Answer.FAILED_GATES, reasons=failed)
    if undecided:
        return Claim(answer=Answer.INCOMPLETE, reasons=undecided)
    return Claim(answer=Answer.VALID)


def _no_acceptance(predicate: Mapping[str, Any]) -> Iterator[str]:
    """Yield why it is no acceptance, whatever its gates have."""
    if predicate["schemaVersion"] != SCHEMA_VERSION:
        yield f"the statement has form {predicate['schemaVersion']}, and this release reads {SCHEMA_VERSION}"
    run, gates = predicate["run"], {entry["gate"]: entry for entry in predicate["gates"]}
    signs = predicate["signsOfRehearsal"]
    if predicate["rehearsal"] is not False or signs != []:
        yield f"a rehearsal is never an acceptance{f': {signs[0]}' if signs else ''}"
    if run["kind"] != "bring-up":
        yield f"it is a run of kind {run['kind']}, and only a bring-up is accepted"
    if run["unproven"] != []:
        yield from map(str, run["unproven"])
    if outside := [gate for gate in GATE_IDS if gate not in predicate["scope"]]:
        yield f"outside the scope of the run: {', '.join(outside)}"
    if not run["nodes"] > run["quarantined"] >= 0:
        yield "no node is accepted"
    taken = [gate for gate in predicate["scope"] if gates[gate]["takenOver"] is not None]
    if taken:
        yield f"taken over from earlier runs, whose files are not in this one: {', '.join(taken)}"
    passed = [gates[gate] for gate in predicate["scope"] if gates[gate]["status"] == Status.PASSED.value]
    if not passed and all(gates[gate]["status"] == Status.SKIPPED.value for gate in predicate["scope"]):
        yield "nothing was proven: no gate passed"
    if empty := [entry["gate"] for entry in passed if not (entry["counts"]["passed"] > 0 and entry["ctrf"])]:
        yield f"passed without a result: {', '.join(empty)}"
