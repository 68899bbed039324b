# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Programs in pods: their output and exit codes, real or computed, and the log that a kubelet shows."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import PODS, RESOURCE_CLAIMS, Kind
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import BringupError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.files import write_atomic
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.process import bound_to_parent

from ..charts.chart import FAULT_ANNOTATION
from ..fabric.plan import mark_fabric_loaded
from ..hosts.loaded import mark_loaded
from ..model.values import ClusterModel
from ..processes.spec import descendants, identify, kill_all
from ..workloads.pod_simulator import (
    INDEX_LABEL,
    MPI_LABEL,
    REPLICA_LABEL,
    ROLE_LABEL,
    STDERR,
    STDOUT,
    PodGroup,
    PodOutput,
    PodSimulator,
    RealProcess,
    SimContext,
)
from ..workloads.registry import simulator_for
from .cluster_facts import (
    CREATE,
    MERGE,
    Change,
    ClusterFacts,
    ClusterView,
    Json,
    Key,
    annotations_of,
    is_deleted,
    key_of,
    labels_of,
)

# A pod's log as a file in the format of a container runtime, which a `Logs` object of KWOK names.

_STEP_US, _SECOND_US = 137, 1_000_000
_LAST_LINES = 20


def cri_line(stream: str, text: str, at: datetime | None = None) -> str:
    """Return one line of a log file, with the time `at` or now."""
    moment = at or datetime.now(UTC)
    return f"{moment.strftime('%Y-%m-%dT%H:%M:%S.%f')}000Z {stream} F {text}\n"


def last_lines(path: Path) -> str:
    """Return the text of the last lines of a log, one line each; empty without a log."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()[-_LAST_LINES:]
    except OSError:
        return ""
    return "".join(f"\n  {line.split(' ', 3)[-1]}" for line in lines)


def write_log(path: Path, lines: Sequence[tuple[str, str]]) -> None:
    """Write a log with consecutive times, as if a program had written it from now on."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, "".join(_following(lines, datetime.now(UTC))))


def _following(lines: Sequence[tuple[str, str]], begin: datetime) -> Iterator[str]:
    """Yield the lines as cri_line does.

    The text of a second is formatted once, since a second has some thousand lines.
    """
    second = begin.replace(microsecond=0)
    shown, next_us = second.strftime("%Y-%m-%dT%H:%M:%S"), begin.microsecond
    for stream, text in lines:
        if next_us >= _SECOND_US:
            second, next_us = second + timedelta(seconds=1), next_us - _SECOND_US
            shown = second.strftime("%Y-%m-%dT%H:%M:%S")
        yield f"{shown}.{next_us:06d}000Z {stream} F {text}\n"
        next_us += _STEP_US


# Pods whose program really runs: one process each, its output written to the pod's log while it runs.


@dataclass(slots=True)
class RealPod:
    """A process and the threads that write its output to the log."""

    process: subprocess.Popen[str]
    readers: tuple[threading.Thread, ...]

    @property
    def exit_code(self) -> int | None:
        """Exit code once all of its output is in the log, else None; 128 + n after signal n, as in a shell."""
        code = self.process.poll()
        if code is None or any(reader.is_alive() for reader in self.readers):
            return None
        return 128 - code if code < 0 else code

    def stop(self) -> None:
        """Kill it and all its descendants."""
        found = descendants(self.process.pid)
        own = identify(self.process.pid)
        kill_all([*([own] if own else []), *found])
        self.process.wait()


def start(process: RealProcess, log: Path, wake: Callable[[], None]) -> RealPod:
    """Start a process. Call this from the main thread: the kernel ends the process with the thread that started it.

    Raises:
        OSError: it cannot be started.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    log.touch()
    child = subprocess.Popen(
        list(process.argv), env={**os.environ, **process.env}, cwd=process.cwd or None, text=True, errors="replace",
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=bound_to_parent(),
    )  # fmt: skip
    lock = threading.Lock()
    streams = ((STDOUT, child.stdout), (STDERR, child.stderr))
    readers = tuple(
        threading.Thread(target=_write_down, args=(stream, pipe, log, lock, wake), daemon=True)
        for stream, pipe in streams
    )
    for reader in readers:
        reader.start()
    return RealPod(child, readers)


def _write_down(stream: str, pipe: IO[str] | None, log: Path, lock: threading.Lock, wake: Callable[[], None]) -> None:
    for line in pipe or ():
        with lock, log.open("a", encoding="utf-8") as file:
            file.write(cri_line(stream, line.rstrip("\n")))
    wake()


# Programs in pods: their output and exit codes come from pod simulators (workloads/pod_simulator.py).
#
# The pods of a job are grouped and given to the simulator that handles one of them. It returns an output for each pod:
# its lines become the pod's log, a file that a `Logs` object of KWOK names; its exit code becomes the annotation by
# which KWOK ends the pod. An output with a process is produced by that process (see above). A new kind of program is a
# new simulator; nothing here depends on a particular one.

MANAGER = "rehearsal"
LOGS = Kind("kwok.x-k8s.io/v1alpha1", "Logs", "logs")
EXIT_ANNOTATION = "rehearsal.gpufleet.invalid/exit-code"
MESSAGE_ANNOTATION = "rehearsal.gpufleet.invalid/termination-message"
JOB_LABEL = "batch.kubernetes.io/job-name"
PURPOSE_LABEL = "gpufleet.io/purpose"
# State in a kubelet of a container that is restarted again and again, as with restartPolicy Always.
_CRASHES = "CrashLoopBackOff"
# The program whose load raises the fabric's counters.
_NCCL = "nccl-tests"


@dataclass(slots=True)
class _Run:
    """The pods of one running job: the output of each, and the processes of those whose program really runs."""

    parts: Mapping[Key, PodOutput]
    began_at: float
    real: dict[Key, RealPod] = field(default_factory=dict)
    told: set[Key] = field(default_factory=set)


class PodPrograms:
    """Runs the simulated programs of a rehearsal and tracks running jobs."""

    def __init__(
        self,
        directory: Path,
        wake: Callable[[], None],
        full: Path | None = None,
        ports: Mapping[Key, int] | None = None,
        hosts: Path | None = None,
    ) -> None:
        """Set the directories up. No job is running yet.

        Args:
            directory: where logs are written.
            wake: makes the controllers run another pass.
            full: directory of the installed requirement sets of real programs; None: no program really runs.
            ports: port of each simulated server (SimContext.ports); read at every pass.
            hosts: directory of the simulated hosts, which a load may change; None: it changes none.
        """
        self._hosts = hosts
        self._directory, self._wake, self._full = directory, wake, full
        self._ports: Mapping[Key, int] = {} if ports is None else ports
        self._runs: dict[str, _Run] = {}
        # By uid: the program of a pod never changes, and every pass queries every pod.
        self._simulators: dict[str, PodSimulator | None] = {}

    def reconcile(self, view: ClusterView, facts: ClusterFacts) -> list[Change]:
        """Return the logs to publish and the pods to end now."""
        jobs = self._jobs(view)
        for uid in [uid for uid in self._runs if uid not in jobs]:
            self._forget(self._runs.pop(uid))
        changes: list[Change] = []
        for uid, (simulator, group) in jobs.items():
            if uid not in self._runs and group.running and facts.model is not None:
                self._start(uid, simulator, group, facts, _claimed(view))
            if uid in self._runs:
                changes += self._proceed(view, self._runs[uid])
        return changes

    def _jobs(self, view: ClusterView) -> dict[str, tuple[PodSimulator, PodGroup]]:
        """Return the jobs with a simulator, by the uid of their first pod."""
        groups: dict[Key, tuple[PodSimulator, list[Json]]] = {}
        known, self._simulators = self._simulators, {}
        for pod in view.all(PODS):
            uid = pod["metadata"]["uid"]
            simulator = known[uid] if uid in known else simulator_for(pod)
            self._simulators[uid] = simulator
            if simulator is not None and not is_deleted(pod):
                groups.setdefault(_job_of(pod), (simulator, []))[1].append(pod)
        found = {}
        for (_namespace, name), (simulator, pods) in groups.items():
            ordered = tuple(sorted(pods, key=_order))
            found[ordered[0]["metadata"]["uid"]] = (simulator, PodGroup(name=name, pods=ordered))
        return found

    def stop(self) -> None:
        """Stop the processes of all jobs."""
        for run in self._runs.values():
            self._forget(run)
        self._runs.clear()

    def _start(
        self,
        uid: str,
        simulator: PodSimulator,
        group: PodGroup,
        facts: ClusterFacts,
        claimed: Mapping[Key, tuple[str, ...]],
    ) -> None:
        if facts.model is None:
            return
        context = SimContext(
            model=facts.model, skus=facts.skus, now=datetime.now(UTC), full=self._full, ports=self._ports,
            directory=self._directory, claimed=claimed,
        )  # fmt: skip
        try:
            parts = simulator.simulate(group, context)
        except (KeyError, BringupError) as error:
            text = f"no such node in the model: {error}" if isinstance(error, KeyError) else str(error)
            parts = {pod["metadata"]["name"]: PodOutput(lines=((STDERR, text),), exit_code=1) for pod in group.pods}
        if parts is None:
            return
        self._hurt(simulator.name, group, facts.model)
        namespace = group.pods[0]["metadata"]["namespace"]
        run = _Run({(namespace, name): part for name, part in parts.items()}, time.monotonic())
        for key, part in run.parts.items():
            if part.process is None:
                write_log(self._file(key), part.lines)
            else:
                run.real[key] = start(part.process, self._file(key), self._wake)
        self._runs[uid] = run
        ours = [part for part in run.parts.values() if part.process is None]
        for due_s in {part.run_s for part in ours} | {part.recovers_s for part in ours if part.recovers_s}:
            timer = threading.Timer(due_s, self._wake)
            timer.daemon = True
            timer.start()

    def _hurt(self, program: str, group: PodGroup, model: ClusterModel) -> None:
        """Switch hosts of a job to their state after the load of this program."""
        places = {str(pod["spec"].get("nodeName", "")) for pod in group.running}
        for node in model.nodes:
            if self._hosts is not None and node.hurt_by == program and node.name in places:
                mark_loaded(self._hosts / node.name)
        if self._hosts is not None and program == _NCCL:
            mark_fabric_loaded(self._hosts.parent)

    def _proceed(self, view: ClusterView, run: _Run) -> Iterable[Change]:
        pods = {key: view.find(PODS, key[1], key[0]) for key in run.parts}
        there = {key: pod for key, pod in pods.items() if pod is not None and not is_deleted(pod)}
        hidden = [key for key in there if view.find(LOGS, key[1], key[0]) is None]
        for key in hidden:
            yield self._show(there[key], run.parts[key])
        if hidden:
            return
        for key, pod in there.items():
            fault, shown = _fault_now(run.parts[key], run), annotations_of(pod).get(FAULT_ANNOTATION, "")
            # A fault annotation from elsewhere on a pod without a fault of its own is left unchanged.
            if run.parts[key].fault and fault != shown:
                body = {"metadata": {"annotations": {FAULT_ANNOTATION: fault or None}}}
                yield Change(MANAGER, MERGE, PODS, key[1], key[0], body)
            code = _ended(key, run)
            if code:
                self._tell(key, run, code)
            if code and (pod.get("spec") or {}).get("restartPolicy") == "Always":
                if shown != _CRASHES:
                    body = {"metadata": {"annotations": {FAULT_ANNOTATION: _CRASHES}}}
                    yield Change(MANAGER, MERGE, PODS, key[1], key[0], body)
            elif code is not None and EXIT_ANNOTATION not in annotations_of(pod):
                message = run.parts[key].message
                ended = {EXIT_ANNOTATION: str(code), **({MESSAGE_ANNOTATION: message} if message else {})}
                yield Change(MANAGER, MERGE, PODS, key[1], key[0], {"metadata": {"annotations": ended}})

    def _tell(self, key: Key, run: _Run, code: int) -> None:
        """Copy the last lines of a really running program to the log of the controllers.

        The log of its pod is deleted with the pod.
        """
        if key in run.real and key not in run.told:
            run.told.add(key)
            reported = last_lines(self._file(key))
            print(f"pod {'/'.join(key)}: its program ended with {code}: {reported}", file=sys.stderr, flush=True)

    def _show(self, pod: Json, part: PodOutput) -> Change:
        namespace, name = key_of(pod)
        containers = [container["name"] for container in pod["spec"]["containers"]]
        which = "previousLogsFile" if part.fault else "logsFile"
        log = {"containers": containers, which: str(self._file((namespace, name))), "follow": False}
        metadata: Json = {"name": name, "namespace": namespace}
        # In a test's namespace it is deleted with the namespace: with owner references the garbage collector would
        # query each.
        if not labels_of(pod).get(PURPOSE_LABEL):
            owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": pod["metadata"]["uid"]}
            metadata["ownerReferences"] = [owner]
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


def _fault_now(part: PodOutput, run: _Run) -> str:
    """Return the reason for which a pod's container fails now; empty if it does not."""
    over = part.recovers_s and time.monotonic() >= run.began_at + part.recovers_s
    return "" if over else part.fault


def _claimed(view: ClusterView) -> dict[Key, tuple[str, ...]]:
    """Return the devices allocated to each claim."""
    found = {}
    for claim in view.all(RESOURCE_CLAIMS):
        allocation = (claim.get("status") or {}).get("allocation") or {}
        results = (allocation.get("devices") or {}).get("results") or []
        found[key_of(claim)] = tuple(str(result.get("device", "")) for result in results)
    return found


def _ended(key: Key, run: _Run) -> int | None:
    """Return the exit code of a pod that is due to end, else None."""
    if key in run.real:
        return run.real[key].exit_code
    part = run.parts[key]
    return part.exit_code if time.monotonic() >= run.began_at + part.run_s else None


def _job_of(pod: Json) -> Key:
    labels = labels_of(pod)
    name = labels.get(MPI_LABEL) or labels.get(JOB_LABEL) or pod["metadata"]["name"]
    return pod["metadata"]["namespace"], name


def _order(pod: Json) -> tuple[bool, int, str]:
    labels = labels_of(pod)
    index = labels.get(INDEX_LABEL) or labels.get(REPLICA_LABEL) or "0"
    return labels.get(ROLE_LABEL) != "launcher", int(index), pod["metadata"]["name"]
