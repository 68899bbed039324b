# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The runs of fio over the hosts as values: what was planned, what was run, and what their logs say."""

from __future__ import annotations

from dataclasses import dataclass

from ..benchmark.plan import BenchmarkHost, BenchmarkPlan
from ..benchmark.records import BenchmarkResults, RunRecord, SavedRuns
from .run import StorageReading
from .settings import StorageSettings


@dataclass(frozen=True, kw_only=True)
class Plan(BenchmarkPlan[BenchmarkHost]):
    """The hosts, and how the volume is measured on each."""

    settings: StorageSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Record(RunRecord):
    """One run of fio on one host."""

    name: str
    host: str
    log: str = ""


SavedObservation = SavedRuns[Plan, Record]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run with what its log says."""

    record: Record
    reading: StorageReading


@dataclass(frozen=True, slots=True, kw_only=True)
class Results(BenchmarkResults[Plan, Run]):
    """Plan and runs."""

    def of(self, host: str) -> tuple[Run, ...]:
        """Return the runs of a host, first attempts first."""
        found = (run for run in self.runs if run.record.host == host)
        return tuple(sorted(found, key=lambda run: run.record.attempt))
