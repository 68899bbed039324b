# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The training program under torchrun: the log of each pod has the lines of its ranks. With FULL it really trains."""

from __future__ import annotations

import json
import math
import random
import re
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import Sku
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.files import RECIPES

from ..model.values import ClusterModel, Gpu, Node
from .benchmark import RankPod, rank_pod
from .nccl_run import communicators_of
from .performance import Performance, TrainingSpeed, performance
from .physics import Communicator, choose, find_host, time_us
from .pod_simulator import (
    STDERR,
    STDOUT,
    Json,
    PodGroup,
    PodOutput,
    PodSimulator,
    RealProcess,
    SimContext,
    env_of,
    words_of,
)

# Lines of the ranks of a training, with the samples of their GPUs. Pure: the same job gives the same lines.

# Samples of a simulated GPU in the training program: clock, power, temperature and reasons for a lower clock.
#
# Healthy: a busy data centre GPU runs at its power limit and always reports that (`sw_power_cap`), below its maximum
# clock (NVIDIA's NVML reference, nvmlClocksEventReasons). It warms up under load within a few minutes. A slowdown by
# hardware for heat or for the power brake is reported as `hw_slowdown` as well.

_PERIOD_S = 10.0
_WARMING_S, _COLD_C = 120.0, 34.0


@dataclass(frozen=True, slots=True)
class DeviceStates:
    """Samples of one GPU."""

    gpu: Gpu
    facts: TrainingSpeed
    draw: random.Random

    def pace_at(self, seconds: float) -> float:
        """Return the share of its rate that the GPU has after `seconds` of load, from held_down."""
        on_hold = self.gpu.held_down
        return 1 - on_hold.share * (1 - on_hold.clock) if on_hold.reason and seconds >= on_hold.after_s else 1.0

    def lines(self, load_s: float) -> list[dict[str, Any]]:
        """Return the states during a load: one sample per second, ten in a line."""
        count = max(1, math.ceil(load_s / _PERIOD_S))
        return [self._line(n + 1, min(load_s, (n + 1) * _PERIOD_S), load_s) for n in range(count)]

    def _line(self, number: int, at_s: float, load_s: float) -> dict[str, Any]:
        samples = max(1, round(min(_PERIOD_S, at_s - (number - 1) * _PERIOD_S)))
        on_hold = self.gpu.held_down
        active = round(samples * on_hold.share) if on_hold.reason and at_s > on_hold.after_s else 0
        reasons = {on_hold.reason: active} if active else {}
        if active and on_hold.reason.startswith("hw_"):
            reasons["hw_slowdown"] = active
        if active < samples and self.gpu.compute >= 1.0:
            reasons["sw_power_cap"] = samples - active
        part = (self.pace_at(at_s) if active else 1.0) * min(1.0, self.gpu.compute)
        clock = self.facts.clock_max_mhz * self.facts.busy_clock * part * (1 + self.draw.gauss(0.0, 0.008))
        heat = self.facts.temperature_c + (20.0 if "thermal" in on_hold.reason else 0.0)
        return {
            "number": number, "at_s": round(at_s, 3), "samples": samples, "clock_mhz": round(clock, 1),
            "clock_min_mhz": round(clock * 0.97), "power_w": round(self.facts.power_limit_w * 0.99 * part, 1),
            "temperature_c": round(heat - (heat - _COLD_C) * math.exp(-at_s / _WARMING_S)),
            "reasons": dict(sorted(reasons.items())),
        }  # fmt: skip


# One simulated training: its pods, the options of the program, and the quantities that follow from them.


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingJob:
    """One training job: its pods in the order of their ranks, and the options of the program."""

    name: str
    places: tuple[RankPod, ...]
    options: Mapping[str, str]
    env: Mapping[str, str]

    def number(self, name: str) -> int:
        """Return the value of an integer option."""
        return int(self.options[name])

    @property
    def matmul_parameters(self) -> int:
        """Parameters of its matrices.

        Per layer there are four matrices of attention and eight of the feed-forward network, and in the end that of the
        output.
        """
        hidden = self.number("hidden")
        return 12 * self.number("layers") * hidden**2 + hidden * self.number("vocabulary")

    @property
    def parameters(self) -> int:
        """All parameters, including embeddings and norms."""
        hidden, norms = self.number("hidden"), 4 * self.number("layers") + 2
        return self.matmul_parameters + hidden * (self.number("vocabulary") + self.number("sequence") + norms)

    @property
    def tokens(self) -> int:
        """Tokens of one rank in one step."""
        return self.number("batch") * self.number("accumulate") * self.number("sequence")

    @property
    def flop(self) -> float:
        """Floating point operations of one rank in one step."""
        attention = 12 * self.number("layers") * self.number("hidden") * self.number("sequence")
        return self.tokens * (6.0 * self.matmul_parameters + attention)


@dataclass(frozen=True, slots=True)
class Rank:
    """One rank: its number, its GPU and its node."""

    number: int
    gpu: Gpu
    node: Node


# Lines of the ranks of a training, computed from the model. Pure: the same job gives the same lines.
#
# Their times are those of the cluster and not of the rehearsal: ten minutes of load are over in a moment. A test
# compares the lines with those of the program itself. Order of the start: torchrun's agents meet before any of them
# starts its workers (torch/distributed/elastic/agent/server/api.py, `_initialize_workers`), so the workers of all nodes
# begin together, when the last pod is there.

# Factors on the first steps, in which memory is allocated, kernels are chosen and connections are made.
_WARMING = (6.0, 1.6, 1.2, 1.05)
_JITTER_EVERY = 5
_SYMBOLS = 97
# The program reports about this many seconds in one line.
_WINDOW_S = 10.0
_AGENTS_S = 5.0
_ALWAYS = "wrong-arithmetic"
_TORCH = "2.8.0a0+34c6371d24.nv25.08"


@dataclass(frozen=True, slots=True)
class Stretch:
    """Steps that are reported in one line: the first, their number, and their middle.

    The middle is in seconds since the start of the load.
    """

    first: int
    count: int
    at_s: float


class TrainingLog:
    """Lines of one job, for every rank."""

    def __init__(
        self, run: TrainingJob, model: ClusterModel, skus: Mapping[str, Sku], data: Performance, now: float
    ) -> None:
        """Find the hardware of each rank.

        Raises:
            KeyError: a pod is on a node that the model does not have.
        """
        self.run, self.model, self.data, self.now = run, model, data, now
        self.nodes = [model.node(place.node) for place in run.places]
        self.sku = skus[self.nodes[0].sku]
        self.draw = random.Random(f"{model.seed}/{run.name}/training")
        each = run.places[0].gpus
        self.ranks = [
            Rank(place * each + gpu.index, gpu, node)
            for place, node in enumerate(self.nodes)
            for gpu in node.working_gpus[:each]
        ]
        self._known_bits: dict[str, str] = {}
        self.steps, self.load_s = run.number("steps"), float(run.options.get("load-s", 0))
        self.written: dict[int, list[str]] = {rank.number: [] for rank in self.ranks}
        self.phases = [self._phases(place) for place in range(len(self.nodes))]
        self.usual = {
            rank.number: self._compute_s(rank) * (1 + self._noise(data.training.gpu_noise)) for rank in self.ranks
        }
        self.fed_s = {rank.number: self._data_s(rank) for rank in self.ranks}

    def lines(self) -> list[list[str]]:
        """Return the lines of every pod."""
        stop, ending = self._ending()
        if len(self.names) == len(self.nodes) and self.model.stack.training_torch:
            began = max(max(phases.values()) for phases in self.phases) + _AGENTS_S
            self._begin(began)
            self._train(stop, ending)
        written: list[list[list[str]]] = [[] for _place in self.nodes]
        for rank in self.ranks:
            written[self._place(rank)].append(self.written[rank.number])
        return [self._log(place, mine) for place, mine in enumerate(written)]

    @cached_property
    def names(self) -> list[int]:
        """Places whose pods can resolve the names of the others."""
        return [place for place, node in enumerate(self.nodes) if node.training.names]

    @cached_property
    def broken(self) -> Rank | None:
        """The rank whose fault ends the job early, None without one."""
        return next((rank for rank in self.ranks if rank.gpu.training in ("out-of-memory", "crashes", "hangs")), None)

    def _write(self, rank: Rank, event: str, **facts: object) -> None:
        words = {"schema_version": 2, "event": event, "rank": rank.number, **facts}
        self.written[rank.number].append(json.dumps(words, separators=(",", ":")))

    def _place(self, rank: Rank) -> int:
        return rank.number // self.run.places[0].gpus

    def _phases(self, place: int) -> dict[str, float]:
        """Return the times of a pod's phases. Without names or without PyTorch it stops before the later ones."""
        training = self.nodes[place].training
        began = self.now + training.delay_s + abs(self._noise(0.4))
        first = self.now + self.nodes[0].training.delay_s
        phases = {"started": began}
        if training.names:
            # The name can be resolved as soon as the pod of index 0 is there.
            phases["resolved"] = max(began, first) + 0.2 + abs(self._noise(0.5)) + training.name_s
            if self.model.stack.training_torch:
                loading_s = self.data.training.loading_s * (1 + abs(self._noise(0.1))) + training.loading_s
                phases["loaded"] = phases["resolved"] + loading_s
        return phases

    def _log(self, place: int, mine: Sequence[list[str]]) -> list[str]:
        """Return the log of a pod: its own lines, then those of its ranks, interleaved."""
        longest = max((len(lines_of_rank) for lines_of_rank in mine), default=0)
        reported = [
            json.dumps(
                {"schema_version": 2, "event": "pod", "phase": phase, "index": place, "at": round(at, 3)},
                separators=(",", ":"),
            )
            for phase, at in self.phases[place].items()
        ]
        lines = reported + [
            lines_of_rank[n] for n in range(longest) for lines_of_rank in mine if n < len(lines_of_rank)
        ]
        if self.nodes[place].training.log_cut:
            lines = lines[: len(lines) * 4 // 5]
            lines[-1] = lines[-1][: len(lines[-1]) // 2]
        return lines

    def _ending(self) -> tuple[int, str | None]:
        """Return the number of completed steps and the fault that ends the job early, if any."""
        broken = self.broken
        if broken is None:
            return self.steps, None
        return (0 if broken.gpu.training == "out-of-memory" else self.steps // 2), broken.gpu.training

    def _begin(self, began: float) -> None:
        """Write the lines of ranks until they train."""
        run, ready = self.run, {}
        for rank in self.ranks:
            started = began + abs(self._noise(0.4))
            ready[rank.number] = (
                started + self.data.training.ready_s + abs(self._noise(0.5)) + rank.node.training.ready_s
            )
            host = run.places[self._place(rank)].hostname
            self._write(rank, "hello", local_rank=rank.gpu.index, host=host, started=round(started, 3))
        joined = max(ready.values()) + 6.0
        shape = {
            name: run.number(name) for name in ("batch", "accumulate", "sequence", "layers", "hidden", "vocabulary")
        }
        facts = self.data.training
        for rank in self.ranks:
            self._write(
                rank, "start", ready=round(ready[rank.number], 3), joined=round(joined, 3), world=len(self.ranks),
                device=run.options["device"], device_name=rank.gpu.product, uuid=rank.gpu.uuid, backend="nccl",
                torch=rank.node.training.torch or _TORCH, dtype=run.options["dtype"], **shape,
                parameters=run.parameters, matmul_parameters=run.matmul_parameters,
                power_limit_w=facts.power_limit_w, clock_max_mhz=facts.clock_max_mhz,
            )  # fmt: skip

    def _train(self, stop: int, ending: str | None) -> None:
        """Write steps, windows, states and digests, and the end of the run."""
        exchange = self._exchange_s(min(self.usual.values()))
        self._digests(1, 0)
        elapsed = 0.0
        for number in range(1, stop + 1):
            elapsed += self._step(Stretch(number, 1, elapsed), exchange)
        if ending is not None:
            for rank in self.ranks:
                self._end_early(rank, ending, stop)
            return
        self._digests(2, stop)
        windows, done = 0, stop
        for stretch in self._windows(stop, elapsed):
            windows += 1
            elapsed += self._window(windows, stretch, exchange)
            done = stretch.first + stretch.count - 1
        digests = 2
        if windows:
            digests += 1
            self._digests(digests, done)
        for rank in self.ranks:
            states = DeviceStates(rank.gpu, self.data.training, self.draw).lines(elapsed)
            for state in states:
                self._write(rank, "state", **state)
            self._write(
                rank, "end", steps=done, load_s=round(elapsed, 3), digests=digests, windows=windows,
                states=len(states), weights=self._weights(rank), memory_mib=61_440,
            )  # fmt: skip

    def _windows(self, done: int, elapsed: float) -> Iterator[Stretch]:
        """Yield the stretches after the first steps, up to the end of the load."""
        if elapsed >= self.load_s:
            return
        step_s = elapsed / done
        each = max(1, round(_WINDOW_S / step_s))
        for n in range(math.ceil((self.load_s - elapsed) / (step_s * each) * 1.1)):
            yield Stretch(done + 1 + n * each, each, elapsed + n * each * step_s)

    def _step(self, stretch: Stretch, exchange: float) -> float:
        """Write a step of every rank. Return its seconds."""
        noise = self.data.training.step_noise
        own = {rank.number: self._own_s(rank, stretch) for rank in self.ranks}
        step_s = self._slowest(own) + exchange * (1 + self._noise(noise))
        bad = self._bad
        for rank in self.ranks:
            spoiled = bool(bad) and stretch.first > self.steps // 2 + (rank.number not in bad)
            self._write(
                rank, "step", step=stretch.first, loss="nan" if spoiled else round(self._loss(stretch.first), 5),
                step_time_s=round(step_s * (1 + self._noise(0.0002)), 6), compute_s=round(own[rank.number], 6),
                data_s=round(self._fed_s(rank, 1), 6), tokens=self.run.tokens,
            )  # fmt: skip
        return step_s

    def _window(self, number: int, stretch: Stretch, exchange: float) -> float:
        """Write a window of every rank. Return the total seconds of its steps."""
        noise, count = self.data.training.step_noise, stretch.count
        own = {rank.number: self._own_s(rank, stretch) for rank in self.ranks}
        jolts = {rank.number: rank.node.training.jitter for rank in self.ranks}
        # Every fifth step is longer by the jitter, for all ranks: mean and deviation of such a mixture.
        part, jolt = 1 / _JITTER_EVERY, max(jolts.values())
        step_s = self._slowest(own) * (1 + part * jolt) + exchange
        spread_s = step_s * math.hypot(noise, jolt * math.sqrt(part * (1 - part)))
        for rank in self.ranks:
            longest = (1 + 2.5 * noise) * (1 + jolts[rank.number])
            self._write(
                rank, "window", number=number, first=stretch.first, count=count,
                loss="nan" if self._bad else round(self._loss(stretch.first), 5),
                not_finite_from=stretch.first if self._bad else 0,
                step_time_s=round(step_s * (1 + self._noise(0.0002)), 6), step_time_sd_s=round(spread_s, 6),
                step_time_max_s=round(step_s * (1 + 2.5 * noise) * (1 + jolt), 6),
                compute_s=round(own[rank.number], 6), compute_max_s=round(own[rank.number] * longest, 6),
                data_s=round(self._fed_s(rank, count), 6),
            )  # fmt: skip
        return count * step_s

    @cached_property
    def _bad(self) -> list[int]:
        return [rank.number for rank in self.ranks if rank.gpu.training == "not-a-number"]

    def _slowest(self, own: Mapping[int, float]) -> float:
        """Return when the last rank has its data and its gradients, since all others wait for it."""
        return max(own[rank.number] + self.fed_s[rank.number] for rank in self.ranks)

    def _own_s(self, rank: Rank, stretch: Stretch) -> float:
        """Return the seconds of a rank's own arithmetic in a step, as the mean of a stretch."""
        training, number = rank.node.training, stretch.first
        done = stretch.at_s / self.load_s if self.load_s else number / self.steps
        jolt = 1 + (training.jitter if stretch.count == 1 and number % _JITTER_EVERY == 0 else 0.0)
        warming = _WARMING[number - 1] if number <= len(_WARMING) else 1.0
        noise = 1 + self._noise(self.data.training.step_noise / math.sqrt(stretch.count))
        on_hold = DeviceStates(rank.gpu, self.data.training, self.draw).pace_at(stretch.at_s)
        return self.usual[rank.number] * warming * (1 + training.growth * min(1.0, done)) * jolt * noise / on_hold

    def _fed_s(self, rank: Rank, count: int) -> float:
        return self.fed_s[rank.number] * (1 + self._noise(0.05 / math.sqrt(count)))

    def _data_s(self, rank: Rank) -> float:
        """Return the seconds that a CPU needs for the data of a step."""
        places = self.run.number("sequence") * self.run.number("accumulate")
        return self.data.training.data_us * 1e-6 * places / rank.node.training.cpu * (1 + self._noise(0.02))

    def _compute_s(self, rank: Rank) -> float:
        """Return the compute seconds of a rank in one step."""
        facts = self.data.training
        part = self.sku.gpu_kind.simulated.training_efficiency or facts.efficiency
        peak = self.sku.peak_tflops.get("bf16") or self.sku.peak_tflops.get("fp16") or 65.0
        pace = rank.gpu.compute * rank.node.training.pace * self.model.stack.training_efficiency
        return self.run.flop / (peak * 1e12 * part * pace)

    def _exchange_s(self, compute_s: float) -> float:
        """Return the seconds that the exchange of gradients adds to a step."""
        if len(self.ranks) < 2:
            return 0.0
        size = 4 * self.run.parameters
        communicator = self._communicator()
        algorithm, _protocol = choose("AllReduce", size, communicator)
        whole = time_us("AllReduce", size, algorithm, communicator, self.data) / 1e6
        return max(0.04 * whole, whole - self.data.training.hidden * compute_s)

    def _communicator(self) -> Communicator:
        names = sorted(node.name for node in self.model.nodes)
        hosts = [
            find_host(
                place, names.index(place.node), self.model, self.sku.nvlink_generation, self.sku.fabric, self.run.env,
                self.data,
            )
            for place in self.run.places
        ]  # fmt: skip
        nvls = self.sku.gpu_kind.nvls and self.sku.nvswitches != 0
        return communicators_of(hosts, nvls, self.run.env)[0]

    def _loss(self, number: int) -> float:
        first = math.log(self.run.number("vocabulary"))
        if not self.model.stack.training_learns:
            return first * (1 + self._noise(0.004))
        # The model first learns the frequency of the symbols, then which symbol follows which.
        symbols, rest = min(math.log(_SYMBOLS), first), 0.12
        before = number - 1
        level = rest + (symbols - rest) * math.exp(-before / 16) + (first - symbols) * math.exp(-before / 4)
        return level * (1 + self._noise(0.02))

    def _digests(self, number: int, step: int) -> None:
        """Write the digests of all ranks. They follow from the seed, unless a GPU computes wrong."""
        for rank in self.ranks:
            state = rank.gpu.training
            wrong = state in ("wrong-bits", _ALWAYS) or (state == "wrong-when-hot" and number > 1)
            found = {name: self._bits(f"{name}/{rank.number if wrong else ''}") for name in ("gemm", "attention")}
            self._write(rank, "digest", number=number, step=step, **found, wrong_rows=3 if state == _ALWAYS else 0)

    def _weights(self, rank: Rank) -> str:
        return self._bits(f"{self.run.name}{'/other' if rank.gpu.training == 'other-weights' else ''}")

    def _bits(self, of: str) -> str:
        found = self._known_bits.get(of)
        if found is None:
            found = self._known_bits[of] = f"{random.Random(f'{self.model.seed}/{of}').getrandbits(61):016x}"
        return found

    def _end_early(self, rank: Rank, ending: str, done: int) -> None:
        mine, at = rank is self.broken, self.now + 30.0
        if ending == "hangs":
            self._write(rank, "stuck", step=done + 1, doing="compute" if mine else "wait")
            return
        if mine:
            kind, text = ("RuntimeError", "CUDA error: an illegal memory access was encountered")
            if ending == "out-of-memory":
                kind, text = (
                    "OutOfMemoryError",
                    f"CUDA out of memory. Tried to allocate 512.00 MiB. GPU {rank.gpu.index}",
                )
        else:
            at += 1.0 + abs(self._noise(1.0))
            kind, text = "DistBackendError", "NCCL error: remote process exited or there was a network error"
        self._write(rank, "error", step=done, at=round(at, 3), kind=kind, text=text)

    def _noise(self, deviation: float) -> float:
        return max(-3.0, min(3.0, self.draw.gauss(0.0, 1.0))) * deviation


def options_of(words: Sequence[str]) -> dict[str, str]:
    """Return the options of the program in a command line."""
    found = {}
    for place, word in enumerate(words):
        name, mark, value = word.partition("=")
        if not name.startswith("--"):
            continue
        following = words[place + 1] if place + 1 < len(words) else ""
        if mark or not following.startswith("--"):
            found[name.removeprefix("--")] = value if mark else following
    return found


_PROGRAM, _BEGIN = "train.py", "begin.py"
_FOLDER = RECIPES / "workloads" / "training"
_MACHINES = re.compile(r"--nnodes[= ](\d+)")
_EACH = re.compile(r"--nproc-per-node[= ](\d+)")
_FAILED = 1
# Faults that the program itself can show.
_REAL = {"not-a-number": "nan", "wrong-when-hot": "digest"}
_IMAGE = "ImagePullBackOff"


def handles(pod: Json) -> bool:
    """Tell whether a pod starts our training program with torchrun."""
    names = {word.rsplit("/", 1)[-1] for word in words_of(pod)}
    return {_PROGRAM, _BEGIN} <= names


def simulate(group: PodGroup, context: SimContext) -> Mapping[str, PodOutput] | None:
    """Return the outputs once as many pods run as torchrun waits for."""
    words = words_of(group.pods[0])
    text = " ".join(words)
    machines, each = _MACHINES.search(text), _EACH.search(text)
    if machines is None or each is None or len(group.running) < int(machines.group(1)):
        return None
    at = next(n for n, word in enumerate(words) if word.rsplit("/", 1)[-1] == _PROGRAM)
    options, pods = words[at + 1 :], group.running
    without = [pod for pod in pods if not context.model.node(pod["spec"]["nodeName"]).training.image]
    if without:
        # The other pods wait for them and print nothing yet.
        return {_name(pod): PodOutput(exit_code=None, fault=_IMAGE if pod in without else "") for pod in pods}
    run = TrainingJob(
        name=group.name, places=tuple(rank_pod(pod, int(each.group(1))) for pod in pods), options=options_of(options),
        env=env_of(pods[0]),
    )  # fmt: skip
    if context.full is not None:
        return _for_real(run, pods, options, context)
    return _computed(run, pods, context)


def _computed(run: TrainingJob, pods: Sequence[Json], context: SimContext) -> Mapping[str, PodOutput]:
    data = performance()
    log = TrainingLog(run, context.model, context.skus, data, context.now.timestamp())
    lines = log.lines()
    run_s = data.run_s.base + data.run_s.per_node * len(pods)
    outputs = {}
    for place, pod in enumerate(pods):
        reported, code = [(STDOUT, line) for line in lines[place]], _exit_code(log)
        reported += [(STDERR, line) for line in _complaints(run, log, place)]
        outputs[_name(pod)] = PodOutput(lines=tuple(reported), exit_code=code, run_s=run_s)
    return outputs


def _exit_code(log: TrainingLog) -> int | None:
    """Return the exit code of every pod; None for pods that wait until they are removed."""
    if len(log.names) < len(log.nodes) or (log.broken and log.broken.gpu.training == "hangs"):
        return None
    return 0 if log.broken is None and log.model.stack.training_torch else _FAILED


def _complaints(run: TrainingJob, log: TrainingLog, place: int) -> list[str]:
    """Return the stderr of a pod: begin.py that waits or cannot load PyTorch, torchrun whose workers failed."""
    if place not in log.names:
        # Message of the C library for a name that cannot be resolved.
        return [f"waiting for {run.env.get('MEETING', '')}: Name or service not known"]
    if not log.model.stack.training_torch:
        return ["Traceback (most recent call last):", "ModuleNotFoundError: No module named 'torch'"]
    return _summary(run, place) if _exit_code(log) == _FAILED else []


def _summary(run: TrainingJob, place: int) -> list[str]:
    """Return torchrun's summary of failed workers."""
    rank = place * run.places[0].gpus
    return [
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
        "/etc/program/train.py FAILED",
        "Root Cause (first observed failure):",
        f"  rank      : {rank} (local_rank: 0)",
        "  exitcode  : 1 (pid: 61)",
    ]


def _for_real(
    run: TrainingJob, pods: Sequence[Json], options: Sequence[str], context: SimContext
) -> Mapping[str, PodOutput]:
    # Its real path, which is the same for every checkout of a user: modules are compiled for a path.
    programs, port = Path(context.program("training", "python")).parents[1].resolve(), _free_port()
    each = run.places[0].gpus
    env = {
        # There are fewer cores than ranks.
        "OMP_NUM_THREADS": "1",
        # Compiled modules are kept, or loading PyTorch takes twice as long. They are with the programs, not the
        # recipes, so that the next rehearsal has them, too.
        "PYTHONDONTWRITEBYTECODE": "",
        "PYTHONPYCACHEPREFIX": str(programs / "pycache"),
        "MEETING": "127.0.0.1",
        "GPUFLEET_REHEARSAL_RANK": _misbehaviour(run, context),
    }
    outputs = {}
    for place, pod in enumerate(pods):
        size = (f"--nnodes={len(pods)}", f"--nproc-per-node={each}", f"--master-port={port}", "--max-restarts=0")
        process = RealProcess(
            argv=(str(programs / "bin" / "python"), str(_FOLDER / _BEGIN), *size, str(_FOLDER / _PROGRAM), *options),
            env={**env, "JOB_COMPLETION_INDEX": str(place)},
        )
        outputs[_name(pod)] = PodOutput(process=process)
    return outputs


def _misbehaviour(run: TrainingJob, context: SimContext) -> str:
    """Return the fault that the program itself can show, `<rank>:<fault>`: a rank that is slow or computes NaN."""
    for place, where in enumerate(run.places):
        for gpu in context.model.node(where.node).gpus[: where.gpus]:
            rank = place * where.gpus + gpu.index
            if gpu.training in _REAL:
                return f"{rank}:{_REAL[gpu.training]}"
            if gpu.compute < 1.0:
                return f"{rank}:{1 / gpu.compute:g}"
    return ""


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _name(pod: Json) -> str:
    return str(pod["metadata"]["name"])


SIMULATOR = PodSimulator(name="training", handles=handles, simulate=simulate)
