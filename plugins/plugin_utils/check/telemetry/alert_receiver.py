# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The receiver of the test alert: a pod of ours, from its start until nobody asks for its log any more.

What it does not write has not arrived only as long as it is there: of one that ended, was evicted or started again
nobody knows what it would have got.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...clients.kube.pods import is_ready
from ...outcome.errors import BringupError, DeadlineError, UnavailableError
from ...runtime.clock import Deadline
from ...runtime.files import write_atomic
from ...runtime.pausing import pause
from ...runtime.progress import Progress
from ...runtime.recipe_files import RECIPES
from ...runtime.redaction import redact
from ...workload.namespace import TemporaryNamespace
from ...workload.pod_end import PodEnd, end_of, waits_for
from ...workload.render import render
from ..spec import ObserveContext
from .notices import is_listening
from .settings import GATE, AlertSettings

NAME, PORT = "receiver", 8080
_TEMPLATE = RECIPES / "workloads" / "alert-receiver.yaml.j2"
_SUBJECT = "receiver of the test alert"
_SETTING = f"gpufleet_settings.{GATE}.image"
_POLL_S = 0.5
_LAST_LINES, _SAID = 10, 300
_REMOVED = PodEnd("its pod is gone: somebody else removed it", "run the gate again; who removes pods?")


@dataclass(slots=True)
class Receiver:
    """The receiver in an open namespace; its log is kept in a file of the run directory."""

    namespace: TemporaryNamespace
    context: ObserveContext
    path: Path
    _restarts: int = field(init=False, default=0)

    def start(self, alert: AlertSettings, longest_s: float) -> None:
        """Make it and wait until it listens; `longest_s` is when the test is over for sure.

        Raises:
            UnavailableError: its pod ended, or was ended.
            DeadlineError: it does not get ready.
        """
        namespace = self.namespace
        variables = {
            "name": NAME, "namespace": namespace.name, "image": alert.image, "labels": namespace.labels,
            "priority_class": namespace.priority_class, "port": PORT, "deadline_s": longest_s,
        }  # fmt: skip
        namespace.create(render(_TEMPLATE, variables))
        deadline, progress, seen = Deadline.after(alert.ready_s), Progress(self.context.emit), False
        while True:
            pod = self._pod()
            if pod is not None and is_ready(pod) and is_listening(self.log()):
                self._restarts = _restarts(pod)
                return
            ended = end_of(pod) if pod is not None else _REMOVED if seen else None
            if ended is not None:
                self._give_up(ended)
            seen = seen or pod is not None
            waits = waits_for(pod, alert.image, _SETTING) if pod is not None else PodEnd("its pod is not there", "")
            if deadline.left_s <= 0:
                raise DeadlineError(
                    _SUBJECT, f"not ready after {alert.ready_s:g} s: {self._with_words(waits)}.", waits.hint
                )
            progress.tick(f"alert: receiver: {waits.text}"[:180])
            pause(_POLL_S)

    def stays(self) -> None:
        """Look whether it was there all the time.

        Raises:
            UnavailableError: it was not, or is not ready now.
        """
        pod = self._pod()
        ended = end_of(pod) if pod is not None else _REMOVED
        if ended is None and pod is not None and (_restarts(pod) > self._restarts or not is_ready(pod)):
            ended = waits_for(pod, "its image", _SETTING)
        if ended is not None:
            self._give_up(ended)

    def log(self, tail_lines: int = 0, *, previous: bool = False) -> str:
        """Return what it wrote; empty where that cannot be read."""
        namespace = self.namespace
        try:
            return namespace.cluster.logs(NAME, namespace.name, tail_lines=tail_lines, previous=previous)
        except BringupError:
            # Not yet, or a kubelet that is busy: what counts is what comes in the end.
            return ""

    def keep(self, log: str) -> None:
        """Write a log of it to the run directory."""
        write_atomic(self.context.run_dir / self.path, redact(log))

    def _pod(self) -> dict[str, Any] | None:
        return next(iter(self.namespace.pods()), None)

    def _give_up(self, ended: PodEnd) -> None:
        raise UnavailableError(_SUBJECT, f"did not stay: {self._with_words(ended)}.", ended.hint)

    def _with_words(self, end: PodEnd) -> str:
        """Return the text with the last lines of the container that is meant, which are kept as evidence too."""
        before = self.log(_LAST_LINES, previous=True) if end.restarted else ""
        said = before or self.log(_LAST_LINES)
        if not said.strip():
            return end.text
        self.keep(said)
        return f"{end.text}; it wrote last: {' | '.join(redact(said).split(chr(10))).strip(' |')[-_SAID:]}"


def _restarts(pod: dict[str, Any]) -> int:
    return sum(
        int(entry.get("restartCount") or 0) for entry in (pod.get("status") or {}).get("containerStatuses") or []
    )
