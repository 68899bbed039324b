# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""JSON over HTTP to one API server, through the official client's connection pool."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlencode

from ...outcome.errors import BringupError, UnavailableError
from ...runtime.clock import Deadline
from .connection import Connection, load_configuration
from .errors import connection_error, error_of

Query = Mapping[str, str | int | bool]
JSON_TYPE = "application/json"
_RETRIED = (429, 500, 502, 503, 504)
_TRIES = 4


class Transport:
    """Sends requests; knows authentication, TLS, time limits and retries, and nothing about objects."""

    def __init__(self, connection: Connection, request_timeout_s: float = 30.0) -> None:
        """Read the configuration; no request is made yet.

        Raises:
            InputError: the kubeconfig is missing or broken.
        """
        from kubernetes.client.rest import RESTClientObject

        self._configuration = load_configuration(connection)
        self._configuration.connection_pool_maxsize = 16
        self._pool = RESTClientObject(self._configuration).pool_manager
        self._impersonate = connection.impersonate_user
        self._timeout_s = request_timeout_s

    @property
    def host(self) -> str:
        """Address of the API server."""
        return str(self._configuration.host)

    @property
    def configuration(self) -> Any:
        """The official client's configuration, for its websocket client."""
        return self._configuration

    def headers(self) -> dict[str, str]:
        """Return the authentication headers of a request, tokens refreshed."""
        headers = {"User-Agent": "gpufleet.bringup", "Accept": JSON_TYPE}
        for setting in self._configuration.auth_settings().values():
            if setting["in"] == "header" and setting["value"]:
                headers[setting["key"]] = setting["value"]
        if self._impersonate:
            headers["Impersonate-User"] = self._impersonate
        return headers

    def url(self, path: str, query: Query | None = None) -> str:
        """Return the full address of a path."""
        pairs = [(key, _query_text(value)) for key, value in (query or {}).items()]
        return f"{self.host}{path}" + (f"?{urlencode(pairs)}" if pairs else "")

    def json(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: Any = None,
        content_type: str = JSON_TYPE,
        verb: str = "",
        timeout_s: float | None = None,
        accept: str = JSON_TYPE,
    ) -> Any:
        """Return the decoded answer of a request.

        Raises:
            BringupError: see errors.error_of and errors.connection_error.
        """
        text = self.text(
            method,
            path,
            query=query,
            body=body,
            content_type=content_type,
            verb=verb,
            timeout_s=timeout_s,
            accept=accept,
        )
        try:
            return json.loads(text)
        except ValueError:
            subject = f"Kubernetes API {self.host}{path}"
            raise UnavailableError(
                subject, "the answer is not JSON.", "is a proxy in between?", (text[:200],)
            ) from None

    def text(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: Any = None,
        content_type: str = JSON_TYPE,
        verb: str = "",
        timeout_s: float | None = None,
        accept: str = JSON_TYPE,
    ) -> str:
        """Return the answer of a request as text (see json for errors); reads are tried again at a busy server."""
        deadline = Deadline.after(timeout_s or self._timeout_s)
        tries = _TRIES if method == "GET" else 1
        for number in range(1, tries + 1):
            status, data, wait_s = self._send(method, self.url(path, query), body, content_type, accept, deadline)
            if 200 <= status < 300:
                return data.decode("utf-8", errors="replace")
            # 429 is refused before anything is done: every verb may try again.
            again = (status in _RETRIED and number < tries) or (status == 429 and number < _TRIES)
            if not again or deadline.left_s <= wait_s:
                raise error_of(status, method, path, verb, data)
            time.sleep(wait_s or min(0.2 * 2**number, 2.0))
        raise error_of(status, method, path, verb, data)

    def exchange(
        self, method: str, path: str, *, headers: Mapping[str, str], payload: bytes | None, deadline: Deadline
    ) -> tuple[int, bytes]:
        """Return status and body of a request as they come, for what others serve through the API server.

        Raises:
            BringupError: see errors.connection_error.
        """
        everything = self.headers() | dict(headers)
        response = self._request(method, self.url(path), everything, payload, max(deadline.left_s, 0.1), True)
        return int(response.status), bytes(response.data)

    def _send(
        self, method: str, url: str, body: Any, content_type: str, accept: str, deadline: Deadline
    ) -> tuple[int, bytes, float]:
        headers = self.headers() | {"Accept": accept}
        payload = None
        if body is not None:
            headers["Content-Type"] = content_type
            payload = json.dumps(body).encode()
        response = self._request(method, url, headers, payload, max(deadline.left_s, 0.1), True)
        try:
            wait_s = float(response.headers.get("Retry-After", 0))
        except ValueError:
            wait_s = 0.0
        return int(response.status), bytes(response.data), wait_s

    def _request(
        self, method: str, url: str, headers: dict[str, str], payload: bytes | None, read_s: float, preload: bool
    ) -> Any:
        from urllib3.exceptions import HTTPError
        from urllib3.util import Timeout

        timeout = Timeout(connect=min(10.0, read_s), read=read_s)
        try:
            return self._pool.request(
                method, url, headers=headers, body=payload, timeout=timeout, preload_content=preload
            )
        except (HTTPError, OSError) as error:
            raise connection_error(self.host, error) from None

    def lines(self, path: str, query: Query, verb: str, deadline: Deadline) -> Iterator[bytes]:
        """Yield the lines of a streamed answer until the server ends it or the deadline is over.

        Raises:
            BringupError: the request is refused or the connection breaks.
        """
        from urllib3.exceptions import HTTPError, ReadTimeoutError

        response = self._request("GET", self.url(path, query), self.headers(), None, max(deadline.left_s, 0.1), False)
        try:
            if not 200 <= response.status < 300:
                raise error_of(int(response.status), "GET", path, verb, bytes(response.read()))
            pending = b""
            for chunk in response.stream(65536, decode_content=True):
                *whole, pending = (pending + chunk).split(b"\n")
                yield from (line for line in whole if line)
                if deadline.left_s <= 0:
                    return
            if pending:
                yield pending
        except ReadTimeoutError:
            return
        except BringupError:
            raise
        except (HTTPError, OSError) as error:
            raise connection_error(self.host, error) from None
        finally:
            # Never back to the pool: unread data would poison the next request.
            response.close()

    def close(self) -> None:
        """Close the pooled connections."""
        self._pool.clear()


def _query_text(value: str | int | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
