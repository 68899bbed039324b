# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The facility record: budgets per rack, signed by the person responsible for the room."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from pathlib import PurePosixPath

from ...outcome.errors import InputError, ProblemsError
from ...runtime.strict import decode, parse_yaml

SCHEMA_VERSION = 1
NAMESPACE = "gpufleet-facility"
_HEX = frozenset("0123456789abcdef")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pdu:
    """One power distribution unit of a rack and whether it was found energized.

    `feed` is the feed that it is connected to (`A`, `B`) and `capacity_kw` what it may deliver; a record may omit them.
    """

    name: str
    energized: bool
    feed: str = ""
    capacity_kw: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RackBudget:
    """What one rack may draw, shed and weigh, and the units that feed it."""

    power_kw: float
    cooling_kw: float
    floor_load_kg: float
    pdus: tuple[Pdu, ...] = ()

    def __post_init__(self) -> None:
        if min(self.power_kw, self.cooling_kw, self.floor_load_kg) <= 0:
            raise InputError("rack", "a budget is 0 or less.", "state what the room really offers")


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceFile:
    """One file that backs the record: its path beside the record, its SHA-256, and what it shows."""

    path: str
    sha256: str
    what: str

    def __post_init__(self) -> None:
        parts = PurePosixPath(self.path).parts
        if not parts or parts[0] == "/" or ".." in parts:
            raise InputError(
                "evidence", f"path {self.path!r} leaves the record's directory.", "keep evidence beside it"
            )
        if len(self.sha256) != 64 or not set(self.sha256) <= _HEX:
            raise InputError(
                "evidence", f"sha256 of {self.path} is not 64 lower-case hex digits.", "sha256sum the file"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class FacilityRecord:
    """The whole record. `issued` and `expires` are days (YYYY-MM-DD); the last day counts."""

    schema_version: int
    site: str
    signed_by: str
    issued: str
    expires: str
    racks: dict[str, RackBudget]
    evidence: tuple[EvidenceFile, ...] = ()

    def __post_init__(self) -> None:
        if self.schema_version != SCHEMA_VERSION:
            reason = f"schema_version is {self.schema_version}, this release reads {SCHEMA_VERSION}."
            raise InputError("record", reason, "make the record with a fitting release")
        if not self.site.strip() or not self.signed_by.strip():
            raise InputError("record", "site or signed_by is empty.", "name both")
        if self.expires_on < self.issued_on:
            raise InputError("record", f"expires {self.expires} is before issued {self.issued}.", "correct the days")

    @property
    def issued_on(self) -> date:
        """The first day on which it is valid."""
        return _day(self.issued, "issued")

    @property
    def expires_on(self) -> date:
        """The last day on which it is valid."""
        return _day(self.expires, "expires")


@lru_cache(maxsize=4)
def parse_record(text: str, source: str) -> FacilityRecord:
    """Return the record in a YAML or JSON text. It is cached, because every check of the gate parses the same one.

    Raises:
        InputError: not YAML, unknown key (with the nearest known one), missing field, wrong type or wrong value.
        ProblemsError: several of these; fields that a draft left empty are one problem.
    """
    try:
        return decode(FacilityRecord, parse_yaml(text, source), source)
    except ProblemsError as error:
        empty = [problem for problem in error.problems if problem.reason.startswith("is None,")]
        if not empty:
            raise
        names = ", ".join(problem.subject.removeprefix(f"{source}: ") for problem in empty)
        found = InputError(source, f"is empty in {names}.", "its owner completes it, then signs it (docs/facility.md)")
        others = tuple(problem for problem in error.problems if problem not in empty)
        raise (ProblemsError(source, (found, *others)) if others else found) from None


def _day(text: str, name: str) -> date:
    # fromisoformat also reads 20260131 and week dates on some versions; only one spelling is allowed.
    try:
        day = date.fromisoformat(text)
    except ValueError:
        day = None
    if day is None or day.isoformat() != text:
        raise InputError("record", f"{name} is {text!r}, expected a day as YYYY-MM-DD.", "write for example 2026-12-31")
    return day
