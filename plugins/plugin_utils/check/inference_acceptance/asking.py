# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Asks a server: its health, its models, and the smoke request twice. A wrong answer is a value, not an error."""

from __future__ import annotations

import json
from time import monotonic
from typing import Any

from ...clients.http.session import HttpSession
from ...outcome.errors import BringupError
from ...runtime.redaction import excerpt
from .model import SmokeAnswer
from .settings import InferenceSettings

_SHORT_S = 20.0
# Greedy: the same answer twice, or the server does not compute the same twice.
_ASKED = 2


def health_of(session: HttpSession) -> int:
    """Return the status of /health.

    Raises:
        BringupError: no answer.
    """
    return session.request("GET", "/health", timeout_s=_SHORT_S).status


def models_of(session: HttpSession) -> tuple[str, ...]:
    """Return the names of the models that a server lists.

    Raises:
        BringupError: no answer, or none that lists models.
    """
    answer = session.get_json("/v1/models", timeout_s=_SHORT_S)
    entries = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(entries, list):
        raise BringupError(session.where, "/v1/models lists no models.", "is it an OpenAI-compatible server?")
    return tuple(str(entry.get("id")) for entry in entries if isinstance(entry, dict))


def smoke_answers(session: HttpSession, settings: InferenceSettings) -> tuple[SmokeAnswer, ...]:
    """Return the answers to the smoke request, sent one after the other; no second one where the first failed."""
    answers: list[SmokeAnswer] = []
    while len(answers) < _ASKED and all(answer.status == 200 and not answer.problem for answer in answers):
        answers.append(_smoke(session, settings))
    return tuple(answers)


def _smoke(session: HttpSession, settings: InferenceSettings) -> SmokeAnswer:
    smoke = settings.smoke
    body = {
        "model": settings.server.name, "prompt": smoke.prompt, "max_tokens": smoke.tokens, "temperature": 0, "seed": 0,
    }  # fmt: skip
    began_at = monotonic()
    try:
        answer = session.request("POST", "/v1/completions", body=body, timeout_s=smoke.request_s)
    except BringupError as error:
        return SmokeAnswer(problem=f"no answer: {error.reason}"[:300])
    latency_s = round(monotonic() - began_at, 4)
    text = answer.body.decode("utf-8", errors="replace")
    if answer.status != 200:
        return SmokeAnswer(status=answer.status, latency_s=latency_s, problem=excerpt(text, 300))
    return _read(text, latency_s)


def _read(text: str, latency_s: float) -> SmokeAnswer:
    try:
        data: Any = json.loads(text)
        choice, usage = data["choices"][0], data["usage"]
        answer_text, finish = choice["text"], choice["finish_reason"]
        tokens = {name: usage[name] for name in ("prompt_tokens", "completion_tokens")}
    except (ValueError, KeyError, IndexError, TypeError) as error:
        return SmokeAnswer(status=200, latency_s=latency_s, problem=f"not a completion: {type(error).__name__} {error}")
    counts = all(isinstance(count, int) and not isinstance(count, bool) for count in tokens.values())
    if not isinstance(answer_text, str) or not isinstance(finish, str) or not counts:
        return SmokeAnswer(status=200, latency_s=latency_s, problem="not a completion: text, reason or usage are none")
    return SmokeAnswer(status=200, text=answer_text[:400], finish=finish, latency_s=latency_s, **tokens)
