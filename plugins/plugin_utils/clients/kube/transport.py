# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""JSON over HTTP to one API server, through the official client's connection pool, and the events of a watch."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, TypedDict, TypeVar, Unpack
from urllib.parse import urlencode

from ...outcome.errors import BringupError, UnavailableError
from ...runtime.clock import Deadline, ahead_by, retry_after_s
from ...runtime.process import Capped
from ...runtime.redaction import excerpt
from ..request_limits import request_limits
from .connection import Connection, load_configuration
from .errors import (
    Answered,
    Fault,
    GoneError,
    HandshakeError,
    Outage,
    Tries,
    UnreachableError,
    connection_error,
    error_of,
    is_passing_conflict,
    is_starting,
    is_status,
    says_its_length,
    status_message,
)

Query = Mapping[str, str | int | bool]
JSON_TYPE = "application/json"
# How long an API server may be away. Its restart on a large control plane takes about a minute.
PATIENCE_S = 150.0
# Methods that may be sent twice. PUT and POST are not among them; callers for which they are safe declare it.
_REPEATABLE = frozenset({"GET", "PATCH", "DELETE"})
# How many responses that a kubelet or service behind the API server is overloaded are retried before one is accepted.
_IMPATIENT = 4
_CONNECT_S = 10.0
# A watch has no data for as long as nothing changes. Its caller ends it.
_WATCH_S = 3600.0
_RENEWALS = 3


class Asking(TypedDict, total=False):
    """The arguments of a request, see Transport.ask."""

    query: Query | None
    body: Any
    content_type: str
    timeout_s: float | None
    accept: str
    repeatable: bool | None
    patient: bool
    most_bytes: int


Stream = TypeVar("Stream")


@dataclass(frozen=True, slots=True)
class Passed:
    """A response that is forwarded to another program. `unsure` is that of Answered, `stream` the body of a watch."""

    status: int
    headers: Mapping[str, str]
    data: bytes = b""
    unsure: bool = False
    stream: Iterator[bytes] | None = None


class Transport:
    """Sends requests, with authentication, TLS, time limits and retries. It knows nothing about objects."""

    def __init__(self, connection: Connection, request_timeout_s: float = 30.0, patience_s: float = PATIENCE_S) -> None:
        """Read the configuration. No request is sent yet.

        Args:
            connection: how to reach the server.
            request_timeout_s: time limit of one try, in seconds.
            patience_s: how long a server that does not answer is retried, in seconds.

        Raises:
            InputError: the kubeconfig is missing or broken.
        """
        self._connection, self._timeout_s = connection, request_timeout_s
        self.outage = Outage(patience_s)
        self._renewing, self._renewed = threading.Lock(), 0
        self._ahead = timedelta()
        self._read_configuration()

    def _read_configuration(self) -> None:
        from kubernetes.client.rest import RESTClientObject

        configuration = load_configuration(self._connection)
        configuration.connection_pool_maxsize = 16
        self._pool = RESTClientObject(configuration).pool_manager
        self._configuration = configuration

    def _renew(self, observed: int) -> str:
        """Read the credentials again after a 401: kubeconfig, token file, exec plugin, client certificate.

        Args:
            observed: `_renewed` when the refused request was sent; if another thread renewed since, nothing is done.

        Returns:
            Why they could not be read, or an empty string.
        """
        with self._renewing:
            if observed != self._renewed:
                return ""
            try:
                self._read_configuration()
            except BringupError as error:
                return error.reason
            self._renewed += 1
            return ""

    def now(self) -> datetime:
        """Return the time by the server's clock, to the second, from its last response. Objects have this time."""
        return datetime.now(UTC) + self._ahead

    @property
    def host(self) -> str:
        """Address of the API server."""
        return str(self._configuration.host)

    @property
    def configuration(self) -> Any:
        """The official client's configuration, for its websocket client."""
        return self._configuration

    def headers(self) -> dict[str, str]:
        """Return the authentication headers of a request, with tokens renewed."""
        headers = {"User-Agent": "gpufleet.bringup", "Accept": JSON_TYPE}
        for setting in self._configuration.auth_settings().values():
            if setting["in"] == "header" and setting["value"]:
                headers[setting["key"]] = setting["value"]
        if self._connection.impersonate_user:
            headers["Impersonate-User"] = self._connection.impersonate_user
        return headers

    def url(self, path: str, query: Query | None = None) -> str:
        """Return the full address of a path."""
        pairs = [(key, _query_text(value)) for key, value in (query or {}).items()]
        return f"{self.host}{path}" + (f"?{urlencode(pairs)}" if pairs else "")

    def json(self, method: str, path: str, *, verb: str = "", **how: Unpack[Asking]) -> Any:
        """Return the decoded response to a request (see ask for `how`). `verb` is for messages.

        Raises:
            BringupError: see errors.error_of and errors.connection_error.
        """
        return self.decoded(path, self.text(method, path, verb=verb, **how))

    def decoded(self, path: str, text: str) -> Any:
        """Decode a response as JSON.

        Raises:
            UnavailableError: it is not JSON.
        """
        try:
            return json.loads(text)
        except ValueError:
            subject = f"Kubernetes API {self.host}{path}"
            raise UnavailableError(
                subject, "the answer is not JSON.", "is a proxy in between?", (text[:200],)
            ) from None

    def text(self, method: str, path: str, *, verb: str = "", **how: Unpack[Asking]) -> str:
        """Return the response to a request as text. See ask for `how`, and json for errors."""
        answer = self.ask(method, path, **how)
        if not answer.ok:
            raise error_of(answer.status, method, path, verb, answer.data)
        return answer.data.decode("utf-8", errors="replace")

    def ask(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: Any = None,
        content_type: str = JSON_TYPE,
        timeout_s: float | None = None,
        accept: str = JSON_TYPE,
        repeatable: bool | None = None,
        patient: bool = True,
        conflict_is_final: bool = False,
        most_bytes: int = 0,
        any_status_ok: Callable[[bytes], bool] = lambda _data: False,
    ) -> Answered:
        """Send a request and return the response with any status. Faults that may pass are retried first.

        Args:
            method: HTTP method.
            path: path without query.
            query: the query.
            body: sent as JSON.
            content_type: type of the body.
            timeout_s: time limit of one try, in seconds.
            accept: type of the response.
            repeatable: sending it twice does no harm; by default so for GET, PATCH and DELETE.
            patient: False gives up after a few responses that a kubelet or service behind the server is overloaded.
            conflict_is_final: a conflict with another writer is returned to the caller, and not retried.
            most_bytes: how much of a long text is kept (runtime.process.Capped), 0 for all; it is never whole in
                memory.
            any_status_ok: returns True for a body that is final with any status, and no sign of an overloaded server.

        Raises:
            TlsError: the certificate is not accepted.
            UnreachableError: no response, and retries are over.
        """
        headers, payload = {"Accept": accept}, None
        if body is not None:
            headers["Content-Type"], payload = content_type, json.dumps(body).encode()
        if repeatable is None:
            repeatable = method in _REPEATABLE
        tries = Tries(self.outage) if patient else Tries(self.outage, patient=False, answered=_IMPATIENT)
        limit_s = timeout_s or self._timeout_s
        return self._persist(
            lambda: self._request(method, self.url(path, query), headers, payload, limit_s, not most_bytes),
            tries,
            repeatable,
            lambda data: not any_status_ok(data),
            conflict_is_final=conflict_is_final,
            most_bytes=most_bytes,
        )

    def exchange(
        self, method: str, path: str, *, headers: Mapping[str, str], payload: bytes | None, deadline: Deadline
    ) -> tuple[int, bytes]:
        """Return status and body of a request as they come, for services behind the API server.

        Raises:
            BringupError: see errors.connection_error.
        """
        answer = self._persist(
            lambda: self._request(method, self.url(path), headers, payload, deadline.limit_s, True),
            Tries(self.outage, patient=False, answered=_IMPATIENT),
            method == "GET",
            is_status,
        )
        return answer.status, answer.data

    def passed_on(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        payload: bytes | None,
        *,
        any_status_ok: Callable[[bytes], bool] = lambda _data: False,
    ) -> Passed:
        """Send a request of another program and return the response. Faults that may pass are retried first.

        Every request is retried, also one that may have been carried out: the caller checks `unsure`.

        Args:
            method: HTTP method.
            path: path with its query.
            headers: headers beside those of the authentication.
            payload: the body as it is.
            any_status_ok: see ask.

        Raises:
            BringupError: no response, and retries are over; see errors.connection_error.
        """
        watches = "watch=true" in path.partition("?")[2].split("&")
        read_s = _WATCH_S if watches else self._timeout_s
        response: Any = None

        def send() -> Any:
            nonlocal response
            response = self._request(method, self.url(path), headers, payload, read_s, not watches)
            if watches and response.status == 200:
                # The body of a watch is left to the caller.
                return SimpleNamespace(status=response.status, headers=response.headers, data=b"")
            return response

        answer = self._persist(
            send,
            Tries(self.outage),
            repeatable=True,
            is_the_servers=lambda data: not any_status_ok(data),
            conflict_is_final=True,
        )
        stream = response.stream(65536) if watches and answer.status == 200 else None
        return Passed(answer.status, dict(response.headers), answer.data, answer.unsure, stream)

    def open_stream(self, connect: Callable[[], Stream]) -> Stream:
        """Return the stream that `connect` opens. Until it is open nothing is done, so it is retried like a read.

        Args:
            connect: opens the stream; raises UnreachableError or HandshakeError.

        Raises:
            BringupError: the meaning of the API server's status, or no response.
        """
        tries = Tries(self.outage, patient=False, answered=_IMPATIENT)
        while True:
            observed, problem = self._renewed, ""
            try:
                stream = connect()
            except UnreachableError as error:
                fault: Fault = Fault(sent=False)
                raised: BringupError = UnreachableError(error.subject, f"{error.reason}{tries.text}", error.hint)
            except HandshakeError as error:
                problem = self._renew(observed) if error.status == 401 else ""
                renewed = error.status == 401 and not problem and tries.made < _RENEWALS
                # No object exists yet that another writer could have changed.
                fault = Fault(status=error.status, renewed=renewed, conflict=error.status == 409)
                raised = error.cause
            else:
                self.outage.note(Fault(status=101))
                return stream
            if not tries.again(fault, repeatable=True):
                raise raised

    def _persist(
        self,
        send: Callable[[], Any],
        tries: Tries,
        repeatable: bool,
        is_the_servers: Callable[[bytes], bool] = lambda _data: True,
        conflict_is_final: bool = False,
        most_bytes: int = 0,
    ) -> Answered:
        """Send until a response is final, or is not the API server's own."""
        while True:
            observed, problem = self._renewed, ""
            try:
                response = send()
                data = self._capped(response, most_bytes) if most_bytes else bytes(response.data)
            except UnreachableError as error:
                if tries.again(Fault(sent=error.sent, silent=error.silent), repeatable=repeatable):
                    continue
                raise UnreachableError(error.subject, f"{error.reason}{tries.text}", error.hint) from None
            status = int(response.status)
            if 200 <= status < 300 or not is_the_servers(data):
                self.outage.note(Fault(status=status))
                return Answered(status, data, tries.unsure)
            if status == 401:
                problem = self._renew(observed)
            fault = Fault(
                status=status,
                asked_s=retry_after_s(response.headers.get("Retry-After", "")),
                conflict=status == 409 and not conflict_is_final and is_passing_conflict(data),
                renewed=status == 401 and not problem and tries.made < _RENEWALS,
                starting=status == 403 and is_starting(status_message(data)),
            )
            if problem:
                reported = f"{status_message(data)}; reading the credentials again: {problem.rstrip('.')}"
                data = json.dumps({"message": reported}).encode()
            if not tries.again(fault, repeatable=repeatable):
                return Answered(status, data, tries.unsure)

    def _request(
        self, method: str, url: str, headers: Mapping[str, str], payload: bytes | None, read_s: float, preload: bool
    ) -> Any:
        """Send one request, once.

        Raises:
            TlsError: the certificate is not accepted.
            UnreachableError: no response.
        """
        from urllib3.exceptions import HTTPError

        timeout = request_limits(_CONNECT_S, read_s)
        everything = self.headers() | dict(headers)
        try:
            response = self._pool.request(
                method, url, headers=everything, body=payload, timeout=timeout, preload_content=preload
            )
        except (HTTPError, OSError) as error:
            raise connection_error(self.host, error) from None
        self._ahead = ahead_by(response.headers.get("Date", ""), self._ahead)
        if not says_its_length(response):
            response.close()
            raise connection_error(self.host, ConnectionError("the answer broke off before its length was said"))
        return response

    def _capped(self, response: Any, most_bytes: int) -> bytes:
        """Return the beginning and the end of a response as it streams in.

        Raises:
            UnreachableError: the connection breaks before the end of the response.
        """
        from urllib3.exceptions import HTTPError

        kept = Capped(most_bytes)
        try:
            for chunk in response.stream(65536, decode_content=True):
                kept.add(chunk)
        except (HTTPError, OSError) as error:
            response.close()
            raise connection_error(self.host, error) from None
        response.release_conn()
        return kept.content()

    def lines(self, path: str, query: Query, verb: str, deadline: Deadline) -> Iterator[bytes]:
        """Yield the whole lines of a streamed response until the server ends it or the deadline is over.

        A truncated last line is left out: only the server's newline shows that a line is complete.

        Raises:
            BringupError: the request is refused or the connection breaks.
        """
        from urllib3.exceptions import HTTPError, ReadTimeoutError

        response = self._request("GET", self.url(path, query), {}, None, deadline.left_s, False)
        try:
            if not 200 <= response.status < 300:
                raise error_of(int(response.status), "GET", path, verb, bytes(response.read()))
            pending: list[bytes] = []
            for chunk in response.stream(65536, decode_content=True):
                first, *rest = chunk.split(b"\n")
                pending.append(first)
                for part in rest:
                    if line := b"".join(pending):
                        yield line
                    pending = [part]
                if deadline.left_s <= 0:
                    return
        except ReadTimeoutError:
            return
        except BringupError:
            raise
        except (HTTPError, OSError) as error:
            raise connection_error(self.host, error) from None
        finally:
            # Not returned to the pool: unread data would corrupt the next request.
            response.close()

    def close(self) -> None:
        """Close the pooled connections."""
        self._pool.clear()


def _query_text(value: str | int | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


# One line of a watch.

Json = dict[str, Any]


def watch_event(line: bytes, path: str) -> tuple[str, Json]:
    """Parse one event of a watch and return its type and object.

    Raises:
        GoneError: the version that the watch began with has expired.
        UnavailableError: it is another error, or no event.
    """
    try:
        event = json.loads(line)
        kind, found = str(event["type"]), event["object"]
        if kind != "ERROR":
            return kind, {**found, "metadata": dict(found["metadata"])}
    except (ValueError, KeyError, TypeError):
        subject = f"Kubernetes API watch {path}"
        raise UnavailableError(subject, f"not an event: {excerpt(line[:200].decode(errors='replace'), 200)}.") from None
    if isinstance(found, dict) and found.get("code") == 410:
        raise GoneError(f"Kubernetes API watch {path}", "version expired.", "list again")
    reported = found.get("message", found) if isinstance(found, dict) else found
    raise UnavailableError(f"Kubernetes API watch {path}", excerpt(str(reported), 300))
