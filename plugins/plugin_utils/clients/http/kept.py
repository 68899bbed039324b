# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Several requests, one after the other, over one forwarded port.

Each forwarded port is two TLS connections that are made anew, ours and the API server's to the kubelet, and an upgrade
of both. Whoever asks a pod several questions in a row keeps the port for that long:

    with kept(route) as way:
        session = HttpSession(way)
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from time import monotonic

from ...outcome.errors import BringupError
from ...runtime.clock import Deadline
from ..kube.port_forward import PodConnection
from .model import Answer, Request, Route
from .routes import PodRoute, exchanged

# Servers end a connection on which nothing is asked: uvicorn after 5 s (uvicorn.org, --timeout-keep-alive). After much
# of that time a port is forwarded anew.
_KEPT_S = 2.0


@contextmanager
def kept(route: Route) -> Iterator[Route]:
    """Yield a route to the same place, for one thread, whose port stays open between requests.

    A route that forwards no port is yielded as it is.
    """
    if not isinstance(route, PodRoute):
        yield route
        return
    way = _KeptPort(route)
    try:
        yield way
    finally:
        way.end()


class _KeptPort:
    """A forwarded port that is used again while the server keeps its connection."""

    def __init__(self, route: PodRoute) -> None:
        """Take the pod; the first request opens the port."""
        self._route = route
        self._open: tuple[PodConnection, HTTPConnection] | None = None
        self._used_at = 0.0

    @property
    def text(self) -> str:
        """The service and the pod that stands for it."""
        return self._route.text

    def send(self, request: Request, deadline: Deadline) -> Answer:
        """Return the answer to one request.

        A port that was kept and breaks before it has answered says nothing of the server, which may just have ended the
        connection: it is asked once more over a new one. So a kept port is for what may be asked twice.
        """
        if self._open is not None and monotonic() - self._used_at > _KEPT_S:
            self.end()
        again = self._open is not None
        try:
            return self._once(request, deadline)
        except BringupError:
            if not again or deadline.left_s <= 0:
                raise
            return self._once(request, deadline)

    def end(self) -> None:
        """Close the port."""
        if self._open is not None:
            self._open[0].end()
            self._open = None

    def _once(self, request: Request, deadline: Deadline) -> Answer:
        connection, client = self._open = self._open or self._opened(deadline)
        connection.limit(deadline)
        keep = False
        try:
            answer, keep = exchanged(self.text, client, request, {}, deadline)
            self._used_at = monotonic()
            return answer
        finally:
            if not keep:
                self.end()

    def _opened(self, deadline: Deadline) -> tuple[PodConnection, HTTPConnection]:
        connection, client = self._route.connect(deadline)
        # A connection of its own would lead to this machine.
        client.auto_open = 0
        return connection, client
