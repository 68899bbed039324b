# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Parser of the log of the DL unit test (recipes/workloads/dl_unit/): lines of all GPUs of a host, in any order."""

from __future__ import annotations

import hashlib
import json
import math
import re
from dataclasses import dataclass, field
from typing import Any

from ..outcome.errors import InputError

# Results of the DL unit test (recipes/workloads/dl_unit/) for each GPU, as values.

# Tests of schema 1. `copies` and the exact ones have a known result, the others are compared with a reference.
EXACT = ("exact-bf16", "exact-fp32", "exact-fp8", "copies")
COMPARED = ("gemm-bf16", "gemm-fp32", "gemm-fp8", "convolution", "attention", "layer-norm", "reductions")
OPERATIONS = (*COMPARED, *EXACT)
# Not every GPU supports FP8.
OPTIONAL = ("gemm-fp8", "exact-fp8")
RATES = {"gemm-bf16": "TFLOP/s", "gemm-fp32": "TFLOP/s", "gemm-fp8": "TFLOP/s", "memory-copy": "GB/s"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Identity of a GPU and of its software; empty where the driver does not report it."""

    uuid: str
    name: str
    driver: str
    capability: str
    multiprocessors: int
    torch: str
    cuda: str
    cublas: str
    cudnn: str

    @property
    def kind(self) -> tuple[str, ...]:
        """Properties that two GPUs must share to give bitwise equal results."""
        return (
            self.name, self.capability, str(self.multiprocessors), self.driver, self.torch, self.cuda, self.cublas,
            self.cudnn,
        )  # fmt: skip

    @property
    def libraries(self) -> str:
        """Driver and libraries, for a message."""
        named = {
            "driver": self.driver, "PyTorch": self.torch, "CUDA": self.cuda, "cuBLAS": self.cublas, "cuDNN": self.cudnn,
        }  # fmt: skip
        return ", ".join(f"{name} {value}" for name, value in named.items() if value)


@dataclass(frozen=True, slots=True)
class OpRun:
    """One run of one operation.

    - `digest`: SHA-256 of its results.
    - `wrong`: number of wrong rows or bytes, None without a known result.
    - `absent`: why the GPU does not support the operation; then there is no digest.
    """

    digest: str
    wrong: int | None
    absent: str = ""


@dataclass(frozen=True, slots=True)
class Reference:
    """A small case compared with the CPU: the largest relative error, and its limit."""

    error: float
    tolerance: float

    @property
    def good(self) -> bool:
        """Whether it is within its tolerance."""
        return self.error <= self.tolerance


@dataclass(frozen=True, slots=True)
class Rate:
    """Measured rate of a GPU. `together`: all GPUs of the host were measured at the same time."""

    value: float
    unit: str
    together: bool


@dataclass(frozen=True, slots=True)
class Load:
    """Load on a GPU.

    - `seconds`: duration.
    - `loaded_s`: time at or above the required share of its power limit.
    - Power limit and mean power in W.

    None where the driver reported no power.
    """

    seconds: float
    loaded_s: float | None
    limit_w: float | None
    mean_w: float | None


@dataclass(frozen=True, slots=True)
class GpuFailure:
    """Error that ended the test of a GPU early: the current step, the kind of the error and its text."""

    doing: str
    kind: str
    text: str


@dataclass(slots=True, kw_only=True)
class GpuTest:
    """All lines of one GPU's test. With a `failure` it did not finish."""

    slot: int
    identity: Identity | None = None
    runs: dict[str, list[OpRun]] = field(default_factory=dict)
    references: dict[str, Reference] = field(default_factory=dict)
    rates: dict[str, Rate] = field(default_factory=dict)
    load: Load | None = None
    failure: GpuFailure | None = None
    lines: int = 0
    ended: bool = False

    @property
    def digests(self) -> dict[str, str]:
        """First digest of every operation; `absent` for those that the GPU does not support."""
        return {name: runs[0].digest or "absent" for name, runs in self.runs.items()}

    @property
    def digest(self) -> str:
        """One digest over all operations."""
        text = "\n".join(f"{name} {digest}" for name, digest in sorted(self.digests.items()))
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def changing(self) -> tuple[str, ...]:
        """Operations whose repetitions gave different bits."""
        return tuple(name for name, runs in self.runs.items() if len({run.digest for run in runs}) > 1)

    @property
    def wrong(self) -> dict[str, int]:
        """Operations with a wrong result, with the largest number of wrong rows or bytes."""
        most = {name: max(run.wrong or 0 for run in runs) for name, runs in self.runs.items() if runs}
        return {name: count for name, count in most.items() if count}

    @property
    def out_of_tolerance(self) -> dict[str, Reference]:
        """Operations that differ from the CPU by more than their tolerance."""
        return {name: reference for name, reference in self.references.items() if not reference.good}


@dataclass(frozen=True, slots=True, kw_only=True)
class DlUnitLog:
    """A complete log: every requested GPU finished, or has a reason why it did not."""

    gpus: int
    device: str
    repeats: int
    seed: int
    size: int
    tests: tuple[GpuTest, ...]


# Parser of the log of the DL unit test.
#
# Other programs' lines are skipped. A log that is cut, lacks a GPU, an operation, a repetition or a rate, or has
# another schema is an error, never a partial result.

SCHEMA_VERSION = 1
_MARK = '{"schema_version"'
# The program writes a line in one piece, which a pipe keeps atomic up to this size.
_LONGEST = 4096
_MOST_GPUS, _MOST_REPEATS = 64, 1000
_DIGEST = re.compile(r"[0-9a-f]{64}")
Facts = dict[str, Any]


def parse(text: str) -> DlUnitLog:
    """Return the results of each GPU of a host.

    Raises:
        InputError: the log is incomplete.
    """
    reader = _Reader()
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith(_MARK):
            facts = _facts(line, number)
            try:
                reader.take(facts)
            except _Broken as broken:
                raise _error(f"line {number} {broken}") from None
            except (KeyError, TypeError, ValueError) as error:
                raise _error(f"line {number} lacks a field or has a value that cannot be ({error})"[:300]) from None
    try:
        return reader.whole()
    except _Broken as broken:
        raise _error(str(broken)) from None


class _Broken(Exception):
    """What is wrong with a line or the log, without its place."""


class _Reader:
    """Reads the log line by line."""

    def __init__(self) -> None:
        self.begin: Facts = {}
        self.tests: dict[int, GpuTest] = {}
        self.exit_codes: list[int | None] | None = None

    def take(self, facts: Facts) -> None:
        event = facts["event"]
        if event == "begin":
            self._begin(facts)
            return
        if not self.begin:
            raise _Broken("comes before the line `begin`")
        if self.exit_codes is not None:
            raise _Broken("follows the line `done`")
        if event == "done":
            self.exit_codes = [None if code is None else _whole(code) for code in _list(facts["exit_codes"])]
            return
        slot = _whole(facts["slot"])
        if not 0 <= slot < self.begin["gpus"]:
            raise _Broken(f"is of GPU {slot}, and {self.begin['gpus']} were asked for")
        self._take(self.tests.setdefault(slot, GpuTest(slot=slot)), event, facts)

    def _begin(self, facts: Facts) -> None:
        if self.begin:
            raise _Broken("begins a second time")
        found = {name: _whole(facts[name]) for name in ("gpus", "repeats", "seed", "size")}
        if not 1 <= found["gpus"] <= _MOST_GPUS or not 1 <= found["repeats"] <= _MOST_REPEATS:
            raise _Broken(f"says {found['gpus']} GPUs and {found['repeats']} repetitions")
        self.begin = {**found, "device": _text(facts["device"])}

    def _take(self, test: GpuTest, event: Any, facts: Facts) -> None:
        if test.ended or (test.failure and event != "error"):
            raise _Broken(f"follows the last line of GPU {test.slot}")
        if event == "error":
            failure = GpuFailure(_text(facts["doing"]), _text(facts["kind"]), _text(facts["text"]))
            test.failure = test.failure or failure
            return
        if event == "end":
            if _whole(facts["lines"]) != test.lines:
                raise _Broken(f"says that GPU {test.slot} wrote {facts['lines']} lines, {test.lines} are there")
            test.ended = True
            return
        take = _EVENTS.get(event)
        if take is None:
            raise _Broken(f"has an event {str(event)[:40]!r} that the program does not have")
        if event != "gpu" and test.identity is None:
            raise _Broken(f"comes before GPU {test.slot} said who it is")
        take(test, facts)
        test.lines += 1

    def whole(self) -> DlUnitLog:
        """Return the log.

        Raises:
            _Broken: something is missing.
        """
        if not self.begin:
            raise _Broken("no line of the program is there")
        count = self.begin["gpus"]
        if self.exit_codes is None:
            raise _Broken("the line `done` is missing: the program did not end, or the log is cut")
        if len(self.exit_codes) != count:
            raise _Broken(f"{count} GPUs were asked for, and {len(self.exit_codes)} processes ended")
        tests = tuple(self._test(slot, code) for slot, code in enumerate(self.exit_codes))
        known = [test.identity.uuid for test in tests if test.identity]
        if len(set(known)) != len(known):
            raise _Broken("two GPUs say the same UUID")
        return DlUnitLog(tests=tests, **self.begin)

    def _test(self, slot: int, code: int | None) -> GpuTest:
        test = self.tests.get(slot, GpuTest(slot=slot))
        if test.failure is None and code != 0:
            test.failure = GpuFailure("", "Killed", f"its process ended with {code}")
        if test.failure is not None:
            if code == 0:
                raise _Broken(f"GPU {slot} told an error, and its process ended without one")
            return test
        if not test.ended:
            raise _Broken(f"the test of GPU {slot} has no end")
        _require_all(test, self.begin["repeats"])
        return test


def _require_all(test: GpuTest, repeats: int) -> None:
    """Refuse a test that ended without all required results."""
    missing = [name for name in OPERATIONS if len(test.runs.get(name, ())) != repeats]
    absent = {name for name, runs in test.runs.items() if any(run.absent for run in runs)}
    mixed = [name for name in absent if not all(run.absent for run in test.runs[name])]
    missing += [f"reference of {name}" for name in COMPARED if (name in test.references) is (name in absent)]
    missing += [f"rate of {name}" for name in RATES if (name in test.rates) is (name in absent)]
    if missing or mixed:
        raise _Broken(f"GPU {test.slot} ended without all of {', '.join((missing + mixed)[:4])}")


def _gpu(test: GpuTest, facts: Facts) -> None:
    if test.identity is not None:
        raise _Broken(f"names GPU {test.slot} a second time")
    words = {name: _text(facts[name]) for name in _WORDS}
    if not words["uuid"] or not words["name"] or not words["torch"]:
        raise _Broken(f"does not say UUID, product and PyTorch of GPU {test.slot}")
    test.identity = Identity(multiprocessors=_whole(facts["multiprocessors"]), **words)


def _op(test: GpuTest, facts: Facts) -> None:
    name, absent, digest = _text(facts["op"]), _text(facts["absent"]), _text(facts["digest"])
    if name not in OPERATIONS:
        raise _Broken(f"has an operation {name[:40]!r} that the program does not have")
    wrong = None if facts["wrong"] is None else _whole(facts["wrong"])
    if absent:
        if name not in OPTIONAL or digest or wrong is not None:
            raise _Broken(f"says that GPU {test.slot} does not have {name}")
    elif not _DIGEST.fullmatch(digest) or (wrong is None) is (name in EXACT) or (wrong or 0) < 0:
        raise _Broken(f"has a result of {name} on GPU {test.slot} that cannot be")
    runs = test.runs.setdefault(name, [])
    if _whole(facts["run"]) != len(runs) + 1:
        raise _Broken(f"is time {facts['run']} of {name} on GPU {test.slot}, expected {len(runs) + 1}")
    runs.append(OpRun(digest, wrong, absent))


def _reference(test: GpuTest, facts: Facts) -> None:
    name, error, tolerance = _text(facts["op"]), _number(facts["error"]), _number(facts["tolerance"])
    if name not in COMPARED or name in test.references or error < 0 or not 0 < tolerance < 1:
        raise _Broken(f"has a reference of {name[:40]} on GPU {test.slot} that cannot be")
    test.references[name] = Reference(error, tolerance)


def _rate(test: GpuTest, facts: Facts) -> None:
    name, value, unit = _text(facts["name"]), _number(facts["value"]), _text(facts["unit"])
    if name in test.rates or RATES.get(name) != unit or value <= 0 or not isinstance(facts["together"], bool):
        raise _Broken(f"has a rate {name[:40]!r} of GPU {test.slot} that cannot be")
    test.rates[name] = Rate(value, unit, facts["together"])


def _load(test: GpuTest, facts: Facts) -> None:
    if test.load is not None:
        raise _Broken(f"tells the load of GPU {test.slot} a second time")
    seconds = _number(facts["seconds"])
    reported = [None if facts[name] is None else _number(facts[name]) for name in ("loaded_s", "limit_w", "mean_w")]
    loaded_s = reported[0]
    if seconds < 0 or (loaded_s is not None and not 0 <= loaded_s <= seconds):
        raise _Broken(f"says {loaded_s} s under load in {seconds} s")
    test.load = Load(seconds, *reported)


_EVENTS = {"gpu": _gpu, "op": _op, "reference": _reference, "rate": _rate, "load": _load}
_WORDS = ("uuid", "name", "driver", "capability", "torch", "cuda", "cublas", "cudnn")


def _facts(line: str, number: int) -> Facts:
    if len(line) > _LONGEST:
        raise _error(f"line {number} has {len(line)} characters, the program writes at most {_LONGEST}")
    try:
        facts = json.loads(line)
    except (ValueError, RecursionError):
        raise _error(f"line {number} is cut, or something else wrote into it") from None
    version = facts["schema_version"]
    if isinstance(version, bool) or version != SCHEMA_VERSION:
        raise _error(f"line {number} has schema_version {str(version)[:40]}, expected {SCHEMA_VERSION}")
    return dict(facts)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{str(value)[:40]!r} is no text")
    return value


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"{str(value)[:40]!r} is no list")
    return value


def _whole(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{str(value)[:40]!r} is no whole number")
    return value


def _number(value: Any) -> float:
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not math.isfinite(value):
        raise TypeError(f"{str(value)[:40]!r} is no number")
    return float(value)


def _error(reason: str) -> InputError:
    return InputError("log of the DL unit test", f"{reason}.", "read the log; run the test again")
