# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Asks a server: its health, its models, and each of its engines the smoke request twice. A wrong answer is a value,
not an error.

vLLM sends a request to the engine that the header X-data-parallel-rank names (vllm/entrypoints/openai, since v0.12.0).
A server that does not know the header gives requests that come at the same time to different engines; so all are asked
at once, the server's own count says which have answered, and those that have not are asked again.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any

from ...clients.http.kept import kept
from ...clients.http.model import Route
from ...clients.http.session import HttpSession
from ...outcome.errors import BringupError
from ...probe.vllm_metrics import finished_requests
from ...runtime.pool import map_bounded
from ...runtime.redaction import excerpt
from .model import SmokeAnswer
from .settings import InferenceSettings

_SHORT_S = 20.0
# Greedy: the same answer twice, or the server does not compute the same twice.
_ASKED = 2
_ROUNDS = 4
_AT_ONCE = 16
_HEADER = "X-data-parallel-rank"


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


@dataclass(frozen=True, slots=True)
class Asked:
    """The answers to the smoke request, and by engine how many requests it finished meanwhile; `uncounted` says why
    that is not known."""

    answers: tuple[SmokeAnswer, ...]
    engines: dict[str, int]
    uncounted: str = ""


def ask_engines(route: Route, settings: InferenceSettings, copies: int, session: HttpSession | None = None) -> Asked:
    """Return what the engines of a server answered: each at least twice, until its own count says that all did.

    A server with one engine is not asked for its count: nothing else can have answered. After an answer that is none
    the server is not asked again. `session` is one that is open already, for what is asked once.
    """
    answers: list[SmokeAnswer] = []
    if copies == 1:
        while len(answers) < _ASKED and _well(answers):
            answers.append(_smoke(HttpSession(route), settings, -1))
        return Asked(tuple(answers), {})
    counts = _Counts(session or HttpSession(route))
    open_engines = list(range(copies))
    for _round in range(_ROUNDS):
        for asked in map_bounded(lambda engine: _to_engine(route, settings, engine), open_engines, _AT_ONCE):
            answers += asked
        grown = counts.grown()
        open_engines = [engine for engine in open_engines if grown.get(str(engine), 0) < 1]
        if counts.problem or not open_engines or not _well(answers):
            break
    return Asked(tuple(answers), counts.grown(), counts.problem)


class _Counts:
    """How many requests the engines of a server have finished since this was made."""

    def __init__(self, session: HttpSession) -> None:
        self.problem = ""
        self._session = session
        self._before = self._read()

    def grown(self) -> dict[str, int]:
        now = self._read()
        return {} if self.problem else {str(key): count - self._before.get(key, 0) for key, count in now.items()}

    def _read(self) -> dict[int, int]:
        try:
            return finished_requests(self._session.text("GET", "/metrics", timeout_s=_SHORT_S))
        except BringupError as error:
            self.problem = f"{error.subject}: {error.reason}"[:300]
            return {}


def _well(answers: Sequence[SmokeAnswer]) -> bool:
    return all(answer.status == 200 and not answer.problem for answer in answers)


def _to_engine(route: Route, settings: InferenceSettings, engine: int) -> list[SmokeAnswer]:
    with kept(route) as way:
        session = HttpSession(way, headers={_HEADER: str(engine)})
        return [_smoke(session, settings, engine) for _time in range(_ASKED)]


def _smoke(session: HttpSession, settings: InferenceSettings, engine: int) -> SmokeAnswer:
    smoke = settings.smoke
    body = {
        "model": settings.server.name, "prompt": smoke.prompt, "max_tokens": smoke.tokens, "temperature": 0, "seed": 0,
    }  # fmt: skip
    began_at = monotonic()
    try:
        answer = session.request("POST", "/v1/completions", body=body, timeout_s=smoke.request_s)
    except BringupError as error:
        return SmokeAnswer(engine=engine, problem=f"no answer: {error.reason}"[:300])
    latency_s = round(monotonic() - began_at, 4)
    text = answer.body.decode("utf-8", errors="replace")
    if answer.status != 200:
        return SmokeAnswer(engine=engine, status=answer.status, latency_s=latency_s, problem=excerpt(text, 300))
    return replace(_read(text, latency_s), engine=engine)


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
