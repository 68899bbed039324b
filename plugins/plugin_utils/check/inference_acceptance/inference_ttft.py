# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check: under load the first token of a response comes in time."""

from __future__ import annotations

from ...outcome.model import Outcome, SubjectKind
from ..spec import Check, CheckSpec, Disturbance, JudgeContext, needs
from .analysis import Figures
from .latency import Latency, judge_latency
from .model import Results
from .observe_inference import OBSERVER

SPEC = CheckSpec(
    id="inference-ttft",
    gate="inference_acceptance",
    title="Time to first token",
    per=SubjectKind.NODE,
    disturbs=Disturbance.TEST_PODS,
    duration_s=1800.0,
    applies=(needs("kubernetes"),),
    causes=("ttft-high",),
)
_HINT = (
    "requests wait before they are served, or prefill is slow: "
    "look at GPU clocks, at max_num_batched_tokens, and at what else runs on the host"
)
_LATENCY = Latency(
    name="TTFT",
    title="time to first token",
    cause="ttft-high",
    hint=_HINT,
    of=lambda export: export.ttft,
    percentile=lambda settings: settings.ttft_percentile,
    bound=lambda slo: slo.ttft_ms,
    value=Figures.ttft_ms,
)


def judge(results: Results, context: JudgeContext) -> tuple[Outcome, ...]:
    """Return an outcome for every host."""
    return judge_latency(SPEC, _LATENCY, results, context)


CHECK = Check(SPEC, OBSERVER, judge)
