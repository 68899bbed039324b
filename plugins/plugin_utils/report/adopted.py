# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Third parties' CTRF files: the run's copy, and whether it is of this run, young enough and still what was copied."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from ..outcome.codec import dumps, load, load_json
from ..outcome.errors import InputError
from ..outcome.model import Outcome, Rating, Status, Subject, SubjectKind
from ..runtime.clock import now_utc
from ..runtime.files import write_atomic
from ..verdict.run import RunRecord
from .ctrf import read_foreign_suite

# A suite that ended longer before the run began says nothing about the cluster of today.
MAX_AGE = timedelta(hours=24)
# How much the clock of whoever wrote it may be ahead.
_CLOCKS_DIFFER = timedelta(minutes=10)
_AGAIN = "run that suite again, then the gate"


@dataclass(frozen=True, slots=True, kw_only=True)
class Adoption:
    """What is kept beside a copy: its SHA-256, when it was copied, and the run that copied it (times are RFC 3339)."""

    sha256: str
    adopted: str
    run_id: str
    run_started: str
    schema_version: int = 1


def adopt(source: Path, copy: Path, record: RunRecord) -> None:
    """Copy a suite into the run directory, with what it was when; without a source no older copy stays."""
    beside = _beside(copy)
    if source.is_file():
        shutil.copyfile(source, copy)
        made = Adoption(sha256=_digest(copy), adopted=now_utc(), run_id=record.run_id, run_started=record.started)
        write_atomic(beside, dumps(made))
    else:
        copy.unlink(missing_ok=True)
        beside.unlink(missing_ok=True)


def read_adopted(path: Path, gate: str, check: str, site: str) -> tuple[Outcome, ...]:
    """Return a third party's tests as outcomes of one declared check; one `other` where they are not of this run.

    Args:
        path: the run's copy.
        gate: the gate that declares it.
        check: the name of the suite.
        site: the name of the site.

    Raises:
        InputError: the copy is not CTRF or holds no test, or it is not what was copied.
    """
    outcomes = read_foreign_suite(path, gate, check, site)
    if not _beside(path).is_file():
        raise InputError(str(path), "was adopted without its digest, so nobody knows whether it is unchanged.", _AGAIN)
    adoption = load(Adoption, _beside(path))
    if adoption.sha256 != _digest(path):
        raise InputError(str(path), "was changed after it was adopted (its digest differs).", _AGAIN)
    document = load_json(path)
    for cause, problem in _PROBLEMS:
        text = problem(document, adoption)
        if text:
            return (_held(cause, text, gate, check, site),)
    return outcomes


def _held(cause: str, text: str, gate: str, check: str, site: str) -> Outcome:
    return Outcome(
        check=check,
        gate=gate,
        status=Status.OTHER,
        rating=Rating.UNKNOWN,
        subjects=(Subject(SubjectKind.SITE, site),),
        summary=text,
        cause=cause,
        hint=_AGAIN,
    )


def _undated(document: dict[str, Any], _adoption: Adoption) -> str:
    if _ended(document) is not None:
        return ""
    return "its summary has no time at which it stopped (results.summary.stop, milliseconds), so its age is not known"


def _too_old(document: dict[str, Any], adoption: Adoption) -> str:
    ended, begun = _ended(document), _moment(adoption.run_started)
    if ended is None or begun - ended <= MAX_AGE:
        return ""
    hours = (begun - ended).total_seconds() / 3600
    return f"it stopped at {ended:%Y-%m-%dT%H:%M:%SZ}, {hours:.0f} hours before the run; at most 24 count"


def _too_new(document: dict[str, Any], adoption: Adoption) -> str:
    ended, last = _ended(document), _moment(adoption.adopted)
    if ended is None or ended - last <= _CLOCKS_DIFFER:
        return ""
    return f"it stopped at {ended:%Y-%m-%dT%H:%M:%SZ}, after it was adopted: a clock is wrong"


def _of_another_run(document: dict[str, Any], adoption: Adoption) -> str:
    found = (document.get("extra") or {}).get("gpufleet_run_id")
    if found in (None, adoption.run_id):
        return ""
    return f"it says that it belongs to run {found}, this is run {adoption.run_id}"


_PROBLEMS: tuple[tuple[str, Callable[[dict[str, Any], Adoption], str]], ...] = (
    ("third-party-undated", _undated),
    ("third-party-too-old", _too_old),
    ("third-party-from-the-future", _too_new),
    ("third-party-of-another-run", _of_another_run),
)


def _ended(document: dict[str, Any]) -> datetime | None:
    stop = document["results"]["summary"].get("stop")
    if isinstance(stop, bool) or not isinstance(stop, (int, float)) or not 0 < stop < 1e14:
        return None
    return datetime.fromtimestamp(stop / 1000, tz=UTC)


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def _digest(path: Path) -> str:
    # Few runs have files of third parties.
    import hashlib

    return hashlib.sha256(path.read_bytes()).hexdigest()


def _beside(copy: Path) -> Path:
    return copy.with_name(f"{copy.stem}.adopted.json")
