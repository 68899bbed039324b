# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What can go wrong between us and an API server, as errors that a user can act on."""

from __future__ import annotations

import json
import re
from typing import Any

from ...outcome.errors import BringupError, InputError, NotFoundError, UnavailableError
from ...runtime.redaction import excerpt
from .recovery import CONTROLLERS_LATE_S, awaits_account

_USER = re.compile(r'User "([^"]+)"')
_VERBS = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class UnansweredError(UnavailableError):
    """The API server, or what stands before it, had no time or ran into an error of its own: what was asked is not
    known."""


class UnreachableError(UnansweredError):
    """No connection to the API server, or one that broke.

    Attributes:
        sent: the request may have reached the server.
        silent: it did, and no answer came in time.
    """

    sent = True
    silent = False


class HandshakeError(Exception):
    """The API server answers with a status instead of a stream; `cause` is what it means. It reaches no user."""

    def __init__(self, status: int, cause: BringupError) -> None:
        """Keep both."""
        super().__init__(status)
        self.status, self.cause = status, cause


class TlsError(UnavailableError):
    """The connection is refused because a certificate is not what it should be."""


class UnauthorizedError(UnavailableError):
    """The API server does not know who we are."""


class ForbiddenError(UnavailableError):
    """The API server knows who we are and says no."""

    @property
    def told(self) -> str:
        """What was asked and what was said to it, for a line in which it is the reason of something else."""
        return f"{self.subject}: {self.reason.rstrip('.')}"


class ConflictError(BringupError):
    """The object exists already, changed meanwhile, or its fields belong to another manager."""


class GoneError(UnavailableError):
    """A watch or a list continues from a version that the server has forgotten: list again."""


class RefusedError(InputError):
    """The API server read the object and refuses it (schema, admission, unknown field)."""


def status_message(body: bytes) -> str:
    """Return the message of a Status object, or the text itself."""
    text = body.decode("utf-8", errors="replace")
    try:
        status = json.loads(text)
    except ValueError:
        return excerpt(text, 300).rstrip(".")
    message = status.get("message") if isinstance(status, dict) else None
    return excerpt(str(message or text), 600).rstrip(".")


def error_of(status: int, method: str, path: str, verb: str, body: bytes) -> BringupError:
    """Return the error for an answer that is not a success.

    Args:
        status: HTTP status.
        method: HTTP method.
        path: path asked for, for the subject.
        verb: Kubernetes verb (`list`, `watch`); empty derives it from the method.
        body: body of the answer.
    """
    message = status_message(body)
    subject = f"Kubernetes API {verb or _VERBS.get(method, method.lower())} {path}"
    if status == 401:
        return UnauthorizedError(subject, f"not authenticated: {message}.", "renew the credentials in the kubeconfig")
    if status == 403 and awaits_account(message):
        reason = f"not within {CONTROLLERS_LATE_S:.0f} s: {message}."
        hint = "does kube-controller-manager run? kubectl -n kube-system get pods -l component=kube-controller-manager"
        return UnavailableError(subject, reason, hint)
    if status == 403:
        return _forbidden(subject, message)
    if status == 404:
        return NotFoundError(
            subject, f"not found: {message}.", "check the name, the namespace and that the CRD is installed"
        )
    if status == 409:
        hint = "look at the object's managedFields; another tool owns it, or it is being deleted"
        return ConflictError(subject, f"conflict: {message}.", hint)
    if status == 410:
        return GoneError(subject, f"version expired: {message}.", "list again")
    if status in (400, 405, 415, 422):
        return RefusedError(
            subject, f"refused ({status}): {message}.", "correct the object; the message names the field"
        )
    hint = "look at the API server's log and at its readiness: kubectl get --raw /readyz?verbose"
    return UnansweredError(subject, f"HTTP {status}: {message}.", hint)


def _forbidden(subject: str, message: str) -> ForbiddenError:
    user = _USER.search(message)
    who = user.group(1) if user else "this user"
    return ForbiddenError(
        subject, f"forbidden: {message}.", f"grant {who} that verb on that resource (Role and RoleBinding)"
    )


def is_status(body: bytes) -> bool:
    """Tell whether an answer is the API server's own word, and not that of a service behind it."""
    try:
        document = json.loads(body)
    except ValueError:
        return False
    return isinstance(document, dict) and document.get("kind") == "Status" and document.get("apiVersion") == "v1"


def is_already_there(body: bytes) -> bool:
    """Tell whether a 409 says that the object exists already."""
    return _reason(body) == "AlreadyExists"


def is_passing_conflict(body: bytes) -> bool:
    """Tell whether a 409 says that somebody wrote at the same time: not that fields belong to another manager."""
    if _reason(body) != "Conflict":
        return False
    causes = (json.loads(body).get("details") or {}).get("causes") or []
    return not any(cause.get("reason") == "FieldManagerConflict" for cause in causes)


def _reason(body: bytes) -> str:
    try:
        status = json.loads(body)
    except ValueError:
        return ""
    return str(status.get("reason", "")) if isinstance(status, dict) else ""


def says_its_length(response: Any) -> bool:
    """Tell whether the end of an answer can be told from a connection that broke.

    Headers that are cut look like headers without a length, and a body that is not there like one that is empty.
    """
    if response.version < 11 or response.status in (101, 204, 304):
        return True
    return "Content-Length" in response.headers or "Transfer-Encoding" in response.headers


def connection_error(host: str, error: BaseException, tried: str = "") -> BringupError:
    """Return the error for a request that got no answer; `tried` says how often it was sent."""
    # urllib3 wraps what happened into "Max retries exceeded"; the reason is what helps.
    text = str(getattr(error, "reason", None) or error)
    lowered = text.lower()
    # A server that goes away during the handshake is none whose certificate is wrong.
    cut = "eof" in lowered or "reset" in lowered
    if "certificate" in lowered or (not cut and ("sslerror" in lowered or "ssl:" in lowered)):
        hint = (
            "check certificate-authority-data and the server's name in the kubeconfig; do not switch verification off"
        )
        return TlsError(f"Kubernetes API {host}", f"TLS failed: {excerpt(text, 300)}.", hint)
    hint = f"check the server address in the kubeconfig, the network and proxies: curl -k {host}/version"
    found = UnreachableError(f"Kubernetes API {host}", f"cannot be reached{tried}: {excerpt(text, 300)}.", hint)
    found.sent, found.silent = _how_far(error)
    return found


def _how_far(error: BaseException) -> tuple[bool, bool]:
    """Return whether the request may have reached the server, and whether the server was silent then."""
    from urllib3.exceptions import (
        ConnectTimeoutError,
        MaxRetryError,
        NameResolutionError,
        NewConnectionError,
        ProxyError,
        ReadTimeoutError,
    )

    cause = error.reason if isinstance(error, MaxRetryError) else error
    unsent = (ConnectTimeoutError, NameResolutionError, NewConnectionError, ProxyError, ConnectionRefusedError)
    return not isinstance(cause, unsent), isinstance(cause, ReadTimeoutError)
