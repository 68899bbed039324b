# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What each GPU computes in the DL unit test: the same numbers on all of them, forward and backward.

Inputs are drawn by the CPU as whole numbers and divided by a power of two, because PyTorch's generator gives the same
whole numbers on every CPU, and its `randn` does not (it depends on the vector unit). Libraries of one release give the
same bits on equal GPUs: cuBLAS documents that of itself (chapter "Results Reproducibility", with the workspace fixed by
CUBLAS_WORKSPACE_CONFIG), cuDNN for its deterministic algorithms. The backward pass of attention is written out, because
the fused one adds in any order. Needs PyTorch 2.4.
"""

from __future__ import annotations

import ctypes
import hashlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

# The least compute capability that multiplies float8 (CUDA C++ Programming Guide, table of tensor cores).
_FP8_FROM = (8, 9)
_GRID = 1 << 20
# Small enough for the CPU to compute it in double precision in a moment.
_SMALL = 256
_PATTERNS = (0x00, 0xFF, 0x55, 0xAA)
_NOT_FINITE = 1e30
Tensors = tuple[Tensor, ...]


@dataclass(frozen=True)
class Operation:
    """One kind of arithmetic: what it is given for a size, what it makes of that, and in which type.

    `tolerance` is the largest difference to the CPU's double precision in a small case, relative to the largest number
    there; 0 where the result is known exactly.
    """

    name: str
    draw: Callable[[Draw, int], Tensors]
    compute: Callable[..., Tensors]
    dtype: torch.dtype
    tolerance: float = 0.0


class Draw:
    """Inputs that are the same everywhere."""

    def __init__(self, seed: int, dtype: torch.dtype) -> None:
        self.generator = torch.Generator().manual_seed(seed)
        self.dtype = dtype

    def numbers(self, *shape: int, scale: float = 1.0) -> Tensor:
        """Return numbers between -scale and scale, rounded to the type by the CPU."""
        whole = torch.randint(-_GRID, _GRID + 1, shape, generator=self.generator)
        return (whole.double() * (scale / _GRID)).to(self.dtype)

    def signs(self, *shape: int) -> Tensor:
        """Return -1 and 1 with a quarter each, 0 with a half: every type has them exactly."""
        first = torch.randint(0, 2, shape, generator=self.generator)
        return (first - torch.randint(0, 2, shape, generator=self.generator)).to(torch.float32).to(self.dtype)


def _leaves(*tensors: Tensor) -> Tensors:
    return tuple(tensor.detach().requires_grad_() for tensor in tensors)


def _with_gradients(result: Tensor, gradient: Tensor, leaves: Tensors) -> Tensors:
    result.backward(gradient)
    return (result.detach(), *(leaf.grad for leaf in leaves if leaf.grad is not None))


def product(left: Tensor, right: Tensor) -> Tensor:
    """Return left @ right.T; float8 by the kernel that is for it, with bfloat16 as result."""
    if left.dtype != torch.float8_e4m3fn:
        return left @ right.t()
    one = torch.ones((), device=left.device)
    found = torch._scaled_mm(left, right.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16)
    # A pair before PyTorch 2.5.
    return found[0] if isinstance(found, tuple) else found


def _draw_product(draw: Draw, size: int) -> Tensors:
    return draw.numbers(size, size), draw.numbers(size, size), draw.numbers(size, size, scale=1 / math.sqrt(size))


def _gemm(left: Tensor, right: Tensor, gradient: Tensor) -> Tensors:
    leaves = _leaves(left, right)
    return _with_gradients(product(*leaves), gradient, leaves)


def _draw_forward(draw: Draw, size: int) -> Tensors:
    return draw.numbers(size, size), draw.numbers(size, size)


def _forward(left: Tensor, right: Tensor) -> Tensors:
    return (product(left, right),)


def _draw_exact(draw: Draw, size: int) -> Tensors:
    return draw.signs(size, size), draw.signs(size, size)


def _draw_convolution(draw: Draw, size: int) -> Tensors:
    batch, channels, side = max(2, size // 256), max(16, size // 16), 28
    scale = 1 / math.sqrt(9 * channels)
    images, filters = draw.numbers(batch, channels, side, side), draw.numbers(channels, channels, 3, 3)
    return images, filters, draw.numbers(batch, channels, side, side, scale=scale)


def _convolution(images: Tensor, filters: Tensor, gradient: Tensor) -> Tensors:
    leaves = _leaves(images, filters)
    return _with_gradients(torch.nn.functional.conv2d(*leaves, padding=1), gradient, leaves)


def _draw_attention(draw: Draw, size: int) -> Tensors:
    heads, sequence, width = max(2, size // 256), max(64, size // 2), 64
    return tuple(draw.numbers(1, heads, sequence, width) for _part in range(4))


def _attention(query: Tensor, key: Tensor, value: Tensor, gradient: Tensor) -> Tensors:
    fused = torch.nn.functional.scaled_dot_product_attention(query, key, value)
    leaves = _leaves(query, key, value)
    weights = torch.softmax((leaves[0] @ leaves[1].transpose(-2, -1)) / math.sqrt(query.shape[-1]), dim=-1)
    return (fused, *_with_gradients(weights @ leaves[2], gradient, leaves))


def _draw_layer_norm(draw: Draw, size: int) -> Tensors:
    return draw.numbers(size, size), draw.numbers(size), draw.numbers(size), draw.numbers(size, size)


def _layer_norm(rows: Tensor, weight: Tensor, bias: Tensor, gradient: Tensor) -> Tensors:
    leaves = _leaves(rows, weight, bias)
    normed = torch.nn.functional.layer_norm(leaves[0], (rows.shape[-1],), leaves[1], leaves[2])
    return _with_gradients(normed, gradient, leaves)


def _draw_reductions(draw: Draw, size: int) -> Tensors:
    return draw.numbers(size, size), draw.numbers(size, size)


def _reductions(rows: Tensor, gradient: Tensor) -> Tensors:
    leaves = _leaves(rows)
    reduced = (rows.sum(-1), rows.sum(0), rows.amax(-1), rows.logsumexp(-1), rows.var(-1))
    return (*reduced, *_with_gradients(torch.softmax(leaves[0], -1), gradient, leaves))


_BF16, _FP32, _FP8 = torch.bfloat16, torch.float32, torch.float8_e4m3fn
# TF32 would miss 2e-5 by far: that it is off is part of the test.
OPERATIONS = (
    Operation("gemm-bf16", _draw_product, _gemm, _BF16, 0.01),
    Operation("gemm-fp32", _draw_product, _gemm, _FP32, 2e-5),
    Operation("gemm-fp8", _draw_forward, _forward, _FP8, 0.01),
    Operation("exact-bf16", _draw_exact, _forward, _BF16),
    Operation("exact-fp32", _draw_exact, _forward, _FP32),
    Operation("exact-fp8", _draw_exact, _forward, _FP8),
    Operation("convolution", _draw_convolution, _convolution, _BF16, 0.02),
    Operation("attention", _draw_attention, _attention, _BF16, 0.04),
    Operation("layer-norm", _draw_layer_norm, _layer_norm, _FP32, 2e-5),
    Operation("reductions", _draw_reductions, _reductions, _FP32, 2e-5),
)
COPIES = "copies"


def missing(operation: Operation, device: torch.device) -> str:
    """Return why a device does not have an operation; empty if it has it."""
    if operation.dtype != _FP8 or device.type != "cuda":
        return ""
    major, minor = torch.cuda.get_device_capability(device)
    return "" if (major, minor) >= _FP8_FROM else f"no float8 with compute capability {major}.{minor}"


def drawn(operation: Operation, seed: int, size: int) -> Tensors:
    """Return the inputs of an operation, on the CPU."""
    return operation.draw(Draw(seed, operation.dtype), size)


def run(operation: Operation, inputs: Tensors, device: torch.device) -> Tensors:
    """Return what an operation makes of its inputs, on the device."""
    return operation.compute(*(tensor.to(device) for tensor in inputs))


def reference_error(operation: Operation, seed: int, device: torch.device) -> float:
    """Return the largest difference to the CPU's double precision, relative to the largest number of each result."""
    inputs = drawn(operation, seed, _SMALL)
    known = operation.compute(*(tensor.double() for tensor in inputs))
    worst = 0.0
    for mine, right in zip(run(operation, inputs, device), known, strict=True):
        difference = float((mine.cpu().double() - right).abs().max()) / max(float(right.abs().max()), 1e-30)
        if not math.isfinite(difference):
            return _NOT_FINITE
        worst = max(worst, difference)
    return worst


def wrong_rows(inputs: Tensors, result: Tensor) -> int:
    """Return how many rows of a product of -1, 0 and 1 are wrong, by Freivalds' check: C r = A (B r).

    Every number of r is odd, so none hides an error, and all sums are whole numbers that double precision has.
    """
    left, right = (tensor.to(torch.float32).double() for tensor in inputs)
    draw = torch.Generator().manual_seed(result.shape[0])
    vector = (2 * torch.randint(0, 512, (result.shape[1], 1), generator=draw) + 1).double()
    return int((result.cpu().double() @ vector != left @ (right.t() @ vector)).sum())


def copied(device: torch.device, peer: torch.device | None, size: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield what was sent and what came back: to the device, within it, to the next device, and back to the host."""
    counting = torch.arange(size // 8, dtype=torch.int64).view(torch.uint8)
    for sent in (*(torch.full((size,), pattern, dtype=torch.uint8) for pattern in _PATTERNS), counting):
        there = sent.to(device).clone()
        if peer is not None:
            there = there.to(peer).to(device)
        yield sent, there.cpu()


def digest_of(*tensors: Tensor) -> str:
    """Return the SHA-256 of the bytes of tensors, in their order."""
    digest = hashlib.sha256()
    for tensor in tensors:
        held = tensor.detach().cpu().contiguous()
        digest.update(_bytes_of(held))
    return digest.hexdigest()


def _bytes_of(tensor: Tensor) -> Any:
    # Without NumPy, which an image with PyTorch need not have.
    return (ctypes.c_char * (tensor.numel() * tensor.element_size())).from_address(tensor.data_ptr())
