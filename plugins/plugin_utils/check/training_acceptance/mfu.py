# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Model FLOP utilisation: the fraction of a GPU's dense peak that the model's own arithmetic uses. Pure.

FLOP per token = 6 P + 12 layers x hidden x sequence. P counts the matrices that every token is multiplied with (twice
in the forward pass, four times in the backward pass): all layers and the output projection, not the embeddings, which
are looked up. Attention is counted in full although the mask is causal, as PaLM defined it and PyTorch's counter does;
with half of it the figure would be lower by `attention_share / 2`.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...probe.training_log_model import Setup


@dataclass(frozen=True, slots=True, kw_only=True)
class Mfu:
    """The utilisation of one GPU (1 is the peak), and what it is computed from."""

    value: float
    tokens_per_s: float
    tflops: float
    peak_tflops: float
    step_s: float
    arithmetic: str


def flop_per_token(setup: Setup) -> int:
    """Return the floating-point operations that training does for one token."""
    return 6 * setup.matmul_parameters + 12 * setup.layers * setup.hidden * setup.sequence


def attention_share(setup: Setup) -> float:
    """Return the fraction of these operations that is attention."""
    return 12 * setup.layers * setup.hidden * setup.sequence / flop_per_token(setup)


def mfu_of(setup: Setup, step_s: float, peak_tflops: float) -> Mfu:
    """Return the utilisation of each GPU at a step time."""
    tokens = setup.batch * setup.accumulate * setup.sequence
    attention = f"12 x {setup.layers} x {setup.hidden} x {setup.sequence}"
    rate = tokens / step_s
    tflops = rate * flop_per_token(setup) / 1e12
    arithmetic = (
        f"{tokens} tokens / {step_s:.4g} s = {rate:.5g} tokens/s a GPU; x {flop_per_token(setup):.4g} FLOP a token "
        f"(6 x {setup.matmul_parameters:.4g} + {attention}, attention in full) "
        f"= {tflops:.4g} TFLOP/s; / {peak_tflops:g} = {tflops / peak_tflops:.3f}"
    )
    return Mfu(
        value=tflops / peak_tflops, tokens_per_s=rate, tflops=tflops, peak_tflops=peak_tflops, step_s=step_s,
        arithmetic=arithmetic,
    )  # fmt: skip
