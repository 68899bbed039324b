# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""How the gate trains and judges, as data: recipes/thresholds/training_acceptance.yaml with the site's own values."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ...hardware.sku import Sku
from ...outcome.errors import InputError
from ...runtime.recipe_files import RECIPES
from ...runtime.strict import decode, nearest_hint, read_yaml
from ...verdict.peers import PeerLimits

GATE = "training_acceptance"
_FILE = RECIPES / "thresholds" / "training_acceptance.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A model and how much of it a step is, in `accumulate` parts; `memory_mib` is what a GPU must have for it."""

    layers: int
    hidden: int
    heads: int
    sequence: int
    batch: int
    vocabulary: int
    learning_rate: float
    accumulate: int = 1
    memory_mib: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """How it is run; see the file."""

    image: str
    steps: int
    seed: int
    device: str
    dtype: str
    queue: str
    gang: str
    repeats: int
    timeout_s: float
    schedule_s: float
    stuck_s: float
    total_s: float
    cleanup_s: float
    accumulate: int
    accumulate_without_rdma: int
    shape: dict[str, Any] = field(default_factory=dict)
    requests: dict[str, str] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeSettings:
    """What is judged by; see the file."""

    start_s: float
    warmup_steps: int
    mfu: float
    mfu_marginal: float
    peak_tflops: float
    step_time_cv: float
    step_time_cv_bad: float
    growth: float
    peer_marginal: float
    peer_bad: float
    peer_spreads: float
    peers_least: int
    cohort_share: float
    loss_fall: float

    @property
    def peers(self) -> PeerLimits:
        """The parts of the peer rule."""
        return PeerLimits(
            tolerance=self.peer_marginal, spreads=self.peer_spreads, least=self.peers_least, share=self.cohort_share
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """All of it; saved with the observation, so that a verdict can be computed again."""

    run: RunSettings
    judge: JudgeSettings
    shapes: tuple[Shape, ...]
    mfu_targets: dict[str, float]

    def __post_init__(self) -> None:
        judged = self.run.steps - self.judge.warmup_steps
        if judged < 10 or self.run.repeats < 1 or not self.shapes or "default" not in self.mfu_targets:
            reason = f"{judged} steps after the warm-up and {self.run.repeats} repeats; at least 10 and 1 are needed."
            raise InputError(f"settings of {GATE}", reason, "correct gpufleet_settings")

    def shape_for(self, sku: Sku, hosts: int = 1) -> Shape:
        """Return the model for so many hosts of a kind.

        Raises:
            InputError: the settings state a shape that is none.
        """
        fitting = [shape for shape in self.shapes if shape.memory_mib <= sku.gpu_memory_mib]
        found = max(fitting or self.shapes[-1:], key=lambda shape: shape.memory_mib)
        if self.run.shape:
            found = decode(Shape, dict(self.run.shape), f"settings of {GATE}, shape")
        # Over TCP an exchange of gradients takes longer than the arithmetic of a step.
        slow = hosts > 1 and (sku.fabric == "none" or not sku.compute_hcas)
        return replace(found, accumulate=self.run.accumulate or (self.run.accumulate_without_rdma if slow else 1))

    def target_for(self, sku: Sku) -> float:
        """Return the least MFU of a kind of host."""
        return self.judge.mfu or self.mfu_targets.get(sku.accelerator, self.mfu_targets["default"])

    def peak_for(self, sku: Sku) -> float | None:
        """Return the dense peak of one GPU in TFLOP/s for the type of the run, None where nobody states it."""
        word = {"bfloat16": "bf16", "float16": "fp16", "float32": "tf32"}.get(self.run.dtype, "")
        return self.judge.peak_tflops or sku.peak_tflops.get(word)


def load_rules(stated: dict[str, Any]) -> Rules:
    """Return the rules with a site's values in place of those that ship.

    Raises:
        InputError: an unknown setting, or a value of the wrong kind.
    """
    shipped = decode(Rules, read_yaml(_FILE), str(_FILE))
    parts = {"run": asdict(shipped.run), "judge": asdict(shipped.judge)}
    source = f"settings of {GATE}"
    for name, value in stated.items():
        part = next((part for part in parts.values() if name in part), None)
        if part is None:
            known = [*parts["run"], *parts["judge"]]
            raise InputError(source, f"there is no setting {name!r}.", nearest_hint(name, known))
        part[name] = value
    return Rules(
        run=decode(RunSettings, parts["run"], source),
        judge=decode(JudgeSettings, parts["judge"], source),
        shapes=shipped.shapes,
        mfu_targets=shipped.mfu_targets,
    )
