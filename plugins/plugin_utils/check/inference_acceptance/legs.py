# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The loads that every server gets, one after the other, and what each of them shows. Pure.

`cached` is the one that published bounds are for: few prompts, each asked many times, so nearly all of them are found
in vLLM's prefix cache and hardly anything but decoding is measured. `uncached` sends every prompt once, so each is
computed whole. `light` is a second operating point, with few requests at a time: there the time of a single token
shows, which a large batch hides.
"""

from __future__ import annotations

from dataclasses import dataclass

from .settings import LoadSettings

CACHED, UNCACHED, LIGHT = "cached", "uncached", "light"
TITLES = {CACHED: "", UNCACHED: "without prefix cache", LIGHT: "at light load"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Leg:
    """One load: `prompts` different ones drawn from `seed`, `requests` measured ones after `warmup` others."""

    name: str
    concurrency: int
    requests: int
    warmup: int
    prompts: int
    seed: int


def legs_for(load: LoadSettings, gpus: int) -> tuple[Leg, ...]:
    """Return the loads of a server with so many GPUs, in their order."""
    found = [
        Leg(
            name=CACHED, concurrency=load.concurrency(gpus), requests=load.requests(gpus), warmup=load.warmup(gpus),
            prompts=load.dataset_entries, seed=load.seed,
        )
    ]  # fmt: skip
    if load.uncached_per_concurrency:
        # AIPerf draws without putting back until all were asked, and the server is warm: no request before the measured
        # ones. Another seed: none of these prompts was asked before.
        count = load.uncached_per_concurrency * load.concurrency(gpus)
        found.append(
            Leg(
                name=UNCACHED, concurrency=load.concurrency(gpus), requests=count, warmup=0, prompts=count,
                seed=load.seed + 1,
            )
        )  # fmt: skip
    if load.light_per_gpu:
        few = load.light_per_gpu * gpus
        found.append(
            Leg(
                name=LIGHT, concurrency=few, requests=few * load.requests_per_concurrency, warmup=few,
                prompts=load.dataset_entries, seed=load.seed + 2,
            )
        )  # fmt: skip
    return tuple(found)
