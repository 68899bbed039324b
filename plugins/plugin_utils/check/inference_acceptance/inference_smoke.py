# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check: a single greedy request gets the correct output, and the same one twice."""

from __future__ import annotations

import re
from collections import Counter

from ...outcome.model import Basis, Evidence, Expectation, Measure, Outcome, SubjectKind
from ..kit.answer import Answer
from ..spec import Check, CheckSpec, Disturbance, JudgeContext, needs
from .model import PlannedHost, Results, Server, SmokeAnswer
from .observe_inference import OBSERVER
from .preconditions import READY, SMOKE, not_served
from .settings import SmokeSettings

SPEC = CheckSpec(
    id=SMOKE,
    gate="inference_acceptance",
    title="A smoke request is answered rightly",
    per=SubjectKind.NODE,
    disturbs=Disturbance.TEST_PODS,
    duration_s=5.0,
    applies=(needs("kubernetes"),),
    causes=("smoke-refused", "smoke-malformed", "smoke-empty", "smoke-wrong-answer", "smoke-differs"),
)
_FINISHED = ("stop", "length")
_DIFFERS = "smoke-differs"
_CONTENT = ("smoke-empty", "smoke-wrong-answer")
_ASKED = 2
# A single engine that was queried twice has nothing to be compared with.
_ONE_ENGINE = 2


def judge(results: Results, context: JudgeContext) -> tuple[Outcome, ...]:
    """Return an outcome for every host."""
    alike = _wrong_alike(results)
    return tuple(
        _judge(Answer.about_host(SPEC, context, host.name), results, host, alike) for host in results.plan.hosts
    )


def _wrong_alike(results: Results) -> bool:
    """Whether every engine of every host gives the same wrong output. Then model or dtype is the cause, and no GPU."""
    answers = [answer for server in results.servers for answer in server.answers]
    wrong = all(_wrong_answer(answer, results.plan.settings.smoke)[0] in _CONTENT for answer in answers)
    return len(answers) > _ONE_ENGINE and wrong and len({answer.text for answer in answers}) == 1


def _judge(answer: Answer, results: Results, host: PlannedHost, alike: bool) -> Outcome:
    missing, server = not_served(answer, results, host), results.server(host.name)
    if missing is not None or server is None:
        return missing or answer.blocked(by=READY, because=f"{host.name} does not serve the model")
    if not server.answers:
        return answer.unknown("not-asked", "the smoke request was not sent", "run the gate again")
    smoke, copies = results.plan.settings.smoke, host.gpus // results.plan.settings.server.tensor_parallel
    details = _details(server, smoke)
    # In order of severity: no response, an HTTP error, wrong content.
    shown = next((a for a in server.answers if a.status != 200), server.answers[-1])
    if not shown.status:
        return answer.unknown("smoke-unanswered", f"{_who(shown)}{shown.problem}", "read the server's log", **details)
    if shown.status != 200:
        text = f"{_who(shown)}HTTP {shown.status}: {shown.problem}"[:400]
        return answer.failed("smoke-refused", text, "read the server's log", **details)
    cause, text, hint = _wrong(server, smoke, results.plan.settings.server.tensor_parallel)
    if cause in _CONTENT and alike:
        text = f"every engine of every host gives the same answer, so no GPU is to blame: {text}"[:400]
        hint = "look at model, weights, dtype and quantisation of the server (half precision can overflow); set dtype"
        return answer.unknown("model-numerics", text, hint, **details)
    if cause == _DIFFERS:
        # Either output may be right: a cached prefix or another batch can tip a near tie between two tokens.
        return answer.marginal(cause, text, hint, **details)
    if cause:
        return answer.failed(cause, text, hint, **details)
    if odd := _contradiction(server, smoke):
        hint = "read the server's log, and compare its release with the one that the gate names; run the gate again"
        return answer.unknown("smoke-inconsistent", odd, hint, **details)
    not_reporting = _not_reporting(server, copies)
    if not_reporting:
        hint = "with an image before vLLM 0.12 name a newer one; else read the server's log, then run the gate again"
        return answer.unknown("engines-unasked", not_reporting, hint, **details)
    every = f" from each of {copies} engines" if copies > 1 else ""
    text = f"{shown.text.strip()[:60]!r}, {shown.completion_tokens} tokens, the same every time{every}"
    return answer.passed(text, **details)


def _contradiction(server: Server, smoke: SmokeSettings) -> str:
    """Return which counts of the responses contradict each other or the request. Empty: none."""
    for found in server.answers:
        if found.finish == "length" and found.completion_tokens != smoke.tokens:
            text = f"{found.completion_tokens} tokens, and its end is said to be the limit of {smoke.tokens}"
            return f"{_who(found)}counts {text}"
    prompts = sorted({found.prompt_tokens for found in server.answers})
    return f"counts {' and '.join(map(str, prompts))} tokens in one prompt" if len(prompts) > 1 else ""


def _not_reporting(server: Server, copies: int) -> str:
    """Return why it is not known that every engine responded, by the server's own count. Empty: every one did."""
    if copies == 1:
        return "" if len(server.answers) >= _ASKED else "it was asked once, twice is needed"
    if server.uncounted:
        return f"which of {copies} engines answered is not known: {server.uncounted}"
    if not server.engines:
        return f"this run did not record which of {copies} engines answered"
    few = [engine for engine in range(copies) if sum(a.engine == engine for a in server.answers) < _ASKED]
    if few:
        return f"engine {', '.join(map(str, few))} was not asked {_ASKED} times"
    mute = [str(engine) for engine in range(copies) if server.engines.get(str(engine), 0) < 1]
    if not mute:
        return ""
    return f"{copies - len(mute)} of {copies} engines answered; no answer came from engine {', '.join(mute)}"


def _who(found: SmokeAnswer) -> str:
    return f"engine {found.engine}: " if found.engine >= 0 else ""


def _details(server: Server, smoke: SmokeSettings) -> dict[str, tuple[object, ...]]:
    last = server.answers[-1]
    return {
        "measured": (
            Measure("status", last.status, "HTTP status"),
            Measure("prompt tokens", last.prompt_tokens, "count"),
            Measure("completion tokens", last.completion_tokens, "count"),
            Measure("finish reason", last.finish),
            Measure("latency", round(last.latency_s * 1000, 1), "ms"),
            Measure("answers", len(server.answers), "count"),
            Measure("engines that answered", sum(count > 0 for count in server.engines.values()), "count"),
        ),
        "expected": (Expectation("answer", "matches", smoke.expect or "not empty", Basis.RULE),),
        "evidence": tuple(
            Evidence(f"POST /v1/completions, prompt {smoke.prompt!r}, temperature 0", server.host, text)
            for text in dict.fromkeys(f"{_who(a)}{a.text or a.problem}" for a in server.answers)
        ),
    }


def _wrong(server: Server, smoke: SmokeSettings, per_engine: int) -> tuple[str, str, str]:
    """Return cause, text and hint of what is wrong with the responses. All empty: nothing is."""
    for found in server.answers:
        cause, text, hint = _wrong_answer(found, smoke)
        if cause:
            return cause, f"{_where(found, per_engine)}{text}", hint
    texts = Counter(found.text for found in server.answers)
    if len(texts) < 2:
        return "", "", ""
    usual = texts.most_common(1)[0][0]
    odd = next(found for found in server.answers if found.text != usual)
    text = (
        f"the same greedy request was answered differently: {usual[:80]!r}, {_where(odd, per_engine)}{odd.text[:80]!r}"
    )
    hint = "run the gate again; if it stays, a GPU of this host may compute differently: run gate nodes for it"
    return _DIFFERS, text, hint


def _where(found: SmokeAnswer, per_engine: int) -> str:
    """Return an engine and its GPUs as text. vLLM assigns GPUs of the host to engines in order."""
    if found.engine < 0:
        return ""
    first = found.engine * per_engine
    gpus = f"GPU {first}" if per_engine == 1 else f"GPUs {first} to {first + per_engine - 1}"
    return f"engine {found.engine} ({gpus}): "


def _wrong_answer(found: SmokeAnswer, smoke: SmokeSettings) -> tuple[str, str, str]:
    if found.problem:
        return "smoke-malformed", found.problem, "is it an OpenAI-compatible server?"
    if not found.text.strip() or not found.completion_tokens:
        return "smoke-empty", "the answer is empty", "look at model and tokenizer; a base model needs no template"
    if found.finish not in _FINISHED or not found.prompt_tokens:
        text = f"finish reason {found.finish!r}, {found.prompt_tokens} prompt tokens"
        return "smoke-malformed", text, "is it an OpenAI-compatible server?"
    if smoke.expect and not re.search(smoke.expect, found.text):
        text = f"{smoke.prompt!r} was continued with {found.text[:120]!r}, expected {smoke.expect!r}"
        hint = "the weights are damaged, or a GPU computes wrong: run gate nodes and fabric_validation for this host"
        return "smoke-wrong-answer", text, hint
    return "", "", ""


CHECK = Check(SPEC, OBSERVER, judge)
