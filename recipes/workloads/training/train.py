# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Training program of gate training_acceptance: a small transformer, data that it can learn, data-parallel (DDP).

Started by torchrun, once for every GPU. Every rank writes JSON lines to stdout: `hello` (it is there), `start` (all are
there; what it trains), one `step` for each step, `end`; `stuck` when a step does not come to an end, `error` before it
dies of one.
Needs Python 3.9 and PyTorch 2.1, nothing else. docs/training_acceptance.md describes the lines.

`step_time_s` is the same on all ranks, because DDP makes them wait for each other. `compute_s` ends where the rank
has its gradients and starts to wait, so it tells a slow GPU from those that wait for it.
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
from datetime import timedelta
from typing import Any

STARTED = time.time()

import torch  # noqa: E402 - the clock starts before PyTorch is loaded, which takes seconds
import torch.distributed as dist  # noqa: E402
from torch import Tensor, nn  # noqa: E402
from torch.nn import functional  # noqa: E402

SCHEMA_VERSION = 1
# The data: a walk x -> (5x + 17) mod 97 from a random start. Every next symbol follows from the one before it.
SYMBOLS, FACTOR, ADDEND = 97, 5, 17
LEARNING_RATE_STEPS = 10


class Block(nn.Module):
    """One layer: causal attention and a feed-forward network four times as wide."""

    def __init__(self, hidden: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm_1, self.norm_2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.qkv = nn.Linear(hidden, 3 * hidden, bias=False)
        self.out = nn.Linear(hidden, hidden, bias=False)
        self.up = nn.Linear(hidden, 4 * hidden, bias=False)
        self.down = nn.Linear(4 * hidden, hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, hidden = x.shape
        parts = self.qkv(self.norm_1(x)).view(batch, length, 3, self.heads, hidden // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(batch, length, hidden))
        return x + self.down(functional.gelu(self.up(self.norm_2(x))))


class Transformer(nn.Module):
    """A decoder. `on_gradients` is called when the backward pass has come to its beginning."""

    def __init__(self, options: argparse.Namespace) -> None:
        super().__init__()
        self.tokens = nn.Embedding(options.vocabulary, options.hidden)
        self.positions = nn.Embedding(options.sequence, options.hidden)
        self.blocks = nn.ModuleList(Block(options.hidden, options.heads) for _layer in range(options.layers))
        self.norm = nn.LayerNorm(options.hidden)
        self.head = nn.Linear(options.hidden, options.vocabulary, bias=False)
        self.on_gradients: Any = None
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.tokens(tokens) + self.positions.weight[: tokens.shape[1]]
        if self.on_gradients is not None and x.requires_grad:
            x.register_hook(self.on_gradients)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))

    @property
    def matmul_parameters(self) -> int:
        """Parameters that every token is multiplied with: all matrices but the embeddings, which are looked up."""
        matrices = [module.weight for module in self.modules() if isinstance(module, nn.Linear)]
        return sum(weight.numel() for weight in matrices)


class Clock:
    """When a step began, when its gradients were there, when it ended; on a GPU by the GPU's own clock."""

    def __init__(self, device: torch.device, parts: int) -> None:
        self.parts, self.left = parts, 0
        self.on_gpu = device.type == "cuda"
        self.events = [torch.cuda.Event(enable_timing=True) for _end in range(2)] if self.on_gpu else []
        self.begun_at = self.computed_at = 0.0

    def begin(self) -> None:
        self.begun_at, self.left = time.perf_counter(), self.parts
        if self.on_gpu:
            self.events[0].record()

    def gradients(self, _gradient: Tensor) -> None:
        self.computed_at, self.left = time.perf_counter(), self.left - 1
        if self.on_gpu:
            self.events[1].record()

    @property
    def waiting(self) -> bool:
        """Whether this rank has done its part of the step."""
        return self.left == 0 and (not self.on_gpu or self.events[1].query())

    def times(self) -> tuple[float, float]:
        """Return seconds of the whole step and of this rank's own part; everything must have ended."""
        if self.on_gpu:
            torch.cuda.synchronize()
        step_s = time.perf_counter() - self.begun_at
        compute_s = (
            self.events[0].elapsed_time(self.events[1]) / 1e3 if self.on_gpu else self.computed_at - self.begun_at
        )
        return step_s, compute_s


class Rank:
    """One process of the run."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.number, self.local = int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"])
        self.world = int(os.environ["WORLD_SIZE"])
        self.device = torch.device(options.device, self.local if options.device == "cuda" else None)
        self.step, self.begun_at = 0, 0.0
        self.done = threading.Event()
        # For rehearsals only: `rank:factor`, a rank that takes so many times as long; `rank:nan`, one with a bad loss.
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
        backend = "nccl" if self.device.type == "cuda" else "gloo"
        dist.init_process_group(backend, timeout=timedelta(seconds=self.options.timeout_s))
        dist.barrier()
        joined = time.time()
        torch.manual_seed(self.options.seed)
        model = Transformer(self.options).to(self.device)
        self.say("start", **self.facts(model, backend, joined))
        self.train(model)
        memory = torch.cuda.max_memory_allocated() >> 20 if self.device.type == "cuda" else 0
        self.say("end", steps=self.options.steps, weights=digest(model), memory_mib=memory)
        self.done.set()
        dist.barrier()
        dist.destroy_process_group()

    def facts(self, model: Transformer, backend: str, joined: float) -> dict[str, Any]:
        """Return who this rank is and what it trains."""
        o, gpu = self.options, self.device.type == "cuda"
        properties = torch.cuda.get_device_properties(self.device) if gpu else None
        return {
            "world": self.world,
            "device": self.device.type, "device_name": properties.name if properties else "CPU",
            "uuid": str(getattr(properties, "uuid", "")), "backend": backend, "torch": torch.__version__,
            "joined": round(joined, 3), "dtype": o.dtype, "batch": o.batch, "accumulate": o.accumulate,
            "sequence": o.sequence, "layers": o.layers, "hidden": o.hidden, "vocabulary": o.vocabulary,
            "parameters": sum(parameter.numel() for parameter in model.parameters()),
            "matmul_parameters": model.matmul_parameters,
        }  # fmt: skip

    def train(self, model: Transformer) -> None:
        """Do all steps and say how each of them went."""
        options, clock = self.options, Clock(self.device, self.options.accumulate)
        model.on_gradients = clock.gradients
        devices = [self.local] if self.device.type == "cuda" else None
        shared = nn.parallel.DistributedDataParallel(model, device_ids=devices, gradient_as_bucket_view=True)
        fused = {"fused": True} if self.device.type == "cuda" else {}
        optimizer = torch.optim.AdamW(model.parameters(), lr=options.learning_rate, **fused)
        threading.Thread(target=self.watch, args=(clock,), daemon=True).start()
        gc.collect()
        # Its pauses would come at another step on every rank.
        gc.disable()
        for number in range(1, options.steps + 1):
            parts = [self.data(number * options.accumulate + part) for part in range(options.accumulate)]
            for group in optimizer.param_groups:
                group["lr"] = options.learning_rate * min(1.0, number / LEARNING_RATE_STEPS)
            clock.begin()
            self.misbehave(clock)
            loss = torch.zeros((), device=self.device)
            for part, (inputs, wanted) in enumerate(parts, 1):
                # Gradients are exchanged with the last part of a step.
                with contextlib.nullcontext() if part == options.accumulate else shared.no_sync():
                    loss += self.learn(shared, inputs, wanted, number).detach()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            value = loss.item()
            step_s, compute_s = clock.times()
            self.step = number
            told = round(value, 5) if math.isfinite(value) else str(value)
            self.say(
                "step", step=number, loss=told, step_time_s=round(step_s, 6), compute_s=round(compute_s, 6),
                tokens=options.batch * options.sequence * options.accumulate,
            )  # fmt: skip

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
        if self.rehearsed and self.rehearsed != "nan" and self.step > 1:
            # Of the step before it slept that part already, so this comes to rest at the factor.
            time.sleep(max(0.0, clock.computed_at - self.begun_at) * (1 - 1 / float(self.rehearsed)))
        self.begun_at = clock.begun_at

    def watch(self, clock: Clock) -> None:
        """Say where this rank stands when a step does not end: at its own work, or waiting for others."""
        seen = -1
        while not self.done.wait(self.options.stuck_s):
            if self.step == seen:
                self.say("stuck", step=seen + 1, doing="wait" if clock.waiting else "compute")
                return
            seen = self.step


def digest(model: nn.Module) -> str:
    """Return a number for the bits of all weights: the same on all ranks, or one of them computes wrong."""
    total = 0
    for parameter in model.parameters():
        bits = parameter.detach().contiguous().view(torch.int32).to(torch.int64)
        total = (total * 1_000_003 + int(bits.sum().item())) % (1 << 61)
    return f"{total:016x}"


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
