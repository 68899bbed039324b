# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check: a single greedy request is answered correctly, and the same twice."""

from __future__ import annotations

import re

from ...outcome.model import Basis, Evidence, Expectation, Measure, Outcome, SubjectKind
from ..benchmark.preconditions import answer_for_host
from ..kit.answer import Answer
from ..spec import Check, CheckSpec, Disturbance, JudgeContext
from .model import PlannedHost, Results, Server
from .observe_inference import OBSERVER
from .preconditions import READY, SMOKE, serves
from .settings import SmokeSettings

SPEC = CheckSpec(
    id=SMOKE,
    gate="inference_acceptance",
    title="A smoke request is answered rightly",
    per=SubjectKind.NODE,
    disturbs=Disturbance.TEST_PODS,
    duration_s=5.0,
    requires=("kubernetes",),
    causes=("smoke-refused", "smoke-malformed", "smoke-empty", "smoke-wrong-answer", "smoke-differs"),
)
_FINISHED = ("stop", "length")
_DIFFERS = "smoke-differs"


def judge(results: Results, context: JudgeContext) -> tuple[Outcome, ...]:
    """Return an outcome for every host."""
    return tuple(_judge(answer_for_host(SPEC, context, host), results, host) for host in results.plan.hosts)


def _judge(answer: Answer, results: Results, host: PlannedHost) -> Outcome:
    server = results.server(host.name)
    if server is None or not serves(server, results.plan.settings.server.name):
        return answer.blocked(by=READY, because=f"{host.name} does not serve the model")
    if not server.answers:
        return answer.unknown("not-asked", "the smoke request was not sent", "run the gate again")
    smoke = results.plan.settings.smoke
    details = _details(server, smoke)
    last = server.answers[-1]
    if not last.status:
        return answer.unknown("smoke-unanswered", last.problem, "read the server's log", **details)
    if last.status != 200:
        text = f"HTTP {last.status}: {last.problem}"[:400]
        return answer.failed("smoke-refused", text, "read the server's log", **details)
    cause, text, hint = _wrong(server, smoke)
    if cause == _DIFFERS:
        # Both answers are right as far as we know: a cached prefix or another batch can turn a near tie of two tokens.
        return answer.marginal(cause, text, hint, **details)
    if cause:
        return answer.failed(cause, text, hint, **details)
    text = f"{last.text.strip()[:60]!r}, {last.completion_tokens} tokens, the same twice"
    return answer.passed(text, **details)


def _details(server: Server, smoke: SmokeSettings) -> dict[str, tuple[object, ...]]:
    last = server.answers[-1]
    return {
        "measured": (
            Measure("status", last.status, "HTTP status"),
            Measure("prompt tokens", last.prompt_tokens, "count"),
            Measure("completion tokens", last.completion_tokens, "count"),
            Measure("finish reason", last.finish),
            Measure("latency", round(last.latency_s * 1000, 1), "ms"),
        ),
        "expected": (Expectation("answer", "matches", smoke.expect or "not empty", Basis.RULE),),
        "evidence": tuple(
            Evidence(f"POST /v1/completions, prompt {smoke.prompt!r}, temperature 0", server.host, a.text or a.problem)
            for a in server.answers
        ),
    }


def _wrong(server: Server, smoke: SmokeSettings) -> tuple[str, str, str]:
    """Return cause, text and hint of what is wrong with the answers; empty if nothing is."""
    for found in server.answers:
        if found.problem:
            return "smoke-malformed", found.problem, "is it an OpenAI-compatible server?"
        if not found.text.strip() or not found.completion_tokens:
            return "smoke-empty", "the answer is empty", "look at model and tokenizer; a base model needs no template"
        if found.finish not in _FINISHED or not found.prompt_tokens:
            text = f"finish reason {found.finish!r}, {found.prompt_tokens} prompt tokens"
            return "smoke-malformed", text, "is it an OpenAI-compatible server?"
        if smoke.expect and not re.search(smoke.expect, found.text):
            text = f"{smoke.prompt!r} was continued with {found.text[:120]!r}, expected {smoke.expect!r}"
            hint = (
                "the weights are damaged, or a GPU computes wrong: run gate nodes and fabric_validation for this host"
            )
            return "smoke-wrong-answer", text, hint
    texts = [found.text for found in server.answers]
    if len(set(texts)) != 1 or len(texts) < 2:
        text = f"the same greedy request was answered differently: {texts[0][:80]!r}, then {texts[-1][:80]!r}"
        hint = "run the gate again; if it stays, a GPU of this host may compute differently: run gate nodes for it"
        return _DIFFERS, text, hint
    return "", "", ""


CHECK = Check(SPEC, OBSERVER, judge)
