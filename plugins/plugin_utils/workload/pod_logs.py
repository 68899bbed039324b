# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The log of a pod that ended, read to its end.

A log comes as a stream without a length. Where the connection between API server and kubelet breaks, the server ends
the stream as if that were all (kubernetes/apiserver, responsewriters/writers.go: StreamObject copies and forgets the
error), so a log that is cut looks like one that is whole. Its last lines, asked for by themselves, tell them apart:
what an ended container wrote does not change any more. A kubelet that knows a container no longer, or not yet, is an
error, or says so in the place of the log and with status 200 (kubernetes/kubernetes#111812).
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..clients.kube.errors import ForbiddenError, UnauthorizedError
from ..clients.kube.persistence import Outage
from ..outcome.errors import BringupError
from ..runtime.capped import after_gap, with_open_end
from .namespace import TemporaryNamespace

Json = dict[str, Any]
# Reads a log: its last lines, as many as that; 0 for all of it.
Read = Callable[[int], str]
_PAUSE_S = 1.0
_END_LINES = 5
_LOGS = "logs"
_NO_LOG = re.compile(r"unable to retrieve container logs for \S{1,200}")


@dataclass(frozen=True, slots=True)
class _Answer:
    """What was read, else why it was not, and whether that is final."""

    log: str = ""
    problem: str = ""
    final: bool = False


def has_ended(pod: Json) -> bool:
    """Tell whether all containers of a pod ran and have written their last, so that each has a log that stays as it is.

    Of a pod that was never let in, or whose node went away, nothing is to be waited for.
    """
    status = pod.get("status") or {}
    ends = [(entry.get("state") or {}).get("terminated") for entry in status.get("containerStatuses") or []]
    ran = bool(ends) and all(end and end.get("reason") != "ContainerStatusUnknown" for end in ends)
    return status.get("phase") == "Succeeded" or (status.get("phase") == "Failed" and ran)


def whole_log(read: Read, outage: Outage, pod: Json) -> tuple[str, str]:
    """Return the log of a pod, and why it is not there or not whole; empty where it is.

    A log of a pod that ended and that is not there or cut is asked for again as long as a kubelet may need to come back
    (Outage.awaits). One that is empty may be meant so: without an outage it is believed, as that of a pod that runs. Of
    a log that stays cut the last line says so, which those who read logs know (runtime.capped).

    Args:
        read: reads it; raises BringupError where it cannot.
        outage: when the API server was away.
        pod: the pod as it was seen last.
    """
    ended, node = has_ended(pod), str((pod.get("spec") or {}).get("nodeName") or "")
    while True:
        found = _asked(read, 0)
        cut = _cut(read, found.log) if ended and found.log.strip() else ""
        if found.log.strip() and not cut:
            if outage.came(node):
                outage.came(_LOGS)
            return found.log, ""
        missing = ended and bool(found.problem or cut)
        # Where no kubelet can be reached at all, the first is waited for and not each.
        late = missing and outage.awaits(node) and outage.awaits(_LOGS)
        again = late or (outage.recovering if ended else outage.settling)
        if found.final or not again:
            return (with_open_end(found.log), cut) if cut else (found.log, found.problem)
        time.sleep(_PAUSE_S)


def log_of_pod(namespace: TemporaryNamespace, pod: Json, container: str = "") -> tuple[str, str]:
    """Return what a container of a pod wrote, to its end if the pod ended, and why that cannot be read."""
    cluster, name = namespace.cluster, pod["metadata"]["name"]

    def read(lines: int) -> str:
        return cluster.logs(name, namespace.name, container=container, tail_lines=lines)

    if has_ended(pod):
        return whole_log(read, cluster.transport.outage, pod)
    # Whoever waits for a pod that runs looks again by himself.
    found = _asked(read, 0)
    return found.log, found.problem


def _asked(read: Read, lines: int) -> _Answer:
    try:
        log = read(lines)
    except BringupError as error:
        return _Answer(problem=error.reason, final=isinstance(error, (ForbiddenError, UnauthorizedError)))
    return _Answer(problem=f"{log.strip()}.") if _NO_LOG.fullmatch(log.strip()) else _Answer(log)


def _cut(read: Read, log: str) -> str:
    """Return why a log is not known to be whole; empty where it ends as its last lines do."""
    end = _asked(read, _END_LINES)
    if end.problem:
        return f"its end could not be confirmed: {end.problem}"
    wanted = after_gap(end.log).rstrip()
    return "" if wanted and log.rstrip().endswith(wanted) else "it was cut before its end."
