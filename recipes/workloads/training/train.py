# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Training program of gate training_acceptance: a small transformer, data that it can learn, data-parallel (DDP).

Started by torchrun (see begin.py), once for every GPU. Every rank writes JSON lines to stdout: `hello` (it is there),
`start` (all are there; what it trains), `digest` (arithmetic that all ranks do alike), one `step` for each of the first
steps, then `window` (many steps together), `state` (clock, power and heat of its device), `end`; `stuck` when a step
does not come to an end, `error` before it dies of one.
Needs Python 3.9 and PyTorch 2.1, nothing else. docs/training_acceptance.md describes the lines.

`step_time_s` is the same on all ranks, because DDP makes them wait for each other. `data_s` is what a rank's CPU needs
for the data of the step; `compute_s` goes from there to where it has its gradients and starts to wait. So the two tell
a slow rank from those that wait for it.

It trains `--steps` steps, and then on until `--load-s` seconds are over: heat takes minutes to show.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import math
import os
import socket
import sys
import threading
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

STARTED = time.time()

import torch  # noqa: E402 - the clock starts before PyTorch is loaded, which takes seconds
import torch.distributed as dist  # noqa: E402
from arithmetic import digests  # noqa: E402
from device_state import Cpu, Nvml, Sampler  # noqa: E402
from measuring import Clock, Times, Window  # noqa: E402
from torch import Tensor, nn  # noqa: E402
from torch.nn import functional  # noqa: E402
from transformer import Transformer, digest_of_weights  # noqa: E402

SCHEMA_VERSION = 2
# The data: a walk x -> (5x + 17) mod 97 from a random start. Every next symbol follows from the one before it.
SYMBOLS, FACTOR, ADDEND = 97, 5, 17
LEARNING_RATE_STEPS = 10
# A window and a state stand for about that long.
WINDOW_S = 10.0


@dataclass
class Told:
    """How many lines of each kind a rank has written, so that a lost one is noticed."""

    digests: int = 0
    windows: int = 0
    states: int = 0


class Rank:
    """One process of the run."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.number, self.local = int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"])
        self.world = int(os.environ["WORLD_SIZE"])
        self.device = torch.device(options.device, self.local if options.device == "cuda" else None)
        self.step, self.begun_at = 0, 0.0
        self.done = threading.Event()
        self.told = Told()
        self.load_began_at = self.state_told_at = 0.0
        self.sampler = Sampler(Cpu())
        # For rehearsals only: `rank:factor`, a rank that takes so many times as long; `rank:nan`, one with a bad loss;
        # `rank:digest`, one that computes wrong.
        who, _mark, what = os.environ.get("GPUFLEET_REHEARSAL_RANK", "").partition(":")
        self.rehearsed = what if who == str(self.number) else ""

    def say(self, event: str, **facts: Any) -> None:
        """Write a line, in one piece: the ranks of a pod share its stdout."""
        words = {"schema_version": SCHEMA_VERSION, "event": event, "rank": self.number, **facts}
        os.write(1, (json.dumps(words, separators=(",", ":")) + "\n").encode())

    def run(self) -> None:
        """Join, train, leave."""
        self.say("hello", local_rank=self.local, host=socket.gethostname(), started=round(STARTED, 3))
        if self.device.type == "cuda":
            torch.cuda.set_device(self.device)
        # The device is set up here, so that a slow one is seen at the host that has it.
        torch.zeros(1, device=self.device)
        ready = time.time()
        backend = "nccl" if self.device.type == "cuda" else "gloo"
        dist.init_process_group(backend, timeout=timedelta(seconds=self.options.timeout_s))
        dist.barrier()
        joined = time.time()
        torch.manual_seed(self.options.seed)
        model = Transformer(self.options).to(self.device)
        self.say("start", ready=round(ready, 3), joined=round(joined, 3), **self.facts(model, backend))
        steps, load_s = self.train(model)
        memory = torch.cuda.max_memory_allocated() >> 20 if self.device.type == "cuda" else 0
        self.say(
            "end", steps=steps, load_s=round(load_s, 3), digests=self.told.digests, windows=self.told.windows,
            states=self.told.states, weights=digest_of_weights(model), memory_mib=memory,
        )  # fmt: skip
        self.done.set()
        dist.barrier()
        dist.destroy_process_group()

    def facts(self, model: Transformer, backend: str) -> dict[str, Any]:
        """Return who this rank is and what it trains; from here on its device is sampled."""
        o, gpu = self.options, self.device.type == "cuda"
        properties = torch.cuda.get_device_properties(self.device) if gpu else None
        uuid = str(getattr(properties, "uuid", ""))
        if gpu:
            # Without NVML there are no samples, and the gate says so.
            with contextlib.suppress(OSError):
                self.sampler = Sampler(Nvml(uuid))
                self.sampler.start()
        else:
            self.sampler.start()
        sampled = self.sampler.device
        return {
            "world": self.world,
            "device": self.device.type, "device_name": properties.name if properties else "CPU",
            "uuid": uuid, "backend": backend, "torch": torch.__version__,
            "dtype": o.dtype, "batch": o.batch, "accumulate": o.accumulate,
            "sequence": o.sequence, "layers": o.layers, "hidden": o.hidden, "vocabulary": o.vocabulary,
            "parameters": sum(parameter.numel() for parameter in model.parameters()),
            "matmul_parameters": model.matmul_parameters,
            "power_limit_w": sampled.power_limit_w, "clock_max_mhz": sampled.clock_max_mhz,
        }  # fmt: skip

    def train(self, model: Transformer) -> tuple[int, float]:
        """Do all steps and say how they went; return how many there were, and the seconds that they took."""
        options, clock = self.options, Clock(self.device, self.options.accumulate)
        model.on_gradients = clock.gradients
        devices = [self.local] if self.device.type == "cuda" else None
        shared = nn.parallel.DistributedDataParallel(model, device_ids=devices, gradient_as_bucket_view=True)
        fused = {"fused": True} if self.device.type == "cuda" else {}
        optimizer = torch.optim.AdamW(model.parameters(), lr=options.learning_rate, **fused)
        threading.Thread(target=self.watch, args=(clock,), daemon=True).start()
        self.digest()
        gc.collect()
        # Its pauses would come at another step on every rank.
        gc.disable()
        dist.barrier()
        self.load_began_at = self.state_told_at = time.perf_counter()
        self.sampler.taken()
        until, each, window = options.steps, 0, Window()
        while self.step < until:
            number = self.step + 1
            for group in optimizer.param_groups:
                group["lr"] = options.learning_rate * min(1.0, number / LEARNING_RATE_STEPS)
            value, times = self.one_step(shared, optimizer, clock, number)
            self.step = number
            if not each:
                self.tell_step(number, value, times)
            else:
                window.add(number, value, times)
                if len(window.times) == each:
                    self.told.windows += 1
                    self.say("window", number=self.told.windows, **window.line())
                    window = Window()
            if time.perf_counter() - self.state_told_at >= WINDOW_S:
                self.tell_state()
            if number == until:
                self.digest()
                until, each = self.agree(until, each)
        self.tell_state()
        return self.step, time.perf_counter() - self.load_began_at

    def one_step(
        self, shared: nn.Module, optimizer: torch.optim.Optimizer, clock: Clock, number: int
    ) -> tuple[float, Times]:
        """Make data, learn from it, exchange gradients, update; return the loss and the times."""
        options = self.options
        clock.begin()
        parts = [self.data(number * options.accumulate + part) for part in range(options.accumulate)]
        clock.fed()
        self.misbehave(clock)
        loss = torch.zeros((), device=self.device)
        for part, (inputs, wanted) in enumerate(parts, 1):
            # Gradients are exchanged with the last part of a step.
            with contextlib.nullcontext() if part == options.accumulate else shared.no_sync():
                loss += self.learn(shared, inputs, wanted, number).detach()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.item(), clock.times()

    def tell_step(self, number: int, value: float, times: Times) -> None:
        told = round(value, 5) if math.isfinite(value) else str(value)
        self.say(
            "step", step=number, loss=told, step_time_s=round(times.step_s, 6), compute_s=round(times.compute_s, 6),
            data_s=round(times.data_s, 6),
            tokens=self.options.batch * self.options.sequence * self.options.accumulate,
        )  # fmt: skip

    def tell_state(self) -> None:
        """Say how the device was since the last time."""
        self.state_told_at = time.perf_counter()
        self.told.states += 1
        at_s = round(self.state_told_at - self.load_began_at, 3)
        self.say("state", number=self.told.states, at_s=at_s, **self.sampler.taken())

    def digest(self) -> None:
        """Do the arithmetic that all ranks do alike: before the load, in it, and hot at its end."""
        self.told.digests += 1
        spoiled = self.rehearsed == "digest" and self.told.digests > 1
        self.say(
            "digest", number=self.told.digests, step=self.step, **digests(self.options, self.device, spoiled=spoiled)
        )

    def agree(self, until: int, each: int) -> tuple[int, int]:
        """Return up to which step all ranks go on, and how many steps a window has; rank 0 decides."""
        seconds = time.perf_counter() - self.load_began_at
        left_s = self.options.load_s - seconds
        if left_s > 0:
            step_s = seconds / self.step
            each = each or max(1, round(WINDOW_S / step_s))
            until += each * max(1, math.ceil(left_s / (step_s * each)))
        decided = torch.tensor([until, each], dtype=torch.int64, device=self.device)
        dist.broadcast(decided, src=0)
        return int(decided[0].item()), int(decided[1].item())

    def learn(self, shared: nn.Module, inputs: Tensor, wanted: Tensor, number: int) -> Tensor:
        """Add the gradients of one part of a step and return its loss."""
        dtype = getattr(torch, self.options.dtype)
        with torch.autocast(self.device.type, dtype, enabled=dtype is not torch.float32):
            logits = shared(inputs)
        loss = functional.cross_entropy(logits.float().flatten(0, 1), wanted.flatten()) / self.options.accumulate
        if self.rehearsed == "nan" and number > self.options.steps // 2:
            loss = loss * math.nan
        loss.backward()
        return loss

    def data(self, number: int) -> tuple[Tensor, Tensor]:
        """Return what this rank learns from in a part of a step: its own, and the same whenever it is run."""
        draw = torch.Generator().manual_seed((self.options.seed * 1_000_003 + self.number) * 1_000_003 + number)
        first = torch.randint(SYMBOLS, (self.options.batch,), generator=draw)
        columns = [first]
        for _place in range(self.options.sequence):
            columns.append((columns[-1] * FACTOR + ADDEND) % SYMBOLS)
        walk = torch.stack(columns, dim=1).to(self.device)
        return walk[:, :-1], walk[:, 1:]

    def misbehave(self, clock: Clock) -> None:
        """Be as slow as a rehearsal asks for; anywhere else this does nothing."""
        if self.rehearsed and self.rehearsed not in ("nan", "digest") and self.step > 1:
            # Of the step before it slept that part already, so this comes to rest at the factor.
            time.sleep(max(0.0, clock.computed_at - self.begun_at) * (1 - 1 / float(self.rehearsed)))
        self.begun_at = clock.fed_at

    def watch(self, clock: Clock) -> None:
        """Say where this rank stands when a step does not end: at its own work, or waiting for others."""
        seen = -1
        while not self.done.wait(self.options.stuck_s):
            if self.step == seen:
                self.say("stuck", step=seen + 1, doing="wait" if clock.waiting else "compute")
                return
            seen = self.step


def parse_options(words: list[str]) -> argparse.Namespace:
    """Return the options of a command line."""
    parser = argparse.ArgumentParser(description="Trains a small transformer on data that it can learn.")
    whole = {
        "layers": 2, "hidden": 128, "heads": 4, "sequence": 64, "batch": 4, "accumulate": 1, "vocabulary": 128,
        "steps": 60, "seed": 1,
    }  # fmt: skip
    for name, value in whole.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--dtype", choices=("bfloat16", "float16", "float32"), default="bfloat16")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--load-s", type=float, default=0.0, help="train on until so many seconds are over")
    parser.add_argument("--timeout-s", type=float, default=300.0, help="how long ranks wait for each other")
    parser.add_argument("--stuck-s", type=float, default=60.0, help="a step that takes longer is told")
    return parser.parse_args(words)


def main(words: list[str]) -> None:
    """Run one rank; what ends it early is told in a line first."""
    rank = Rank(parse_options(words))
    try:
        rank.run()
    except Exception as error:
        text = " ".join(str(error).split())[:500]
        rank.say("error", step=rank.step, at=round(time.time(), 3), kind=type(error).__name__, text=text)
        raise


if __name__ == "__main__":
    main(sys.argv[1:])
