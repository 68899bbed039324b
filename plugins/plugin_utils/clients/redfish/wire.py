# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""One kept HTTPS connection to a Redfish service: bounded in time and size, with a checked certificate. And why a
service could not be read.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from ...outcome.errors import UnavailableError
from ...runtime.clock import Backoff, Deadline, retry_after_s
from ...runtime.redaction import excerpt
from ..request_limits import request_limits

# Why a Redfish service could not be read. Each kind has its own cause, the word in an outcome.


class RedfishError(UnavailableError):
    """A Redfish service could not be read."""

    cause: ClassVar[str] = "bmc-not-readable"


class SilentError(RedfishError):
    """No response: refused, no route, no such name, none in time, or the connection broke."""

    cause = "bmc-not-answering"


class CertificateError(RedfishError):
    """Its certificate is expired, of another host, or of an unknown authority. Nothing was sent to it."""

    cause = "bmc-certificate"


class LoginError(RedfishError):
    """It does not accept the account."""

    cause = "bmc-login-refused"


class BusyError(RedfishError):
    """It responds, and cannot serve now: 503, 429, or all of its sessions are in use."""

    cause = "bmc-busy"


class NotRedfishError(RedfishError):
    """The response is not from a Redfish service, or is no resource."""

    cause = "bmc-not-redfish"


class StatusError(RedfishError):
    """It responds to a request for a resource with an error status."""

    cause = "bmc-refused-resource"

    def __init__(self, subject: str, status: int, text: str, hint: str) -> None:
        """Store the status. `text` is a redacted part of the response."""
        self.status = status
        super().__init__(subject, f"HTTP {status}{': ' + text if text else ''}.", hint)


# One kept HTTPS connection to a Redfish service: bounded in time and size, certificate checked, no redirects.
# One page of a log with thousands of entries has some MB.
_LARGEST_BYTES = 16_000_000
_CHUNK = 1 << 16
_CONNECT_S = 10.0
_PASSING = frozenset({429, 502, 503, 504})
_TRIES = 3


@dataclass(frozen=True, slots=True)
class Reply:
    """One response. Names of headers are in lower case."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)

    def document(self, where: str) -> dict[str, Any]:
        """Return the JSON object of the body.

        Raises:
            NotRedfishError: the body is no JSON object.
        """
        try:
            found = json.loads(self.body)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            reported = excerpt(self.body[:2000].decode(errors="replace"), 200)
            raise NotRedfishError(where, "the answer is no JSON object.", "is it the BMC's own address?", (reported,))
        return found


class Wire:
    """Sends requests over one connection, in sequence."""

    def __init__(self, url: str, name: str, *, ca_cert: str, validate_certs: bool, timeout_s: float) -> None:
        """Store the address. Nothing is sent yet.

        Args:
            url: `https://host[:port]`.
            name: name of the service in messages.
            ca_cert: file of the authority of its certificate; empty for those of this machine.
            validate_certs: whether its certificate is checked.
            timeout_s: time limit of one request, in seconds.
        """
        from urllib3 import PoolManager, Retry, disable_warnings
        from urllib3.exceptions import InsecureRequestWarning

        if not validate_certs:
            # The report has this once for each service; a warning for every request is noise.
            disable_warnings(InsecureRequestWarning)
        self.name, self.url, self._timeout_s = name, url, timeout_s
        self._ca_cert = ca_cert
        self._pool = PoolManager(
            num_pools=1, maxsize=1, block=True, retries=Retry(total=False, redirect=0), ca_certs=ca_cert or None,
            cert_reqs="CERT_REQUIRED" if validate_certs else "CERT_NONE",
        )  # fmt: skip

    def close(self) -> None:
        """Close the connection."""
        self._pool.clear()

    @property
    def look(self) -> str:
        """The command with which a person reads the same."""
        authority = f" --cacert {self._ca_cert}" if self._ca_cert else ""
        return f"`curl -sS{authority} {self.url}/redfish/v1/`"

    def patient(self, method: str, path: str, headers: Mapping[str, str], deadline: Deadline) -> Reply:
        """Send a request that may be repeated, up to three times while the service is busy or does not respond.

        Return the response.

        Raises:
            RedfishError: no response, or one of another service.
        """
        backoff = Backoff(first_s=0.5)
        for left in reversed(range(_TRIES)):
            pause_s = 0.0
            try:
                reply = self.once(method, path, headers, None, deadline)
                if reply.status not in _PASSING or not left:
                    return reply
                pause_s = retry_after_s(reply.headers.get("retry-after", ""))
            except SilentError:
                if not left or deadline.left_s <= 0:
                    raise
            pause_s = backoff.pause_s(pause_s)
            if pause_s >= deadline.left_s:
                return self.once(method, path, headers, None, deadline)
            time.sleep(pause_s)
        raise AssertionError("unreachable: the last try returns or raises")

    def once(
        self, method: str, path: str, headers: Mapping[str, str], body: Mapping[str, Any] | None, deadline: Deadline
    ) -> Reply:
        """Send one request and return the response with any status.

        Raises:
            RedfishError: no response in time or at all, an unaccepted certificate, or a body larger than any resource.
        """
        from urllib3.exceptions import HTTPError, SSLError

        left_s = min(self._timeout_s, deadline.left_s)
        if left_s <= 0:
            raise self._silent(f"{method} {path} was not sent: the {deadline.limit_s:g} s for this service are over")
        inner = Deadline.after(left_s)
        sent = {"Accept": "application/json", "OData-Version": "4.0", "User-Agent": "gpufleet.bringup", **headers}
        payload = None
        if body is not None:
            sent["Content-Type"], payload = "application/json", json.dumps(body).encode()
        try:
            response = self._pool.request(
                method, self.url + path.partition("#")[0], headers=sent, body=payload, redirect=False,
                preload_content=False, timeout=request_limits(_CONNECT_S, left_s),
            )  # fmt: skip
            try:
                text = self._read(response, inner, f"{method} {path}")
            finally:
                response.release_conn()
        except SSLError as error:
            # A connection that is closed in the middle of the handshake proves nothing about a certificate.
            if any(word in str(error).lower() for word in ("certificate", "hostname")):
                raise self._certificate(error) from None
            raise self._no_answer(error, f"{method} {path}", left_s) from None
        except (HTTPError, OSError) as error:
            raise self._no_answer(error, f"{method} {path}", left_s) from None
        return Reply(int(response.status), text, {name.lower(): value for name, value in response.headers.items()})

    def _read(self, response: Any, deadline: Deadline, what: str) -> bytes:
        """Return the body. The time limit holds also for a service that sends one byte a second."""
        parts: list[bytes] = []
        size = 0
        # read1 returns what has come. For a whole chunk urllib3 waits as long as a byte comes now and then.
        # urllib3 before 2.1 has no read1.
        read = getattr(response, "read1", response.read)
        while chunk := read(_CHUNK):
            parts.append(chunk)
            size += len(chunk)
            if size > _LARGEST_BYTES:
                response.close()
                text = f"{what} answers with more than {_LARGEST_BYTES // 1_000_000} MB."
                raise NotRedfishError(self.name, text, self.look)
            if deadline.left_s <= 0:
                response.close()
                raise self._silent(f"{what}: no whole answer within {deadline.limit_s:g} s")
        return b"".join(parts)

    def _certificate(self, error: BaseException) -> CertificateError:
        reported = excerpt(str(error), 300)
        if "expired" in reported.lower():
            reason = f"its certificate has expired ({reported})."
        else:
            reason = f"its certificate is not accepted ({reported})."
        hint = (
            "look at it with `openssl s_client -showcerts -connect "
            f"{self.url.removeprefix('https://')}`; renew it on the BMC, or name its authority in "
            "gpufleet_settings bmc-reached.ca_cert"
        )
        return CertificateError(self.name, reason, hint)

    def _no_answer(self, error: BaseException, what: str, limit_s: float) -> SilentError:
        reported = excerpt(str(getattr(error, "reason", None) or error), 200).rstrip(".")
        if "timed out" in reported.lower():
            return self._silent(f"{what}: no answer within {limit_s:.0f} s")
        return self._silent(f"{what}: {reported or type(error).__name__}")

    def _silent(self, reason: str) -> SilentError:
        return SilentError(self.name, f"{reason}.", f"is the address right and the way open? {self.look}")
