# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Holding a cluster for a run: takes its Lease and starts the keeper that renews it (see keeper.py)."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ..clients.kube.cluster import Cluster
from ..outcome.errors import UnavailableError
from ..runtime.launch import python_argv
from ..runtime.process_id import identify
from ..runtime.progress import Emit, silent
from .lease import Claim, HeldError, LeaseRecord, acquire, confirm, release

RUNNING, WORKING, LOCK = ".keeper.lock", ".working.lock", "hold.lock"
TAKEN = "taken"
_READY = "ready"
_HELD = "held"
_AT_ONCE = "it ended at once"
_NOT_RENEWED = "nothing would renew the Lease"
_LOOK_S = 2.0
_END_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class KeeperRequest:
    """What a keeper is told.

    Args:
        claim: whose Lease it is.
        connection: fields of the Connection to the cluster; empty for a run without cluster.
        pid: the process whose end is the end of the run.
        start_ticks: its start time, so that a pid that was given again is not taken for it.
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
    """Return what a lock says in place of a Lease."""
    return {
        "holder": claim.holder, "run_id": claim.run_id, "command": claim.command, "controller": claim.controller,
        "acquired": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }  # fmt: skip


def request_from(text: str) -> KeeperRequest:
    """Return the request that was written as JSON."""
    plain = json.loads(text)
    return KeeperRequest(**{**plain, "claim": Claim(**plain["claim"])})


def process_of(pid: int) -> tuple[int, int]:
    """Return pid and start time of a process; a start time of -1 where it is gone already."""
    found = identify(pid)
    return pid, found.start_ticks if found else -1


def keeper_at_work(running: Path) -> bool:
    """Tell whether a keeper has locked that file."""
    try:
        file = os.open(running, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(file)
    return False


def claim_of(run_id: str, command: str = "") -> Claim:
    """Return the claim of a run of this controller. Its holder is made of host name and run id, as client-go does."""
    import socket

    host = socket.gethostname()
    return Claim(holder=f"{host}_{run_id}", run_id=run_id, command=command, controller=host)


def hold_cluster(
    cluster: Cluster, claim: Claim, run_dir: Path, *, pid: int, wait_s: float, emit: Emit = silent
) -> bool:
    """Hold the cluster until the run ends; tell whether it was taken now, and not by an earlier task of the run.

    Args:
        cluster: which.
        claim: for whom.
        run_dir: directory of the run.
        pid: process whose end is the end of the run.
        wait_s: how long to wait for another run; 0 refuses.
        emit: takes the progress lines.

    Raises:
        HeldError: another run holds it.
        LostError: this run held it, and does not any more.
        BringupError: the API server does not answer.
    """
    if keeper_at_work(run_dir / RUNNING):
        confirm(cluster, claim.holder)
        return False
    request = _request(claim, pid, run_dir, connection=_connection(cluster))
    with _keeper(cluster, request) as taken:
        acquire(cluster, claim, wait_s=wait_s, emit=emit)
        taken()
    return True


def hold_hosts(claim: Claim, run_dir: Path, *, pid: int, wait_s: float, emit: Emit = silent) -> bool:
    """Hold the hosts of a site without cluster until the run ends: by a lock beside the runs of this controller.

    Raises:
        HeldError: another run holds them.
        UnavailableError: the keeper cannot be started.
    """
    if keeper_at_work(run_dir / RUNNING):
        return False
    lock = run_dir.parent / LOCK
    request = _request(claim, pid, run_dir, lock=str(lock))
    end, told = time.monotonic() + wait_s, False
    while (said := _hosts_held(request)) == _HELD:
        record = read_lock(lock)
        if time.monotonic() >= end:
            hint = "start this run after that one, or let it wait: -e gpufleet_when_held=wait"
            raise HeldError("hosts", f"are held by {record.text} (lock {lock}).", hint)
        if not told:
            emit(f"the hosts are held by {record.text}: waiting")
            told = True
        time.sleep(_LOOK_S)
    if said != _READY:
        raise _no_keeper(said, "the hosts are not held")
    return True


@contextmanager
def held(cluster: Cluster, emit: Emit = silent) -> Iterator[str]:
    """Hold the cluster while the block runs, for a test outside of a run; yield the holder.

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
    """Say to the keeper that this process makes or removes objects: the cluster is not given back before its end."""
    file = os.open(run_dir / WORKING, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_SH)
        yield
    finally:
        os.close(file)


def end_keeper(run_dir: Path) -> None:
    """End the keeper of a run, which gives the cluster back, and wait for it; nothing is done where there is none."""
    path = run_dir / RUNNING
    end = time.monotonic() + _END_S
    asked = False
    while keeper_at_work(path) and time.monotonic() < end:
        text = path.read_text(encoding="utf-8").strip()
        if not asked and text.isdecimal():
            os.kill(int(text), 15)
            asked = True
        time.sleep(0.05)


def read_lock(path: Path) -> LeaseRecord:
    """Return who holds a lock."""
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
    told = {"claim": claim, "connection": {}, "pid": number, "start_ticks": start_ticks}
    return KeeperRequest(**{**told, **files, **more})


def _connection(cluster: Cluster) -> dict[str, Any]:
    return asdict(cluster.connection)


@contextmanager
def _keeper(cluster: Cluster, request: KeeperRequest) -> Iterator[Callable[[], None]]:
    """Start a keeper before the Lease is taken and yield what tells it that it is.

    It goes on after the block where it was told so, an attached one until then. Otherwise it ends with the block, or
    with this process, and gives back what may have been taken.

    Raises:
        UnavailableError: it does not start.
    """
    keeper, said = _start(request)
    if said != _READY:
        raise _no_keeper(said, _NOT_RENEWED)
    told = False

    def taken() -> None:
        nonlocal told
        told = _tell(keeper, TAKEN)
        if not told:
            release(cluster, request.claim)
            raise _no_keeper("it ended meanwhile", _NOT_RENEWED)

    try:
        yield taken
    finally:
        _leave(keeper)
        if request.attached or not told:
            # Where the API server is away, it goes on trying alone.
            with suppress(subprocess.TimeoutExpired):
                keeper.wait(_END_S)


def _hosts_held(request: KeeperRequest) -> str:
    keeper, said = _start(request)
    _leave(keeper)
    return said


def _start(request: KeeperRequest) -> tuple[subprocess.Popen[str], str]:
    """Start a keeper and return what it says first."""
    # Neither credentials nor paths on its command line: it is told everything on its standard input.
    keeper = subprocess.Popen(
        python_argv("workload.keeper"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        start_new_session=True, text=True,
    )  # fmt: skip
    if keeper.stdout is None or not _tell(keeper, json.dumps(asdict(request))):
        return keeper, _AT_ONCE
    said = keeper.stdout.readline().strip() or _AT_ONCE
    keeper.stdout.close()
    return keeper, said


def _tell(keeper: subprocess.Popen[str], line: str) -> bool:
    """Write a line to a keeper; tell whether it lives."""
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


def _no_keeper(said: str, otherwise: str) -> UnavailableError:
    return UnavailableError("keeper of the run", f"does not start ({said}): {otherwise}.", "start the run again")
