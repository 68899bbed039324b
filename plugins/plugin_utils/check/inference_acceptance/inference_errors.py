# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check: under load every request succeeds, with an output of the requested length."""

from __future__ import annotations

from typing import Any

from ...outcome.model import Basis, Expectation, Measure, Outcome, SubjectKind
from ..benchmark.preconditions import of_problem
from ..kit.answer import Answer
from ..spec import Check, CheckSpec, Disturbance, JudgeContext, needs
from .analysis import RATE_LIMITED
from .model import LIGHT, TITLES, UNCACHED, Measured, PlannedHost, Results, legs_for
from .observe_inference import OBSERVER
from .preconditions import ERRORS, not_loaded
from .rendering import load_evidence

SPEC = CheckSpec(
    id=ERRORS,
    gate="inference_acceptance",
    title="No request fails under load",
    per=SubjectKind.NODE,
    disturbs=Disturbance.TEST_PODS,
    duration_s=1800.0,
    applies=(needs("kubernetes"),),
    causes=("request-errors", "short-answers"),
)
_HINTS = {
    "request-errors": "read the server's log at that time: an engine that died, a limit, a proxy in between",
    "short-answers": "answers end early although ignore_eos is set: check max_model_len and what sits in front of vLLM",
    "benchmark-not-installed": "give the cluster a way to the package index, or name a load_image that has AIPerf",
    "export-truncated": "run the gate again; if it stays, the container runtime cuts logs (containerLogMaxSize)",
    "model-hub-rate-limited": (
        "the model hub refuses so many requests: give a token (token_secret), name the site's mirror (hub), or state a "
        "path below /models as tokenizer"
    ),
    "tokenizer-mismatch": "set tokenizer to the one of the model that is served; compare versions of transformers",
    "benchmark-hung": "look at the server's log; raise timeout_s for a slow one",
}


def judge(results: Results, context: JudgeContext) -> tuple[Outcome, ...]:
    """Return an outcome for every host."""
    return tuple(_judge(Answer.about_host(SPEC, context, host.name), results, host) for host in results.plan.hosts)


def _judge(answer: Answer, results: Results, host: PlannedHost) -> Outcome:
    missing = not_loaded(answer, results, host)
    if missing is not None:
        return missing
    loads = _counting(results.loads_of(host.name))
    # One load with a problem is enough: errors are not averaged away.
    shown = next((load for load in loads if load.problem), loads[0])
    export = shown.export
    details: dict[str, Any] = {
        "measured": (
            Measure("requests", export.requests if export else None, "count"),
            Measure("failed requests", export.errors if export else None, "count"),
            Measure("error rate", export.error_rate_percent if export else None, "%"),
            Measure("answers of another length", export.mismatches if export else None, "count"),
            Measure("runs", len(loads), "count"),
        ),
        "expected": (
            Expectation("error rate", "==", 0, Basis.RULE, "%"),
            Expectation("requests", "==", shown.load.requests, Basis.RULE, "count", _arithmetic(results, host, shown)),
        ),
        "evidence": tuple(load_evidence(load) for load in loads),
    }
    problem = shown.problem
    if problem is not None:
        return of_problem(answer, problem, _HINTS, TITLES.get(shown.load.leg, shown.load.leg), **details)
    wanted = [leg.name for leg in legs_for(results.plan.settings.load, host.gpus)]
    missing_legs = [TITLES[leg] or "the first" for leg in wanted if leg not in {load.load.leg for load in loads}]
    if missing_legs:
        text = f"this run did not record the load {' and the one '.join(missing_legs)}"
        return answer.unknown("load-missing", text, "run the gate again", **details)
    total = sum(load.load.requests for load in loads)
    return answer.passed(f"{total} requests in {len(loads)} loads, none failed", **details)


def _counting(loads: tuple[Measured, ...]) -> tuple[Measured, ...]:
    """Return the loads, without those that never began because the model hub rate-limited them.

    If none began, all are returned.
    """
    begun = tuple(load for load in loads if load.problem is None or load.problem.cause != RATE_LIMITED)
    return begun or loads


def _arithmetic(results: Results, host: PlannedHost, shown: Measured) -> str:
    load = results.plan.settings.load
    if shown.load.leg == UNCACHED:
        return f"{load.uncached_per_concurrency} x {load.concurrency_per_gpu} a GPU x {host.gpus} GPUs"
    each = load.requests_per_concurrency
    if shown.load.leg == LIGHT:
        return f"{each} x {load.light_per_gpu} a GPU x {host.gpus} GPUs"
    return f"max({load.least_requests}, {each} x {load.concurrency_per_gpu} a GPU x {host.gpus} GPUs)"


CHECK = Check(SPEC, OBSERVER, judge)
