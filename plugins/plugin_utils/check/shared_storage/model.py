# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The runs of fio over the hosts as values: what was planned, what was run, and what their logs say."""

from __future__ import annotations

from dataclasses import dataclass

from ..benchmark.host_runs import HostRecord, HostResults
from ..benchmark.plan import BenchmarkHost, BenchmarkPlan
from ..benchmark.records import SavedRuns
from .run import StorageReading
from .settings import StorageSettings


@dataclass(frozen=True, kw_only=True)
class Plan(BenchmarkPlan[BenchmarkHost]):
    """The hosts, and how the volume is measured on each."""

    settings: StorageSettings


SavedObservation = SavedRuns[Plan, HostRecord]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run with what its log says."""

    record: HostRecord
    reading: StorageReading


@dataclass(frozen=True, kw_only=True)
class Results(HostResults[Plan, Run]):
    """Plan and runs."""
