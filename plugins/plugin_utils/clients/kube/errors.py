# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Errors on the way to an API server, the meaning of a refusal, and which faults are retried for how long."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from shlex import quote
from typing import Any, Literal

from ...outcome.errors import BringupError, InputError, NotFoundError, UnavailableError
from ...runtime.clock import Backoff, Deadline
from ...runtime.files import RECIPES
from ...runtime.redaction import excerpt
from ...runtime.strict import decode_file

# The response of an API server to one request.


@dataclass(frozen=True, slots=True)
class Answered:
    """A response with any status. With `unsure` an earlier try of this request may have been carried out."""

    status: int
    data: bytes
    unsure: bool

    @property
    def ok(self) -> bool:
        """Whether it is a success."""
        return 200 <= self.status < 300


# Delay of controllers and schedulers after an outage of the API server: they come back later than the server.
#
# A process that starts after the outage cannot know of it, and concludes it from what is missing.
# Reflectors of client-go retry after 30 to 60 s (kubernetes/client-go, tools/cache/reflector.go:
# NewExponentialBackoffManager with at most 30 s and jitter 1), and then list everything.
CONTROLLERS_LATE_S = 75.0
# The service account of all our pods. kube-controller-manager creates it after the namespace
# (kubernetes/kubernetes#66689).
_NO_ACCOUNT = re.compile(r'error looking up service account \S+: serviceaccount \\?"default\\?" not found')


def awaits_account(message: str) -> bool:
    """Tell whether a pod is refused because its namespace has no service account yet. No permission is missing then."""
    return _NO_ACCOUNT.search(message) is not None


def once_accounted(ask: Callable[[], Answered]) -> Answered:
    """Repeat a request until its namespace has the service account. Return the last response.

    The time limit is CONTROLLERS_LATE_S.
    """
    backoff, deadline = Backoff(), Deadline.after(CONTROLLERS_LATE_S)
    while True:
        answer = ask()
        late = answer.status == 403 and awaits_account(answer.data.decode("utf-8", errors="replace"))
        if not late or deadline.left_s <= 0:
            return answer
        time.sleep(min(backoff.pause_s(), deadline.left_s))


# Errors on the way to an API server, as errors that a user can act on.

_USER = re.compile(r'User "([^"]+)"')
_VERBS = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class UnansweredError(UnavailableError):
    """The API server, or a proxy before it, is overloaded or failed: the answer is not known."""


class UnreachableError(UnansweredError):
    """No connection to the API server, or one that broke.

    Attributes:
        sent: the request may have reached the server.
        silent: it did, and no response came in time.
    """

    sent = True
    silent = False


class HandshakeError(Exception):
    """The API server responds with a status instead of a stream. `cause` is its meaning. It is never shown to users."""

    def __init__(self, status: int, cause: BringupError) -> None:
        """Store status and cause."""
        super().__init__(status)
        self.status, self.cause = status, cause


class TlsError(UnavailableError):
    """The connection is refused because of a certificate."""


class UnauthorizedError(UnavailableError):
    """The API server does not accept the credentials (401)."""


class ForbiddenError(UnavailableError):
    """The API server knows the user and refuses the request (403)."""

    @property
    def told(self) -> str:
        """Request and refusal in one text, for a message that has this as its reason."""
        return f"{self.subject}: {self.reason.rstrip('.')}"


class ConflictError(BringupError):
    """The object exists already, was changed meanwhile, or its fields belong to another manager."""


class GoneError(UnavailableError):
    """A watch or a list continues from a version that has expired: list again."""


class RefusedError(InputError):
    """The API server refuses the object itself (schema, admission, unknown field)."""


def status_message(body: bytes) -> str:
    """Return the message of a Status object, or else the text of the body."""
    text = body.decode("utf-8", errors="replace")
    try:
        status = json.loads(text)
    except ValueError:
        return excerpt(text, 300).rstrip(".")
    message = status.get("message") if isinstance(status, dict) else None
    return excerpt(str(message or text), 600).rstrip(".")


def error_of(status: int, method: str, path: str, verb: str, body: bytes) -> BringupError:
    """Return the error for a response with an error status.

    Args:
        status: HTTP status.
        method: HTTP method.
        path: requested path, for the subject.
        verb: Kubernetes verb (`list`, `watch`); empty derives it from the method.
        body: body of the response.
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
    if user is None and meaning_of(message) == "refused":
        # Admission refuses with the same status as RBAC, and no role helps against it.
        hint = "a policy, Pod Security or a quota of the cluster refuses it, no role: let whoever set that leave out "
        hint += "namespaces with the label gpufleet.io/purpose=test, or change what it refuses"
        return ForbiddenError(subject, f"forbidden: {message}.", ": ".join(filter(None, (hint, mending(message)))))
    who = user.group(1) if user else "this user"
    return ForbiddenError(
        subject, f"forbidden: {message}.", f"grant {who} that verb on that resource (Role and RoleBinding)"
    )


def is_status(body: bytes) -> bool:
    """Tell whether a response is a Status of the API server, and not of a service behind it."""
    try:
        document = json.loads(body)
    except ValueError:
        return False
    return isinstance(document, dict) and document.get("kind") == "Status" and document.get("apiVersion") == "v1"


def is_already_there(body: bytes) -> bool:
    """Tell whether a 409 means that the object exists already."""
    return _reason(body) == "AlreadyExists"


def is_passing_conflict(body: bytes) -> bool:
    """Tell whether a 409 means that another writer came first. A conflict of field managers is not one."""
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
    """Tell whether a complete response can be told from a broken connection.

    Truncated headers look like headers without a length, and a missing body like an empty one.
    """
    if response.version < 11 or response.status in (101, 204, 304):
        return True
    return "Content-Length" in response.headers or "Transfer-Encoding" in response.headers


def connection_error(host: str, error: BaseException, tried: str = "") -> BringupError:
    """Return the error for a request without response. `tried` is how often it was sent, for the message."""
    # urllib3 wraps the error into "Max retries exceeded"; its reason is the useful part.
    text = str(getattr(error, "reason", None) or error)
    lowered = text.lower()
    # A server that goes away during the handshake does not have a wrong certificate.
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
    """Return whether the request may have reached the server, and whether it then got no response in time."""
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


# The meaning of a refusal by an API server, or by a controller: recipes/pod_refusals.yaml. Pure.

Meaning = Literal["refused", "passing", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """An event by which a controller reports that it could not make a pod. The fields are explained in the file."""

    reason: str
    begins: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """The meaning of a message that matches a pattern. The fields are explained in the file."""

    meaning: Literal["refused", "passing"]
    pattern: str
    source: str
    mend: str = ""
    starting: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusals:
    """The whole file."""

    events: tuple[Said, ...]
    words: tuple[Word, ...]


@cache
def known() -> Refusals:
    """Return the known events and patterns.

    Raises:
        InputError: the file does not have the expected form.
    """
    return decode_file(Refusals, RECIPES / "pod_refusals.yaml")


def says_unmade(event: Mapping[str, Any]) -> bool:
    """Tell whether an event reports that a controller could not make a pod."""
    reason, message = event.get("reason"), str(event.get("message") or "")
    return event.get("type") == "Warning" and any(
        reason == reported.reason and message.startswith(reported.begins) for reported in known().events
    )


def said_at(event: Mapping[str, Any]) -> str:
    """Return when an event was last observed, to the second: older controllers write no more precise time."""
    series = event.get("series") or {}
    moments = (series.get("lastObservedTime"), event.get("lastTimestamp"), event.get("eventTime"))
    return max(to_the_second(moment) for moment in moments)


def to_the_second(moment: object) -> str:
    """Return a time of Kubernetes in a form that sorts. Empty for none."""
    return str(moment or "")[: len("2026-01-01T00:00:00")]


def meaning_of(message: str) -> Meaning:
    """Return the meaning of the message about a pod that could not be made. If it may pass, it is no refusal."""
    if awaits_account(message):
        return "passing"
    found = {word.meaning for word in known().words if re.search(word.pattern, message)}
    return "passing" if "passing" in found else "refused" if found else "unknown"


def mending(message: str) -> str:
    """Return what to do about a refusal of a pod. Empty where the message does not show what refused it."""
    for word in known().words:
        if word.mend and (found := re.search(word.pattern, message)):
            return word.mend.format(**{name: quote(text) for name, text in found.groupdict().items()})
    return ""


def is_starting(message: str) -> bool:
    """Tell whether a refusal only means that the server has just started."""
    return any(word.starting and re.search(word.pattern, message) for word in known().words)


# Which faults of an API server are retried, and for how long. This is the one place that decides it.
#
# What cannot have been carried out (no connection, 429, 5xx with `Retry-After`, as in client-go) is always retried.
# What may have been carried out (a broken connection, no response, 408, 5xx) is retried only if the caller declares
# that repeating is safe. The time limit counts for the server, not for the request: an outage has a beginning, every
# request waits for the same end, and after it each gets one try. So a restart costs the time that the server is away,
# and a dead server costs its patience once and not once for each request.
_AWAY = frozenset({429, 502, 503, 504})  # the server, or the load balancer before it, is overloaded
_UNDECIDED = frozenset({408, 500, 502, 503, 504})  # may have been carried out
_TRIES = 10
_SILENT_TRIES = 2
# kubernetes/kubernetes#121635: a server that has just started refuses what its RBAC informers have not loaded yet.
SETTLING_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """The outcome of one failed try. Without a response `status` is 0.

    Attributes:
        status: HTTP status of the response.
        sent: the request may have reached the server.
        silent: it reached the server, and no response came in time.
        asked_s: pause in seconds that the server requests; 0 for none.
        conflict: a 409 because another writer came first (and not because the object exists already).
        renewed: credentials were read again after a 401.
        starting: a 403 because the server has not loaded everything yet.
    """

    status: int = 0
    sent: bool = True
    silent: bool = False
    asked_s: float = 0.0
    conflict: bool = False
    renewed: bool = False
    starting: bool = False

    @property
    def undecided(self) -> bool:
        """Whether the request may or may not have been carried out."""
        return self.status in _UNDECIDED if self.status else self.sent


@dataclass(slots=True)
class Outage:
    """The outage of a server, shared by all that send requests to it."""

    patience_s: float
    over_at: float | None = None  # when the last one ended (time.monotonic)
    away_s: float = 0.0  # how long all that ended lasted
    _since: float | None = None
    _missing: dict[str, float] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, fault: Fault) -> None:
        """Record the outcome of a try. Without a response the server is away, with one it is back."""
        with self._lock:
            if not fault.status or fault.status in _AWAY:
                self._since = time.monotonic() if self._since is None else self._since
            elif self._since is not None:
                self.over_at = time.monotonic()
                self.away_s += self.over_at - self._since
                self._since = None

    @property
    def settling(self) -> bool:
        """Whether the server came back within SETTLING_S."""
        with self._lock:
            return self.over_at is not None and time.monotonic() - self.over_at < SETTLING_S

    @property
    def recovering(self) -> bool:
        """Whether the server came back so recently that controllers, schedulers and kubelets may not have yet."""
        with self._lock:
            return self.over_at is not None and time.monotonic() - self.over_at < CONTROLLERS_LATE_S

    def late_s(self, away_before_s: float) -> float:
        """Return the delay of controllers in seconds since `away_s` had this value.

        It is the time in which the server was away, and CONTROLLERS_LATE_S for controllers to come back after it.
        """
        lost_s = self.away_s - away_before_s
        return lost_s + CONTROLLERS_LATE_S if lost_s > 0 else 0.0

    def awaits(self, what: str, limit_s: float = CONTROLLERS_LATE_S) -> bool:
        """Tell whether to look again for something that is missing.

        The server may have been away before this process sent its first request, and what depends on it comes back
        later. The time limit counts for the thing itself, whatever looks for it.
        """
        with self._lock:
            since = self._missing.setdefault(what, time.monotonic())
        return self.recovering or time.monotonic() - since < limit_s

    @property
    def awaits_roles(self) -> bool:
        """Whether to retry a server that reports that it has just started."""
        return self.awaits("roles", SETTLING_S)

    def came(self, what: str) -> bool:
        """Record that something is there. Return whether it was missing before."""
        with self._lock:
            return self._missing.pop(what, None) is not None

    def left_s(self, started: float) -> float:
        """Return the seconds for which a request that began at this moment may still be retried."""
        with self._lock:
            since = started if self._since is None else min(self._since, started)
        return max(0.0, since + self.patience_s - time.monotonic())


@dataclass(slots=True)
class Tries:
    """The tries of one request."""

    outage: Outage
    patient: bool = True  # an overloaded server is waited for as long as one that does not respond
    answered: int = _TRIES
    silent: int = _SILENT_TRIES
    unsure: bool = False
    made: int = 0
    # As many as for other responses, counted apart: a fault between two refusals must not be the final result.
    refused: int = field(init=False)
    started: float = field(default_factory=time.monotonic)
    _backoff: Backoff = field(default_factory=Backoff)

    def __post_init__(self) -> None:
        """Set the count of refusals."""
        self.refused = self.answered

    @property
    def text(self) -> str:
        """The tries so far, for messages. Empty after a single try."""
        return f" ({self.made} tries in {time.monotonic() - self.started:.0f} s)" if self.made > 1 else ""

    def again(self, fault: Fault, *, repeatable: bool) -> bool:
        """Wait for the next try, or return False if there is none.

        Args:
            fault: outcome of the last try.
            repeatable: sending the request twice has the same effect as sending it once.
        """
        self.made += 1
        self.outage.note(fault)
        if not self._worth_it(fault, repeatable):
            return False
        self.unsure |= fault.undecided
        left_s = self.outage.left_s(self.started)
        if left_s <= 0:
            return False
        time.sleep(min(self._backoff.pause_s(fault.asked_s), left_s))
        return True

    def _worth_it(self, fault: Fault, repeatable: bool) -> bool:
        if fault.silent:
            self.silent -= 1
            return repeatable and self.silent > 0
        if not fault.status:
            return repeatable or not fault.sent
        if fault.status == 403:
            self.refused -= 1
            # In the first request of a process nothing is known of an outage before it.
            return self.refused > 0 and (self.outage.settling or (fault.starting and self.outage.awaits_roles))
        # 429 is always the API server's own, never that of a kubelet or a service behind it.
        if not (fault.status in _AWAY and (self.patient or fault.status == 429)):
            self.answered -= 1
        if self.answered <= 0:
            return False
        if fault.status == 429 or fault.renewed or fault.conflict:
            return True
        return fault.status in _UNDECIDED and (repeatable or fault.asked_s > 0)
