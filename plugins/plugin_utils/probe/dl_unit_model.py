# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the DL unit test (recipes/workloads/dl_unit/) says of each GPU, as values."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

# What the program of schema 1 promises; `copies` and the exact ones have a known result, the others a reference.
EXACT = ("exact-bf16", "exact-fp32", "exact-fp8", "copies")
COMPARED = ("gemm-bf16", "gemm-fp32", "gemm-fp8", "convolution", "attention", "layer-norm", "reductions")
OPERATIONS = (*COMPARED, *EXACT)
# Not every GPU has float8.
OPTIONAL = ("gemm-fp8", "exact-fp8")
RATES = {"gemm-bf16": "TFLOP/s", "gemm-fp32": "TFLOP/s", "gemm-fp8": "TFLOP/s", "memory-copy": "GB/s"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Who a GPU is, and what it computes with; empty for what it does not tell."""

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
        """What two GPUs must have in common to give the same bits."""
        return (
            self.name, self.capability, str(self.multiprocessors), self.driver, self.torch, self.cuda, self.cublas,
            self.cudnn,
        )  # fmt: skip

    @property
    def libraries(self) -> str:
        """Driver and libraries in words."""
        named = {
            "driver": self.driver, "PyTorch": self.torch, "CUDA": self.cuda, "cuBLAS": self.cublas, "cuDNN": self.cudnn,
        }  # fmt: skip
        return ", ".join(f"{name} {value}" for name, value in named.items() if value)


@dataclass(frozen=True, slots=True)
class OpRun:
    """One operation, done once: the SHA-256 of its results, and how many rows or bytes of a known result are wrong
    (None: it has none). `absent` says why the GPU does not have it; there is no digest then."""

    digest: str
    wrong: int | None
    absent: str = ""


@dataclass(frozen=True, slots=True)
class Reference:
    """A small case compared with the CPU: the largest relative error, and how large it may be."""

    error: float
    tolerance: float

    @property
    def good(self) -> bool:
        """Whether it is within its tolerance."""
        return self.error <= self.tolerance


@dataclass(frozen=True, slots=True)
class Rate:
    """How fast a GPU was; `together`: all GPUs of the host were measured at the same time."""

    value: float
    unit: str
    together: bool


@dataclass(frozen=True, slots=True)
class Load:
    """How a GPU was kept at work: for how long, how long of that at the asked part of its power limit or above, the
    limit and its mean power (s, W); None where the driver told no power."""

    seconds: float
    loaded_s: float | None
    limit_w: float | None
    mean_w: float | None


@dataclass(frozen=True, slots=True)
class GpuFailure:
    """What ended the test of a GPU early: what it was doing, the kind of the error and its text."""

    doing: str
    kind: str
    text: str


@dataclass(slots=True, kw_only=True)
class GpuTest:
    """Everything that one GPU's test wrote; with a `failure` it did not come to its end."""

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
        """The first digest of every operation; `absent` for those that the GPU does not have."""
        return {name: runs[0].digest or "absent" for name, runs in self.runs.items()}

    @property
    def digest(self) -> str:
        """One digest of them all."""
        text = "\n".join(f"{name} {digest}" for name, digest in sorted(self.digests.items()))
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def changing(self) -> tuple[str, ...]:
        """Operations that gave other bits when they were repeated."""
        return tuple(name for name, runs in self.runs.items() if len({run.digest for run in runs}) > 1)

    @property
    def wrong(self) -> dict[str, int]:
        """Operations with a known result that was wrong, with the most rows or bytes that were."""
        most = {name: max(run.wrong or 0 for run in runs) for name, runs in self.runs.items() if runs}
        return {name: count for name, count in most.items() if count}

    @property
    def out_of_tolerance(self) -> dict[str, Reference]:
        """Operations that differ from the CPU by more than their tolerance."""
        return {name: reference for name, reference in self.references.items() if not reference.good}


@dataclass(frozen=True, slots=True, kw_only=True)
class DlUnitLog:
    """A log that is whole: every GPU that was asked for came to its end, or says why it did not."""

    gpus: int
    device: str
    repeats: int
    seed: int
    size: int
    tests: tuple[GpuTest, ...]
