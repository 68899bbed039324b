# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Parser of the log of the training program (recipes/workloads/training/): one pod and its ranks."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..outcome.errors import InputError

# Log of the training program as values: a pod, its ranks, and the lines of each.

# Phases of a pod before its ranks begin, in their order.
PHASES = ("started", "resolved", "loaded")


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """Parameters and device of a rank's training, logged once all ranks are there.

    - `ready`: when the rank had its device and began to wait for the others (seconds since 1970).
    - `joined`: when all were there (seconds since 1970).
    - The last three are None if the device does not report them, or in logs of an earlier release.
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
    """One step of one rank. `loss` may be infinite or NaN. `data_s` is None in logs of release 0.1."""

    number: int
    loss: float
    step_time_s: float
    compute_s: float
    tokens: int
    data_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Summary of several steps.

    - Whole step: mean, deviation and maximum.
    - The rank's own computation: median and maximum.
    - Its data: median.
    - `not_finite_from`: first step whose loss was no number, 0 without one.
    """

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
    """State of a rank's device over about ten seconds.

    It has the number of samples, their values, and by reason for a lower clock the number of samples that had it. None:
    not every sample had the value.
    """

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
    """Digests of the same computation on all ranks after a number of steps, and wrong rows of a known product."""

    number: int
    step: int
    gemm: str
    attention: str
    wrong_rows: int


@dataclass(frozen=True, slots=True)
class Failure:
    """Error that ended a rank early: its kind, text and time."""

    kind: str
    text: str
    at: float


@dataclass(slots=True, kw_only=True)
class RankLog:
    """All lines of one rank.

    Args:
        rank: its number in the world; `local_rank` that on its machine.
        started: when its process began, seconds since 1970 by its machine's clock. torchrun starts it when the agents
            of all pods are there.
        version: schema_version of its lines; 1 (release 0.1) has no windows, states and digests.
        setup: None before all ranks were there.
        stuck: what it did when a step did not end: `compute` or `wait`.
        weights: digest of its weights; empty without its last line.
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
        """Number of logged steps."""
        return len(self.steps) + sum(window.count for window in self.windows)

    @property
    def load_s(self) -> float:
        """Seconds of all logged steps."""
        return sum(step.step_time_s for step in self.steps) + sum(w.count * w.step_time_s for w in self.windows)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodLog:
    """Log of a pod: time of each of PHASES (seconds since 1970, by its node's clock), and its ranks."""

    phases: dict[str, float] = field(default_factory=dict)
    ranks: tuple[RankLog, ...] = ()


ESSENCE = (
    "world", "backend", "device", "torch", "dtype", "batch", "accumulate", "sequence", "layers", "hidden", "vocabulary",
    "matmul_parameters",
)  # fmt: skip
"""Parameters that all ranks of one training share."""


def essence_of(setup: Setup) -> tuple[Any, ...]:
    """Return the values of ESSENCE."""
    return tuple(getattr(setup, name) for name in ESSENCE)


# Parser of these logs.
#
# A pod's log has the lines of all its ranks in any order, mixed with lines of torchrun, PyTorch and NCCL. Ours are JSON
# objects that begin with their `schema_version`: 2, or 1 in the runs of release 0.1.

SCHEMA_VERSION = 2
_OLD = 1
_MARK = '{"schema_version"'
# The clock may be set back while a pod starts.
_SET_BACK_S = 600.0
# The times of a step and of a rank's part of it come from two clocks, the host's and its GPU's.
_ROUNDED, _LEAST_SHARE = 1.05, 0.75
Facts = dict[str, Any]


def parse(text: str) -> PodLog:
    """Return phases and ranks of a log. Without lines there are no ranks.

    Raises:
        InputError: a line of ours is cut, of another release, missing or out of order.
    """
    ranks: dict[int, RankLog] = {}
    phases: dict[str, float] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.startswith(_MARK):
            continue
        facts = _facts(line, number)
        try:
            if facts["event"] == "pod":
                _take_phase(phases, facts, number)
            else:
                _take(ranks, facts, number)
        except (KeyError, TypeError, ValueError) as error:
            raise _broken(number, f"lacks a value or has a wrong one ({error})") from None
    if len({log.version for log in ranks.values()}) > 1:
        raise _broken(1, "and others are of several releases")
    places = Counter(log.local_rank for log in ranks.values())
    if twice := [place for place, count in places.items() if count > 1]:
        raise _broken(1, f"and others are of {places[twice[0]]} ranks that all call themselves local rank {twice[0]}")
    return PodLog(phases=phases, ranks=tuple(ranks[rank] for rank in sorted(ranks)))


def torchrun_failures(text: str) -> tuple[str, ...]:
    """Return torchrun's report of failed workers: `rank 3: exitcode -9 (SIGKILL)`."""
    found, rank = [], ""
    for line in text.splitlines():
        name, _mark, value = (part.strip() for part in line.partition(":"))
        if name == "rank":
            rank = value.partition(" ")[0]
        elif name == "exitcode" and rank:
            found.append(f"rank {rank}: exitcode {value}")
            rank = ""
    return tuple(dict.fromkeys(found))


def _facts(line: str, number: int) -> Facts:
    try:
        facts: Facts = json.loads(line)
    except ValueError:
        raise _broken(number, "is cut, or something else wrote into it") from None
    if facts.get("schema_version") not in (_OLD, SCHEMA_VERSION):
        raise _broken(number, f"has schema_version {facts.get('schema_version')}, expected {SCHEMA_VERSION}")
    return facts


def _take_phase(phases: dict[str, float], facts: Facts, number: int) -> None:
    phase = facts["phase"]
    if phase not in PHASES or phase in phases or list(phases) != list(PHASES[: PHASES.index(phase)]):
        raise _broken(number, f"has phase {phase!r} of the pod out of its order")
    phases[phase] = _number(facts["at"])


def _take(ranks: dict[int, RankLog], facts: Facts, number: int) -> None:
    rank, event = _whole(facts["rank"]), facts["event"]
    if event == "hello":
        if rank in ranks:
            raise _broken(number, f"starts rank {rank} a second time")
        ranks[rank] = RankLog(
            rank=rank, local_rank=_whole(facts["local_rank"]), started=_number(facts["started"]),
            version=facts["schema_version"],
        )  # fmt: skip
        return
    log = ranks[rank]
    if log.weights and event not in ("error", "stuck"):
        raise _broken(number, f"follows the last line of rank {rank}")
    take = _EVENTS.get(event)
    if take is not None:
        take(log, facts, number)


def _start(log: RankLog, facts: Facts, number: int) -> None:
    if log.setup is not None:
        raise _broken(number, f"starts rank {log.rank} a second time")
    known = {name: _as(kind, facts[name]) for name, kind in _SETUP.items()}
    if log.version > _OLD:
        known |= {"ready": _number(facts["ready"])}
        known |= {name: _optional(facts[name]) for name in ("power_limit_w", "clock_max_mhz")}
    setup = Setup(**known)
    early = min(setup.joined, setup.joined if setup.ready is None else setup.ready) < log.started - _SET_BACK_S
    if early or setup.parameters < setup.matmul_parameters:
        raise _broken(number, f"has a start of rank {log.rank} that cannot be")
    log.setup = setup


def _step(log: RankLog, facts: Facts, number: int) -> None:
    step = Step(
        _whole(facts["step"]), float(facts["loss"]), _number(facts["step_time_s"]), _number(facts["compute_s"]),
        _whole(facts["tokens"]), None if log.version == _OLD else _number(facts["data_s"]),
    )  # fmt: skip
    _follows(log, step.number, number)
    if log.windows or min(step.compute_s, step.step_time_s, step.tokens) <= 0 or (step.data_s or 0.0) < 0:
        raise _broken(number, f"has times of rank {log.rank} that cannot be")
    setup = log.setup
    if setup is not None and step.tokens != setup.batch * setup.accumulate * setup.sequence:
        raise _broken(number, f"says that rank {log.rank} learnt from {step.tokens} tokens, its start says otherwise")
    if step.compute_s > step.step_time_s * _ROUNDED:
        raise _broken(number, f"has a step of rank {log.rank} that is shorter than its own part of it")
    log.steps.append(step)


def _window(log: RankLog, facts: Facts, number: int) -> None:
    window = Window(
        number=_whole(facts["number"]), first=_whole(facts["first"]), count=_whole(facts["count"]),
        loss=float(facts["loss"]), not_finite_from=_whole(facts["not_finite_from"]),
        **{name: _number(facts[name]) for name in _WINDOW_TIMES},
    )  # fmt: skip
    _follows(log, window.first, number)
    _in_order(log, "window", window.number, len(log.windows), number)
    inside = window.not_finite_from == 0 or window.first <= window.not_finite_from < window.first + window.count
    times = (window.step_time_s, window.compute_s, window.step_time_max_s, window.compute_max_s)
    if window.count < 1 or not inside or min(times) <= 0 or min(window.data_s, window.step_time_sd_s) < 0:
        raise _broken(number, f"has values of rank {log.rank} that cannot be")
    longest = window.step_time_max_s * _ROUNDED, window.compute_max_s * _ROUNDED
    if window.step_time_s > longest[0] or window.compute_s > longest[1] or window.compute_max_s > longest[0]:
        raise _broken(number, f"has a longest time of rank {log.rank} that is shorter than the usual one")
    # All steps do the same work, so their mean cannot be far below the median of a rank's own computation.
    if window.step_time_s < _LEAST_SHARE * window.compute_s:
        raise _broken(number, f"has steps of rank {log.rank} that are shorter than its own part of them")
    if not math.isfinite(window.loss) and not window.not_finite_from:
        raise _broken(number, f"has a loss of rank {log.rank} that is no number, and no step where that began")
    log.windows.append(window)


def _state(log: RankLog, facts: Facts, number: int) -> None:
    reasons = facts["reasons"]
    state = State(
        number=_whole(facts["number"]), at_s=_number(facts["at_s"]), samples=_whole(facts["samples"]),
        reasons=None if reasons is None else {str(name): _whole(count) for name, count in reasons.items()},
        **{name: _optional(facts[name]) for name in ("clock_mhz", "clock_min_mhz", "power_w", "temperature_c")},
    )  # fmt: skip
    _in_order(log, "state", state.number, len(log.states), number)
    if state.samples < 0 or any(not 0 < count <= state.samples for count in (state.reasons or {}).values()):
        raise _broken(number, f"has samples of rank {log.rank} that cannot be")
    if log.states and state.at_s < log.states[-1].at_s:
        raise _broken(number, f"has samples of rank {log.rank} that are earlier than those before")
    if state.clock_mhz is not None and state.clock_min_mhz is not None and state.clock_mhz + 1 < state.clock_min_mhz:
        raise _broken(number, f"has a mean clock of rank {log.rank} below the lowest one")
    log.states.append(state)


def _digest(log: RankLog, facts: Facts, number: int) -> None:
    gemm, attention = _as(str, facts["gemm"]), _as(str, facts["attention"])
    digest = Digest(
        number=_whole(facts["number"]), step=_whole(facts["step"]), gemm=gemm, attention=attention,
        wrong_rows=_whole(facts["wrong_rows"]),
    )  # fmt: skip
    _in_order(log, "digest", digest.number, len(log.digests), number)
    if not gemm or not attention or digest.wrong_rows < 0:
        raise _broken(number, f"has a digest of rank {log.rank} that cannot be")
    if digest.step != log.done:
        raise _broken(number, f"has a digest of rank {log.rank} after step {digest.step}, {log.done} steps are told")
    log.digests.append(digest)


def _end(log: RankLog, facts: Facts, number: int) -> None:
    weights = _as(str, facts["weights"])
    if log.version > _OLD:
        reported = {
            "steps": log.done,
            "digests": len(log.digests),
            "windows": len(log.windows),
            "states": len(log.states),
        }
        for name, count in reported.items():
            if _whole(facts[name]) != count:
                raise _broken(number, f"says that rank {log.rank} wrote {facts[name]} {name}, {count} are there")
        if log.load_s > 1.05 * _number(facts["load_s"]) + 1.0:
            raise _broken(number, f"says {facts['load_s']} s of rank {log.rank}, its steps took {log.load_s:.0f} s")
    log.weights = weights


def _error(log: RankLog, facts: Facts, _number_of_line: int) -> None:
    log.failure = Failure(str(facts["kind"]), str(facts["text"]), _number(facts["at"]))


def _stuck(log: RankLog, facts: Facts, number: int) -> None:
    if facts["doing"] not in ("compute", "wait"):
        raise _broken(number, f"says that rank {log.rank} does {facts['doing']!r}")
    log.stuck = str(facts["doing"])


_EVENTS: dict[str, Callable[[RankLog, Facts, int], None]] = {
    "start": _start, "step": _step, "window": _window, "state": _state, "digest": _digest, "end": _end,
    "error": _error, "stuck": _stuck,
}  # fmt: skip
_WINDOW_TIMES = ("step_time_s", "step_time_sd_s", "step_time_max_s", "compute_s", "compute_max_s", "data_s")
_KINDS: dict[str, type] = {"int": int, "str": str, "float": float}
_SETUP: dict[str, type] = {
    name: _KINDS[str(kind)] for name, kind in Setup.__annotations__.items() if str(kind) in _KINDS
}


def _as(kind: type, value: Any) -> Any:
    if kind is float and isinstance(value, (int, float)):
        return float(value)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise TypeError(f"{value!r} is no {kind.__name__}")
    return value


# A log of 1,000 hosts has tens of millions of these values: values of the right type skip the conversion.
def _whole(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else int(_as(int, value))


def _number(value: Any) -> float:
    found = value if isinstance(value, float) else float(_as(float, value))
    if not math.isfinite(found):
        raise ValueError(f"{value!r} is no number")
    return found


def _optional(value: Any) -> float | None:
    return None if value is None else _number(value)


def _follows(log: RankLog, step: int, number: int) -> None:
    if step != log.done + 1:
        raise _broken(number, f"is step {step} of rank {log.rank}, expected {log.done + 1}")


def _in_order(log: RankLog, what: str, found: int, before: int, number: int) -> None:
    if found != before + 1:
        raise _broken(number, f"is {what} {found} of rank {log.rank}, expected {before + 1}")


def _broken(number: int, reason: str) -> InputError:
    return InputError("training log", f"line {number} {reason}.", "read the log; run the gate again")
