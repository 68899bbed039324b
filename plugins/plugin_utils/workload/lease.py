# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""One controller for a cluster: the Lease that a run holds, and the keeper that renews it (keeper.py)."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from ..clients.kube.cluster import Cluster
from ..clients.kube.errors import ConflictError
from ..clients.kube.objects import LEASES, NAMESPACES
from ..outcome.errors import NotFoundError, UnavailableError
from ..runtime.clock import moment_of
from ..runtime.files import KEEPER_LOCK
from ..runtime.launch import python_argv
from ..runtime.process import identify, is_locked
from ..runtime.progress import Emit, silent

# One controller for a cluster: a Lease (coordination.k8s.io) that a run holds while it installs or tests.
#
# Rules and fields are those of client-go's leader election (kubernetes/client-go tools/leaderelection). A record is
# written only over the version that was read. A record of another holder is dead when it has not changed for its whole
# duration, by the clock of the run that watches it. The times in it are for people: clocks of two controllers may
# differ.

NAMESPACE, NAME = "gpufleet-system", "bringup"
# Longer than requests wait for an API server that is away, so that no run loses the Lease over an outage.
DURATION_S = 180
RENEW_S = 10.0
# A run that could not renew for this long stops, before another may take over.
RENEW_DEADLINE_S = 160.0
RUN, COMMAND, CONTROLLER = "gpufleet.io/run", "gpufleet.io/command", "gpufleet.io/controller"
_RETRY_S = 2.0
_LONGEST_S = 3600
_LABELS = {"gpufleet.io/managed-by": "gpufleet.bringup"}
Json = dict[str, Any]


class HeldError(UnavailableError):
    """Another run holds the cluster."""


class LostError(UnavailableError):
    """This run does not hold the cluster any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A run that holds the cluster or wants to. `holder` is unique, the rest is for people."""

    holder: str
    run_id: str = ""
    command: str = ""
    controller: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRecord:
    """The content of a Lease. `holder` is empty where no run holds it. Times are RFC 3339 by the holder's clock."""

    holder: str = ""
    run_id: str = ""
    command: str = ""
    controller: str = ""
    acquired: str = ""
    renewed: str = ""
    duration_s: int = DURATION_S
    transitions: int = 0

    @property
    def expires(self) -> str:
        """When it expires by its holder's clock. Empty where the renewal time is missing."""
        try:
            renewed = moment_of(self.renewed)
        except ValueError:
            return ""
        return (renewed + timedelta(seconds=self.duration_s)).strftime("%Y-%m-%dT%H:%M:%SZ")

    @property
    def text(self) -> str:
        """The holder, for messages."""
        words = [f"run {self.run_id or 'without a name'} ({self.holder})"]
        words += [f"on controller {self.controller}"] if self.controller else []
        words += [f"by `{self.command}`"] if self.command else []
        words += [f"since {self.acquired}"] if self.acquired else []
        words += [f"last renewed {self.renewed}, expires {self.expires} unless renewed"] if self.expires else []
        return ", ".join(words)


def read_record(lease: Json) -> LeaseRecord:
    """Return the content of a Lease. A field that is missing or invalid gets its default."""
    spec = lease.get("spec") or {}
    notes = (lease.get("metadata") or {}).get("annotations") or {}
    duration = spec.get("leaseDurationSeconds")
    transitions = spec.get("leaseTransitions")
    return LeaseRecord(
        holder=str(spec.get("holderIdentity") or ""),
        run_id=str(notes.get(RUN) or ""),
        command=str(notes.get(COMMAND) or ""),
        controller=str(notes.get(CONTROLLER) or ""),
        acquired=str(spec.get("acquireTime") or ""),
        renewed=str(spec.get("renewTime") or ""),
        duration_s=min(duration, _LONGEST_S) if isinstance(duration, int) and duration > 0 else DURATION_S,
        transitions=transitions if isinstance(transitions, int) else 0,
    )


def holder_of(cluster: Cluster) -> LeaseRecord:
    """Return the record of the run that holds the cluster, alive or dead.

    Raises:
        BringupError: the API server does not answer.
    """
    return read_record(cluster.find(LEASES, NAME, NAMESPACE) or {})


def acquire(
    cluster: Cluster,
    claim: Claim,
    *,
    wait_s: float = 0.0,
    emit: Emit = silent,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Take the Lease for a claim, at once if it is free or this holder has it already.

    The record of another holder is watched. If it is renewed meanwhile, that run is alive. If it stays unchanged for
    its duration, that run is dead and its Lease is taken over.

    Args:
        cluster: the cluster.
        claim: the run that wants it.
        wait_s: how long to wait for the end of a run that is alive; 0 refuses as soon as it is known to be alive.
        emit: gets the progress lines.
        clock: the local monotonic clock, in seconds.
        sleep: waits for this many seconds.

    Raises:
        HeldError: another run holds it and is alive.
        BringupError: the API server does not answer or refuses.
    """
    watched: Json | None = None
    since = began = clock()
    while True:
        lease = cluster.find(LEASES, NAME, NAMESPACE)
        record = read_record(lease or {})
        now = clock()
        dead = watched is not None and (lease or {}).get("spec") == watched and now - since > record.duration_s
        if lease is None or record.holder in ("", claim.holder) or dead:
            if _written(cluster, claim, lease, record):
                return
            continue
        if lease.get("spec") != watched:
            # It changed while it was watched, so its run is alive.
            if watched is not None and now - began >= wait_s:
                raise _on_hold(record)
            emit(f"the cluster is held by {record.text}: waiting until it is renewed or dead")
            watched, since = lease.get("spec"), now
        sleep(_RETRY_S)


def renew(cluster: Cluster, claim: Claim) -> None:
    """Renew the Lease of a run.

    Raises:
        LostError: another run holds the Lease, or no run does.
        BringupError: the API server does not answer; try again.
    """

    def renewed(lease: Json) -> Json:
        if read_record(lease).holder != claim.holder:
            raise _lost(claim.holder, read_record(lease))
        return {**lease, "spec": {**lease["spec"], "renewTime": _now()}}

    try:
        cluster.change(LEASES, NAME, renewed, NAMESPACE)
    except NotFoundError:
        raise _lost(claim.holder, LeaseRecord()) from None


def release(cluster: Cluster, claim: Claim) -> None:
    """Release the Lease. Where another run holds it, nothing is changed.

    Raises:
        BringupError: the API server does not answer.
    """

    def given_back(lease: Json) -> Json | None:
        if read_record(lease).holder != claim.holder:
            return None
        return {
            **lease,
            "spec": {**lease["spec"], "holderIdentity": "", "renewTime": _now(), "leaseDurationSeconds": 1},
        }

    with suppress(NotFoundError):
        cluster.change(LEASES, NAME, given_back, NAMESPACE)


def confirm(cluster: Cluster, holder: str) -> None:
    """Check that this holder has the Lease.

    Raises:
        LostError: it does not.
        BringupError: the API server does not answer.
    """
    record = holder_of(cluster)
    if record.holder != holder:
        raise _lost(holder, record)


def _written(cluster: Cluster, claim: Claim, lease: Json | None, before: LeaseRecord) -> bool:
    """Write the claim over the version that was read. Return False if another run wrote first."""
    notes = {RUN: claim.run_id, COMMAND: claim.command, CONTROLLER: claim.controller}
    same = before.holder == claim.holder
    spec = {
        "holderIdentity": claim.holder,
        "leaseDurationSeconds": DURATION_S,
        "acquireTime": before.acquired if same and before.acquired else _now(),
        "renewTime": _now(),
        "leaseTransitions": before.transitions + (0 if same or lease is None else 1),
    }
    try:
        if lease is None:
            _created(cluster, {"metadata": {"name": NAME, "labels": _LABELS, "annotations": notes}, "spec": spec})
        else:
            annotations = {**(lease["metadata"].get("annotations") or {}), **notes}
            body = {**lease, "metadata": {**lease["metadata"], "annotations": annotations}, "spec": spec}
            cluster.replace(LEASES, body, NAMESPACE)
    except ConflictError:
        return False
    return True


def _created(cluster: Cluster, body: Json) -> None:
    body = {"apiVersion": LEASES.api_version, "kind": LEASES.kind, **body}
    try:
        cluster.create(LEASES, body, NAMESPACE)
    except NotFoundError:
        # Another controller may create the namespace at the same time.
        with suppress(ConflictError):
            cluster.create(NAMESPACES, {"metadata": {"name": NAMESPACE, "labels": _LABELS}})
        cluster.create(LEASES, body, NAMESPACE)


def _on_hold(record: LeaseRecord) -> HeldError:
    hint = (
        "start this run after that one, or let it wait: -e gpufleet_when_held=wait; the Lease of a dead run is taken "
        f"over after {record.duration_s} s by itself (kubectl get lease -n {NAMESPACE} {NAME} -o yaml)"
    )
    return HeldError("cluster", f"is held by {record.text}; it was renewed while this run watched.", hint)


def _lost(holder: str, record: LeaseRecord) -> LostError:
    now = record.text if record.holder else "nobody"
    hint = "start the run again; it waits or refuses as gpufleet_when_held says, and removes what this one left"
    return LostError("cluster", f"is not held by {holder} any more, but by {now}.", hint)


def _now() -> str:
    """Return the time as the API server's MicroTime."""
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


# Holding a cluster for a run: takes its Lease and starts the keeper that renews it (see keeper.py).

RUNNING, WORKING, LOCK = KEEPER_LOCK, ".working.lock", "hold.lock"
TAKEN = "taken"
_READY = "ready"
_HELD = "held"
_AT_ONCE = "it ended at once"
_NOT_RENEWED = "nothing would renew the Lease"
_LOOK_S = 2.0
_END_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class KeeperRequest:
    """What a keeper reads from standard input.

    Args:
        claim: the run whose Lease it renews.
        connection: fields of the Connection to the cluster; empty for a run without cluster.
        pid: the process whose end is the end of the run.
        start_ticks: its start time, so that a reused pid is not taken for it.
        attached: the end of standard input is the end of the run as well.
        running: file that the keeper locks while it lives; empty for none.
        working: file that workers lock, shared, while they test; empty for none.
        lock: file that is locked in place of a Lease where there is no cluster.
    """

    claim: Claim
    connection: dict[str, Any]
    pid: int
    start_ticks: int
    attached: bool = False
    running: str = ""
    working: str = ""
    lock: str = ""


def lock_record(claim: Claim) -> dict[str, str]:
    """Return the content of a lock file, which replaces a Lease where there is no cluster."""
    return {
        "holder": claim.holder, "run_id": claim.run_id, "command": claim.command, "controller": claim.controller,
        "acquired": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }  # fmt: skip


def request_from(text: str) -> KeeperRequest:
    """Decode a request from JSON."""
    plain = json.loads(text)
    return KeeperRequest(**{**plain, "claim": Claim(**plain["claim"])})


def process_of(pid: int) -> tuple[int, int]:
    """Return pid and start time of a process. The start time is -1 if the process is gone."""
    found = identify(pid)
    return pid, found.start_ticks if found else -1


def claim_of(run_id: str, command: str = "") -> Claim:
    """Return the claim of a run of this controller. Its holder is host name and run id, as client-go builds it."""
    import socket

    host = socket.gethostname()
    return Claim(holder=f"{host}_{run_id}", run_id=run_id, command=command, controller=host)


def hold_cluster(
    cluster: Cluster, claim: Claim, run_dir: Path, *, pid: int, wait_s: float, emit: Emit = silent
) -> bool:
    """Hold the cluster until the run ends. Return False if an earlier task of the run holds it already.

    Args:
        cluster: the cluster.
        claim: the run.
        run_dir: directory of the run.
        pid: process whose end is the end of the run.
        wait_s: how long to wait for another run; 0 refuses.
        emit: gets the progress lines.

    Raises:
        HeldError: another run holds it.
        LostError: this run held it, and does not any more.
        BringupError: the API server does not answer.
    """
    if is_locked(run_dir / RUNNING):
        confirm(cluster, claim.holder)
        return False
    request = _request(claim, pid, run_dir, connection=_connection(cluster))
    with _keeper(cluster, request) as taken:
        acquire(cluster, claim, wait_s=wait_s, emit=emit)
        taken()
    return True


def hold_hosts(claim: Claim, run_dir: Path, *, pid: int, wait_s: float, emit: Emit = silent) -> bool:
    """Hold the hosts of a site without cluster until the run ends, by a lock file beside the runs of this controller.

    Return False if an earlier task of the run holds them already.

    Raises:
        HeldError: another run holds them.
        UnavailableError: the keeper cannot be started.
    """
    if is_locked(run_dir / RUNNING):
        return False
    lock = run_dir.parent / LOCK
    request = _request(claim, pid, run_dir, lock=str(lock))
    end, messages = time.monotonic() + wait_s, False
    while (reported := _hosts_held(request)) == _HELD:
        record = read_lock(lock)
        if time.monotonic() >= end:
            hint = "start this run after that one, or let it wait: -e gpufleet_when_held=wait"
            raise HeldError("hosts", f"are held by {record.text} (lock {lock}).", hint)
        if not messages:
            emit(f"the hosts are held by {record.text}: waiting")
            messages = True
        time.sleep(_LOOK_S)
    if reported != _READY:
        raise _no_keeper(reported, "the hosts are not held")
    return True


@contextmanager
def held(cluster: Cluster, emit: Emit = silent) -> Iterator[str]:
    """Hold the cluster while the block runs, for a test outside of a run. Yield the holder.

    Raises:
        HeldError: a run holds it.
        BringupError: the API server does not answer.
    """
    import secrets

    claim = claim_of(f"test-{secrets.token_hex(4)}")
    pid, start_ticks = process_of(os.getpid())
    request = KeeperRequest(
        claim=claim, connection=_connection(cluster), pid=pid, start_ticks=start_ticks, attached=True
    )  # fmt: skip
    with _keeper(cluster, request) as taken:
        acquire(cluster, claim, emit=emit)
        taken()
        yield claim.holder


@contextmanager
def working(run_dir: Path) -> Iterator[None]:
    """Mark this process as creating or removing objects: the keeper releases the Lease only after the block."""
    file = os.open(run_dir / WORKING, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_SH)
        yield
    finally:
        os.close(file)


def end_keeper(run_dir: Path) -> None:
    """End the keeper of a run, which releases the Lease, and wait for it. Without a keeper nothing happens."""
    path = run_dir / RUNNING
    end = time.monotonic() + _END_S
    requested = False
    while is_locked(path) and time.monotonic() < end:
        text = path.read_text(encoding="utf-8").strip()
        if not requested and text.isdecimal():
            os.kill(int(text), 15)
            requested = True
        time.sleep(0.05)


def read_lock(path: Path) -> LeaseRecord:
    """Return the holder from a lock file. The record is empty if the file is missing or invalid."""
    try:
        plain = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return LeaseRecord()
    if not isinstance(plain, dict):
        return LeaseRecord()
    names = ("holder", "run_id", "command", "controller", "acquired")
    holder, run_id, command, controller, acquired = (str(plain.get(name) or "") for name in names)
    return LeaseRecord(
        holder=holder, run_id=run_id, command=command, controller=controller, acquired=acquired
    )  # fmt: skip


def _request(claim: Claim, pid: int, run_dir: Path, **more: Any) -> KeeperRequest:
    number, start_ticks = process_of(pid)
    files = {"running": str(run_dir / RUNNING), "working": str(run_dir / WORKING)}
    reported = {"claim": claim, "connection": {}, "pid": number, "start_ticks": start_ticks}
    return KeeperRequest(**{**reported, **files, **more})


def _connection(cluster: Cluster) -> dict[str, Any]:
    return asdict(cluster.connection)


@contextmanager
def _keeper(cluster: Cluster, request: KeeperRequest) -> Iterator[Callable[[], None]]:
    """Start a keeper before the Lease is taken, and yield the function that confirms to it that the Lease is taken.

    A confirmed keeper goes on after the block; an attached one ends with it. An unconfirmed keeper ends with the block
    or with this process, and releases what may have been taken.

    Raises:
        UnavailableError: it does not start.
    """
    keeper, reported = _start(request)
    if reported != _READY:
        raise _no_keeper(reported, _NOT_RENEWED)
    told = False

    def taken() -> None:
        nonlocal told
        told = _report(keeper, TAKEN)
        if not told:
            release(cluster, request.claim)
            raise _no_keeper("it ended meanwhile", _NOT_RENEWED)

    try:
        yield taken
    finally:
        _leave(keeper)
        if request.attached or not told:
            # While the API server is away the keeper goes on trying alone.
            with suppress(subprocess.TimeoutExpired):
                keeper.wait(_END_S)


def _hosts_held(request: KeeperRequest) -> str:
    keeper, reported = _start(request)
    _leave(keeper)
    return reported


def _start(request: KeeperRequest) -> tuple[subprocess.Popen[str], str]:
    """Start a keeper and return it with its first line."""
    # Its command line has neither credentials nor paths: it reads them from standard input.
    keeper = subprocess.Popen(
        python_argv("workload.keeper"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        start_new_session=True, text=True,
    )  # fmt: skip
    if keeper.stdout is None or not _report(keeper, json.dumps(asdict(request))):
        return keeper, _AT_ONCE
    reported = keeper.stdout.readline().strip() or _AT_ONCE
    keeper.stdout.close()
    return keeper, reported


def _report(keeper: subprocess.Popen[str], line: str) -> bool:
    """Write a line to a keeper. Return False if it has ended."""
    if keeper.stdin is None:
        return False
    try:
        keeper.stdin.write(f"{line}\n")
        keeper.stdin.flush()
    except BrokenPipeError:
        return False
    return True


def _leave(keeper: subprocess.Popen[str]) -> None:
    if keeper.stdin is not None:
        with suppress(BrokenPipeError):
            keeper.stdin.close()


def _no_keeper(reported: str, otherwise: str) -> UnavailableError:
    return UnavailableError("keeper of the run", f"does not start ({reported}): {otherwise}.", "start the run again")
