# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Keeps the Lease of a run: a separate process that lives as long as the run, however that ends.

A run is many tasks of one ansible-playbook, each in its own worker process, with minutes in between in which only hosts
are queried. So neither a task nor a thread of one can renew the Lease. The keeper renews it until the run's process is
gone, lets workers that still clean up finish, removes what they left, and releases the Lease. If it loses the Lease it
ends the run, because another run may be using the cluster.

The keeper starts before the Lease is taken. A run that is killed at that moment leaves no Lease behind.

`python launch.py workload.keeper` reads a request as JSON from standard input, and writes `ready` or what is wrong.
With a cluster it then waits for a second line, which confirms that the Lease is taken. If none comes, the Lease was
never taken or the process that took it has died.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

from ..clients.kube.cluster import Cluster
from ..clients.kube.connection import Connection
from ..clients.kube.errors import SETTLING_S, ForbiddenError
from ..outcome.errors import BringupError
from ..runtime.process import ProcessId
from .lease import RENEW_DEADLINE_S, RENEW_S, TAKEN, KeeperRequest, LostError, lock_record, release, renew, request_from
from .namespace import sweep_left

_LOOK_S = 0.5
_LOOKED_AT_TRIES, _LOOKED_AT_S = 10, 0.02
_REQUEST_S = 10.0
# Retries of one request end soon: the loop retries itself, and checks between two tries whether the run is alive.
_PATIENCE_S = 2.0
# Workers that outlive their ansible-playbook get this long to remove what they made.
_WORKERS_S = 300.0
_SWEEP_S = 60.0


class Keeper:
    """One keeper. `keep` returns when the run has ended and the Lease is released."""

    def __init__(self, request: KeeperRequest) -> None:
        self.request = request
        self.claim = request.claim
        self.run = ProcessId(request.pid, request.start_ticks)
        self.told_to_stop = False
        reported = request.connection
        self.cluster = Cluster(Connection(**reported), _REQUEST_S, _PATIENCE_S) if reported else None
        self.renewed = time.monotonic()
        self._files: list[int] = []

    def begin(self) -> str:
        """Take the file locks. Return what is wrong, or an empty string."""
        if self.request.running and not self._locked(self.request.running, str(os.getpid())):
            return "another keeper is at work"
        if self.request.lock and not self._locked(self.request.lock, ""):
            return "held"
        return ""

    def keep_once_taken(self, line: str) -> None:
        """Keep the Lease if `line` confirms it, or the lock of a run without cluster.

        Otherwise the Lease is released, in case it was taken before its taker died.
        """
        if self.cluster is None or line.strip() == TAKEN:
            self.keep()
        else:
            # The taker's last request may still be on its way.
            time.sleep(_LOOK_S)
            self.renewed = time.monotonic()
            self._give_back(self.cluster)

    def keep(self) -> None:
        """Renew the Lease until the run has ended, then clean up."""
        self.renewed = tried = time.monotonic()
        while self._runs():
            self._pause()
            if self.cluster is None or time.monotonic() - tried < RENEW_S:
                continue
            tried = time.monotonic()
            if not self._renewed() and time.monotonic() - self.renewed > RENEW_DEADLINE_S:
                self._end_run()
                return
        self._clear_up()

    def _runs(self) -> bool:
        return not self.told_to_stop and self.run.alive()

    def _pause(self) -> None:
        if not self.request.attached:
            time.sleep(_LOOK_S)
        elif select.select([0], [], [], _LOOK_S)[0] and not os.read(0, 1024):
            self.told_to_stop = True

    def _renewed(self) -> bool:
        try:
            renew(self.cluster, self.claim)  # type: ignore[arg-type]  # keep() asks only with a cluster
        except LostError:
            self._end_run()
            sys.exit(1)
        except BringupError:
            return False
        self.renewed = time.monotonic()
        return True

    def _end_run(self) -> None:
        """Stop the run, because another run may hold the cluster."""
        if self.run.alive():
            with suppress(ProcessLookupError, PermissionError):
                os.kill(self.run.pid, signal.SIGTERM)

    def _clear_up(self) -> None:
        if self.cluster is None:
            return
        cluster, holder = self.cluster, self.claim.holder
        self._await_workers()
        self._insist(lambda: sweep_left(cluster, holder, cleanup_s=_SWEEP_S, of_holder=True))
        self._give_back(cluster)

    def _give_back(self, cluster: Cluster) -> None:
        self._insist(lambda: release(cluster, self.claim))

    def _insist(self, action: Callable[[], object]) -> None:
        """Repeat an action until the API server accepts it.

        The API server may be away just when the run ends, and without retries the next run would wait until the Lease
        expires. Retries end at RENEW_DEADLINE_S, when another run may hold the cluster. A server that has just started
        may forbid what is allowed, so a refusal of permission counts only after SETTLING_S.
        """
        forbidden_at: float | None = None
        while True:
            try:
                action()
                return
            except LostError:
                return
            except BringupError as error:
                now = time.monotonic()
                forbidden_at = (forbidden_at or now) if isinstance(error, ForbiddenError) else None
                if forbidden_at is not None and now - forbidden_at > SETTLING_S:
                    return
                if now - self.renewed > RENEW_DEADLINE_S or self._cluster_is_gone():
                    return
                time.sleep(_LOOK_S)

    def _cluster_is_gone(self) -> bool:
        """Tell whether the kubeconfig was removed: the kubeconfig of a short-lived cluster goes with the cluster."""
        kubeconfig = (self.request.connection or {}).get("kubeconfig")
        return bool(kubeconfig) and not os.path.exists(str(kubeconfig))

    def _await_workers(self) -> None:
        end, tried = time.monotonic() + _WORKERS_S, time.monotonic()
        while self.request.working and time.monotonic() < end:
            file = os.open(self.request.working, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except OSError:
                time.sleep(_LOOK_S)
            finally:
                os.close(file)
            if time.monotonic() - tried > RENEW_S:
                tried = time.monotonic()
                self._renewed()

    def _locked(self, path: str, content: str) -> bool:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        # A reader that only checks whether a run lives (fleet-status) locks the file for a moment.
        for left in reversed(range(_LOOKED_AT_TRIES)):
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                if not left:
                    os.close(file)
                    return False
                time.sleep(_LOOKED_AT_S)
        text = content or json.dumps(lock_record(self.claim))
        os.truncate(file, 0)
        os.write(file, text.encode())
        # The lock lasts while the file is open, that is until this process ends.
        self._files.append(file)
        return True


def main() -> None:
    """Read the request, report whether the keeper has started, and keep the Lease."""
    keeper = Keeper(request_from(sys.stdin.readline()))

    def stop(_number: int, _frame: FrameType | None) -> None:
        keeper.told_to_stop = True

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    problem = keeper.begin()
    print(problem or "ready", flush=True)
    if problem:
        sys.exit(1)
    # Closes the pipe, so that the process that started it does not wait for more output.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    keeper.keep_once_taken(sys.stdin.readline() if keeper.cluster is not None else "")


if __name__ == "__main__":
    main()
