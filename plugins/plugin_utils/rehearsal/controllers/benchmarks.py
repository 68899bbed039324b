# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Programs in pods: what they print and how they end comes from players (workloads/player.py), and KWOK shows it.

The pods of a job are brought together and given to the player that knows one of them. Its answer is one part for each
pod: the part's lines become the pod's log, a file that a `Logs` object of KWOK names; the part's end becomes the
annotation by which KWOK ends the pod. A part with a process is played by that process instead (see processes.py).
A new kind of program is a new player; nothing here knows any of them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from ...clients.kube.kinds import PODS, Kind
from ...outcome.errors import BringupError
from ..charts.chart import FAULT_ANNOTATION
from ..workloads.player import (
    INDEX_LABEL,
    MPI_LABEL,
    REPLICA_LABEL,
    ROLE_LABEL,
    STDERR,
    Cast,
    Part,
    Player,
    Scene,
)
from ..workloads.players import player_of
from .pod_log import write_log
from .processes import RealPod, start
from .truth import Truth
from .world import CREATE, MERGE, Change, Json, Key, World, annotations_of, is_deleted, key_of, labels_of

MANAGER = "rehearsal"
LOGS = Kind("kwok.x-k8s.io/v1alpha1", "Logs", "logs")
EXIT_ANNOTATION = "rehearsal.gpufleet.invalid/exit-code"
JOB_LABEL = "batch.kubernetes.io/job-name"


@dataclass(slots=True)
class _Run:
    """The pods of one job on their way: the part of each, and the processes of those that are played for real."""

    parts: Mapping[Key, Part]
    began_at: float
    real: dict[Key, RealPod] = field(default_factory=dict)


class Benchmarks:
    """Plays the programs of a rehearsal; keeps which jobs are on their way."""

    def __init__(
        self,
        directory: Path,
        wake: Callable[[], None],
        full: Path | None = None,
        ports: Mapping[Key, int] | None = None,
    ) -> None:
        """Start with nothing running.

        Args:
            directory: where logs are written.
            wake: has the controllers look again.
            full: below it lie the requirement sets of programs that run for real; None: none does.
            ports: where servers stand in (player.Scene); read at every look.
        """
        self._directory, self._wake, self._full = directory, wake, full
        self._ports: Mapping[Key, int] = {} if ports is None else ports
        self._runs: dict[str, _Run] = {}

    def reconcile(self, world: World, truth: Truth) -> list[Change]:
        """Return the logs to show and the pods to end now."""
        jobs = _jobs(world)
        for uid in [uid for uid in self._runs if uid not in jobs]:
            self._forget(self._runs.pop(uid))
        changes: list[Change] = []
        for uid, (player, cast) in jobs.items():
            if uid not in self._runs and cast.running and truth.model is not None:
                self._start(uid, player, cast, truth)
            if uid in self._runs:
                changes += self._proceed(world, self._runs[uid])
        return changes

    def stop(self) -> None:
        """End the processes of all jobs."""
        for run in self._runs.values():
            self._forget(run)
        self._runs.clear()

    def _start(self, uid: str, player: Player, cast: Cast, truth: Truth) -> None:
        if truth.model is None:
            return
        scene = Scene(
            model=truth.model, skus=truth.skus, now=datetime.now(UTC), full=self._full, ports=self._ports,
            directory=self._directory,
        )  # fmt: skip
        try:
            parts = player.play(cast, scene)
        except (KeyError, BringupError) as error:
            text = f"no such node in the model: {error}" if isinstance(error, KeyError) else str(error)
            parts = {pod["metadata"]["name"]: Part(lines=((STDERR, text),), exit_code=1) for pod in cast.pods}
        if parts is None:
            return
        namespace = cast.pods[0]["metadata"]["namespace"]
        run = _Run({(namespace, name): part for name, part in parts.items()}, time.monotonic())
        for key, part in run.parts.items():
            if part.process is None:
                write_log(self._file(key), part.lines)
            else:
                run.real[key] = start(part.process, self._file(key), self._wake)
        self._runs[uid] = run
        for run_s in {part.run_s for part in run.parts.values() if part.process is None}:
            timer = threading.Timer(run_s, self._wake)
            timer.daemon = True
            timer.start()

    def _proceed(self, world: World, run: _Run) -> Iterable[Change]:
        pods = {key: world.find(PODS, key[1], key[0]) for key in run.parts}
        there = {key: pod for key, pod in pods.items() if pod is not None and not is_deleted(pod)}
        hidden = [key for key in there if world.find(LOGS, key[1], key[0]) is None]
        for key in hidden:
            yield self._show(there[key], run.parts[key])
        if hidden:
            return
        for key, pod in there.items():
            fault = run.parts[key].fault
            if fault and FAULT_ANNOTATION not in annotations_of(pod):
                body = {"metadata": {"annotations": {FAULT_ANNOTATION: fault}}}
                yield Change(MANAGER, MERGE, PODS, key[1], key[0], body)
            code = _ended(key, run)
            if code is not None and EXIT_ANNOTATION not in annotations_of(pod):
                body = {"metadata": {"annotations": {EXIT_ANNOTATION: str(code)}}}
                yield Change(MANAGER, MERGE, PODS, key[1], key[0], body)

    def _show(self, pod: Json, part: Part) -> Change:
        namespace, name = key_of(pod)
        containers = [container["name"] for container in pod["spec"]["containers"]]
        which = "previousLogsFile" if part.fault else "logsFile"
        log = {"containers": containers, which: str(self._file((namespace, name))), "follow": False}
        owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": pod["metadata"]["uid"]}
        metadata = {"name": name, "namespace": namespace, "ownerReferences": [owner]}
        return Change(MANAGER, CREATE, LOGS, name, namespace, {"metadata": metadata, "spec": {"logs": [log]}})

    def _file(self, key: Key) -> Path:
        return self._directory / key[0] / f"{key[1]}.log"

    def _forget(self, run: _Run) -> None:
        for real in run.real.values():
            real.stop()
        for key in run.parts:
            self._file(key).unlink(missing_ok=True)
        try:
            self._file(next(iter(run.parts))).parent.rmdir()
        except (OSError, StopIteration):
            # Other jobs of the namespace still have their logs there.
            return


def _ended(key: Key, run: _Run) -> int | None:
    """The exit code of a pod whose end has come."""
    if key in run.real:
        return run.real[key].exit_code
    part = run.parts[key]
    return part.exit_code if time.monotonic() >= run.began_at + part.run_s else None


def _jobs(world: World) -> dict[str, tuple[Player, Cast]]:
    """The jobs that a player knows, by the uid of their first pod."""
    groups: dict[Key, tuple[Player, list[Json]]] = {}
    for pod in world.all(PODS):
        player = None if is_deleted(pod) else player_of(pod)
        if player is not None:
            groups.setdefault(_job_of(pod), (player, []))[1].append(pod)
    found = {}
    for (_namespace, name), (player, pods) in groups.items():
        ordered = tuple(sorted(pods, key=_order))
        found[ordered[0]["metadata"]["uid"]] = (player, Cast(name=name, pods=ordered))
    return found


def _job_of(pod: Json) -> Key:
    labels = labels_of(pod)
    name = labels.get(MPI_LABEL) or labels.get(JOB_LABEL) or pod["metadata"]["name"]
    return pod["metadata"]["namespace"], name


def _order(pod: Json) -> tuple[bool, int, str]:
    labels = labels_of(pod)
    index = labels.get(INDEX_LABEL) or labels.get(REPLICA_LABEL) or "0"
    return labels.get(ROLE_LABEL) != "launcher", int(index), pod["metadata"]["name"]
