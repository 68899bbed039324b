# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The model of the training program: a small decoder, and the digest of its weights. Needs PyTorch 2.1."""

from __future__ import annotations

import argparse
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional


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


def digest_of_weights(model: nn.Module) -> str:
    """Return a number for the bits of all weights: the same on all ranks, or one of them computes wrong."""
    total = 0
    for parameter in model.parameters():
        bits = parameter.detach().contiguous().view(torch.int32).to(torch.int64)
        total = (total * 1_000_003 + int(bits.sum().item())) % (1 << 61)
    return f"{total:016x}"
