# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The part of the cluster model that only a training shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

TrainingState = Literal[
    "ok",
    "out-of-memory",
    "crashes",
    "hangs",
    "not-a-number",
    "other-weights",
    "wrong-arithmetic",
    "wrong-bits",
    "wrong-when-hot",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldDown:
    """What holds the clock of a busy GPU down: the reason in nvidia-smi's words (empty: nothing), after so many seconds
    under load, in what part of the time, and the part of its clock that is left then."""

    reason: str = ""
    after_s: float = 0.0
    share: float = 1.0
    clock: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """What a training on the node meets.

    `pace` is the part of their speed that all of its GPUs have together, `cpu` that of its CPUs; `growth` is the part
    by which its work on a step has grown at the end of a run, `jitter` the part by which every fifth step takes longer.
    Its container begins `delay_s` late (image, disk), finds its fellows `name_s` late, loads PyTorch `loading_s`
    longer, and its GPUs are ready `ready_s` late. `names`: pods can resolve names at all; without `image` its pods get
    none; `torch` is the release of PyTorch in the image that it has, where that is another one; `log_cut`: the end of
    the log is lost.
    """

    pace: float = 1.0
    growth: float = 0.0
    jitter: float = 0.0
    delay_s: float = 0.0
    name_s: float = 0.0
    loading_s: float = 0.0
    ready_s: float = 0.0
    names: bool = True
    image: bool = True
    torch: str = ""
    cpu: float = 1.0
    log_cut: bool = False
