# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A command in a container of a pod, and a connection to one of its ports, through the API server."""

from __future__ import annotations

import io
import json
import re
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import Any

from ...outcome.errors import BringupError, DeadlineError, NotFoundError
from ...runtime.clock import Deadline
from ...runtime.redaction import excerpt
from .cluster import Cluster
from .errors import Fault, ForbiddenError, HandshakeError, Tries, UnreachableError, connection_error, error_of
from .objects import PODS

_STATUS_CHANNEL = 3
_HANDSHAKE = re.compile(r"Handshake status (\d{3})\b")
_EXIT_WORDS = re.compile(r"exit (?:status|code):? (\d+)")


@dataclass(frozen=True, slots=True)
class ExecResult:
    """Result of a command in a container. `rc` is None if it ran into the time limit or its status is missing."""

    rc: int | None
    stdout: str
    stderr: str
    duration_s: float
    timed_out: bool


def run_in_pod(
    cluster: Cluster,
    pod: str,
    namespace: str,
    argv: Sequence[str],
    timeout_s: float,
    *,
    container: str = "",
    repeatable: bool = False,
) -> ExecResult:
    """Run a command in a container. At the time limit the connection is closed and the output so far is returned.

    Args:
        cluster: the cluster.
        pod: name of the pod.
        namespace: its namespace.
        argv: the command.
        timeout_s: its time limit, in seconds.
        container: name of the container; empty if there is only one.
        repeatable: the command only reads, so it is run again if the connection breaks before its end is known.

    Raises:
        NotFoundError: no such pod or container.
        ForbiddenError: permission to get or create pods/exec is missing there.
        UnreachableError: the connection breaks.
    """
    from websocket import WebSocketException

    path, tries = PODS.path(pod, namespace, "exec"), Tries(cluster.transport.outage)
    while True:
        started = monotonic()
        client = cluster.transport.open_stream(partial(_open, cluster, path, argv, container))
        result: ExecResult | BringupError
        try:
            result = _followed(client, timeout_s, started)
        except (OSError, WebSocketException) as error:
            result = connection_error(cluster.transport.host, error)
        finally:
            client.close()
        # Without a status of the command the connection has ended, and maybe not the command.
        if isinstance(result, ExecResult) and (result.rc is not None or result.timed_out or result.stderr):
            return result
        if not (repeatable and tries.again(Fault(), repeatable=True)):
            if isinstance(result, BringupError):
                raise result from None
            return result


def _open(cluster: Cluster, path: str, argv: Sequence[str], container: str) -> Any:
    """Open the stream.

    Raises:
        HandshakeError: the API server responds with a status.
        UnreachableError: it does not respond.
    """
    from kubernetes.client.exceptions import ApiException
    from kubernetes.stream.ws_client import websocket_call

    query = [("command", list(argv)), ("stdin", "false"), ("stdout", "true"), ("stderr", "true"), ("tty", "false")]
    if container:
        query.append(("container", container))
    headers = {key.lower(): value for key, value in cluster.transport.headers().items()}
    try:
        return websocket_call(
            cluster.transport.configuration,
            "GET",
            f"{cluster.transport.host}{path}",
            query_params=query,
            headers=headers,
            _preload_content=False,
        )
    except ApiException as error:
        # The official client wraps every error before the stream is open.
        raise _handshake_error(cluster.transport.host, path, str(error)) from None


def _followed(client: Any, timeout_s: float, started: float) -> ExecResult:
    client.run_forever(timeout=timeout_s)
    timed_out = bool(client.is_open())
    rc, reported = (None, "") if timed_out else exit_code(str(client.read_channel(_STATUS_CHANNEL, timeout=0) or ""))
    stdout = str(client.read_stdout(timeout=0) or "")
    stderr = str(client.read_stderr(timeout=0) or "") + reported
    return ExecResult(rc, stdout, stderr, monotonic() - started, timed_out)


def exit_code(status: str) -> tuple[int | None, str]:
    """Return the exit code of a Status and an empty text. Without an exit code: None and the message of the Status."""
    try:
        answer = json.loads(status)
    except ValueError:
        return None, status
    if not isinstance(answer, dict):
        return None, status
    if answer.get("status") == "Success":
        return 0, ""
    causes = (answer.get("details") or {}).get("causes") or []
    texts = [str(cause.get("message", "")) for cause in causes if cause.get("reason") == "ExitCode"]
    if texts and texts[0].isdecimal():
        return int(texts[0]), ""
    # Some runtimes have the code only in the message.
    message = str(answer.get("message", ""))
    match = _EXIT_WORDS.search(message)
    return (int(match[1]), "") if match else (None, message)


def _handshake_error(host: str, path: str, text: str) -> BringupError | HandshakeError:
    subject = f"Kubernetes API create {path}"
    found = _HANDSHAKE.search(text)
    if found is None:
        return connection_error(host, ConnectionError(text))
    status = int(found[1])
    if status == 404:
        cause: BringupError = NotFoundError(subject, "no such pod or container.", "list the pods: kubectl get pods -A")
    elif status == 403:
        cause = ForbiddenError(subject, "forbidden: pods/exec.", "grant get and create on pods/exec in that namespace")
    else:
        cause = BringupError(subject, f"refused: {text[:300]}.", "is the container running?")
    return HandshakeError(status, cause)


# A connection to a port of a pod, through the API server.
#
# One connection is one websocket, for one request or for several in sequence. The reader of the connection reads the
# frames itself: there is no thread, and every wait has a limit. Most callers use clients.http, which speaks HTTP over
# it.
# The API server numbers two channels for each port: data, and errors of the other end.
_DATA, _ERROR = 0, 1
_PROTOCOL = "v4.channel.k8s.io"
_FRAME = 64 * 1024


class PodConnection:
    """Bytes to and from a port of a pod. It has the methods of a socket that http.client needs."""

    def __init__(self, client: Any, subject: str, deadline: Deadline) -> None:
        """Take over an open websocket."""
        self._client, self._subject, self._deadline = client, subject, deadline
        self._begun: set[int] = set()
        self._ended = False

    def limit(self, deadline: Deadline) -> None:
        """Set the time limit of the operations that follow."""
        self._deadline = deadline

    def sendall(self, data: bytes) -> None:
        """Send bytes.

        Raises:
            BringupError: the connection breaks or the time is over.
        """
        from websocket import ABNF

        for start in range(0, len(data), _FRAME):
            frame = bytes((_DATA,)) + data[start : start + _FRAME]
            self._guarded(lambda frame=frame: self._client.send(frame, opcode=ABNF.OPCODE_BINARY))

    def receive(self) -> bytes:
        """Return the next bytes. They are empty when the other end has closed.

        Raises:
            UnreachableError: no program listens at that port, or the connection breaks.
            DeadlineError: the time is over.
        """
        while not self._ended:
            frame = self._guarded(self._next_frame)
            if frame is None:
                self._ended = True
                break
            channel, data = frame[0], frame[1:]
            if channel not in self._begun:
                # The first frame of a channel has its port.
                self._begun.add(channel)
                continue
            if channel == _ERROR and data:
                self._ended = True
                reason = excerpt(data.decode(errors="replace"), 300).strip().rstrip(".")
                raise UnreachableError(self._subject, f"the node reports: {reason}.", "does the pod listen there?")
            if channel == _DATA and data:
                return bytes(data)
        return b""

    def _next_frame(self) -> bytes | None:
        from websocket import ABNF

        while True:
            opcode, frame = self._client.recv_data_frame(True)
            if opcode == ABNF.OPCODE_CLOSE:
                return None
            if opcode == ABNF.OPCODE_BINARY and frame.data:
                return bytes(frame.data)

    def _guarded(self, act: Any) -> Any:
        from websocket import WebSocketConnectionClosedException, WebSocketException, WebSocketTimeoutException

        self._deadline.check(self._subject, "no answer yet", "is the program in the pod healthy?")
        self._client.settimeout(max(self._deadline.left_s, 0.001))
        try:
            return act()
        except (WebSocketTimeoutException, TimeoutError):
            limit = f"no answer within {self._deadline.limit_s:g} s."
            raise DeadlineError(self._subject, limit, "is the program in the pod healthy?") from None
        except WebSocketConnectionClosedException:
            return None
        except (OSError, WebSocketException) as error:
            reason = f"the connection broke: {excerpt(str(error), 300)}."
            raise UnreachableError(self._subject, reason, "is the pod still running?") from None

    def makefile(self, _mode: str = "rb", *_args: Any, **_options: Any) -> io.BufferedReader:
        """Return a file that reads from the connection."""
        return io.BufferedReader(_Reader(self))

    def close(self) -> None:
        """Do nothing: http.client closes a connection before it reads the response. `end` closes it."""

    def end(self) -> None:
        """Close the connection without waiting."""
        self._ended = True
        self._client.shutdown()


class _Reader(io.RawIOBase):
    """The reading side as a file."""

    def __init__(self, connection: PodConnection) -> None:
        super().__init__()
        self._connection, self._left = connection, b""

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer with the bytes at hand, as a raw file does."""
        data = self._left or self._connection.receive()
        count = min(len(buffer), len(data))
        buffer[:count], self._left = data[:count], data[count:]
        return count


def connect_to_pod(cluster: Cluster, pod: str, namespace: str, port: int, deadline: Deadline) -> PodConnection:
    """Return an open connection to a port of a pod. `end` it after use.

    It needs permission to get and create `pods/portforward` there. Whether a program listens is known only with the
    first bytes.

    Raises:
        NotFoundError: no such pod.
        ForbiddenError: permission to forward ports is missing there.
        UnreachableError: the API server does not answer.
        DeadlineError: it took too long.
    """
    # The time limit is that of the pod and not of the API server, so each try gets all of it.
    return cluster.transport.open_stream(
        lambda: _connect_once(cluster, pod, namespace, port, Deadline.after(deadline.limit_s))
    )


def _connect_once(cluster: Cluster, pod: str, namespace: str, port: int, deadline: Deadline) -> PodConnection:
    from kubernetes.stream.ws_client import get_websocket_url, websocket_proxycare
    from websocket import WebSocket, WebSocketBadStatusException, WebSocketException

    configuration, path = cluster.transport.configuration, PODS.path(pod, namespace, "portforward")
    subject = f"port {port} of pod {namespace}/{pod}"
    deadline.check(subject, "not connected", "")
    url = get_websocket_url(f"{cluster.transport.host}{path}", [("ports", str(port))])
    given = {name: value for name, value in cluster.transport.headers().items() if name != "Accept"}
    options: dict[str, Any] = {"header": given | {"Sec-WebSocket-Protocol": _PROTOCOL}}
    if configuration.proxy or configuration.proxy_headers:
        options = websocket_proxycare(options, configuration, url, None)
    client: Any = WebSocket(sslopt=_tls(configuration, url), skip_utf8_validation=True)
    try:
        client.connect(url, timeout=max(deadline.left_s, 0.001), **options)
    except WebSocketBadStatusException as error:
        body = error.resp_body or b""
        raise HandshakeError(error.status_code, error_of(error.status_code, "POST", path, "create", body)) from None
    except TimeoutError:
        raise DeadlineError(subject, f"no connection within {deadline.limit_s:g} s.", "") from None
    except (OSError, WebSocketException) as error:
        raise connection_error(cluster.transport.host, error) from None
    return PodConnection(client, subject, deadline)


def _tls(configuration: Any, url: str) -> dict[str, Any]:
    """Return the TLS options of the official client's websocket for our own, which has a time limit."""
    import certifi

    options: dict[str, Any] = {"cert_reqs": ssl.CERT_NONE}
    if url.startswith("wss://") and configuration.verify_ssl:
        options = {"cert_reqs": ssl.CERT_REQUIRED, "ca_certs": configuration.ssl_ca_cert or certifi.where()}
        if configuration.assert_hostname is not None:
            options["check_hostname"] = configuration.assert_hostname
    named = {"certfile": configuration.cert_file, "keyfile": configuration.key_file}
    named |= {"server_hostname": configuration.tls_server_name}
    return options | {name: value for name, value in named.items() if value}
