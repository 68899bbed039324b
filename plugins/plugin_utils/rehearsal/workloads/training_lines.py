# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The lines that the ranks of a training write, computed from the model. Pure: the same job gives the same lines."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ...hardware.sku import Sku
from ..model.values import ClusterModel, Gpu, Node
from .benchmark import RankPod
from .nccl_run import communicators_of
from .performance import Performance
from .physics import Communicator, choose, time_us
from .transport import find_host

# How much longer the first steps take: memory is allocated, kernels are chosen, connections are made.
_WARMING = (6.0, 1.6, 1.2, 1.05)
_JITTER_EVERY = 5
_SYMBOLS = 97


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
        """Parameters of its matrices: four of attention and eight of the feed-forward network a layer, the output."""
        hidden = self.number("hidden")
        return 12 * self.number("layers") * hidden**2 + hidden * self.number("vocabulary")

    @property
    def parameters(self) -> int:
        """All parameters, embeddings and norms included."""
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


class TrainingLog:
    """The lines of one job, for every rank."""

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
        self.steps = run.number("steps")
        self.written: dict[int, list[str]] = {rank.number: [] for rank in self.ranks}

    def lines(self) -> list[list[str]]:
        """Return the lines of every pod."""
        stop, ending = self._ending()
        started = {rank.number: self._start_time(rank) for rank in self.ranks}
        for rank in self.ranks:
            facts = {"local_rank": rank.gpu.index, "host": self.run.places[self._place(rank)].hostname}
            self._write(rank, "hello", **facts, started=round(started[rank.number], 3))
        self._write_start(max(started.values()) + 6.0)
        self._train(stop)
        for rank in self.ranks:
            if ending is None:
                self._write(rank, "end", steps=self.steps, weights=self._weights(rank), memory_mib=61_440)
            else:
                self._end_early(rank, ending, stop)
        return [self._log(place) for place in range(len(self.nodes))]

    @property
    def broken(self) -> Rank | None:
        """The rank whose fault ends the job early, None without one."""
        return next((rank for rank in self.ranks if rank.gpu.training in ("out-of-memory", "crashes", "hangs")), None)

    def _write(self, rank: Rank, event: str, **facts: object) -> None:
        words = {"schema_version": 1, "event": event, "rank": rank.number, **facts}
        self.written[rank.number].append(json.dumps(words, separators=(",", ":")))

    def _place(self, rank: Rank) -> int:
        return rank.number // self.run.places[0].gpus

    def _log(self, place: int) -> list[str]:
        """Return the log of a pod: the lines of its ranks, interleaved."""
        mine = [self.written[rank.number] for rank in self.ranks if self._place(rank) == place]
        longest = max((len(lines_of_rank) for lines_of_rank in mine), default=0)
        lines = [lines_of_rank[n] for n in range(longest) for lines_of_rank in mine if n < len(lines_of_rank)]
        if self.nodes[place].training.log_cut:
            lines = lines[: len(lines) * 4 // 5]
            lines[-1] = lines[-1][: len(lines[-1]) // 2]
        return lines

    def _ending(self) -> tuple[int, str | None]:
        """Return how many steps are completed and the fault that ends the job early, if any."""
        broken = self.broken
        if broken is None:
            return self.steps, None
        return (0 if broken.gpu.training == "out-of-memory" else self.steps // 2), broken.gpu.training

    def _start_time(self, rank: Rank) -> float:
        return self.now + rank.node.training.delay_s + abs(self._noise(0.4))

    def _write_start(self, joined: float) -> None:
        run = self.run
        shape = {
            name: run.number(name) for name in ("batch", "accumulate", "sequence", "layers", "hidden", "vocabulary")
        }
        for rank in self.ranks:
            self._write(
                rank, "start", world=len(self.ranks), device=run.options["device"], device_name=rank.gpu.product,
                uuid=rank.gpu.uuid, backend="nccl", torch="2.8.0a0+34c6371d24.nv25.08", joined=round(joined, 3),
                dtype=run.options["dtype"], **shape, parameters=run.parameters, matmul_parameters=run.matmul_parameters,
            )  # fmt: skip

    def _train(self, stop: int) -> None:
        usual = {
            rank.number: self._compute_s(rank) * (1 + self._noise(self.data.training.gpu_noise)) for rank in self.ranks
        }
        exchange = self._exchange_s(min(usual.values()))
        first_bad = self.steps // 2
        bad = [rank.number for rank in self.ranks if rank.gpu.training == "not-a-number"]
        for number in range(1, stop + 1):
            own = {rank.number: usual[rank.number] * self._step_factor(rank, number) for rank in self.ranks}
            step_s = max(own.values()) + exchange * (1 + self._noise(self.data.training.step_noise))
            for rank in self.ranks:
                spoiled = bool(bad) and number > first_bad + (rank.number not in bad)
                loss = "nan" if spoiled else round(self._loss(number), 5)
                self._write(
                    rank, "step", step=number, loss=loss, step_time_s=round(step_s * (1 + self._noise(0.0002)), 6),
                    compute_s=round(own[rank.number], 6), tokens=self.run.tokens,
                )  # fmt: skip

    def _compute_s(self, rank: Rank) -> float:
        """Return the seconds that a rank computes in one step."""
        facts = self.data.training
        part = self.sku.gpu_kind.simulated.training_efficiency or facts.efficiency
        peak = self.sku.peak_tflops.get("bf16") or self.sku.peak_tflops.get("fp16") or 65.0
        pace = rank.gpu.compute * rank.node.training.pace * self.model.stack.training_efficiency
        return self.run.flop / (peak * 1e12 * part * pace)

    def _step_factor(self, rank: Rank, number: int) -> float:
        """Return the factor on the usual compute time of a rank in one step."""
        training = rank.node.training
        grown = 1 + training.growth * number / self.steps
        jolt = 1 + (training.jitter if number % _JITTER_EVERY == 0 else 0.0)
        warming = _WARMING[number - 1] if number <= len(_WARMING) else 1.0
        return warming * grown * jolt * (1 + self._noise(self.data.training.step_noise))

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

    def _weights(self, rank: Rank) -> str:
        other = "/other" if rank.gpu.training == "other-weights" else ""
        return f"{random.Random(f'{self.model.seed}/{self.run.name}{other}').getrandbits(61):016x}"

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
    for name, value in pairwise(words):
        if name.startswith("--") and not value.startswith("--"):
            found[name.removeprefix("--")] = value
    return found
