# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Requests, answers, and where a service is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from ...runtime.clock import Deadline


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
