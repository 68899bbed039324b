# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Settings of gate training_acceptance: what is trained and how, and how the training is judged."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ...hardware.sku import Sku
from ...outcome.errors import InputError
from ...runtime.strict import decode
from ...verdict.peers import PeerLimits
from ..benchmark.settings import JobSettings
from ..kit.peer_settings import cohort_share, peer_spreads, peer_tolerance, peers_least
from ..kit.settings import part, release_data, setting, with_default
from ..kit.settings_layers import SITE

GATE = "training_acceptance"
_LEAST_STEPS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A model and the size of a step, which has `accumulate` parts.

    `memory_mib` is the GPU memory that it needs, in MiB.
    """

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
class RunSettings(JobSettings):
    """What is trained, and how."""

    timeout_s: float = with_default(JobSettings, "timeout_s", 1800)
    total_s: float = with_default(JobSettings, "total_s", 7200)
    image: str = setting(
        "Image with PyTorch; an air-gapped site names its own. The training program comes with the collection."
    )
    steps: int = setting(
        "First steps of a run, each told by itself; fewer are never made.", default=60, unit="steps", minimum=1
    )
    # Heat and throttling show after 5 to 15 minutes of load.
    load_s: float = setting(
        "How long a run loads the GPUs at least: after the first steps it goes on until then. Heat and power limits "
        "take minutes to show.",
        default=600,
        unit="s",
        minimum=0,
    )
    seed: int = setting("Seed of weights and data.", default=1)
    device: str = setting("Device of PyTorch.", default="cuda")
    dtype: str = setting(
        "Type that is computed in; the peak of the SKU for this type is the reference of the MFU.", default="bfloat16"
    )
    shape: dict[str, Any] = setting(
        "The model: {layers: 8, hidden: 4096, heads: 32, sequence: 2048, batch: 8, vocabulary: 8192, "
        "learning_rate: 0.0003}; empty: that of shapes for the GPU's memory.",
        default={},
    )
    accumulate: int = setting(
        "Parts of a step; gradients are exchanged once a step. 0: one, or accumulate_without_rdma where hosts of a "
        "SKU have no RDMA network.",
        default=0,
        minimum=0,
    )
    accumulate_without_rdma: int = setting(
        "Parts of a step between hosts without RDMA, where the exchange would take longer than the arithmetic.",
        default=32,
        minimum=1,
    )
    requests: dict[str, str] = setting("What every pod asks for beside its GPUs.", default={"memory": "64Gi"})
    gang: str = setting(
        "Who admits the gang: native, volcano, kai-scheduler or none; empty: the scheduler of the recipe.", default=""
    )
    stuck_s: float = setting(
        "How long one step may take until a rank says that it is stuck.", default=60, unit="s", above=0
    )
    env: dict[str, str] = setting("Environment of the jobs, over that of gate fabric_validation.", default={})

    def __post_init__(self) -> None:
        if self.shape:
            decode(Shape, dict(self.shape), f"{SITE}.{GATE}.shape")


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeSettings:
    """How the training is judged."""

    start_s: float = setting(
        "Ranks start together: no pod begins, finds the others or is ready for them later than this after the first.",
        default=60,
        unit="s",
        minimum=0,
    )
    warmup_steps: int = setting(
        "First steps, which are not judged: memory is found, kernels are chosen, links are opened.",
        default=10,
        unit="steps",
        minimum=0,
    )
    mfu: float = setting(
        "Least model FLOP utilisation: FLOP of the model / (step time x GPUs x dense peak); 0: that of mfu_targets "
        "for the accelerator.",
        default=0,
        minimum=0,
        maximum=1,
    )
    mfu_marginal: float = setting(
        "A utilisation under this part of the target is bad; between it and the target it is marginal.",
        default=0.9,
        minimum=0,
        maximum=1,
    )
    peak_tflops: float = setting(
        "Dense peak of one GPU for the type of the run; 0: that of the SKU's facts.",
        default=0,
        unit="TFLOP/s",
        minimum=0,
    )
    step_time_cv: float = setting(
        "Coefficient of variation of the step time (standard deviation / mean, growth taken out) that is marginal.",
        default=0.03,
        minimum=0,
    )
    step_time_cv_bad: float = setting("The coefficient of variation that is bad.", default=0.06, minimum=0)
    growth: float = setting(
        "Growth of the step time from first to last judged step, as a part of it.", default=0.05, minimum=0
    )
    peer_marginal: float = peer_tolerance(default=0.05)
    peer_bad: float = setting(
        "Part of the median of its peers by which a rank is slower that is bad; between it and the line of "
        "peer_marginal it is marginal.",
        default=0.1,
        minimum=0,
        below=1,
    )
    # NVML may report a slowdown for a moment at every change of clocks (nvmlClocksEventReasons), so single samples say
    # nothing.
    throttled: float = setting(
        "Part of the samples of a GPU in which heat or a power brake held its clock down that is marginal.",
        default=0.01,
        minimum=0,
        maximum=1,
    )
    throttled_bad: float = setting("The part of the samples that is bad.", default=0.1, minimum=0, maximum=1)
    data_factor: float = setting(
        "A host that needs so many times as long as its peers for the data of a step is marginal, however short that "
        "time is.",
        default=2.0,
        above=1,
    )
    peer_spreads: float = peer_spreads(default=4.5)
    peers_least: int = peers_least(default=4)
    cohort_share: float = cohort_share(default=0.5)
    loss_fall: float = setting("Least part by which the loss falls over the run.", default=0.1, minimum=0, maximum=1)

    @property
    def peers(self) -> PeerLimits:
        """The limits of the peer comparison."""
        return PeerLimits(
            tolerance=self.peer_marginal, spreads=self.peer_spreads, least=self.peers_least, share=self.cohort_share
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingSettings:
    """Settings of gate training_acceptance; saved with the observation."""

    run: RunSettings = part("run")
    judge: JudgeSettings = part()
    shapes: tuple[Shape, ...] = release_data(
        "Models by the memory of a GPU (memory_mib); the largest that fits counts."
    )
    mfu_targets: dict[str, float] = release_data(
        "Least model FLOP utilisation in bfloat16 by accelerator, as a part of the dense peak."
    )

    def __post_init__(self) -> None:
        judged = self.run.steps - self.judge.warmup_steps
        if judged < _LEAST_STEPS:
            reason = f"{judged} steps are left after the warm-up, expected {_LEAST_STEPS} or more."
            raise InputError(f"settings of {GATE}", reason, "raise steps or lower warmup_steps")
        if not self.shapes or "default" not in self.mfu_targets:
            raise InputError(f"settings of {GATE}", "shapes or mfu_targets.default are missing.", "state them")

    def shape_for(self, sku: Sku, hosts: int = 1) -> Shape:
        """Return the model for `hosts` hosts of a SKU."""
        fitting = [shape for shape in self.shapes if shape.memory_mib <= sku.gpu_memory_mib]
        found = max(fitting or self.shapes[-1:], key=lambda shape: shape.memory_mib)
        if self.run.shape:
            found = decode(Shape, dict(self.run.shape), f"{SITE}.{GATE}.shape")
        # Over TCP an exchange of gradients takes longer than the arithmetic of a step.
        slow = hosts > 1 and (sku.fabric == "none" or not sku.compute_hcas)
        return replace(found, accumulate=self.run.accumulate or (self.run.accumulate_without_rdma if slow else 1))

    def target_for(self, sku: Sku) -> float:
        """Return the lowest MFU of a SKU that passes, as a fraction."""
        return self.judge.mfu or self.mfu_targets.get(sku.accelerator, self.mfu_targets["default"])

    def peak_for(self, sku: Sku) -> float | None:
        """Return the dense peak of one GPU in TFLOP/s for the dtype of the run. None: not known."""
        word = {"bfloat16": "bf16", "float16": "fp16", "float32": "tf32"}.get(self.run.dtype, "")
        return self.judge.peak_tflops or sku.peak_tflops.get(word)


SETTINGS = TrainingSettings
