# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The servers and loads of the gate as values: what was planned, how each host's server did, what a load measured."""

from __future__ import annotations

from dataclasses import dataclass

from ...probe.aiperf import AiperfExport
from ..benchmark.plan import BenchmarkHost, BenchmarkPlan
from ..benchmark.problem import Problem
from ..benchmark.records import BenchmarkResults, RunRecord
from .settings import InferenceSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedHost(BenchmarkHost):
    """A host with the GPUs that its server gets, of all that it has."""

    accelerator: str = ""
    gpus: int = 0
    gpus_of_host: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan(BenchmarkPlan[PlannedHost]):
    """What is served where, and by which settings."""

    settings: InferenceSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class SmokeAnswer:
    """One answer to the smoke request. `status` 0: no answer; `problem` says why, or what is wrong with its form."""

    status: int = 0
    text: str = ""
    finish: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    latency_s: float = 0.0
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """The server of a host, from its start to its answers.

    Args:
        host: its host.
        state: `ready`, or how it ended as workload.model.JobState says it.
        reason: the message of the scheduler, the kubelet or the server itself.
        cause: what its last log lines mean (server_errors of the settings), empty if nothing known.
        hint: what to do about that.
        ready_s: from its creation until it was ready.
        health: status of /health; 0: no answer.
        models: what /v1/models lists.
        problem: why it could not be asked.
        answers: to the smoke request, in their order.
        log: path of its last log lines in the run directory.
        command: the command that it was started with.
        started: when, RFC 3339.
    """

    host: str
    state: str
    reason: str = ""
    cause: str = ""
    hint: str = ""
    ready_s: float = 0.0
    health: int = 0
    models: tuple[str, ...] = ()
    problem: str = ""
    answers: tuple[SmokeAnswer, ...] = ()
    log: str = ""
    command: tuple[str, ...] = ()
    started: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load(RunRecord):
    """A run of AIPerf against the server of a host: how it ended, and where its log and export are kept.

    `unreadable` says why its log has no whole export.
    """

    host: str
    exit_code: int | None = None
    gpus: int = 0
    concurrency: int = 0
    requests: int = 0
    warmup: int = 0
    export: str = ""
    unreadable: str = ""
    log: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedObservation:
    """What is saved: plan, servers, loads, and what could not be removed afterwards."""

    plan: Plan
    servers: tuple[Server, ...] = ()
    loads: tuple[Load, ...] = ()
    leftovers: tuple[str, ...] = ()
    schema_version: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A load with its export; `problem` where its figures are not to be judged."""

    load: Load
    export: AiperfExport | None = None
    problem: Problem | None = None

    @property
    def good(self) -> AiperfExport | None:
        """The export, if its figures can be judged."""
        return self.export if self.problem is None else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Results(BenchmarkResults[Plan, Measured]):
    """Plan, servers and loads (`runs`), with the questions that judges ask of them."""

    servers: tuple[Server, ...] = ()

    def server(self, host: str) -> Server | None:
        """Return the server of a host."""
        return next((server for server in self.servers if server.host == host), None)

    def loads_of(self, host: str) -> tuple[Measured, ...]:
        """Return the loads of a host, first attempts first."""
        found = (measured for measured in self.runs if measured.load.host == host)
        return tuple(sorted(found, key=lambda measured: measured.load.attempt))
