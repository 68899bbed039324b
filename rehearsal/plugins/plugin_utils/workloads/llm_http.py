# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A language model server with the HTTP API of vLLM: responses, their latency, and a tokenizer without a download."""

from __future__ import annotations

import asyncio
import json
import math
import random
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from time import monotonic
from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.accelerator import Accelerator, Latency
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.strict import read_yaml

from ..model.values import Serving
from ..places import DATA

# Latency and content of the responses of a simulated language model server, computed from the cluster model.
#
# The server on loopback sleeps for these times, and the computed export of AIPerf is made from them.

_FILE = DATA / "serving.yaml"
_STALLS = 8
# A prime number, so that a fault of every n-th request does not always meet the same variation.
_DRAWS = 1009


@dataclass(frozen=True, slots=True)
class Completion:
    """One completion: time to first token, time per output token, number of tokens, and whether it failed."""

    ttft_ms: float
    tpot_ms: float
    tokens: int
    failed: bool = False

    @property
    def latency_ms(self) -> float:
        """Milliseconds until the last token."""
        return self.ttft_ms + max(self.tokens - 1, 0) * self.tpot_ms


@dataclass(frozen=True, slots=True)
class Pace:
    """Mean latencies of a server at a given number of concurrent requests per GPU."""

    ttft_ms: float
    tpot_ms: float


def serving_data() -> Mapping[str, Any]:
    """Return the data of rehearsal/recipes/serving.yaml."""
    return _serving_data()


@lru_cache(maxsize=1)
def _serving_data() -> Mapping[str, Any]:
    found: Mapping[str, Any] = read_yaml(_FILE)
    return found


def pace(accelerator: Accelerator, at_a_time: float, serving: Serving, *, cached: bool = True) -> Pace:
    """Return the mean latencies at `at_a_time` concurrent requests per GPU. `cached`: prompts are in the cache."""
    data = serving_data()
    first = accelerator.simulated.ttft_ms or Latency(**data["ttft_ms"])
    each = accelerator.simulated.tpot_ms or Latency(**data["tpot_ms"])
    more = max(at_a_time - 1, 0.0)
    rate = serving.rate if cached else serving.rate * serving.prefill * data["uncached"]
    return Pace(ttft_ms=(first.base + first.each * more) / rate, tpot_ms=(each.base + each.each * more) / rate)


def completion(number: int, copies: int, tokens: int, how: Pace, serving: Serving) -> Completion:
    """Return the completion of request `number` (from 0) of a server. It is the same every time."""
    first, each = _variations()[number % _DRAWS]
    ttft, tpot = how.ttft_ms * first, how.tpot_ms * each
    if number < copies:
        ttft += serving.cold_ms
    if number % _STALLS == _STALLS - 3:
        ttft += serving.stall_ms
    if number % copies == 0:
        tpot += serving.slow_copy_ms
    if _nth(number, serving.fail_every):
        return Completion(ttft_ms=1.0, tpot_ms=0.0, tokens=0, failed=True)
    return Completion(ttft_ms=ttft, tpot_ms=tpot, tokens=tokens // 2 if _nth(number, serving.short_every) else tokens)


@lru_cache(maxsize=1)
def _variations() -> tuple[tuple[float, float], ...]:
    """Return factors on the mean latencies of single requests, which are used in turn."""
    spread, draw = serving_data()["spread"], random.Random(0)
    return tuple(
        (math.exp(draw.gauss(0.0, spread["ttft"])), max(0.5, draw.gauss(1.0, spread["tpot"])))
        for _number in range(_DRAWS)
    )


def _nth(number: int, every: int) -> bool:
    return every > 0 and number % every == every - 1


def completion_text(prompt: str, tokens: int, serving: Serving, engine: int, requested: int) -> tuple[str, int]:
    """Return the continuation of a prompt and its number of tokens: it continues to count from the last number.

    `engine` is the copy of the model that responds, `requested` the number of its earlier requests.
    """
    if serving.odd_engine not in (-1, engine):
        serving = replace(serving, answer="right")
    if serving.answer == "unsteady" and requested % 2:
        return completion_text(prompt, tokens - 4, replace(serving, answer="right"), engine, 0)
    if serving.answer == "empty":
        return "", 0
    if serving.answer == "gibberish":
        return "!" * tokens, tokens
    last = prompt.replace(",", " ").split()[-1:]
    start = int(last[0]) if last and last[0].isdecimal() else 0
    return "".join(f" {start + step}," for step in range(1, tokens // 2 + 1)), tokens


# A language model server with the HTTP API of vLLM: health, models, completions, streaming.

Json = dict[str, Any]
Headers = dict[str, str]
_REASONS = {200: "OK", 400: "Bad Request", 404: "Not Found", 500: "Internal Server Error", 503: "Service Unavailable"}
_MOST = 4 << 20


@dataclass(slots=True)
class LlmServer:
    """One server. Its latency depends on the model of its node and on the number of concurrent requests."""

    name: str
    accelerator: Accelerator
    copies: int
    serving: Serving
    asked: int = 0
    under_way: int = 0
    finished: Counter[int] = field(default_factory=Counter)

    @property
    def model(self) -> str:
        """Name of the served model."""
        return self.serving.model or self.name

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve the requests of one connection."""
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
        """Return the engine that responds: the one in the header (vLLM since v0.12.0), else the next one."""
        named = headers.get("x-data-parallel-rank", "")
        engine = int(named) if named.isdecimal() else number % self.copies
        return (engine + 1) % self.copies if engine == self.serving.mute_engine else engine

    def _metrics(self) -> str:
        """Return vLLM's /metrics about finished requests, with the names of vllm/v1/metrics/loggers.py."""
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

    async def _stream(
        self, path: str, body: Json, found: Completion, requested: int, writer: asyncio.StreamWriter
    ) -> None:
        chat = path.endswith("/chat/completions")
        _send_head(writer, 200, "text/event-stream", {"Transfer-Encoding": "chunked"})
        began_at = monotonic()
        prompt = len(str(body.get("prompt") or (body.get("messages") or [{}])[-1].get("content")))
        async for event in self._events(chat, found, requested, began_at):
            _chunk(writer, event)
            await writer.drain()
        if (body.get("stream_options") or {}).get("include_usage"):
            _chunk(writer, {**self._event(), "choices": [], "usage": _usage(prompt, found.tokens)})
        _chunk(writer, None)

    async def _events(self, chat: bool, found: Completion, requested: int, began_at: float) -> AsyncIterator[Json]:
        for number in range(found.tokens):
            due_s = (found.ttft_ms + number * found.tpot_ms) / 1000
            # Sleep until the due time, so that a delay of one token on a busy machine does not delay the next.
            await asyncio.sleep(max(0.0, began_at + due_s - monotonic()))
            content: Json = {"delta": {"content": "a"}} if chat else {"text": "a"}
            yield {**self._event(), "choices": [{"index": 0, **content, "finish_reason": None}]}
        finish = "length" if found.tokens == requested else "stop"
        end: Json = {"delta": {}} if chat else {"text": ""}
        yield {**self._event(), "choices": [{"index": 0, **end, "finish_reason": finish}]}

    def _event(self) -> Json:
        return {"id": "cmpl-1", "object": "chat.completion.chunk", "created": 0, "model": self.model}


async def _read(reader: asyncio.StreamReader) -> tuple[str, str, Headers, bytes] | None:
    """Return the next request: method, path, headers with names in lower case, body; None at the end."""
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


# A tokenizer without a download: one token per byte, in the format of the Hugging Face library.

_END = "<|endoftext|>"


def write_tokenizer(directory: Path) -> Path:
    """Write the tokenizer to a directory and return the directory."""
    directory.mkdir(parents=True, exist_ok=True)
    vocabulary = {letter: number for number, letter in enumerate(_letters())}
    vocabulary[_END] = len(vocabulary)
    end = {
        "id": vocabulary[_END], "content": _END, "single_word": False, "lstrip": False, "rstrip": False,
        "normalized": False, "special": True,
    }  # fmt: skip
    bytes_of = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    unused = dict.fromkeys(("dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix"))
    model: dict[str, Any] = {
        "type": "BPE", **unused, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
        "vocab": vocabulary, "merges": [],
    }  # fmt: skip
    document = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [end], "normalizer": None,
        "pre_tokenizer": bytes_of, "post_processor": None, "decoder": bytes_of, "model": model,
    }  # fmt: skip
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": _END,
        "chat_template": "{% for message in messages %}{{ message['content'] }}{% endfor %}",
    }
    (directory / "tokenizer.json").write_text(json.dumps(document), encoding="utf-8")
    (directory / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    return directory


def _letters() -> list[str]:
    """Return a character for each byte: the byte itself if it is printable, else one beyond 255."""
    observed = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in observed]
    return [chr(byte) if byte in observed else chr(256 + hidden.index(byte)) for byte in range(256)]
