# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Servers and loads of the gate as values: the plan, the state of each host's server, what a load measured."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from ...probe.aiperf import AiperfExport
from ..benchmark.plan import BenchmarkHost, BenchmarkPlan
from ..benchmark.problem import Problem
from ..benchmark.records import BenchmarkResults, RunRecord
from .settings import InferenceSettings, LoadSettings

# The loads that every server gets, one after the other. Pure. `cached` is the one that published bounds are for: few
# prompts, each sent many times, so that nearly all of them hit vLLM's prefix cache and hardly anything but decoding is
# measured. `uncached` sends every prompt once, so that each one is computed in full. `light` is a second operating
# point, with few requests at a time: it shows the time of a single token, which a large batch hides.

CACHED, UNCACHED, LIGHT = "cached", "uncached", "light"
TITLES = {CACHED: "", UNCACHED: "without prefix cache", LIGHT: "at light load"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Leg:
    """One load: `prompts` different ones drawn from `seed`, `requests` measured ones after `warmup` others."""

    name: str
    concurrency: int
    requests: int
    warmup: int
    prompts: int
    seed: int


def legs_for(load: LoadSettings, gpus: int) -> tuple[Leg, ...]:
    """Return the loads of a server with this many GPUs, in order."""
    found = [
        Leg(
            name=CACHED, concurrency=load.concurrency(gpus), requests=load.requests(gpus), warmup=load.warmup(gpus),
            prompts=load.dataset_entries, seed=load.seed,
        )
    ]  # fmt: skip
    if load.uncached_per_concurrency:
        # AIPerf draws without replacement until every prompt was sent, and the server is warm: no warmup requests. The
        # seed differs, so that none of these prompts was sent before.
        count = load.uncached_per_concurrency * load.concurrency(gpus)
        found.append(
            Leg(
                name=UNCACHED, concurrency=load.concurrency(gpus), requests=count, warmup=0, prompts=count,
                seed=load.seed + 1,
            )
        )  # fmt: skip
    if load.light_per_gpu:
        few = load.light_per_gpu * gpus
        found.append(
            Leg(
                name=LIGHT, concurrency=few, requests=few * load.requests_per_concurrency, warmup=few,
                prompts=load.dataset_entries, seed=load.seed + 2,
            )
        )  # fmt: skip
    return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedHost(BenchmarkHost):
    """A host with the GPUs that its server gets, of all that it has."""

    accelerator: str = ""
    gpus: int = 0
    gpus_of_host: int = 0

    @property
    def unproven(self) -> str:
        """Why a run proves nothing about the whole host. Empty: the server had all of its GPUs."""
        if self.gpus and self.gpus == self.gpus_of_host:
            return ""
        return f"the server had {self.gpus} of {self.gpus_of_host} GPUs, the others are not proven"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan(BenchmarkPlan[PlannedHost]):
    """What is served where, and with which settings."""

    settings: InferenceSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class SmokeAnswer:
    """One response to the smoke request.

    Attributes:
        engine: the copy of the model that was addressed; -1: none was named.
        status: HTTP status; 0: no response.
        text: the output.
        finish: the finish reason.
        prompt_tokens: count by the server.
        completion_tokens: count by the server.
        latency_s: seconds until the response.
        problem: why there is no response, or what is wrong with its form.
    """

    engine: int = -1
    status: int = 0
    text: str = ""
    finish: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    latency_s: float = 0.0
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """The server of a host, from its start to its responses.

    Args:
        host: its host.
        state: `ready`, or how it ended, as in workload.model.JobState.
        reason: the message of the scheduler, the kubelet or the server itself.
        cause: what its last log lines mean (server_errors of the settings); empty: not known.
        hint: what to do about that.
        blames_host: False: the cause is not the host.
        ready_s: seconds from its creation until it was ready.
        health: status of /health; 0: no response.
        models: what /v1/models lists.
        problem: why it could not be queried.
        answers: responses to the smoke request, in order.
        engines: by engine, how many smoke requests it finished by the server's own count.
        uncounted: why that is not known.
        log: path of its last log lines in the run directory.
        command: the command that it was started with.
        started: when, RFC 3339.
    """

    host: str
    state: str
    reason: str = ""
    cause: str = ""
    hint: str = ""
    blames_host: bool = True
    ready_s: float = 0.0
    health: int = 0
    models: tuple[str, ...] = ()
    problem: str = ""
    answers: tuple[SmokeAnswer, ...] = ()
    engines: dict[str, int] = field(default_factory=dict)
    uncounted: str = ""
    log: str = ""
    command: tuple[str, ...] = ()
    started: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load(RunRecord):
    """A load of AIPerf on the server of a host (see Leg): how it ended, and where its log and export are saved.

    `unreadable` is why its log has no complete export.
    """

    host: str
    leg: str = CACHED
    exit_code: int | None = None
    gpus: int = 0
    concurrency: int = 0
    requests: int = 0
    warmup: int = 0
    seed: int = 0
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
    """A load with its export. `problem` is why its figures cannot be judged."""

    load: Load
    export: AiperfExport | None = None
    problem: Problem | None = None

    @property
    def good(self) -> AiperfExport | None:
        """The export, if its figures can be judged."""
        return self.export if self.problem is None else None


@dataclass(frozen=True, kw_only=True)
class Results(BenchmarkResults[Plan, Measured]):
    """Plan, servers and loads (`runs`), with what judges look up in them."""

    servers: tuple[Server, ...] = ()

    def server(self, host: str) -> Server | None:
        """Return the server of a host."""
        return self._server_of.get(host)

    def loads_of(self, host: str, leg: str = "") -> tuple[Measured, ...]:
        """Return the loads of a host by attempt, with `leg` only those of that name."""
        found = (m for m in self._loads_by_host.get(host, ()) if leg in ("", m.load.leg))
        return tuple(sorted(found, key=lambda measured: measured.load.attempt))

    @cached_property
    def _server_of(self) -> dict[str, Server]:
        # If a host has two servers, the first one counts.
        return {server.host: server for server in reversed(self.servers)}

    @cached_property
    def _loads_by_host(self) -> dict[str, list[Measured]]:
        found: dict[str, list[Measured]] = {}
        for measured in self.runs:
            found.setdefault(measured.load.host, []).append(measured)
        return found
