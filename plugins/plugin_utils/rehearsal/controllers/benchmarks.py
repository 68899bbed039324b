# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Benchmarks in pods: what a run prints and how it ends is computed from the model, and KWOK plays it.

A run starts when every pod of it runs. Its log is a file in the format of a container runtime that a `Logs` object of
KWOK names; its end is the annotation by which KWOK ends a pod.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from ...clients.kube.kinds import PODS, Kind
from ...runtime.files import write_atomic
from ..workloads.benchmark import benchmark_of, named_test, words_of
from ..workloads.play import STDOUT, Played, play
from .truth import Truth
from .world import CREATE, MERGE, Change, Json, Key, World, annotations_of, is_deleted, key_of, labels_of

MANAGER = "rehearsal"
LOGS = Kind("kwok.x-k8s.io/v1alpha1", "Logs", "logs")
EXIT_ANNOTATION = "rehearsal.gpufleet.invalid/exit-code"
JOB_LABEL = "batch.kubernetes.io/job-name"
INDEX_LABEL = "batch.kubernetes.io/job-completion-index"
MPI_LABEL, ROLE_LABEL = "training.kubeflow.org/job-name", "training.kubeflow.org/job-role"
REPLICA_LABEL = "training.kubeflow.org/replica-index"
_STEP = timedelta(microseconds=137)


@dataclass(slots=True)
class _Run:
    """One run: the pods that are part of it, the launcher first; when it is due, and its exit code."""

    launcher: Key
    workers: tuple[Key, ...]
    due_at: float
    exit_code: int | None


class Benchmarks:
    """Plays the benchmarks of a rehearsal; keeps which runs are on their way, by the uid of their launcher."""

    def __init__(self, directory: Path, wake: Callable[[], None]) -> None:
        """Start with nothing running.

        Args:
            directory: where logs are written.
            wake: has the controllers look again.
        """
        self._directory, self._wake = directory, wake
        self._runs: dict[str, _Run] = {}

    def reconcile(self, world: World, truth: Truth) -> list[Change]:
        """Return the logs to show and the pods to end now."""
        pods = {pod["metadata"]["uid"]: pod for pod in _candidates(world)}
        for uid in [uid for uid in self._runs if uid not in pods]:
            self._forget(self._runs.pop(uid))
        changes: list[Change] = []
        members = _members(pods.values())
        for uid, pod in pods.items():
            if uid not in self._runs and _is_launcher(pod) and _runs(pod) and truth.model is not None:
                self._start(uid, pod, members.get(_job_of(pod), [pod]), truth)
            if uid in self._runs:
                changes += self._proceed(world, self._runs[uid])
        return changes

    def _start(self, uid: str, launcher: Json, members: Sequence[Json], truth: Truth) -> None:
        ready = [pod for pod in members if _runs(pod)]
        run = benchmark_of(launcher, ready) if len(ready) == len(members) else None
        if run is None or truth.model is None:
            return
        try:
            played = play(run, truth.model, truth.skus, launcher["metadata"]["name"].rpartition("-")[0])
        except KeyError as error:
            played = Played(lines=((STDOUT, f"no such node in the model: {error}"),), exit_code=1, run_s=0.0)
        others = tuple(key_of(pod) for pod in members if pod is not launcher)
        self._write(key_of(launcher), played.lines)
        for key in others:
            self._write(key, ((STDOUT, "Server listening on 0.0.0.0 port 2222."),))
        self._runs[uid] = _Run(key_of(launcher), others, time.monotonic() + played.run_s, played.exit_code)
        timer = threading.Timer(played.run_s, self._wake)
        timer.daemon = True
        timer.start()

    def _proceed(self, world: World, run: _Run) -> Iterable[Change]:
        missing = [key for key in (run.launcher, *run.workers) if world.find(LOGS, key[1], key[0]) is None]
        for namespace, name in missing:
            pod = world.find(PODS, name, namespace)
            if pod is not None and not is_deleted(pod):
                yield self._show(pod)
        if missing or run.exit_code is None or time.monotonic() < run.due_at:
            return
        launcher = world.find(PODS, run.launcher[1], run.launcher[0])
        yield from self._end(launcher, run.exit_code)
        for namespace, name in run.workers:
            pod = world.find(PODS, name, namespace)
            # The workers of a Job end when the launcher tells them; those of an MPIJob serve until they are removed.
            if pod is not None and INDEX_LABEL in labels_of(pod):
                yield from self._end(pod, 0)

    def _show(self, pod: Json) -> Change:
        namespace, name = key_of(pod)
        containers = [container["name"] for container in pod["spec"]["containers"]]
        log = {"containers": containers, "logsFile": str(self._file((namespace, name))), "follow": False}
        owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": pod["metadata"]["uid"]}
        metadata = {"name": name, "namespace": namespace, "ownerReferences": [owner]}
        return Change(MANAGER, CREATE, LOGS, name, namespace, {"metadata": metadata, "spec": {"logs": [log]}})

    def _end(self, pod: Json | None, code: int) -> Iterable[Change]:
        if pod is None or is_deleted(pod) or EXIT_ANNOTATION in annotations_of(pod):
            return
        namespace, name = key_of(pod)
        body = {"metadata": {"annotations": {EXIT_ANNOTATION: str(code)}}}
        yield Change(MANAGER, MERGE, PODS, name, namespace, body)

    def _file(self, key: Key) -> Path:
        return self._directory / key[0] / f"{key[1]}.log"

    def _write(self, key: Key, lines: Sequence[tuple[str, str]]) -> None:
        path, now = self._file(key), datetime.now(UTC)
        path.parent.mkdir(parents=True, exist_ok=True)
        text = "".join(
            f"{(now + number * _STEP).strftime('%Y-%m-%dT%H:%M:%S.%f')}000Z {stream} F {line}\n"
            for number, (stream, line) in enumerate(lines)
        )
        write_atomic(path, text)

    def _forget(self, run: _Run) -> None:
        for key in (run.launcher, *run.workers):
            self._file(key).unlink(missing_ok=True)
        try:
            self._file(run.launcher).parent.rmdir()
        except OSError:
            # Other runs of the namespace still have their logs there.
            return


def _candidates(world: World) -> Iterable[Json]:
    for pod in world.all(PODS):
        if pod["spec"].get("restartPolicy") == "Always" or is_deleted(pod):
            continue
        if ROLE_LABEL in labels_of(pod) or named_test(words_of(pod)):
            yield pod


def _job_of(pod: Json) -> Key:
    labels = labels_of(pod)
    name = labels.get(MPI_LABEL) or labels.get(JOB_LABEL) or pod["metadata"]["name"]
    return pod["metadata"]["namespace"], name


def _is_launcher(pod: Json) -> bool:
    labels = labels_of(pod)
    if ROLE_LABEL in labels:
        return labels[ROLE_LABEL] == "launcher"
    return labels.get(INDEX_LABEL, "0") == "0"


def _members(pods: Iterable[Json]) -> Mapping[Key, list[Json]]:
    """The pods with ranks of every job, in the order of their ranks; an MPIJob's launcher has none."""
    found: dict[Key, list[Json]] = {}
    for pod in pods:
        if labels_of(pod).get(ROLE_LABEL) != "launcher":
            found.setdefault(_job_of(pod), []).append(pod)
    return {key: sorted(group, key=_order) for key, group in found.items()}


def _order(pod: Json) -> tuple[int, str]:
    labels = labels_of(pod)
    index = labels.get(INDEX_LABEL) or labels.get(REPLICA_LABEL) or "0"
    return int(index), pod["metadata"]["name"]


def _runs(pod: Json) -> bool:
    return (pod.get("status") or {}).get("phase") == "Running"
