# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Why a Redfish service could not be read; each kind has a cause of its own, a word that an outcome carries."""

from __future__ import annotations

from typing import ClassVar

from ...outcome.errors import UnavailableError


class RedfishError(UnavailableError):
    """A Redfish service that could not be read."""

    cause: ClassVar[str] = "bmc-not-readable"


class SilentError(RedfishError):
    """Nobody answers: refused, no route, no such name, no answer in time, or the connection broke."""

    cause = "bmc-not-answering"


class CertificateError(RedfishError):
    """Its certificate is expired, of another host, or of an authority that we do not know; nothing was sent to it."""

    cause = "bmc-certificate"


class LoginError(RedfishError):
    """It does not take the account."""

    cause = "bmc-login-refused"


class BusyError(RedfishError):
    """It answers, and cannot serve now: 503, 429, or all of its sessions are taken."""

    cause = "bmc-busy"


class NotRedfishError(RedfishError):
    """What answers there is no Redfish service, or what it answers is no resource."""

    cause = "bmc-not-redfish"


class StatusError(RedfishError):
    """It answers a request for a resource with another status than success."""

    cause = "bmc-refused-resource"

    def __init__(self, subject: str, status: int, text: str, hint: str) -> None:
        """Keep the status; `text` is a redacted piece of the answer."""
        self.status = status
        super().__init__(subject, f"HTTP {status}{': ' + text if text else ''}.", hint)
