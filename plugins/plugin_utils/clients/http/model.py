# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""HTTP requests and responses, addresses of services, and the errors on the way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from ...outcome.errors import UnavailableError
from ...runtime.clock import Deadline


@dataclass(frozen=True, slots=True)
class Request:
    """One request. `path` begins with a slash and includes the query."""

    method: str
    path: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """One response."""

    status: int
    body: bytes


class Route(Protocol):
    """One way to a service."""

    @property
    def text(self) -> str:
        """The way, for messages."""

    def send(self, request: Request, deadline: Deadline) -> Answer:
        """Send one request and return the response.

        Raises:
            BringupError: see the errors below.
        """


@dataclass(frozen=True, slots=True)
class ServiceRef:
    """A port of a Service. `port` is its number or its name, `scheme` is http or https."""

    namespace: str
    name: str
    port: int | str
    scheme: str = "http"

    def __str__(self) -> str:
        """Return the text for messages."""
        return f"service {self.namespace}/{self.name}:{self.port}"


# Errors on the way to a service that speaks HTTP.
#
# Besides these: NotFoundError (no such Service or pod), DeadlineError (no response in time), and the errors of
# clients.kube for responses of the API server on the way, such as ForbiddenError.


class NoConnectionError(UnavailableError):
    """No response: no ready pod, refused, no route, no such name, or the connection broke."""


class HttpStatusError(UnavailableError):
    """The service responded with an error status."""

    def __init__(self, subject: str, status: int, text: str) -> None:
        """Store the status. `text` is a redacted part of the response."""
        self.status = status
        hint = "give its credentials in the settings" if status in (401, 403) else "look at the service's own log"
        super().__init__(subject, f"HTTP {status}: {text or 'no text'}.", hint)


class NotJsonError(UnavailableError):
    """The response of the service is not JSON."""
