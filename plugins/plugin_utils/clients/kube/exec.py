# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Running a command in a container of a pod."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import Any

from ...outcome.errors import BringupError, NotFoundError
from .cluster import Cluster
from .errors import ForbiddenError, HandshakeError, connection_error
from .kinds import PODS
from .persistence import Fault, Tries

_STATUS_CHANNEL = 3
_HANDSHAKE = re.compile(r"Handshake status (\d{3})\b")
_EXIT_WORDS = re.compile(r"exit (?:status|code):? (\d+)")


@dataclass(frozen=True, slots=True)
class ExecResult:
    """What a command in a container did: exit code (None when the limit ended it or none came), its output, seconds."""

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
    """Run a command in a container; at the limit the connection is closed and what it had said is returned.

    Args:
        cluster: where the pod is.
        pod: its name.
        namespace: its namespace.
        argv: the command.
        timeout_s: its time limit.
        container: which container; empty: the only one.
        repeatable: the command only looks, so it is run again if the connection breaks before its end is known.

    Raises:
        NotFoundError: no such pod or container.
        ForbiddenError: we may not get and create pods/exec there.
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
        # An end without a word about the command is the end of the connection, not of the command.
        if isinstance(result, ExecResult) and (result.rc is not None or result.timed_out or result.stderr):
            return result
        if not (repeatable and tries.again(Fault(), repeatable=True)):
            if isinstance(result, BringupError):
                raise result from None
            return result


def _open(cluster: Cluster, path: str, argv: Sequence[str], container: str) -> Any:
    """Return the open stream.

    Raises:
        HandshakeError: the API server answers with a status.
        UnreachableError: it does not answer.
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
        # The official client wraps whatever goes wrong before the stream is open.
        raise _handshake_error(cluster.transport.host, path, str(error)) from None


def _followed(client: Any, timeout_s: float, started: float) -> ExecResult:
    client.run_forever(timeout=timeout_s)
    timed_out = bool(client.is_open())
    rc, said = (None, "") if timed_out else exit_code(str(client.read_channel(_STATUS_CHANNEL, timeout=0) or ""))
    stdout = str(client.read_stdout(timeout=0) or "")
    stderr = str(client.read_stderr(timeout=0) or "") + said
    return ExecResult(rc, stdout, stderr, monotonic() - started, timed_out)


def exit_code(status: str) -> tuple[int | None, str]:
    """Return the exit code that a Status tells, None if it tells none, and what it says instead."""
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
    # Some runtimes put the code into words only.
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
