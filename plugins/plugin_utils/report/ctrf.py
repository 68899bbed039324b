# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""CTRF suites: write the outcomes of a gate, read a suite back, ours, a third party's or an earlier release's."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from ..outcome.codec import load_json, outcome_from_plain, to_plain
from ..outcome.errors import BringupError, InputError
from ..outcome.model import Outcome, Rating, Status, Subject, SubjectKind, names_of
from ..runtime.clock import moment_of
from ..runtime.files import require_run, run_id_of, write_atomic
from ..verdict.gate import AppliedDecision, Blocking, GateVerdict
from ..verdict.run import RunRecord

# CTRF suites: write the outcomes of a gate, and read a suite back, ours or a third party's. The official schema (npm
# package `ctrf`) forbids unknown keys, so an outcome travels whole in a test's `extra.outcome`.

TOOL = "gpufleet.bringup"
SPEC_VERSION = "0.0.0"
# The prefix with the internal name in the error for a refused value (outcome/codec.py).
_NO_OUTCOME = "not a valid Outcome: "
_FAIL_HINT = "read that tool's own report"


def write_suite(
    path: Path, gate: str, outcomes: Sequence[Outcome], *, run_id: str, rehearsal: bool, version: str
) -> None:
    """Write the outcomes of a gate as one CTRF file, whole or not at all.

    Raises:
        OSError: the directory cannot be written.
    """
    suite = suite_of(gate, outcomes, run_id=run_id, rehearsal=rehearsal, version=version)
    write_atomic(path, json.dumps(suite, indent=1, sort_keys=True, ensure_ascii=False) + "\n")


def suite_of(gate: str, outcomes: Sequence[Outcome], *, run_id: str, rehearsal: bool, version: str) -> dict[str, Any]:
    """Return the CTRF document of a gate's outcomes."""
    tests = [_test(outcome, rehearsal=rehearsal) for outcome in outcomes]
    counts = Counter(outcome.status for outcome in outcomes)
    summary = {status.value: counts[status] for status in Status} | {"tests": len(tests)} | times_of(tests)
    name = f"REHEARSAL {gate}" if rehearsal else gate
    return document_of(name, tests, summary, run_id, version, {"gate": gate, "rehearsal": rehearsal})


def times_of(tests: Sequence[dict[str, Any]]) -> dict[str, int]:
    """Return when the tests began and ended, in milliseconds since the epoch; if no test was run, the current time."""
    now = round(time.time() * 1000)
    starts = [test["start"] for test in tests if test.get("start")]
    return {
        "start": min(starts, default=now),
        "stop": max((test["stop"] for test in tests if test.get("stop")), default=now),
    }


def document_of(
    name: str, tests: list[dict[str, Any]], summary: dict[str, int], run_id: str, version: str, about: dict[str, Any]
) -> dict[str, Any]:
    """Return a CTRF document; `about` describes its subject."""
    return {
        "reportFormat": "CTRF",
        "specVersion": SPEC_VERSION,
        "runId": run_id,
        "generatedBy": TOOL,
        "results": {
            "tool": {"name": TOOL, "version": version},
            "summary": summary,
            "tests": tests,
            "environment": {"reportName": name, "extra": {"rehearsal": about["rehearsal"]}},
        },
        "extra": {**about, "schema_version": 1},
    }


def _test(outcome: Outcome, *, rehearsal: bool) -> dict[str, Any]:
    names = names_of(outcome.subjects)
    labels: dict[str, Any] = {"gate": outcome.gate, "check": outcome.check, "rating": outcome.rating.value}
    labels["subject"] = [subject.name for subject in outcome.subjects]
    labels |= {key: value for key, value in (("cause", outcome.cause), ("node", outcome.subjects[0].node)) if value}
    test: dict[str, Any] = {
        "name": f"{outcome.check} [{names}]",
        "status": outcome.status.value,
        "duration": round(outcome.duration_s * 1000),
        "suite": [outcome.gate],
        "message": f"{outcome.cause}: {outcome.summary}" if outcome.cause else outcome.summary,
        "labels": labels,
        "tags": _tags(outcome, rehearsal=rehearsal),
        "extra": {"outcome": to_plain(outcome)},
    }
    start = _epoch_ms(outcome.started)
    if start is not None:
        test |= {"start": start, "stop": start + test["duration"]}
    return test


def _tags(outcome: Outcome, *, rehearsal: bool) -> list[str]:
    marginal = outcome.status is Status.OTHER and outcome.rating is Rating.MARGINAL
    return [tag for tag, wanted in (("REHEARSAL", rehearsal), ("needs-acceptance", marginal)) if wanted]


def _epoch_ms(moment: str) -> int | None:
    if not moment:
        return None
    return round(moment_of(moment).timestamp() * 1000)


def read_suite(path: Path, gate: str, gates: tuple[str, ...] = ()) -> tuple[Outcome, ...]:
    """Return the outcomes of one of our own CTRF files.

    Args:
        path: the file.
        gate: the gate, or the phase of a validation, whose file it is.
        gates: the gates whose results it may have, for a phase that goes over several.

    Raises:
        InputError: not our CTRF, another gate's, a test without its outcome, or a summary or a status that does not
            match the tests.
    """
    tests = _tests(path)
    require_run(path, str(load_json(path).get("runId") or ""), run_id_of(path.parents[1]), configured=False)
    outcomes = tuple(_own_outcome(path, number, test) for number, test in enumerate(tests, 1))
    strangers = sorted({outcome.gate for outcome in outcomes} - {gate, *gates})
    if strangers:
        raise InputError(
            str(path), f"holds results of gate {', '.join(strangers)}, expected {gate}.", "run the gate again"
        )
    return outcomes


def _tests(path: Path) -> list[dict[str, Any]]:
    document = load_json(path)
    results = document.get("results") if isinstance(document, dict) else None
    if not isinstance(results, dict) or document.get("reportFormat") != "CTRF":
        raise InputError(str(path), "is not a CTRF report (reportFormat and results).", "write the suite in CTRF")
    tests, summary = results.get("tests"), results.get("summary")
    if not isinstance(tests, list) or not isinstance(summary, dict) or not all(isinstance(t, dict) for t in tests):
        raise InputError(str(path), "has no list of tests or no summary.", "write the suite in CTRF")
    known = {status.value for status in Status}
    bad = [str(test.get("status")) for test in tests if test.get("status") not in known]
    if bad:
        raise InputError(str(path), f"has unknown status {bad[0]!r}; CTRF knows {', '.join(sorted(known))}.")
    _agree(path, tests, summary)
    return tests


def _agree(path: Path, tests: list[dict[str, Any]], summary: dict[str, Any]) -> None:
    counts = Counter(test["status"] for test in tests)
    expected = {status.value: counts[status.value] for status in Status} | {"tests": len(tests)}
    wrong = [
        f"{key} is {summary.get(key)}, counted {value}" for key, value in expected.items() if summary.get(key) != value
    ]
    if wrong:
        raise InputError(
            str(path), f"its summary does not agree with its tests: {'; '.join(wrong)}.", "run the gate again"
        )


def _own_outcome(path: Path, number: int, test: dict[str, Any]) -> Outcome:
    plain = test.get("extra", {}).get("outcome") if isinstance(test.get("extra"), dict) else None
    if not isinstance(plain, dict):
        raise InputError(str(path), f"test {number} carries no outcome.", "run the gate again")
    try:
        outcome = outcome_from_plain(plain, str(path))
    except BringupError as error:
        about = (
            f"result {number} of check {plain['check']}" if isinstance(plain.get("check"), str) else f"result {number}"
        )
        raise InputError(str(path), f"{about} cannot be read: {_reported(error)}", "run the gate again") from None
    if outcome.status.value != test["status"]:
        raise InputError(
            str(path),
            f"test {number} says {test['status']}, its outcome says {outcome.status.value}.",
            "run the gate again",
        )
    return outcome


def _reported(error: BringupError) -> str:
    """Return the error of a result, without its internal name."""
    reason = error.reason.removeprefix(_NO_OUTCOME).rstrip(".")
    return f"{reason}."


def read_foreign_suite(path: Path, gate: str, check: str, site: str) -> tuple[Outcome, ...]:
    """Return a third party's CTRF tests as outcomes of one declared check about the site.

    Raises:
        InputError: not CTRF, no test at all, or a summary that does not match the tests.
    """
    tests = _tests(path)
    if not tests:
        raise InputError(str(path), "holds no test, so it proves nothing.", "run that suite again")
    return tuple(_foreign_outcome(test, path, gate, check, site) for test in tests)


def _foreign_outcome(test: dict[str, Any], path: Path, gate: str, check: str, site: str) -> Outcome:
    status = Status(test["status"])
    rating = {Status.PASSED: Rating.GOOD, Status.FAILED: Rating.BAD}.get(status, Rating.UNKNOWN)
    on_hold = status in (Status.FAILED, Status.OTHER)
    message = str(test.get("message", ""))[:500]
    return Outcome(
        check=check,
        gate=gate,
        status=status,
        rating=rating,
        subjects=(Subject(SubjectKind.SITE, site),),
        summary=f"{test.get('name', 'unnamed test')}: {message or status.value}",
        cause=f"third-party-{status.value}" if on_hold else "",
        hint=f"{_FAIL_HINT}: {path}" if on_hold else "",
    )


# Records of earlier releases: they name the subjects of a result only as text.

Entry = TypeVar("Entry", Blocking, AppliedDecision)
_Names = dict[tuple[str, str], tuple[Subject, ...]]


def with_subjects(record: RunRecord, outcomes: Mapping[str, tuple[Outcome, ...]]) -> RunRecord:
    """Return the record with the subjects of its results; `outcomes` are the results by gate id."""
    return replace(record, gates=tuple(_filled(verdict, outcomes.get(verdict.gate, ())) for verdict in record.gates))


def _filled(verdict: GateVerdict, outcomes: tuple[Outcome, ...]) -> GateVerdict:
    known: _Names = {(outcome.check, names_of(outcome.subjects)): outcome.subjects for outcome in outcomes}
    return replace(
        verdict,
        blocking=_all(verdict.blocking, known),
        waived=_all(verdict.waived, known),
        accepted=_all(verdict.accepted, known),
        expired=_all(verdict.expired, known),
    )


def _all(entries: tuple[Entry, ...], known: _Names) -> tuple[Entry, ...]:
    return tuple(
        entry if entry.subjects else replace(entry, subjects=known.get((entry.check, entry.subject), ()))
        for entry in entries
    )
