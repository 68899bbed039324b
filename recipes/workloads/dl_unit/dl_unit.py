# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""DL unit test: every GPU of a host computes the same, several times; what it computed is told as digests.

One process for each GPU, so that one that dies or hangs takes no other with it. Lines are JSON objects that begin with
their `schema_version`; docs/dl_unit_test.md describes them. `begin` (what is to be done), of each GPU `gpu` (who it
is), `op` (one operation, one time), `reference` (a small case, compared with the CPU), `rate`, `load` (where one is
asked for), `end` or `error`; `done` when all have ended. The last time comes after the rates, when the GPU is hot.
Needs Python 3.9 and PyTorch 2.4.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import time
from threading import BrokenBarrierError
from typing import Any

# cuBLAS reads it when it is first used.
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
os.environ.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")

import operations
import rates
import torch
from device_facts import identity
from full_load import PowerMeter, full_load

SCHEMA_VERSION = 1
_LONGEST = 400
# How long a GPU waits for the others before its rates are measured.
_TOGETHER_S = 120.0


def say(event: str, **facts: Any) -> None:
    """Write a line in one piece: processes share the pipe, which keeps writes of up to 4096 bytes whole."""
    words = {"schema_version": SCHEMA_VERSION, "event": event, **facts}
    os.write(1, (json.dumps(words, separators=(",", ":")) + "\n").encode())


class Gpu:
    """The test of one GPU; it counts its lines."""

    def __init__(self, options: argparse.Namespace, slot: int, barrier: Any) -> None:
        self.options, self.slot, self.barrier = options, slot, barrier
        self.device = torch.device(options.device, slot) if options.device == "cuda" else torch.device("cpu")
        self.lines = 0
        self.uuid = ""
        self.doing = "start"

    def tell(self, event: str, **facts: Any) -> None:
        say(event, slot=self.slot, **facts)
        self.lines += 1

    def test(self) -> None:
        """Do everything, in order."""
        self._start()
        cold = max(1, self.options.repeats - 1)
        for number in range(1, cold + 1):
            self._once(number)
        for operation in self._known():
            if operation.tolerance:
                self.doing = f"reference of {operation.name}"
                error = operations.reference_error(operation, self.options.seed, self.device)
                self.tell("reference", op=operation.name, error=error, tolerance=operation.tolerance)
        self._rates()
        self._load()
        for number in range(cold + 1, self.options.repeats + 1):
            self._once(number)
        say("end", slot=self.slot, lines=self.lines)

    def _start(self) -> None:
        seen = torch.cuda.device_count() if self.options.device == "cuda" else self.options.gpus
        if self.slot >= seen:
            raise LookupError(f"PyTorch sees {seen} devices, {self.options.gpus} were asked for")
        torch.set_num_threads(max(1, (os.cpu_count() or 1) // self.options.gpus))
        if self.options.device == "cuda":
            torch.cuda.set_device(self.device)
        torch.use_deterministic_algorithms(True)
        # It would write all results once more before they are computed, and count in the rates.
        torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
        torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark = True, False
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
        torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
        known = identity(self.device, self.slot)
        self.uuid = known["uuid"]
        self.tell("gpu", **known)

    def _known(self) -> list[operations.Operation]:
        return [found for found in operations.OPERATIONS if not operations.missing(found, self.device)]

    def _once(self, number: int) -> None:
        for place, operation in enumerate(operations.OPERATIONS):
            self.doing = operation.name
            absent = operations.missing(operation, self.device)
            if absent:
                self.tell("op", op=operation.name, run=number, digest="", wrong=None, absent=absent)
                continue
            inputs = operations.drawn(operation, self.options.seed + place, self.options.size)
            results = operations.run(operation, inputs, self.device)
            wrong = None if operation.tolerance else operations.wrong_rows(inputs, results[0])
            digest = operations.digest_of(*results)
            self.tell("op", op=operation.name, run=number, digest=digest, wrong=wrong, absent="")
        self._copies(number)

    def _copies(self, number: int) -> None:
        self.doing = operations.COPIES
        peer = None
        if self.device.type == "cuda" and self.options.gpus > 1:
            peer = torch.device("cuda", (self.slot + 1) % torch.cuda.device_count())
        found = list(operations.copied(self.device, peer, self.options.copy_bytes))
        wrong = sum(int((sent != back).sum()) for sent, back in found)
        digest = operations.digest_of(*(back for _sent, back in found))
        self.tell("op", op=operations.COPIES, run=number, digest=digest, wrong=wrong, absent="")

    def _rates(self) -> None:
        self.doing = "waiting for the other GPUs"
        try:
            # All at once, as under load: power and heat of the host are shared.
            self.barrier.wait(_TOGETHER_S)
            together = True
        except BrokenBarrierError:
            together = False
        size, seconds = self.options.rate_size, self.options.rate_s
        by_name = {operation.name: operation for operation in operations.OPERATIONS}
        for name, unit in rates.RATES.items():
            self.doing = f"rate of {name}"
            operation = by_name.get(name)
            if operation is None:
                found = rates.copied_per_s(self.device, self.options.rate_bytes, seconds)
            elif operations.missing(operation, self.device):
                continue
            else:
                found = rates.products_per_s(operation, self.device, size, seconds)
            self.tell("rate", name=name, value=round(found, 6), unit=unit, together=together)

    def _load(self) -> None:
        """Keep the GPU at work, beside all others of its host, where that is asked for."""
        if self.options.load_s <= 0:
            return
        self.doing = "full load"
        products = next(found for found in operations.OPERATIONS if found.name == "gemm-bf16")
        self.tell("load", **full_load(
            products, self.device, self.options.rate_size, self.options.load_s, self.options.load_share,
            PowerMeter(self.uuid),
        ))  # fmt: skip


def work(options: argparse.Namespace, slot: int, barrier: Any) -> None:
    """Test one GPU, as a process of its own; an error is told before it ends the process."""
    gpu = Gpu(options, slot, barrier)
    try:
        gpu.test()
    except Exception as error:
        # The others need not wait for this one.
        barrier.abort()
        text = " ".join(str(error).split())[:_LONGEST]
        say("error", slot=slot, doing=gpu.doing, kind=type(error).__name__, text=text)
        raise


def main(words: list[str]) -> int:
    """Test all GPUs side by side and return 0 if all of them came to their end."""
    options = _options(words)
    say(
        "begin", gpus=options.gpus, device=options.device, repeats=options.repeats, seed=options.seed, size=options.size
    )
    # Before any process has started CUDA, so that each child starts it for itself.
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(options.gpus)
    children = [context.Process(target=work, args=(options, slot, barrier)) for slot in range(options.gpus)]
    for child in children:
        child.start()
    deadline = time.monotonic() + options.limit_s
    for child in children:
        child.join(max(0.0, deadline - time.monotonic()))
    for slot, child in enumerate(children):
        if child.is_alive():
            say("error", slot=slot, doing="", kind="Stuck", text=f"it did not end within {options.limit_s:g} s")
            child.kill()
            child.join(5.0)
    codes = [child.exitcode for child in children]
    say("done", exit_codes=codes)
    return int(any(code != 0 for code in codes))


def _options(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gpus", type=int, required=True, help="how many GPUs the host has")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--repeats", type=int, default=3, help="how often each operation is done, the last time hot")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--size", type=int, default=4096, help="rows and columns of the matrices; a multiple of 16")
    parser.add_argument("--copy-bytes", type=int, default=64 << 20)
    parser.add_argument("--rate-size", type=int, default=8192)
    parser.add_argument("--rate-bytes", type=int, default=1 << 30)
    parser.add_argument("--rate-s", type=float, default=2.0, help="how long each rate is measured")
    parser.add_argument("--load-s", type=float, default=0.0, help="how long each GPU is kept at work after its rates")
    parser.add_argument("--load-share", type=float, default=0.8, help="of its power limit, from which it is under load")
    parser.add_argument("--limit-s", type=float, default=600.0)
    return parser.parse_args(words)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
