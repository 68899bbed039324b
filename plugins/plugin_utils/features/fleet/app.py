# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A playbook over the clusters of a fleet, ring by ring: what is next, its state in files, a process for each cluster,
and the verdict of each."""

from __future__ import annotations

import fcntl
import os
import re
import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic, sleep, time

from ...outcome.codec import dumps, load
from ...outcome.errors import BringupError, InputError, UnavailableError
from ...outcome.model import Status
from ...outcome.wording import count, first_of
from ...run.run import Run
from ...runtime.clock import elapsed_text, now_utc
from ...runtime.files import PRIVATE_DIR, RUN, cluster_uid_of, create_run_dir, make_dirs, write_atomic
from ...runtime.process import ProcessId, bound_to_parent, controller_pid, group_runs, identify, signal_group
from ...runtime.progress import Emit
from ...verdict.run import PROOF_OF_WAVE, RunRecord, all_passed, nothing_holds, run_summary

# Which clusters are next, and the result of a playbook over them. Pure.

# The ring of clusters whose own ring is not in the order.
REST = "rest"
_WORDS = {
    Status.PASSED: "passed",
    Status.FAILED: "failed",
    Status.OTHER: "not known (other)",
    Status.SKIPPED: "passed in part",
    Status.PENDING: "with nothing to do now",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterResult:
    """How the playbook ended on one cluster.

    `sentence` is its verdict; `gates` says how many of its gates or phases opened. `uid` is that of the namespace
    kube-system, where it was read. `asked` is the digest of its request, `run_dir` its run, `log` its output.
    """

    status: Status
    sentence: str
    gates: str = ""
    uid: str = ""
    run_dir: str = ""
    log: str = ""
    started: str = ""
    ended: str = ""
    asked: str = ""

    @property
    def holds(self) -> bool:
        """Whether it counts against the budget: it failed or is unknown. What could not be done yet does not count."""
        return self.status in (Status.FAILED, Status.OTHER)


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetRun:
    """A run over a fleet so far: by cluster its result, and the start time of those that run.

    `ended` is when it was decided (RFC 3339), empty before. `stopped`: the budget ended it.
    """

    fleet_run: str
    play: str
    started: str
    results: dict[str, ClusterResult] = field(default_factory=dict)
    running: dict[str, str] = field(default_factory=dict)
    ended: str = ""
    stopped: bool = False
    schema_version: int = 1


@dataclass(frozen=True, slots=True)
class Ring:
    """A ring: its name, and its clusters in their order."""

    name: str
    clusters: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Next:
    """What is next: the clusters of `ring` without a result; none at the end.

    `not_begun` are the clusters of rings that were not begun because the budget was exceeded.
    """

    ring: str = ""
    clusters: tuple[str, ...] = ()
    not_begun: tuple[str, ...] = ()


def rings_of(ring_of: Mapping[str, str], order: Sequence[str]) -> tuple[Ring, ...]:
    """Return the rings that have clusters, in order.

    Clusters whose ring is not in the order are in ring `rest`, which is last unless it is in the order itself.

    Args:
        ring_of: by cluster its ring, in the order of the clusters.
        order: names of rings.
    """
    names = list(dict.fromkeys([*order, REST]))
    members: dict[str, list[str]] = {name: [] for name in names}
    for cluster, ring in ring_of.items():
        members[ring if ring in members else REST].append(cluster)
    return tuple(Ring(name, tuple(found)) for name, found in members.items() if found)


def next_of(rings: Sequence[Ring], results: Mapping[str, ClusterResult], budget: int) -> Next:
    """Return what is next. A ring begins or goes on while failed and unknown clusters before it are within the budget.

    Args:
        rings: in their order.
        results: by cluster.
        budget: how many clusters may fail or be unknown.
    """
    on_hold = 0
    for number, ring in enumerate(rings):
        left = tuple(cluster for cluster in ring.clusters if cluster not in results)
        if left and on_hold > budget:
            behind = (cluster for later in rings[number:] for cluster in later.clusters)
            return Next(not_begun=tuple(cluster for cluster in behind if cluster not in results))
        if left:
            return Next(ring.name, left)
        on_hold += sum(results[cluster].holds for cluster in ring.clusters)
    return Next()


def kept(
    results: Mapping[str, ClusterResult], requested: Mapping[str, str], *, failed_again: bool
) -> dict[str, ClusterResult]:
    """Return the results that still count when a run goes on: those of clusters whose request is unchanged.

    Args:
        results: by cluster, of the run so far.
        requested: by cluster of the fleet, the digest of its current request.
        failed_again: whether clusters that failed or are unknown are run again.
    """
    return {
        name: result
        for name, result in results.items()
        if requested.get(name) == result.asked and not (failed_again and result.holds)
    }


def without_twins(results: Mapping[str, ClusterResult]) -> dict[str, ClusterResult]:
    """Return the results. Where two names are one cluster it is unclear which is meant, so both are unknown."""
    by_uid: dict[str, list[str]] = {}
    for name, result in results.items():
        if result.uid:
            by_uid.setdefault(result.uid, []).append(name)
    found = dict(results)
    for uid, names in by_uid.items():
        for name in names if len(names) > 1 else ():
            others = first_of([other for other in names if other != name], 3)
            sentence = f"is the same cluster as {others} (UID {uid[:8]} of kube-system); correct a kubeconfig"
            found[name] = replace(results[name], status=Status.OTHER, sentence=sentence)
    return found


def result_of(records: Sequence[RunRecord], status: int | None) -> ClusterResult:
    """Return how a playbook ended from the records of its runs: the worst of several, unknown without one.

    Args:
        records: the records of the runs that it made.
        status: its exit status; None where a signal or the time limit ended it.
    """
    ended = "was ended" if status is None else f"ended with status {status}"
    if not records:
        return ClusterResult(status=Status.OTHER, sentence=f"{ended}, and left no record of a run; see its log")
    worst = max(records, key=lambda record: _BADNESS.index(_status_of(record)))
    found = _status_of(worst)
    if status != 0 and found not in (Status.FAILED, Status.OTHER):
        sentence = f"{ended}, though its record says: {run_summary(worst)}"
        return ClusterResult(status=Status.OTHER, sentence=sentence, gates=_opened(worst))
    return ClusterResult(status=found, sentence=run_summary(worst), gates=_opened(worst))


_BADNESS = (Status.PASSED, Status.SKIPPED, Status.PENDING, Status.FAILED, Status.OTHER)


def _status_of(record: RunRecord) -> Status:
    if record.problem or record.check_mode or record.what_if or record.unconfirmed:
        return Status.OTHER
    if all_passed(record):
        return Status.PASSED
    if nothing_holds(record):
        return Status.SKIPPED if record.validates else Status.PENDING
    if record.work is not None:
        return Status.FAILED if record.work.sentence else Status.OTHER
    decided = record.phases if record.validates else tuple(record.gate(gate) for gate in record.scope)
    return Status.FAILED if any(verdict.status is Status.FAILED for verdict in decided) else Status.OTHER


def _opened(record: RunRecord) -> str:
    if record.work is not None:
        return ""
    decided = record.phases if record.validates else tuple(record.gate(gate) for gate in record.scope)
    return f"{sum(verdict.opens_next for verdict in decided)} of {len(decided)}"


def fleet_passed(clusters: Iterable[str], results: Mapping[str, ClusterResult]) -> bool:
    """Return whether every cluster passed; False for a fleet without clusters."""
    names = list(clusters)
    return bool(names) and all(name in results and results[name].status is Status.PASSED for name in names)


def fleet_holds(clusters: Iterable[str], results: Mapping[str, ClusterResult]) -> bool:
    """Return whether the run must end with a status other than 0: a cluster failed or has no result, or there is
    none."""
    names = list(clusters)
    return not names or any(name not in results or results[name].holds for name in names)


def fleet_run_sentence(play: str, clusters: Sequence[str], results: Mapping[str, ClusterResult], budget: int) -> str:
    """Return the decision in one sentence."""
    counts = Counter(results[name].status for name in clusters if name in results)
    parts = [f"{counts[status]} {word}" for status, word in _WORDS.items() if counts[status]]
    left = [name for name in clusters if name not in results]
    if left:
        parts.append(f"{len(left)} not begun: {first_of(left, 5)}")
    text = f"{play} on {count(len(clusters), 'cluster')}: {', '.join(parts) or 'none'}"
    on_hold = sum(results[name].holds for name in clusters if name in results)
    if left and on_hold > budget:
        text += f"; {count(on_hold, 'cluster')} not passed, and the budget between rings is {budget}"
    return text


DRIFT = "drift"
_METRICS = "drift.prom"
_SAMPLE = re.compile(r"^gpufleet_drift_(\w+)(?:\{[^\n]*\})? (\S+)$", re.MULTILINE)
# The report has the time of its start to the millisecond; the clock of the other process is the same one.
_BEFORE_S = 1.0


def drift_result(report: Path, began_s: float, status: int | None) -> ClusterResult:
    """Return how it ended, from its metrics. It passed if no important fact changed and everything was compared.

    Args:
        report: the directory of its report.
        began_s: when it was started, seconds since the epoch.
        status: its exit status; None where a signal or the time limit ended it.
    """
    path = report / _METRICS
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        text = ""
    found: dict[str, list[float]] = {}
    for name, value in _SAMPLE.findall(text):
        try:
            found.setdefault(name, []).append(float(value))
        except ValueError:
            text = ""
    written = found.get("timestamp_seconds", [0.0])[0]
    if not text or written < began_s - _BEFORE_S or not {"important", "complete"} <= found.keys():
        ended = "was ended" if status is None else f"ended with status {status}"
        return ClusterResult(status=Status.OTHER, sentence=f"{ended}, and left no report of its own; see its log")
    about = f"; see {report / 'drift.md'}"
    worse, whole = any(found.get("figure_worse", ())), found["complete"] == [1.0]
    if worse or (whole and found["important"] != [0.0]):
        return ClusterResult(status=Status.FAILED, sentence=f"something that matters changed{about}")
    # What could not be read may have changed, and counts as important there.
    if not whole:
        return ClusterResult(status=Status.OTHER, sentence=f"not everything could be compared{about}")
    if status != 0:
        return ClusterResult(status=Status.OTHER, sentence=f"ended with status {status}{about}")
    return ClusterResult(status=Status.PASSED, sentence=f"nothing that matters changed{about}")


STATE_FILE, LOCK, CLUSTER_LOCK = "fleet.json", ".lock", ".fleet.lock"
AUTO, FAILED, NEW = "auto", "failed", "new"
_POLL_S, _HEARTBEAT_S = 0.2, 30.0
# A run that is ended removes its pods; its own limits for that are shorter.
GRACE_S = 120.0
# How long a process of a killed fleet run may take to clean up.
_LEFTOVER_S = GRACE_S + 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetRequest:
    """The request to one cluster: the command, its environment, the directory of its runs, and the digest of all that.

    `report` is where the command leaves a report in place of a run (playbook drift).
    """

    cluster: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    run_dir: Path
    digest: str
    report: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetOptions:
    """How a fleet is run: clusters at a time, the budget of failed and unknown clusters, seconds for one cluster."""

    concurrency: int
    budget: int
    timeout_s: float


@contextmanager
def fleet_lock(place: Path, what: str, emit: Emit) -> Iterator[None]:
    """Hold the lock of that directory as the only run of a fleet. Processes of a killed run are waited for.

    Raises:
        UnavailableError: another run is going on.
    """
    make_dirs(place)
    descriptor = os.open(place / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        deadline, reported = monotonic() + _LEFTOVER_S, False
        while not _locked(descriptor):
            holder = _holder(place / LOCK)
            if (holder is not None and holder.alive()) or monotonic() > deadline:
                about = f" (ansible-playbook with pid {holder.pid})" if holder is not None else ""
                reason = f"is held by another run over a fleet{about}."
                raise UnavailableError(
                    str(place), reason, "wait for its end, or name another directory: gpufleet_fleet_dir"
                )
            if not reported:
                emit(f"{what}: the run before this one was killed, and its processes are ending")
                reported = True
            sleep(_POLL_S)
        me = identify(controller_pid())
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{me.pid} {me.start_ticks}\n".encode() if me is not None else b"", 0)
        yield
    finally:
        os.close(descriptor)


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _holder(path: Path) -> ProcessId | None:
    with suppress(OSError, ValueError):
        pid, ticks = path.read_text("utf-8").split()
        return ProcessId(int(pid), int(ticks))
    return None


class FleetPlace:
    """The directory of one run over a fleet: its state, and a log and the variables of each cluster."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def state(self) -> FleetRun:
        """The run so far.

        Raises:
            BringupError: it cannot be read.
        """
        return load(FleetRun, self.path / STATE_FILE)

    def save(self, state: FleetRun) -> None:
        """Write the state atomically: the file is the new or the old one, never a part."""
        write_atomic(self.path / STATE_FILE, dumps(state))

    def log(self, cluster: str) -> Path:
        """Return the file for the output of the playbook for that cluster."""
        return self.path / f"{cluster}.log"


def opened_place(
    base: Path, play: str, how: str, requested: Callable[[FleetPlace], Mapping[str, FleetRequest]], emit: Emit
) -> tuple[FleetPlace, Mapping[str, FleetRequest]]:
    """Return the run that goes on, or a new one, with the request to each cluster; old results that still count stay.

    Args:
        base: directory of all runs over the fleet.
        play: the playbook.
        how: `auto` goes on with one that did not end; `failed` goes on with the newest and runs failed clusters again;
            `new` begins one.
        requested: returns the request to each cluster, with files in that place.
        emit: takes progress lines.

    Raises:
        InputError: a run of another playbook did not end.
        BringupError: the state cannot be read.
    """
    newest = max((path.parent for path in base.glob(f"*/{STATE_FILE}")), default=None)
    before = FleetPlace(newest).state if newest is not None and how != NEW else None
    if newest is None or before is None or (how == AUTO and before.ended):
        place = FleetPlace(create_run_dir(base, PRIVATE_DIR))
        place.save(FleetRun(fleet_run=place.path.name, play=play, started=now_utc()))
        return place, requested(place)
    if before.play != play:
        reason = (
            f"is a run of {before.play} over the fleet{'' if before.ended else ' that did not end'}; asked is {play}."
        )
        hint = f"end it with -e gpufleet_fleet_play={before.play}, or begin anew with -e gpufleet_fleet_resume=new"
        raise InputError(str(newest), reason, hint)
    place = FleetPlace(newest)
    wanted = requested(place)
    digests = {name: each.digest for name, each in wanted.items()}
    results = kept(before.results, digests, failed_again=how == FAILED)
    place.save(replace(before, results=results, running={}, ended="", stopped=False))
    emit(f"goes on with {newest}: {len(results)} of {len(wanted)} clusters have their result")
    changed = [name for name, result in before.results.items() if name in digests and digests[name] != result.asked]
    if changed:
        emit(f"asked otherwise than before, and run again: {first_of(changed, 10)}")
    return place, wanted


def run_fleet(
    place: FleetPlace, rings: Sequence[Ring], requested: Mapping[str, FleetRequest], options: FleetOptions, emit: Emit
) -> Next:
    """Run the clusters without a result, ring by ring, until none is left or the budget is exceeded; return the end.

    However it ends, none of its processes is left, and results so far are kept.
    """
    while True:
        state = place.state
        following = next_of(rings, state.results, options.budget)
        if not following.clusters:
            place.save(replace(state, running={}, ended=now_utc(), stopped=bool(following.not_begun)))
            return following
        emit(f"ring {following.ring}: {', '.join(following.clusters)}")
        _Ring(place, {name: requested[name] for name in following.clusters}, options, emit).run()


class _Ring:
    """The clusters of one ring, a limited number at a time."""

    def __init__(
        self, place: FleetPlace, requested: Mapping[str, FleetRequest], options: FleetOptions, emit: Emit
    ) -> None:
        self._place, self._options, self._emit = place, options, emit
        self._waiting = dict(requested)
        self._running: dict[str, _Child] = {}
        self._told_s = monotonic()
        self._began_s = self._told_s

    def run(self) -> None:
        try:
            while self._waiting or self._running:
                self._start()
                for name, child in list(self._running.items()):
                    result = child.ended(self._options.timeout_s)
                    if result is not None:
                        del self._running[name]
                        self._keep(name, result)
                self._tell()
                sleep(_POLL_S)
        finally:
            _end_all(self._running.values())

    def _start(self) -> None:
        for name, requested in list(self._waiting.items()):
            if len(self._running) >= self._options.concurrency:
                return
            try:
                child = _Child.start(requested, self._place.log(name))
            except (BringupError, OSError) as error:
                del self._waiting[name]
                self._keep(name, ClusterResult(status=Status.OTHER, sentence=f"cannot be started: {error}"), requested)
                continue
            if child is None:
                self._held(name, requested)
                continue
            del self._waiting[name]
            self._running[name] = child
            state = self._place.state
            self._place.save(replace(state, running={**state.running, name: now_utc()}))
            self._emit(f"{name}: started, log {self._place.log(name)}")

    def _held(self, name: str, requested: FleetRequest) -> None:
        """Wait a while for a process of a fleet that still works on the cluster. After that the result is unknown."""
        if monotonic() - self._began_s > _LEFTOVER_S:
            del self._waiting[name]
            sentence = "another run over a fleet still works on it; wait for its end"
            self._keep(name, ClusterResult(status=Status.OTHER, sentence=sentence), requested)

    def _keep(self, name: str, result: ClusterResult, requested: FleetRequest | None = None) -> None:
        state = self._place.state
        reported = replace(result, asked=requested.digest) if requested is not None else result
        results = without_twins({**state.results, name: reported})
        running = {other: since for other, since in state.running.items() if other != name}
        self._place.save(replace(state, results=results, running=running))
        self._emit(f"{name}: {results[name].status.value}: {results[name].sentence}")

    def _tell(self) -> None:
        if monotonic() - self._told_s > _HEARTBEAT_S:
            self._told_s = monotonic()
            running = [f"{name} ({elapsed_text(child.seconds)})" for name, child in self._running.items()]
            self._emit(f"running: {first_of(running, 5)}; waiting: {len(self._waiting)}")


class _Child:
    """A playbook on one cluster: a separate process group that ends with ours."""

    def __init__(
        self, process: subprocess.Popen[bytes], requested: FleetRequest, log: Path, before: frozenset[str]
    ) -> None:
        self.process, self._asked, self._log, self._before = process, requested, log, before
        self._began_s, self._began, self._clock_s = monotonic(), now_utc(), time()

    @classmethod
    def start(cls, requested: FleetRequest, log: Path) -> _Child | None:
        """Start it; None where a process of a fleet works on the cluster.

        The lock belongs to the process and all that it forks. So no second one starts while any of them lives.
        """
        make_dirs(requested.run_dir)
        lock = os.open(requested.run_dir / CLUSTER_LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if not _locked(lock):
                return None
            before = frozenset(_runs(requested.run_dir))
            with log.open("ab") as output:
                output.write(f"--- {now_utc()}\n".encode())
                output.flush()
                process = subprocess.Popen(
                    requested.argv, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                    env=dict(requested.env),
                    start_new_session=True, pass_fds=(lock,), preexec_fn=bound_to_parent(signal.SIGTERM),
                )  # fmt: skip
        finally:
            os.close(lock)
        return cls(process, requested, log, before)

    @property
    def seconds(self) -> float:
        """Seconds since its start."""
        return monotonic() - self._began_s

    def ended(self, timeout_s: float) -> ClusterResult | None:
        """Return its result once it has ended or its time is over; None while it runs."""
        status = self.process.poll()
        if status is None and self.seconds < timeout_s:
            return None
        late = status is None
        if late:
            _end_all([self])
        result = replace(
            self._result(None if late or (status or 0) < 0 else status),
            log=str(self._log), started=self._began, ended=now_utc(), asked=self._asked.digest,
        )  # fmt: skip
        if late:
            sentence = f"its time of {elapsed_text(timeout_s)} was over; {result.sentence}"
            return replace(result, status=Status.OTHER, sentence=sentence)
        return result

    def _result(self, status: int | None) -> ClusterResult:
        if self._asked.report is not None:
            return drift_result(self._asked.report, self._clock_s, status)
        new = sorted(_runs(self._asked.run_dir) - self._before)
        records: list[RunRecord] = []
        for name in new:
            try:
                records.append(Run(self._asked.run_dir / name).record)
            except (BringupError, OSError) as error:
                return ClusterResult(status=Status.OTHER, sentence=f"its record cannot be read: {error}")
        if not new:
            return result_of((), status)
        path = self._asked.run_dir / new[-1]
        return replace(result_of(records, status), run_dir=str(path), uid=cluster_uid_of(path))


def _runs(base: Path) -> set[str]:
    """Return the names of the runs there. The proof of a wave is part of the run that made it."""
    found = (path.parent for path in base.glob(f"*/{RUN}"))
    return {path.name for path in found if not path.is_symlink() and PROOF_OF_WAVE not in path.name}


def _end_all(children: Iterable[_Child]) -> None:
    """End processes: SIGTERM to all at once, time to clean up, then SIGKILL.

    What ansible-playbook forked cleans up after its parent has gone, so the whole group is waited for.
    """
    left = [child.process for child in children if child.process.poll() is None]
    for process in left:
        signal_group(process, signal.SIGTERM)
    deadline = monotonic() + GRACE_S
    while left and monotonic() < deadline:
        left = [process for process in left if process.poll() is None or group_runs(process.pid)]
        sleep(_POLL_S)
    for process in left:
        signal_group(process, signal.SIGKILL)
        process.wait()
