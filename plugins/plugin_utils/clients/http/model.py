# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Requests and answers over HTTP, where a service is, and what can go wrong on the way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from ...outcome.errors import UnavailableError
from ...runtime.clock import Deadline

# Requests, answers, and where a service is.


@dataclass(frozen=True, slots=True)
class Request:
    """One request: `path` begins with a slash and carries its query."""

    method: str
    path: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back."""

    status: int
    body: bytes


class Route(Protocol):
    """One way to a service. `text` says which, for messages."""

    @property
    def text(self) -> str:
        """Where it leads, for people."""

    def send(self, request: Request, deadline: Deadline) -> Answer:
        """Return the answer to one request.

        Raises:
            BringupError: see clients.http.errors.
        """


@dataclass(frozen=True, slots=True)
class ServiceRef:
    """A port of a Service: `port` is its number or its name; `scheme` is http or https."""

    namespace: str
    name: str
    port: int | str
    scheme: str = "http"

    def __str__(self) -> str:
        """Return it for people."""
        return f"service {self.namespace}/{self.name}:{self.port}"


# What can go wrong between us and a service that speaks HTTP.
#
# Besides these: NotFoundError (no such Service or pod), DeadlineError (no answer in time), and the errors of
# clients.kube for what the API server says on the way, ForbiddenError among them.


class NoConnectionError(UnavailableError):
    """Nobody answers: no ready pod, refused, no route, no such name, or the connection broke."""


class HttpStatusError(UnavailableError):
    """The service answered, and not with success."""

    def __init__(self, subject: str, status: int, text: str) -> None:
        """Keep the status; `text` is a redacted piece of the answer."""
        self.status = status
        hint = "give its credentials in the settings" if status in (401, 403) else "look at the service's own log"
        super().__init__(subject, f"HTTP {status}: {text or 'no text'}.", hint)


class NotJsonError(UnavailableError):
    """The service answered with something that is not JSON."""
