# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The runs of the DL unit test over hosts as values: the plan, the runs, and what their logs contain."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...outcome.model import Evidence, Subject, SubjectKind
from ...probe.dl_unit import DlUnitLog, GpuTest
from ..benchmark.host_runs import HostRecord, HostResults
from ..benchmark.plan import BenchmarkHost, BenchmarkPlan
from ..benchmark.records import SavedRuns
from .reading import GpuProblem, other_count, own_problem_of, read_host
from .settings import DlUnitSettings

# A GPU: its host, and its slot there.
Gpu = tuple[str, int]
Kind = tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Plan(BenchmarkPlan[BenchmarkHost]):
    """The hosts, and how each GPU is tested."""

    settings: DlUnitSettings


SavedObservation = SavedRuns[Plan, HostRecord]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run with its parsed log; `problem` is what is wrong with it, not compared with other GPUs."""

    record: HostRecord
    log: DlUnitLog | None = None
    problem: GpuProblem | None = None

    @property
    def whole(self) -> DlUnitLog | None:
        """The log of a run without a problem, else None."""
        return self.log if self.problem is None else None


@dataclass(frozen=True, kw_only=True)
class Results(HostResults[Plan, Run]):
    """Plan and runs."""

    def whole(self, host: str) -> tuple[DlUnitLog, ...]:
        """Return the logs of the runs of a host without a problem."""
        return tuple(log for run in self.of(host) if (log := run.whole) is not None)

    def tests(self, host: str) -> Iterator[tuple[Kind, GpuTest]]:
        """Yield the test of every GPU of a host in its first run without a problem, each with the kind to compare it
        in.

        The kind is SKU, product, driver, libraries, and how it was tested.
        """
        for log in self.whole(host)[:1]:
            for test in log.tests:
                if test.identity is not None:
                    yield (self.plan.host(host).sku, *test.identity.kind, str(log.size), str(log.seed)), test


def read_run(record: HostRecord, log: str, settings: DlUnitSettings) -> Run:
    """Return a run with its parsed log. A log of other arithmetic than was configured is a problem."""
    found, problem = read_host(record.state, record.reason, log, None, own_problem_of)
    if found is not None:
        requested = (settings.repeats, settings.seed, settings.size, settings.device)
        reported = (found.repeats, found.seed, found.size, found.device)
        if reported != requested:
            words = "repeats, seed, size and device"
            problem = GpuProblem("no-output", f"the log is of {words} {reported}, asked for were {requested}")
    return Run(record=record, log=found, problem=problem)


def counted(run: Run, gpus: int) -> GpuProblem | None:
    """Return the problem of a run on a host that must have `gpus` GPUs, None for none."""
    if run.log is not None and run.log.gpus != gpus:
        return other_count(run.log, gpus)
    return run.problem


def gpu_subjects(gpus: Iterator[Gpu] | tuple[Gpu, ...]) -> tuple[Subject, ...]:
    """Return the subjects of GPUs."""
    return tuple(Subject(SubjectKind.GPU, f"{host}/gpu{slot}", host) for host, slot in gpus)


def evidence(runs: tuple[Run, ...]) -> tuple[Evidence, ...]:
    """Return the logs of the runs of a host."""
    return tuple(
        Evidence(
            f"DL unit test, run {run.record.attempt}",
            run.record.host,
            run.problem.text[:200] if run.problem else f"{run.record.duration_s:.0f} s",
            run.record.log,
        )
        for run in runs
    )
