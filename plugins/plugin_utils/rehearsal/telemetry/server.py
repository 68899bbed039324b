# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Serves the exporters' pages, following the model file; beside them external metrics (adapter.py)."""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from ...hardware.sku import load_hardware
from ...outcome.errors import BringupError
from ...runtime.recipe_files import RECIPES
from ..model.patch import build_model
from ..model.spec import read_spec
from ..model.values import Node
from .adapter import Adapter, serve
from .exporter import metrics_of

_HARDWARE = RECIPES / "hardware"
_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Exporters:
    """The hosts of the model file, read again when it changes."""

    def __init__(self, model: Path, hardware: Sequence[Path]) -> None:
        """Read the model.

        Raises:
            BringupError: it cannot be read.
        """
        self._path, self._skus = model, load_hardware([_HARDWARE, *hardware])
        self._lock = threading.Lock()
        self._stamp, self._nodes = 0, dict[str, Node]()
        # Since when a host repeats itself, by its name.
        self._since: dict[str, float] = {}
        self._read()

    def page(self, host: str) -> str | None:
        """Return the page of a host's exporter, None when there is no answer."""
        with self._lock:
            if self._path.stat().st_mtime_ns != self._stamp:
                try:
                    self._read()
                except BringupError as error:
                    print(f"model: {error}", file=sys.stderr, flush=True)
            node, now = self._nodes.get(host), time.time()
            if node is None:
                return None
            # Not earlier than this scrape: Prometheus marks what came without a time until now as gone at that moment.
            since = self._since.setdefault(host, now) if node.exporter == "frozen" else now
            return metrics_of(node, now, since)

    def _read(self) -> None:
        self._stamp = self._path.stat().st_mtime_ns
        model = build_model(read_spec(self._path), self._skus)
        self._nodes = {node.name: node for node in model.nodes}
        frozen = {node.name for node in model.nodes if node.exporter == "frozen"}
        self._since = {name: at for name, at in self._since.items() if name in frozen}


class Handler(BaseHTTPRequestHandler):
    """Answers a scrape; one that is refused gets a closed connection."""

    exporters: Exporters
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answer `/hosts/<host>/metrics`, and `/healthy` for the supervisor."""
        words = self.path.strip("/").split("/")
        if words == ["healthy"]:
            self._send("ok\n")
            return
        known = len(words) == 3 and (words[0], words[2]) == ("hosts", "metrics")
        page = self.exporters.page(words[1]) if known else None
        if page is None:
            self.close_connection = True
            return
        self._send(page)

    def _send(self, text: str) -> None:
        body = text.encode()
        self.send_response(200)
        self.send_header("Content-Type", _TYPE)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_args: Any) -> None:
        """Say nothing: a line for every scrape helps nobody."""


def main(argv: Sequence[str]) -> int:
    """Serve until killed; return the exit code."""
    parser = argparse.ArgumentParser(prog="telemetry", description="Metrics exporters of simulated hosts.")
    parser.add_argument("--model", required=True, type=Path, help="cluster model (YAML); read again when it changes")
    parser.add_argument("--port", required=True, type=int, help="port of 127.0.0.1")
    parser.add_argument("--hardware", action="append", default=[], type=Path, help="more SKU facts (repeatable)")
    words = ("PORT", "PROMETHEUS", "RULES", "CERT", "KEY")
    parser.add_argument("--adapter", nargs=len(words), metavar=words, help="serve external metrics of Prometheus, too")
    given = parser.parse_args(list(argv))
    try:
        Handler.exporters = Exporters(given.model, given.hardware)
    except BringupError as error:
        print(error, file=sys.stderr, flush=True)
        return error.exit_code
    if given.adapter:
        port, prometheus, rules, *files = given.adapter
        serve(int(port), Adapter(Path(rules), int(prometheus)), files)
    server = ThreadingHTTPServer(("127.0.0.1", given.port), Handler)
    server.daemon_threads = True
    server.serve_forever()
    return 0
