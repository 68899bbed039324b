# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Parser of what the training program (recipes/workloads/training/train.py) writes: the ranks of one pod.

A pod's log has the lines of all its ranks in any order, and lines of torchrun, PyTorch and NCCL between them. Ours are
JSON objects that begin with their `schema_version`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ..outcome.errors import InputError

SCHEMA_VERSION = 1
_MARK = '{"schema_version"'


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What a rank trains, and on what; it says so when all ranks are there."""

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


@dataclass(frozen=True, slots=True)
class Step:
    """One step of one rank; `loss` may be infinite or not a number."""

    number: int
    loss: float
    step_time_s: float
    compute_s: float
    tokens: int


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
        started: when its process began, seconds since 1970 by its machine's clock.
        setup: None before all ranks were there.
        stuck: what it was doing when a step did not end: `compute` or `wait`.
        weights: digest of what it learned; empty without its last line.
    """

    rank: int
    local_rank: int
    started: float
    setup: Setup | None = None
    steps: list[Step] = field(default_factory=list)
    failure: Failure | None = None
    stuck: str = ""
    weights: str = ""


def parse(text: str) -> tuple[RankLog, ...]:
    """Return the ranks of a log, in order; none when no rank wrote a line.

    Raises:
        InputError: a line of ours is cut, of another release, or out of order.
    """
    ranks: dict[int, RankLog] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith(_MARK):
            _take(ranks, _facts(line, number), number)
    return tuple(ranks[rank] for rank in sorted(ranks))


def torchrun_failures(text: str) -> tuple[str, ...]:
    """Return what torchrun says about its workers that failed: `rank 3: exitcode -9 (SIGKILL)`."""
    found, rank = [], ""
    for line in text.splitlines():
        name, _mark, value = (part.strip() for part in line.partition(":"))
        if name == "rank":
            rank = value.partition(" ")[0]
        elif name == "exitcode" and rank:
            found.append(f"rank {rank}: exitcode {value}")
            rank = ""
    return tuple(dict.fromkeys(found))


def _facts(line: str, number: int) -> dict[str, Any]:
    try:
        facts = json.loads(line)
    except ValueError:
        raise _broken(number, "is cut, or something else wrote into it") from None
    if facts.get("schema_version") != SCHEMA_VERSION:
        raise _broken(number, f"has schema_version {facts.get('schema_version')}, expected {SCHEMA_VERSION}")
    return dict(facts)


def _take(ranks: dict[int, RankLog], facts: dict[str, Any], number: int) -> None:
    try:
        rank, event = int(facts["rank"]), facts["event"]
        if event == "hello":
            if rank in ranks:
                raise _broken(number, f"starts rank {rank} a second time")
            ranks[rank] = RankLog(rank=rank, local_rank=int(facts["local_rank"]), started=float(facts["started"]))
            return
        log = ranks[rank]
        if event == "start":
            if log.setup is not None:
                raise _broken(number, f"starts rank {rank} a second time")
            log.setup = Setup(**{name: _as(kind, facts[name]) for name, kind in _SETUP.items()})
        elif event == "step":
            _add_step(log, facts, number)
        elif event == "end":
            log.weights = str(facts["weights"])
        elif event == "error":
            log.failure = Failure(str(facts["kind"]), str(facts["text"]), float(facts["at"]))
        elif event == "stuck":
            log.stuck = str(facts["doing"])
    except (KeyError, TypeError, ValueError) as error:
        raise _broken(number, f"lacks a value or has a wrong one ({error})") from None


_SETUP: dict[str, type] = {
    name: {"int": int, "str": str, "float": float}[str(kind)] for name, kind in Setup.__annotations__.items()
}


def _as(kind: type, value: Any) -> Any:
    if kind is float and isinstance(value, (int, float)):
        return float(value)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise TypeError(f"{value!r} is no {kind.__name__}")
    return value


def _add_step(log: RankLog, facts: dict[str, Any], number: int) -> None:
    step = Step(
        int(facts["step"]), float(facts["loss"]), float(facts["step_time_s"]), float(facts["compute_s"]),
        int(facts["tokens"]),
    )  # fmt: skip
    if step.number != len(log.steps) + 1:
        raise _broken(number, f"is step {step.number} of rank {log.rank}, expected {len(log.steps) + 1}")
    if not (math.isfinite(step.step_time_s) and min(step.compute_s, step.step_time_s, step.tokens) > 0):
        raise _broken(number, f"has times of rank {log.rank} that cannot be")
    log.steps.append(step)


def _broken(number: int, reason: str) -> InputError:
    return InputError("training log", f"line {number} {reason}.", "read the log; run the gate again")


def same_training(setups: Iterable[Setup]) -> bool:
    """Tell whether ranks train the same model in the same way."""
    return len({_essence(setup) for setup in setups}) <= 1


def _essence(setup: Setup) -> tuple[Any, ...]:
    return (
        setup.world, setup.backend, setup.device, setup.dtype, setup.batch, setup.accumulate, setup.sequence,
        setup.layers, setup.hidden, setup.vocabulary, setup.matmul_parameters,
    )  # fmt: skip
