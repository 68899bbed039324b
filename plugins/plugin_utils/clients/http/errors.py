# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What can go wrong between us and a service that speaks HTTP.

Besides these: NotFoundError (no such Service or pod), DeadlineError (no answer in time), and the errors of clients.kube
for what the API server says on the way, ForbiddenError among them.
"""

from __future__ import annotations

from ...outcome.errors import UnavailableError


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
