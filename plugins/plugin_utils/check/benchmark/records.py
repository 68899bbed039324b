# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Runs as they are saved: how each ended, with its log as evidence in the run directory."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypedDict, TypeVar

from ...outcome.errors import InputError
from ...runtime.files import write_atomic
from ...runtime.redaction import redact
from ...site.model import Site
from ...workload.job import JobResult
from .plan import BenchmarkHost

PlanT = TypeVar("PlanT")
RunT = TypeVar("RunT")
RecordT = TypeVar("RecordT")


@dataclass(frozen=True, kw_only=True)
class SavedRuns(Generic[PlanT, RecordT]):
    """What is saved.

    Attributes:
        plan: the plan.
        records: one for every run.
        leftovers: what could not be removed afterwards.
        made: number of runs; None: saved by a release that did not record it.
    """

    plan: PlanT
    records: tuple[RecordT, ...] = ()
    leftovers: tuple[str, ...] = ()
    made: int | None = None
    schema_version: int = 1

    def require_all(self, source: str) -> None:
        """Refuse an incomplete list of records.

        Raises:
            InputError: it has fewer or more records than runs were made.
        """
        if self.made is not None and self.made != len(self.records):
            reason = f"says that {self.made} runs were made, and has the records of {len(self.records)}."
            raise InputError(source, reason, "run the gate again")


@dataclass(frozen=True, kw_only=True)
class BenchmarkResults(Generic[PlanT, RunT]):
    """What judges get.

    Attributes:
        plan: the plan.
        runs: every run with what its log contains.
        leftovers: what could not be removed afterwards.
    """

    plan: PlanT
    runs: tuple[RunT, ...] = ()
    leftovers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """The part of a record that every job has: how it was launched and how it ended (`state` as in JobResult)."""

    attempt: int
    state: str
    reason: str = ""
    command: tuple[str, ...] = ()
    started: str = ""
    duration_s: float = 0.0

    def __post_init__(self) -> None:
        if self.attempt < 1:
            raise InputError("record of a run", f"is of attempt {self.attempt}.", "run the gate again")


def require_planned(hosts: Iterable[BenchmarkHost], site: Site, source: str) -> None:
    """Refuse a plan whose hosts differ from those of the site in name, node or SKU.

    Raises:
        InputError: names the first host that differs.
    """
    known = {host.name: host for host in site.hosts}
    for host in hosts:
        mine = known.get(host.name)
        if mine is None or (host.node, host.sku) != (mine.node_name, mine.sku):
            found = f"plans host {host.name or 'without a name'} as node {host.node!r} of SKU {host.sku!r}, "
            wanted = f"the site has {mine.node_name!r} of {mine.sku!r}." if mine else "which the site does not have."
            raise InputError(source, found + wanted, "run the gate again")


class Ended(TypedDict):
    """The fields of a RunRecord that follow from how its job ended."""

    state: str
    reason: str
    command: tuple[str, ...]
    started: str
    duration_s: float


def ended(result: JobResult, command: tuple[str, ...]) -> Ended:
    """Return how a job ended, with secrets masked."""
    return Ended(
        state=result.state,
        reason=redact(result.reason)[:500],
        command=command,
        started=result.started,
        duration_s=round(result.duration_s, 3),
    )


@dataclass(frozen=True, slots=True)
class Kept:
    """A text with its secrets masked, and the path it was written to, relative to the run directory.

    A blank text has no path.
    """

    text: str
    path: str


@dataclass(frozen=True, slots=True)
class EvidenceFolder:
    """The folder of the logs of a gate's runs."""

    run_dir: Path
    gate: str

    def keep(self, name: str, text: str, mask: Callable[[str], str] = redact) -> Kept:
        """Write a text with its secrets masked. A blank text is not written."""
        clean = mask(text)
        if not clean.strip():
            return Kept(clean, "")
        path = f"evidence/{self.gate}/{name}"
        write_atomic(self.run_dir / path, clean)
        return Kept(clean, path)


def kept_text(run_dir: Path, path: str) -> str:
    """Return a saved text. Empty if there is none."""
    file = run_dir / path
    return file.read_text(encoding="utf-8", errors="replace") if path and file.is_file() else ""
