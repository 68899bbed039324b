# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A proxy between the product and an API server that spoils a share of the requests, drawn from a seed.

Towards the product it speaks plain HTTP, towards the server TLS with the client certificate of a kubeconfig. Only what
the product's own client asks is spoiled (`User-Agent`), or what helm asks (`asker`). One connection is one request.

    python tests/support/fault_proxy.py --upstream DIRECTORY_OR_KUBECONFIG --kubeconfig WRITTEN --seed 1

serves until it is ended; a directory is searched for `admin.kubeconfig` when the first request comes.
"""

from __future__ import annotations

import argparse
import base64
import collections
import json
import random
import re
import select
import signal
import socket
import ssl
import struct
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

SHARE = 0.3
FAULTS = (
    "reset", "lost-answer", "conflict", "busy", "busy-retry-after", "odd-retry-after", "error", "unavailable", "slow",
    "truncated",
)  # fmt: skip
_SLOW_S = 1.5
_HEAD_LIMIT = 256 * 1024
# What ends helm: its client repeats a 429 or 5xx by itself only where it has `Retry-After`.
HELM_FAULTS = ("busy", "busy-retry-after", "error", "unavailable", "bad-gateway", "gateway-timeout")
# What its client repeats by itself, ten times at most.
TIMED_FAULTS = ("busy-retry-after", "error-retry-after", "unavailable-retry-after", "slow")
_OURS = re.compile(rb"^user-agent: *gpufleet\.bringup\r$", re.IGNORECASE | re.MULTILINE)
HELM = re.compile(rb"^user-agent: *helm/", re.IGNORECASE | re.MULTILINE)
_ODD = ("nan", "-3", "Sun, 22 Nov 2026 12:00:00 GMT", "soon")


@dataclass(slots=True)
class FaultProxy:
    """Serves in threads of its own between `start` and `stop`.

    Attributes:
        upstream: connects to the server; asked once a request.
        seed: of the faults.
        share: share of the requests that are spoiled.
        asker: whose requests these are, found in their headers.
        faults: those that are drawn.
        counts: requests by what became of them.
        away: while set, every connection is closed at once, as by a server that restarts.
        asked: method and path of every request, in order.
    """

    upstream: Callable[[], socket.socket]
    seed: int = 1
    share: float = SHARE
    asker: re.Pattern[bytes] = _OURS
    faults: tuple[str, ...] = FAULTS
    counts: collections.Counter[str] = field(default_factory=collections.Counter)
    away: threading.Event = field(default_factory=threading.Event)
    asked: list[str] = field(default_factory=list)
    _listener: socket.socket = field(init=False)
    _random: random.Random = field(init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _stopped: threading.Event = field(default_factory=threading.Event)
    _open: set[socket.socket] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Take a port."""
        self._random = random.Random(self.seed)
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)

    @property
    def url(self) -> str:
        """Where the product finds it."""
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def write_kubeconfig(self, path: Path) -> None:
        """Write a kubeconfig that leads to the proxy."""
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "faulty",
            "clusters": [{"name": "faulty", "cluster": {"server": self.url}}],
            "users": [{"name": "faulty", "user": {}}],
            "contexts": [{"name": "faulty", "context": {"cluster": "faulty", "user": "faulty"}}],
        }
        path.write_text(json.dumps(document), encoding="utf-8")

    def start(self) -> None:
        """Serve."""
        threading.Thread(target=self._serve, daemon=True).start()

    def stop(self) -> None:
        """End it, and every open connection."""
        self._stopped.set()
        self._listener.close()
        self.drop_all()

    def drop_all(self) -> None:
        """Break every open connection."""
        with self._lock:
            found, self._open = self._open, set()
        for connection in found:
            _reset(connection)

    def _serve(self) -> None:
        while not self._stopped.is_set():
            try:
                client, _address = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._handle, args=(client,), daemon=True).start()

    def _handle(self, client: socket.socket) -> None:
        with self._lock:
            self._open.add(client)
        try:
            head, rest = _read_head(client)
            if head:
                self._answer(client, head, rest)
        except (OSError, ValueError):
            # Broken connections are this program's trade.
            pass
        finally:
            with self._lock:
                self._open.discard(client)
            client.close()

    def _answer(self, client: socket.socket, head: bytes, rest: bytes) -> None:
        if self.away.is_set():
            self.counts["away"] += 1
            return _reset(client)
        fault = self._draw(head)
        with self._lock:
            self.counts[fault or "passed on"] += 1
            self.asked.append(" ".join(head.split(b"\r\n")[0].decode(errors="replace").split()[:2]))
        if fault == "reset":
            return _reset(client)
        if fault == "slow":
            time.sleep(_SLOW_S)
        said = self._said(fault)
        body = _read_body(client, head, rest)
        if said:
            return client.sendall(said)
        with self.upstream() as server:
            server.sendall(_forwarded(head) + body)
            if fault == "lost-answer":
                # The request is carried out: the server's answer is awaited and thrown away.
                server.recv(1)
                return _reset(client)
            if b"\r\nupgrade: websocket" in head.lower():
                return _tunnel(client, server)
            return _relay(client, server, cut=fault == "truncated")

    def _draw(self, head: bytes) -> str:
        with self._lock:
            spoiled = self.asker.search(head) is not None and self._random.random() < self.share
            return self._random.choice(self.faults) if spoiled else ""

    def _said(self, fault: str) -> bytes:
        with self._lock:
            odd = self._random.choice(_ODD)
        return {
            "conflict": _status(409, "Conflict"),
            "busy": _status(429, "TooManyRequests"),
            "busy-retry-after": _status(429, "TooManyRequests", "1"),
            "odd-retry-after": _status(429, "TooManyRequests", odd),
            "error": _status(500, "InternalError"),
            "error-retry-after": _status(500, "InternalError", "1"),
            "unavailable": _status(503, "ServiceUnavailable"),
            "unavailable-retry-after": _status(503, "ServiceUnavailable", "1"),
            "bad-gateway": _page(502, "Bad Gateway"),
            "gateway-timeout": _page(504, "Gateway Time-out"),
        }.get(fault, b"")


# How the API server begins such a message (kubernetes/apimachinery, pkg/api/errors/errors.go).
_WORDS = {429: "Too many requests: ", 500: "Internal error occurred: "}


def _status(code: int, reason: str, retry_after: str = "") -> bytes:
    said = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "reason": reason,
        "message": f"{_WORDS.get(code, '')}spoiled: {reason}",
    }
    body = json.dumps(said | {"code": code}).encode()
    extra = f"Retry-After: {retry_after}\r\n" if retry_after else ""
    head = f"HTTP/1.1 {code} {reason}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n{extra}"
    return head.encode() + b"Connection: close\r\n\r\n" + body


def _page(code: int, words: str) -> bytes:
    """Return what a load balancer says when nobody behind it answers."""
    body = f"<html><body><h1>{code} {words}</h1></body></html>".encode()
    head = f"HTTP/1.1 {code} {words}\r\nContent-Type: text/html\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + b"Connection: close\r\n\r\n" + body


def _read_head(client: socket.socket) -> tuple[bytes, bytes]:
    data = b""
    while b"\r\n\r\n" not in data and len(data) < _HEAD_LIMIT:
        chunk = client.recv(65536)
        if not chunk:
            return b"", b""
        data += chunk
    head, _end, rest = data.partition(b"\r\n\r\n")
    return head + b"\r\n", rest


def _read_body(client: socket.socket, head: bytes, rest: bytes) -> bytes:
    length = re.search(rb"\r\ncontent-length: *(\d+)\r\n", head, re.IGNORECASE)
    wanted = int(length[1]) if length else 0
    while len(rest) < wanted:
        chunk = client.recv(65536)
        if not chunk:
            raise ValueError("the product went away")
        rest += chunk
    return rest


def _forwarded(head: bytes) -> bytes:
    """Return the head with one request a connection, and without credentials: the proxy has its own."""
    dropped = (b"authorization:",) if b"\r\nupgrade:" in head.lower() else (b"authorization:", b"connection:")
    lines = [line for line in head.split(b"\r\n") if line and not line.lower().startswith(dropped)]
    return b"\r\n".join([*lines, *([] if len(dropped) == 1 else [b"Connection: close"])]) + b"\r\n\r\n"


def _relay(client: socket.socket, server: socket.socket, *, cut: bool) -> None:
    """Pass the answer on until the server ends it; `cut` breaks off inside its body."""
    sent = b""
    while chunk := server.recv(65536):
        sent = (sent + chunk)[:_HEAD_LIMIT]
        if cut and (at := sent.find(b"\r\n\r\n")) >= 0 and len(sent) > at + 5:
            # All but the last bytes of what has come: never a whole body, and never a whole line of a watch.
            client.sendall(chunk[: max(1, len(chunk) // 2)])
            client.shutdown(socket.SHUT_RDWR)
            return
        client.sendall(chunk)


def _tunnel(client: socket.socket, server: socket.socket) -> None:
    ends = {client: server, server: client}
    while True:
        pending = [end for end in ends if isinstance(end, ssl.SSLSocket) and end.pending()]
        for end in pending or select.select(list(ends), [], [])[0]:
            data = end.recv(65536)
            if not data:
                return
            ends[end].sendall(data)


def _reset(connection: socket.socket) -> None:
    try:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.shutdown(socket.SHUT_RD)
    except OSError:
        pass
    connection.close()


def tls_upstream(place: Path) -> Callable[[], socket.socket]:
    """Return what connects to the API server of a kubeconfig, or of the first `admin.kubeconfig` below a directory.

    Both are read at the first connection: a rehearsal writes its own when it starts.
    """
    found: list[tuple[str, int, ssl.SSLContext]] = []
    lock = threading.Lock()

    def connect() -> socket.socket:
        with lock:
            if not found:
                found.append(_read_upstream(place))
        host, port, context = found[0]
        return context.wrap_socket(socket.create_connection((host, port), 10), server_hostname=host)

    return connect


def _read_upstream(place: Path) -> tuple[str, int, ssl.SSLContext]:
    path = place if place.is_file() else next(iter(sorted(place.rglob("admin.kubeconfig"))), None)
    if path is None:
        raise OSError(f"no admin.kubeconfig below {place}")
    document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    cluster, user = document["clusters"][0]["cluster"], document["users"][0]["user"]
    parts = urlsplit(cluster["server"])
    context = ssl.create_default_context(cadata=_text(cluster["certificate-authority-data"]))
    with tempfile.NamedTemporaryFile("w") as both:
        both.write(_text(user["client-certificate-data"]) + "\n" + _text(user["client-key-data"]))
        both.flush()
        context.load_cert_chain(both.name)
    return str(parts.hostname), parts.port or 443, context


def _text(data: str) -> str:
    return base64.b64decode(data).decode()


def main(argv: list[str]) -> int:
    """Serve until SIGTERM or SIGINT; print what was spoiled."""
    parser = argparse.ArgumentParser(prog="fault_proxy")
    parser.add_argument("--upstream", type=Path, required=True, help="kubeconfig, or directory of a rehearsal")
    parser.add_argument("--kubeconfig", type=Path, required=True, help="written: leads to the proxy")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--share", type=float, default=SHARE)
    given = parser.parse_args(argv)
    proxy = FaultProxy(tls_upstream(given.upstream), seed=given.seed, share=given.share)
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: ended.set())
    proxy.write_kubeconfig(given.kubeconfig)
    proxy.start()
    ended.wait()
    proxy.stop()
    print(json.dumps(proxy.counts))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
