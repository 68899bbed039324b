# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Latency and content of the answers of a simulated language model server, computed from the cluster model.

The server on loopback sleeps for these times, and the computed export of AIPerf is made from them.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from ...hardware.accelerator import Accelerator, Latency
from ...runtime.recipe_files import RECIPES
from ...runtime.strict import read_yaml
from ..model.values import Serving

_FILE = RECIPES / "rehearsal" / "serving.yaml"
_STALLS = 8
# A prime number: a fault of every nth request does not always meet the same variation.
_DRAWS = 1009


@dataclass(frozen=True, slots=True)
class Completion:
    """One completion: time to first token, time per output token, number of tokens, or that it failed."""

    ttft_ms: float
    tpot_ms: float
    tokens: int
    failed: bool = False

    @property
    def latency_ms(self) -> float:
        """Milliseconds to the last token."""
        return self.ttft_ms + max(self.tokens - 1, 0) * self.tpot_ms


@dataclass(frozen=True, slots=True)
class Pace:
    """Mean latencies of a server at a given number of concurrent requests per GPU."""

    ttft_ms: float
    tpot_ms: float


def serving_data() -> Mapping[str, Any]:
    """Return the data of recipes/rehearsal/serving.yaml."""
    return _serving_data()


@lru_cache(maxsize=1)
def _serving_data() -> Mapping[str, Any]:
    found: Mapping[str, Any] = read_yaml(_FILE)
    return found


def pace(accelerator: Accelerator, at_a_time: float, serving: Serving, *, cached: bool = True) -> Pace:
    """Return the mean latencies at `at_a_time` concurrent requests per GPU; `cached`: prompts are in the cache."""
    data = serving_data()
    first = accelerator.simulated.ttft_ms or Latency(**data["ttft_ms"])
    each = accelerator.simulated.tpot_ms or Latency(**data["tpot_ms"])
    more = max(at_a_time - 1, 0.0)
    rate = serving.rate if cached else serving.rate * serving.prefill * data["uncached"]
    return Pace(ttft_ms=(first.base + first.each * more) / rate, tpot_ms=(each.base + each.each * more) / rate)


def completion(number: int, copies: int, tokens: int, how: Pace, serving: Serving) -> Completion:
    """Return the completion of request `number` (from 0) of a server; the same every time."""
    first, each = _variations()[number % _DRAWS]
    ttft, tpot = how.ttft_ms * first, how.tpot_ms * each
    if number < copies:
        ttft += serving.cold_ms
    if number % _STALLS == _STALLS - 3:
        ttft += serving.stall_ms
    if number % copies == 0:
        tpot += serving.slow_copy_ms
    if _nth(number, serving.fail_every):
        return Completion(ttft_ms=1.0, tpot_ms=0.0, tokens=0, failed=True)
    return Completion(ttft_ms=ttft, tpot_ms=tpot, tokens=tokens // 2 if _nth(number, serving.short_every) else tokens)


@lru_cache(maxsize=1)
def _variations() -> tuple[tuple[float, float], ...]:
    """Return factors on the mean latencies of single requests, which are reused in turn."""
    spread, draw = serving_data()["spread"], random.Random(0)
    return tuple(
        (math.exp(draw.gauss(0.0, spread["ttft"])), max(0.5, draw.gauss(1.0, spread["tpot"])))
        for _number in range(_DRAWS)
    )


def _nth(number: int, every: int) -> bool:
    return every > 0 and number % every == every - 1


def completion_text(prompt: str, tokens: int, serving: Serving, engine: int, asked: int) -> tuple[str, int]:
    """Return the continuation of a prompt and its number of tokens: it goes on counting from the last number.

    `engine` is the copy of the model that answers, `asked` how often it was asked before.
    """
    if serving.odd_engine not in (-1, engine):
        serving = replace(serving, answer="right")
    if serving.answer == "unsteady" and asked % 2:
        return completion_text(prompt, tokens - 4, replace(serving, answer="right"), engine, 0)
    if serving.answer == "empty":
        return "", 0
    if serving.answer == "gibberish":
        return "!" * tokens, tokens
    last = prompt.replace(",", " ").split()[-1:]
    start = int(last[0]) if last and last[0].isdecimal() else 0
    return "".join(f" {start + step}," for step in range(1, tokens // 2 + 1)), tokens
