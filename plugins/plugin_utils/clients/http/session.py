# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""JSON over HTTP to one service, whichever way leads to it.

    session = HttpSession(service_route(cluster, ServiceRef("monitoring", "prometheus", "http-web"), deadline))
    session = HttpSession(UrlRoute("https://prometheus.example.org"), headers={"Authorization": f"Bearer {token}"})
    answer = session.get_json("/api/v1/query", {"query": "up"})

Every request has a time limit, and uses a new connection unless the route is one of clients.http.routes.kept.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from time import sleep
from typing import Any
from urllib.parse import urlencode

from ...runtime.clock import Backoff, Deadline
from ...runtime.redaction import excerpt
from .model import Answer, HttpStatusError, NoConnectionError, NotJsonError, Request, Route

Query = Mapping[str, str | int | float]
_PASSING = frozenset({429, 502, 503, 504})


class HttpSession:
    """Sends requests over a route."""

    def __init__(
        self, route: Route, *, headers: Mapping[str, str] | None = None, timeout_s: float = 10.0, tries: int = 1
    ) -> None:
        """Store the route. Nothing is sent yet.

        Args:
            route: the way to the service.
            headers: are sent with every request and never shown in messages.
            timeout_s: time limit of one try, in seconds.
            tries: how often a GET of JSON is sent until its response is complete; 1 where the failure is of interest.
        """
        self._route, self._headers, self._timeout_s, self._tries = route, dict(headers or {}), timeout_s, tries

    @property
    def where(self) -> str:
        """The service and the way to it, for messages."""
        return self._route.text

    def request(
        self, method: str, path: str, *, query: Query | None = None, body: Any = None, timeout_s: float | None = None
    ) -> Answer:
        """Send a request and return the response with any status. A body is sent as JSON.

        Raises:
            NoConnectionError: no connection, or it broke.
            DeadlineError: no response in time.
            BringupError: the API server refuses on the way (clients.kube.errors).
        """
        headers = {"User-Agent": "gpufleet.bringup", "Accept": "application/json", **self._headers}
        payload = None
        if body is not None:
            headers["Content-Type"], payload = "application/json", json.dumps(body).encode()
        target = path + (f"?{urlencode(list(query.items()))}" if query else "")
        deadline = Deadline.after(timeout_s or self._timeout_s)
        return self._route.send(Request(method, target, headers, payload), deadline)

    def text(self, method: str, path: str, **options: Any) -> str:
        """Return the response as text (see request).

        Raises:
            HttpStatusError: the service responded with an error status.
        """
        answer = self.request(method, path, **options)
        if not 200 <= answer.status < 300:
            shown = excerpt(answer.body.decode(errors="replace"), 300).rstrip(".")
            raise HttpStatusError(f"{self.where} {path}", answer.status, shown)
        return answer.body.decode("utf-8", errors="replace")

    def get_json(self, path: str, query: Query | None = None, *, timeout_s: float | None = None) -> Any:
        """Return the decoded response to a GET.

        Raises:
            HttpStatusError: the service responded with an error status.
            NotJsonError: the response is not JSON.
        """
        backoff = Backoff()
        for left in reversed(range(self._tries)):
            try:
                return self._decoded(path, self.text("GET", path, query=query, timeout_s=timeout_s))
            except (NoConnectionError, HttpStatusError, NotJsonError) as error:
                if not left or (isinstance(error, HttpStatusError) and error.status not in _PASSING):
                    raise
            sleep(backoff.pause_s())
        raise AssertionError("unreachable: the last try returns or raises")

    def post_json(self, path: str, body: Any, *, timeout_s: float | None = None) -> Any:
        """Return the decoded response to a POST of JSON, None if it is empty. Errors are those of get_json."""
        text = self.text("POST", path, body=body, timeout_s=timeout_s)
        return self._decoded(path, text) if text.strip() else None

    def _decoded(self, path: str, text: str) -> Any:
        try:
            return json.loads(text)
        except ValueError:
            hint = "is a login page or another program in between?"
            raise NotJsonError(f"{self.where} {path}", "the answer is not JSON.", hint, (excerpt(text, 200),)) from None
