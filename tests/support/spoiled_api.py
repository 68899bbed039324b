# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""An API server that misbehaves as it is told: breaks connections, cuts answers, forgets tokens."""

from __future__ import annotations

import json
import socket
import struct
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Json = dict[str, Any]
RESET = "reset"  # the connection breaks before anything is done
LOST = "lost"  # it is done, and the connection breaks before the answer
CUT_BODY = "cut body"  # it is done, and the connection breaks in the middle of the answer
CUT_HEAD = "cut head"  # it is done, and the connection breaks in the middle of the answer's headers
POD: Json = {"metadata": {"name": "x", "labels": {"gpufleet.io/test": "run-1"}}, "spec": {"a": 1}}


class Api(ThreadingHTTPServer):
    """Objects by path; `faults` come first, one a request: RESET, LOST, or an answer (status, body, headers)."""

    daemon_threads = True

    def __init__(self, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.objects: dict[str, Json] = {}
        self.faults: list[Any] = []
        self.asked: list[tuple[str, str]] = []
        self.tokens: set[str] = set()
        self.stream: list[Callable[[str], list[bytes]]] = []

    def answer(self, method: str, path: str, body: Json | None) -> tuple[int, Json]:
        path, found = path.partition("?")[0], self.objects.get(path.partition("?")[0])
        if method == "POST":
            assert body is not None
            path = f"{path}/{body['metadata']['name']}"
            if path in self.objects:
                return 409, status("AlreadyExists")
            self.objects[path] = body
            return 201, body
        if found is None:
            return 404, status("NotFound")
        if method == "DELETE":
            return 200, self.objects.pop(path)
        if method == "PUT":
            assert body is not None
            if body["metadata"].get("resourceVersion") != found["metadata"].get("resourceVersion"):
                return 409, status("Conflict")
            version = str(int(found["metadata"].get("resourceVersion") or 0) + 1)
            self.objects[path] = {**body, "metadata": {**body["metadata"], "resourceVersion": version}}
        return 200, self.objects[path]


def status(reason: str, causes: tuple[str, ...] = ()) -> Json:
    listed = [{"reason": cause} for cause in causes]
    return {"kind": "Status", "apiVersion": "v1", "reason": reason, "message": reason, "details": {"causes": listed}}


class _Handler(BaseHTTPRequestHandler):
    server: Api

    def _answer(self) -> None:
        size = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(size)) if size else None
        self.server.asked.append((self.command, self.path))
        if self.server.tokens and self.headers.get("Authorization", "")[7:] not in self.server.tokens:
            return self._say(401, status("Unauthorized"), {})
        if "watch=true" in self.path:
            return self._stream(self.server.stream.pop(0)(self.path))
        fault = self.server.faults.pop(0) if self.server.faults else None
        if fault == RESET:
            return self._reset()
        if isinstance(fault, tuple):
            return self._say(*fault)
        code, answer = self.server.answer(self.command, self.path, body)
        if fault == LOST:
            return self._reset()
        if fault in (CUT_BODY, CUT_HEAD):
            length = b"Content-Length: 5000\r\n\r\n{" if fault == CUT_BODY else b"Content-Ty"
            self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n" + length)
            self.close_connection = True
            return None
        return self._say(code, answer, {})

    def _say(self, code: int, answer: Json, headers: dict[str, str]) -> None:
        text = json.dumps(answer).encode()
        self.send_response(code)
        for name, value in {**headers, "Content-Length": str(len(text))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(text)

    def _stream(self, parts: list[bytes]) -> None:
        """Send chunks; one that is empty breaks the connection."""
        self.protocol_version = "HTTP/1.1"
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for part in parts:
            if not part:
                self.wfile.flush()
                time.sleep(0.05)
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            self.wfile.write(f"{len(part):x}\r\n".encode() + part + b"\r\n")
        self.wfile.write(b"0\r\n\r\n")
        self.close_connection = True

    def _reset(self) -> None:
        self.close_connection = True
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.wfile.close()
        self.rfile.close()
        self.connection.close()

    def finish(self) -> None:
        """Leave a connection alone that was reset."""
        if not self.wfile.closed:
            super().finish()

    do_GET = do_POST = do_PATCH = do_DELETE = do_PUT = _answer

    def log_message(self, *_args: Any) -> None:
        """Say nothing."""


def busy(code: int, **headers: str) -> tuple[int, Json, dict[str, str]]:
    return code, status("x"), {name.replace("_", "-"): value for name, value in headers.items()}
