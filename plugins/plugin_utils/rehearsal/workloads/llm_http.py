# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A language model server with the HTTP API of vLLM: health, models, completions, streaming."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

from ...hardware.accelerator import Accelerator
from ..model.values import Serving
from .serving import Completion, completion, completion_text, pace

Json = dict[str, Any]
Headers = dict[str, str]
_REASONS = {200: "OK", 400: "Bad Request", 404: "Not Found", 500: "Internal Server Error", 503: "Service Unavailable"}
_MOST = 4 << 20


@dataclass(slots=True)
class LlmServer:
    """One server; its latency depends on the model of its node and on the number of concurrent requests."""

    name: str
    accelerator: Accelerator
    copies: int
    serving: Serving
    asked: int = 0
    under_way: int = 0
    finished: Counter[int] = field(default_factory=Counter)

    @property
    def model(self) -> str:
        """Name of the model that it serves."""
        return self.serving.model or self.name

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection."""
        try:
            while request := await _read(reader):
                method, path, headers, body = request
                await self._route(method, path.partition("?")[0], headers, body, writer)
                await writer.drain()
                if headers.get("connection", "").lower() == "close":
                    break
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError, ValueError):
            pass
        finally:
            writer.close()

    async def _route(self, method: str, path: str, headers: Headers, body: bytes, writer: asyncio.StreamWriter) -> None:
        dead = self.serving.state == "engine-dead"
        if (method, path) == ("GET", "/health"):
            _send(writer, 503 if dead else 200, b"")
        elif (method, path) == ("GET", "/v1/models"):
            entry = {"id": self.model, "object": "model", "owned_by": "vllm", "root": self.model}
            _send_json(writer, 200, {"object": "list", "data": [entry]})
        elif method == "POST" and path in ("/v1/completions", "/v1/chat/completions"):
            await self._complete(path, headers, json.loads(body), writer)
        elif (method, path) == ("GET", "/metrics"):
            _send(writer, 200, self._metrics().encode())
        else:
            _send_json(writer, 404, _error("Not Found", 404))

    def _engine(self, headers: Headers, number: int) -> int:
        """The engine that answers: the one that the header names (vLLM since v0.12.0), else the next one."""
        named = headers.get("x-data-parallel-rank", "")
        engine = int(named) if named.isdecimal() else number % self.copies
        return (engine + 1) % self.copies if engine == self.serving.mute_engine else engine

    def _metrics(self) -> str:
        """What vLLM's /metrics says of finished requests, in the names of vllm/v1/metrics/loggers.py."""
        labels = f'finished_reason="length",model_name="{self.model}"'
        lines = ["# TYPE vllm:request_success_total counter"]
        for engine in range(self.copies):
            lines.append(f'vllm:request_success_total{{engine="{engine}",{labels}}} {float(self.finished[engine])}')
        return "\n".join([*lines, ""])

    async def _complete(self, path: str, headers: Headers, body: Json, writer: asyncio.StreamWriter) -> None:
        if body.get("model") != self.model:
            _send_json(writer, 404, _error(f"The model `{body.get('model')}` does not exist.", 404))
            return
        number, self.asked = self.asked, self.asked + 1
        tokens = int(body.get("max_completion_tokens") or body.get("max_tokens") or 16)
        engine, dead = self._engine(headers, number), self.serving.state == "engine-dead"
        refused = self.serving.answer == "refused" and self.serving.odd_engine in (-1, engine)
        self.under_way += 1
        try:
            how = pace(self.accelerator, self.under_way / self.copies, self.serving)
            found = completion(number, self.copies, tokens, how, self.serving)
            if dead or (refused and not body.get("stream")) or (found.failed and body.get("stream")):
                _send_json(writer, 500, _error("EngineCore encountered an issue.", 500))
            elif body.get("stream"):
                await self._stream(path, body, found, tokens, writer)
            else:
                await asyncio.sleep(found.latency_ms / 1000)
                whole = self._whole(path, body, tokens, engine)
                self.finished[engine] += 1
                _send_json(writer, 200, whole)
        finally:
            self.under_way -= 1

    def _whole(self, path: str, body: Json, tokens: int, engine: int) -> Json:
        chat = path.endswith("/chat/completions")
        prompt = str((body.get("messages") or [{}])[-1].get("content")) if chat else str(body.get("prompt"))
        text, count = completion_text(prompt, tokens, self.serving, engine, self.finished[engine])
        if self.serving.answer == "malformed" and self.serving.odd_engine in (-1, engine):
            return {"id": "cmpl-1", "object": "text_completion", "model": self.model, "choices": []}
        content: Json = {"message": {"role": "assistant", "content": text}} if chat else {"text": text}
        choice = {"index": 0, **content, "finish_reason": "length" if count else "stop"}
        usage = _usage(len(prompt.split()), count)
        return {"id": "cmpl-1", "object": "text_completion", "model": self.model, "choices": [choice], "usage": usage}

    async def _stream(self, path: str, body: Json, found: Completion, asked: int, writer: asyncio.StreamWriter) -> None:
        chat = path.endswith("/chat/completions")
        _send_head(writer, 200, "text/event-stream", {"Transfer-Encoding": "chunked"})
        began_at = monotonic()
        prompt = len(str(body.get("prompt") or (body.get("messages") or [{}])[-1].get("content")))
        async for event in self._events(chat, found, asked, began_at):
            _chunk(writer, event)
            await writer.drain()
        if (body.get("stream_options") or {}).get("include_usage"):
            _chunk(writer, {**self._event(), "choices": [], "usage": _usage(prompt, found.tokens)})
        _chunk(writer, None)

    async def _events(self, chat: bool, found: Completion, asked: int, began_at: float) -> AsyncIterator[Json]:
        for number in range(found.tokens):
            due_s = (found.ttft_ms + number * found.tpot_ms) / 1000
            # Sleep until the due time: a delay of one token on a busy machine does not delay the next.
            await asyncio.sleep(max(0.0, began_at + due_s - monotonic()))
            content: Json = {"delta": {"content": "a"}} if chat else {"text": "a"}
            yield {**self._event(), "choices": [{"index": 0, **content, "finish_reason": None}]}
        finish = "length" if found.tokens == asked else "stop"
        end: Json = {"delta": {}} if chat else {"text": ""}
        yield {**self._event(), "choices": [{"index": 0, **end, "finish_reason": finish}]}

    def _event(self) -> Json:
        return {"id": "cmpl-1", "object": "chat.completion.chunk", "created": 0, "model": self.model}


async def _read(reader: asyncio.StreamReader) -> tuple[str, str, Headers, bytes] | None:
    """The next request: method, path, headers with small names, body; None at the end."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.split("\r\n")
    headers = {name.strip().lower(): value.strip() for name, _mark, value in (line.partition(":") for line in lines)}
    method, path, _version = first.split(" ", 2)
    length = int(headers.get("content-length") or 0)
    if length > _MOST:
        return None
    body = await reader.readexactly(length) if length else b""
    return method, path, headers, body


def _send_head(writer: asyncio.StreamWriter, status: int, kind: str, more: dict[str, str]) -> None:
    lines = [f"HTTP/1.1 {status} {_REASONS[status]}", "server: uvicorn", f"content-type: {kind}"]
    lines += [f"{name}: {value}" for name, value in more.items()]
    writer.write("\r\n".join([*lines, "", ""]).encode())


def _send(writer: asyncio.StreamWriter, status: int, body: bytes, kind: str = "text/plain") -> None:
    _send_head(writer, status, kind, {"content-length": str(len(body))})
    writer.write(body)


def _send_json(writer: asyncio.StreamWriter, status: int, body: Json) -> None:
    _send(writer, status, json.dumps(body).encode(), "application/json")


def _chunk(writer: asyncio.StreamWriter, event: Json | None) -> None:
    text = b"data: " + (b"[DONE]" if event is None else json.dumps(event).encode()) + b"\n\n"
    writer.write(f"{len(text):x}\r\n".encode() + text + b"\r\n" + (b"0\r\n\r\n" if event is None else b""))


def _error(text: str, code: int) -> Json:
    kind = "NotFoundError" if code == 404 else "InternalServerError"
    return {"error": {"message": text, "type": kind, "param": None, "code": code}}


def _usage(prompt: int, completion: int) -> Json:
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
