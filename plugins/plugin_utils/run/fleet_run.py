# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A playbook over the clusters of a fleet: its state in files, a process for each cluster, and the verdict of each."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic, sleep, time

from ..outcome.codec import dumps, load
from ..outcome.errors import BringupError, InputError, UnavailableError
from ..outcome.model import Status
from ..outcome.wording import first_of
from ..runtime.clock import elapsed_text, now_utc
from ..runtime.files import PRIVATE_DIR, RUN, cluster_uid_of, create_run_dir, make_dirs, write_atomic
from ..runtime.process import ProcessId, bound_to_parent, controller_pid, group_runs, identify, signal_group
from ..runtime.progress import Emit
from ..verdict.fleet_run import (
    ClusterResult,
    FleetRun,
    Next,
    Ring,
    kept,
    next_of,
    result_of,
    without_twins,
)
from ..verdict.run import PROOF_OF_WAVE, RunRecord
from .fleet_drift import drift_result
from .run import Run

STATE_FILE, LOCK, CLUSTER_LOCK = "fleet.json", ".lock", ".fleet.lock"
AUTO, FAILED, NEW = "auto", "failed", "new"
_POLL_S, _HEARTBEAT_S = 0.2, 30.0
# A run removes its pods when it is ended; its own limits for that are shorter.
GRACE_S = 120.0
# How long a process of a fleet that was killed may take to remove what it made.
_LEFTOVER_S = GRACE_S + 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What one cluster is asked: the command, its environment, the directory of its runs, and the digest of all that.

    `report` is where the command leaves a report in the place of a run (playbook drift).
    """

    cluster: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    run_dir: Path
    digest: str
    report: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetOptions:
    """How a fleet is run: clusters at a time, how many may not pass before the next ring, seconds for one cluster."""

    concurrency: int
    budget: int
    timeout_s: float


@contextmanager
def fleet_lock(place: Path, what: str, emit: Emit) -> Iterator[None]:
    """Be the only run of a fleet in that directory; one that was killed is waited for until its processes are gone.

    Raises:
        UnavailableError: another one is going on.
    """
    make_dirs(place)
    descriptor = os.open(place / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        deadline, told = monotonic() + _LEFTOVER_S, False
        while not _locked(descriptor):
            holder = _holder(place / LOCK)
            if (holder is not None and holder.alive()) or monotonic() > deadline:
                about = f" (ansible-playbook with pid {holder.pid})" if holder is not None else ""
                reason = f"is held by another run over a fleet{about}."
                raise UnavailableError(
                    str(place), reason, "wait for its end, or name another directory: gpufleet_fleet_dir"
                )
            if not told:
                emit(f"{what}: the run before this one was killed, and its processes are ending")
                told = True
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
        """Write the state; it is whole or as it was."""
        write_atomic(self.path / STATE_FILE, dumps(state))

    def log(self, cluster: str) -> Path:
        """Return the file for what the playbook prints about that cluster."""
        return self.path / f"{cluster}.log"


def opened_place(
    base: Path, play: str, how: str, asked: Callable[[FleetPlace], Mapping[str, Asked]], emit: Emit
) -> tuple[FleetPlace, Mapping[str, Asked]]:
    """Return the run that goes on, or a new one, with what each cluster is asked; old results that still count stay.

    Args:
        base: directory of all runs over the fleet.
        play: the playbook.
        how: `auto` goes on with one that did not end, `failed` with the newest, where what holds is run again; `new`
            begins one.
        asked: says what each cluster is asked, with files in that place.
        emit: told what goes on.

    Raises:
        InputError: one of another playbook did not end.
        BringupError: the state cannot be read.
    """
    newest = max((path.parent for path in base.glob(f"*/{STATE_FILE}")), default=None)
    before = FleetPlace(newest).state if newest is not None and how != NEW else None
    if newest is None or before is None or (how == AUTO and before.ended):
        place = FleetPlace(create_run_dir(base, PRIVATE_DIR))
        place.save(FleetRun(fleet_run=place.path.name, play=play, started=now_utc()))
        return place, asked(place)
    if before.play != play:
        reason = (
            f"is a run of {before.play} over the fleet{'' if before.ended else ' that did not end'}; asked is {play}."
        )
        hint = f"end it with -e gpufleet_fleet_play={before.play}, or begin anew with -e gpufleet_fleet_resume=new"
        raise InputError(str(newest), reason, hint)
    place = FleetPlace(newest)
    wanted = asked(place)
    digests = {name: each.digest for name, each in wanted.items()}
    results = kept(before.results, digests, failed_again=how == FAILED)
    place.save(replace(before, results=results, running={}, ended="", stopped=False))
    emit(f"goes on with {newest}: {len(results)} of {len(wanted)} clusters have their result")
    changed = [name for name, result in before.results.items() if name in digests and digests[name] != result.asked]
    if changed:
        emit(f"asked otherwise than before, and run again: {first_of(changed, 10)}")
    return place, wanted


def run_fleet(
    place: FleetPlace, rings: Sequence[Ring], asked: Mapping[str, Asked], options: FleetOptions, emit: Emit
) -> Next:
    """Run the clusters without a result, ring by ring, until none is left or the budget is exceeded; return the end.

    Whatever ends it, no process of it is left, and what has its result keeps it.
    """
    while True:
        state = place.state
        following = next_of(rings, state.results, options.budget)
        if not following.clusters:
            place.save(replace(state, running={}, ended=now_utc(), stopped=bool(following.not_begun)))
            return following
        emit(f"ring {following.ring}: {', '.join(following.clusters)}")
        _Ring(place, {name: asked[name] for name in following.clusters}, options, emit).run()


class _Ring:
    """The clusters of one ring, so many at a time."""

    def __init__(self, place: FleetPlace, asked: Mapping[str, Asked], options: FleetOptions, emit: Emit) -> None:
        self._place, self._options, self._emit = place, options, emit
        self._waiting = dict(asked)
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
        for name, asked in list(self._waiting.items()):
            if len(self._running) >= self._options.concurrency:
                return
            try:
                child = _Child.start(asked, self._place.log(name))
            except (BringupError, OSError) as error:
                del self._waiting[name]
                self._keep(name, ClusterResult(status=Status.OTHER, sentence=f"cannot be started: {error}"), asked)
                continue
            if child is None:
                self._held(name, asked)
                continue
            del self._waiting[name]
            self._running[name] = child
            state = self._place.state
            self._place.save(replace(state, running={**state.running, name: now_utc()}))
            self._emit(f"{name}: started, log {self._place.log(name)}")

    def _held(self, name: str, asked: Asked) -> None:
        """Wait a while for a process of a fleet that still works on the cluster; then nothing is known of it."""
        if monotonic() - self._began_s > _LEFTOVER_S:
            del self._waiting[name]
            sentence = "another run over a fleet still works on it; wait for its end"
            self._keep(name, ClusterResult(status=Status.OTHER, sentence=sentence), asked)

    def _keep(self, name: str, result: ClusterResult, asked: Asked | None = None) -> None:
        state = self._place.state
        told = replace(result, asked=asked.digest) if asked is not None else result
        results = without_twins({**state.results, name: told})
        running = {other: since for other, since in state.running.items() if other != name}
        self._place.save(replace(state, results=results, running=running))
        self._emit(f"{name}: {results[name].status.value}: {results[name].sentence}")

    def _tell(self) -> None:
        if monotonic() - self._told_s > _HEARTBEAT_S:
            self._told_s = monotonic()
            running = [f"{name} ({elapsed_text(child.seconds)})" for name, child in self._running.items()]
            self._emit(f"running: {first_of(running, 5)}; waiting: {len(self._waiting)}")


class _Child:
    """A playbook on one cluster: a process group of its own, whose end is bound to ours."""

    def __init__(self, process: subprocess.Popen[bytes], asked: Asked, log: Path, before: frozenset[str]) -> None:
        self.process, self._asked, self._log, self._before = process, asked, log, before
        self._began_s, self._began, self._clock_s = monotonic(), now_utc(), time()

    @classmethod
    def start(cls, asked: Asked, log: Path) -> _Child | None:
        """Start it; None where a process of a fleet works on the cluster.

        The lock goes with the process and all that it forks: whoever is killed, no second one starts meanwhile.
        """
        make_dirs(asked.run_dir)
        lock = os.open(asked.run_dir / CLUSTER_LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if not _locked(lock):
                return None
            before = frozenset(_runs(asked.run_dir))
            with log.open("ab") as output:
                output.write(f"--- {now_utc()}\n".encode())
                output.flush()
                process = subprocess.Popen(
                    asked.argv, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, env=dict(asked.env),
                    start_new_session=True, pass_fds=(lock,), preexec_fn=bound_to_parent(signal.SIGTERM),
                )  # fmt: skip
        finally:
            os.close(lock)
        return cls(process, asked, log, before)

    @property
    def seconds(self) -> float:
        """How long it runs."""
        return monotonic() - self._began_s

    def ended(self, timeout_s: float) -> ClusterResult | None:
        """Return its result once it has ended, or its time is over; None while it runs."""
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
    """Return the names of the runs there; a wave's proof is a part of the run that made it."""
    found = (path.parent for path in base.glob(f"*/{RUN}"))
    return {path.name for path in found if not path.is_symlink() and PROOF_OF_WAVE not in path.name}


def _end_all(children: Iterable[_Child]) -> None:
    """End processes: asked at once, given time to remove what they made, then killed.

    What ansible-playbook forked cleans up after it has gone, so its whole group is waited for.
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
