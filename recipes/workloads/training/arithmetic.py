# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Digests of arithmetic that every rank does alike: the same numbers on all of them, or one computes wrong.

In data-parallel training the error of one rank's forward or backward pass is averaged into everybody's gradients, so
that all ranks stay alike and wrong. Here each rank multiplies the same seeded matrices and attends to the same seeded
sequence, forward and backward, in the shape of the model. Libraries of one release give the same bits for it on equal
GPUs: cuBLAS documents that of itself for GPUs of one architecture with as many multiprocessors (chapter "Results
Reproducibility"; the workspace is fixed by CUBLAS_WORKSPACE_CONFIG). The backward pass of attention is written out,
because the fused one adds in any order.

One product is of small whole numbers, so that every type holds it exactly and the CPU can tell whether it is right: a
GPU that is always wrong alike, and alone, is found by that. Needs PyTorch 2.1.
"""

from __future__ import annotations

import argparse
import math
from typing import Any

import torch
from torch import Tensor

_CHUNK = 1 << 22
_FACTOR, _WORD = 1_000_003, (1 << 64) - 1
# Sums of 4096 products of -1, 0 and 1 deviate by 32: 256, up to which bfloat16 has every whole number, is far off.
_MOST_ROWS = 4096


def digests(options: argparse.Namespace, device: torch.device, *, spoiled: bool = False) -> dict[str, Any]:
    """Return the digests of a matrix product and of attention, each with its gradients, and wrong rows of a product.

    `spoiled` is for rehearsals: one number of an input is another one, as on a GPU that computes wrong.
    """
    dtype = getattr(torch, options.dtype)
    draw = torch.Generator().manual_seed(options.seed)

    def numbers(*shape: int) -> Tensor:
        # Drawn by the CPU: its generator gives the same everywhere.
        return torch.randn(*shape, generator=draw).to(device=device, dtype=dtype)

    rows = min(_MOST_ROWS, options.batch * options.sequence)
    left, right = numbers(rows, options.hidden), numbers(options.hidden, 4 * options.hidden)
    if spoiled:
        left[0, 0] += 1
    gradient = numbers(rows, 4 * options.hidden) / math.sqrt(options.hidden)
    product = left @ right
    gemm = digest_of(product, gradient @ right.T, left.T @ gradient)
    del left, right, gradient, product
    size = options.hidden // options.heads
    query, key, value = (numbers(1, options.heads, options.sequence, size).requires_grad_() for _part in range(3))
    fused = torch.nn.functional.scaled_dot_product_attention(query.detach(), key.detach(), value.detach())
    weights = torch.softmax((query @ key.transpose(-2, -1)) / math.sqrt(size), dim=-1)
    seen = weights @ value
    seen.backward(numbers(*seen.shape))
    attention = digest_of(fused, seen, *(part.grad for part in (query, key, value) if part.grad is not None))
    return {"gemm": gemm, "attention": attention, "wrong_rows": wrong_rows(options, device)}


def wrong_rows(options: argparse.Namespace, device: torch.device) -> int:
    """Return how many rows of a product of whole numbers are wrong, by Freivalds' check: C r = A (B r)."""
    draw = torch.Generator().manual_seed(options.seed + 1)
    rows, inner = min(_MOST_ROWS, options.batch * options.sequence), min(_MOST_ROWS, options.hidden)

    def numbers(*shape: int) -> Tensor:
        # -1 and 1 with a quarter each, 0 with a half.
        return torch.randint(0, 2, shape, generator=draw) - torch.randint(0, 2, shape, generator=draw)

    left, right, vector = numbers(rows, inner), numbers(inner, inner), numbers(inner, 1).double()
    dtype = getattr(torch, options.dtype)
    product = (left.to(device=device, dtype=dtype) @ right.to(device=device, dtype=dtype)).cpu().double()
    return int((product @ vector != left.double() @ (right.double() @ vector)).sum().item())


def digest_of(*tensors: Tensor) -> str:
    """Return a number for the bits of tensors, in which also their places count."""
    total = 0
    for tensor in tensors:
        flat = tensor.detach().contiguous().view(-1)
        bits = flat.view({2: torch.int16, 4: torch.int32, 8: torch.int64}[flat.element_size()])
        for chunk in bits.split(_CHUNK):
            # Whole numbers that run over: their sum is the same in any order.
            places = torch.arange(1, chunk.numel() + 1, device=chunk.device, dtype=torch.int64) * _FACTOR
            total = (total * _FACTOR + int((chunk.to(torch.int64) * places).sum().item())) & _WORD
    return f"{total:016x}"
