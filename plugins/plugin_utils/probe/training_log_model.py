# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the training program writes, as values: a pod, its ranks, and the lines of each."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

# Phases of a pod before its ranks begin, in their order.
PHASES = ("started", "resolved", "loaded")


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What a rank trains, and on what; it says so when all ranks are there.

    `ready` is when the rank had its device and began to wait for the others, `joined` when all were there (seconds
    since 1970); the last three are None where the device does not tell them, or the release of then did not ask.
    """

    world: int
    device: str
    device_name: str
    uuid: str
    backend: str
    torch: str
    joined: float
    dtype: str
    batch: int
    accumulate: int
    sequence: int
    layers: int
    hidden: int
    vocabulary: int
    parameters: int
    matmul_parameters: int
    ready: float | None = None
    power_limit_w: float | None = None
    clock_max_mhz: float | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """One step of one rank; `loss` may be infinite or not a number, `data_s` is None in logs of release 0.1."""

    number: int
    loss: float
    step_time_s: float
    compute_s: float
    tokens: int
    data_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Steps that are told together: of the whole step mean, deviation and the longest, of a rank's own arithmetic
    median and longest, of its data the median; `not_finite_from` is the first step whose loss was no number, 0 without
    one."""

    number: int
    first: int
    count: int
    loss: float
    not_finite_from: int
    step_time_s: float
    step_time_sd_s: float
    step_time_max_s: float
    compute_s: float
    compute_max_s: float
    data_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """A rank's device over about ten seconds: how many samples, what they say, how many of them named each reason for
    a lower clock. None: the device did not tell it in every sample."""

    number: int
    at_s: float
    samples: int
    clock_mhz: float | None
    clock_min_mhz: float | None
    power_w: float | None
    temperature_c: float | None
    reasons: dict[str, int] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Digest:
    """Digests of arithmetic that all ranks do alike, after so many steps, and wrong rows of a product that is known."""

    number: int
    step: int
    gemm: str
    attention: str
    wrong_rows: int


@dataclass(frozen=True, slots=True)
class Failure:
    """What ended a rank early: the kind of the error, its text, and when."""

    kind: str
    text: str
    at: float


@dataclass(slots=True, kw_only=True)
class RankLog:
    """Everything that one rank wrote.

    Args:
        rank: its number in the world; `local_rank` that on its machine.
        started: when its process began, seconds since 1970 by its machine's clock. torchrun starts it when the
            agents of all pods are there.
        version: schema_version of its lines; 1 (release 0.1) has no windows, states and digests.
        setup: None before all ranks were there.
        stuck: what it was doing when a step did not end: `compute` or `wait`.
        weights: digest of what it learned; empty without its last line.
    """

    rank: int
    local_rank: int
    started: float
    version: int = 2
    setup: Setup | None = None
    steps: list[Step] = field(default_factory=list)
    windows: list[Window] = field(default_factory=list)
    states: list[State] = field(default_factory=list)
    digests: list[Digest] = field(default_factory=list)
    failure: Failure | None = None
    stuck: str = ""
    weights: str = ""

    @property
    def done(self) -> int:
        """How many steps it has told."""
        return len(self.steps) + sum(window.count for window in self.windows)

    @property
    def load_s(self) -> float:
        """Seconds of all steps that it has told."""
        return sum(step.step_time_s for step in self.steps) + sum(w.count * w.step_time_s for w in self.windows)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodLog:
    """The log of a pod: when it came to each of PHASES (seconds since 1970, by its node's clock), and its ranks."""

    phases: dict[str, float] = field(default_factory=dict)
    ranks: tuple[RankLog, ...] = ()


ESSENCE = (
    "world", "backend", "device", "torch", "dtype", "batch", "accumulate", "sequence", "layers", "hidden", "vocabulary",
    "matmul_parameters",
)  # fmt: skip
"""What all ranks of one training have in common."""


def essence_of(setup: Setup) -> tuple[Any, ...]:
    """Return the values of ESSENCE."""
    return tuple(getattr(setup, name) for name in ESSENCE)
