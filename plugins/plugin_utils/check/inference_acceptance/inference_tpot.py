# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check: under load the tokens after the first come fast enough."""

from __future__ import annotations

from ...outcome.model import Outcome, SubjectKind
from ..spec import Check, CheckSpec, Disturbance, JudgeContext
from .analysis import Figures
from .latency import Latency, judge_latency
from .model import Results
from .observe_inference import OBSERVER

SPEC = CheckSpec(
    id="inference-tpot",
    gate="inference_acceptance",
    title="Time per output token",
    per=SubjectKind.NODE,
    disturbs=Disturbance.TEST_PODS,
    duration_s=300.0,
    requires=("kubernetes",),
    causes=("tpot-high",),
)
_HINT = (
    "one copy of the model may be slower than the others: "
    "look at the clocks of each GPU of the host, at memory errors and at power limits"
)
_LATENCY = Latency(
    name="TPOT",
    title="time per output token",
    cause="tpot-high",
    hint=_HINT,
    of=lambda export: export.tpot,
    percentile=lambda settings: settings.tpot_percentile,
    bound=lambda slo: slo.tpot_ms,
    value=Figures.tpot_ms,
)


def judge(results: Results, context: JudgeContext) -> tuple[Outcome, ...]:
    """Return an outcome for every host."""
    return judge_latency(SPEC, _LATENCY, results, context)


CHECK = Check(SPEC, OBSERVER, judge)
