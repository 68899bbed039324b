# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Stand-in of prometheus-adapter's server: external metrics of a real Prometheus, by the rules of the chart.

As in kubernetes-sigs/prometheus-adapter: docs/externalmetrics.md (rules, `namespaced: false`) and
pkg/external-provider/{provider,metric_converter}.go (an unknown metric is 404, a query that fails 500, values are in
thousandths, labels are those of the sample). It does not authenticate clients, and has no custom metrics.
"""

from __future__ import annotations

import http.client
import json
import re
import ssl
import sys
import threading
import time
import urllib.parse
from collections.abc import Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

Json = dict[str, Any]
GROUP, VERSION = "external.metrics.k8s.io", "v1beta1"
_ROOT = f"/apis/{GROUP}"
_LIMIT_S = 5.0
_SERIES = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_PAIR = re.compile(r"^([a-zA-Z_][a-zA-Z0-9_]*)=([^=!]*)$")
# Value of an adapter that repeats itself. No GPU draws so little.
_STUCK = 1.0


@dataclass(frozen=True, slots=True)
class Adapter:
    """File of the rules (JSON: `rules` as in the chart's `rules.external`, `state`), and Prometheus' port."""

    rules: Path
    prometheus: int

    def known(self) -> tuple[str, dict[str, Json]]:
        """Return its state, and the rules by the names of their metrics."""
        try:
            document = json.loads(self.rules.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return "answers", {}
        state = str(document["state"])
        return state, {} if state == "blind" else {rule["name"]["as"]: rule for rule in document["rules"]}

    def values(self, metric: str, selector: str) -> list[Json] | None:
        """Return the items of a metric, None for an unknown one.

        Raises:
            OSError: Prometheus does not respond.
            ValueError: it refuses the query.
        """
        state, rules = self.known()
        rule = rules.get(metric)
        series = _SERIES.match(rule["seriesQuery"]) if rule else None
        if rule is None or series is None:
            return None
        pairs = [match.groups() for part in selector.split(",") if (match := _PAIR.match(part))]
        matchers = ",".join(f'{name}="{value}"' for name, value in pairs)
        query = rule["metricsQuery"].replace("<<.Series>>", series.group()).replace("<<.LabelMatchers>>", matchers)
        return [_item(metric, entry, stuck=state == "stuck") for entry in self._asked(query)]

    def _asked(self, query: str) -> list[Json]:
        connection = http.client.HTTPConnection("127.0.0.1", self.prometheus, timeout=_LIMIT_S)
        try:
            connection.request("GET", f"/api/v1/query?{urllib.parse.urlencode({'query': query})}")
            answer = json.loads(connection.getresponse().read())
        except http.client.HTTPException as error:
            raise OSError(repr(error)) from error
        finally:
            connection.close()
        if answer.get("status") != "success":
            raise ValueError(str(answer.get("error")))
        found: list[Json] = answer["data"]["result"]
        return found


def _item(metric: str, sample: Json, *, stuck: bool) -> Json:
    at, text = sample["value"]
    value = _STUCK if stuck else float(text)
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(float(at)))
    return {
        "metricName": metric,
        "metricLabels": sample["metric"],
        "timestamp": stamp,
        "value": f"{int(value * 1000)}m",
    }


class Handler(BaseHTTPRequestHandler):
    """Serves the API server and autoscalers."""

    adapter: Adapter
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Serve discovery of the version, and `namespaces/<namespace>/<metric>`."""
        path, _mark, query = self.path.partition("?")
        words = path.strip("/").split("/")
        if path == f"{_ROOT}/{VERSION}":
            self._send(200, self._resources())
        elif path.startswith(f"{_ROOT}/{VERSION}/namespaces/") and len(words) == 6:
            self._send(*self._metric(words[5], urllib.parse.parse_qs(query).get("labelSelector", [""])[0]))
        else:
            self._send(404, _status(404, "NotFound", "the server could not find the requested resource"))

    def _resources(self) -> Json:
        names = self.adapter.known()[1]
        resources = [
            {"name": name, "singularName": "", "namespaced": True, "kind": "ExternalMetricValueList", "verbs": ["get"]}
            for name in sorted(names)
        ]
        return {
            "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": f"{GROUP}/{VERSION}", "resources": resources,
        }  # fmt: skip

    def _metric(self, metric: str, selector: str) -> tuple[int, Json]:
        try:
            items = self.adapter.values(metric, selector)
        except (OSError, ValueError, KeyError) as error:
            print(f"adapter: {metric}: {error!r}", file=sys.stderr, flush=True)
            return 500, _status(500, "InternalError", "Internal error occurred: unable to fetch metrics")
        if items is None:
            return 404, _status(404, "NotFound", f"the server could not find the metric {metric} for ")
        kind = {"kind": "ExternalMetricValueList", "apiVersion": f"{GROUP}/{VERSION}", "metadata": {}}
        return 200, {**kind, "items": items}

    def _send(self, code: int, document: Json) -> None:
        body = json.dumps(document).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_args: Any) -> None:
        """Log nothing, since autoscalers send a request every second."""


def _status(code: int, reason: str, message: str) -> Json:
    return {
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message, "reason": reason,
        "code": code,
    }  # fmt: skip


def serve(port: int, adapter: Adapter, files: Sequence[str]) -> ThreadingHTTPServer:
    """Serve on a thread, with the certificate and key of these files.

    Raises:
        OSError: the port is taken, or a file cannot be read.
    """
    handler = type("Handler", (Handler,), {"adapter": adapter})
    server = ThreadingHTTPServer(("127.0.0.1", port), handler)
    server.daemon_threads = True
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(*files)
    # In the thread of the connection, so that a client that sends nothing blocks no other.
    server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server
