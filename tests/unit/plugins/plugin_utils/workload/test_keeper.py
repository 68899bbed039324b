# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The keeper lives as long as its run, clears up after it, and ends it where another holds the cluster."""

from __future__ import annotations

import fcntl
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from lease_cluster import MemoryCluster
from waiting import eventually

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.errors import ForbiddenError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import LEASES, NAMESPACES
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import UnavailableError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.process import is_locked
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload import keeper as module
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.keeper import Keeper
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.lease import (
    LOCK,
    NAME,
    NAMESPACE,
    RUNNING,
    TAKEN,
    Claim,
    HeldError,
    KeeperRequest,
    acquire,
    claim_of,
    end_keeper,
    hold_hosts,
    holder_of,
    process_of,
    working,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.namespace import HOLDER, OWNER_LABELS

MINE = Claim(holder="ctl1_run-1", run_id="run-1")


@pytest.fixture
def playbook() -> Iterator[subprocess.Popen[bytes]]:
    """A process whose end is the end of a run."""
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process
        process.kill()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("_LOOK_S", 0.02), ("RENEW_S", 0.05), ("RENEW_DEADLINE_S", 0.5)):
        monkeypatch.setattr(module, name, value)


def keeper_of(playbook: subprocess.Popen[bytes], cluster: MemoryCluster, working_file: Path | None = None) -> Keeper:
    pid, start_ticks = process_of(playbook.pid)
    request = KeeperRequest(
        claim=MINE, connection={}, pid=pid, start_ticks=start_ticks, working=str(working_file or "")
    )  # fmt: skip
    keeper = Keeper(request)
    keeper.cluster = cluster.api
    return keeper


def renewed(cluster: MemoryCluster) -> Any:
    return (cluster.find(LEASES, NAME, NAMESPACE) or {})["spec"]["renewTime"]


def begun(keeper: Keeper) -> threading.Thread:
    assert keeper.begin() == ""
    thread = threading.Thread(target=keeper.keep)
    thread.start()
    return thread


def held_cluster() -> MemoryCluster:
    cluster = MemoryCluster()
    acquire(cluster.api, MINE)
    metadata = {"name": "t-one", "labels": OWNER_LABELS, "annotations": {HOLDER: MINE.holder}}
    cluster.create(NAMESPACES, {"metadata": metadata})
    return cluster


def test_it_renews_while_the_run_lives_and_clears_up_after_it(playbook: subprocess.Popen[bytes]) -> None:
    cluster = held_cluster()
    thread = begun(keeper_of(playbook, cluster))
    before = renewed(cluster)
    eventually(lambda: renewed(cluster) != before)
    assert cluster.find(NAMESPACES, "t-one"), "what a living run made is its own"
    playbook.kill()
    thread.join(10)
    assert holder_of(cluster.api).holder == ""
    assert cluster.find(NAMESPACES, "t-one") is None


def test_it_waits_for_a_worker_that_still_clears_up(playbook: subprocess.Popen[bytes], tmp_path: Path) -> None:
    cluster = held_cluster()
    with working(tmp_path):
        thread = begun(keeper_of(playbook, cluster, tmp_path / ".working.lock"))
        playbook.kill()
        playbook.wait(5)
        thread.join(0.5)
        assert holder_of(cluster.api).holder == MINE.holder
    thread.join(10)
    assert holder_of(cluster.api).holder == ""


def test_what_was_taken_by_a_task_that_died_before_it_said_so_is_given_back(playbook: subprocess.Popen[bytes]) -> None:
    """SIGTERM in the moment between the Lease and its first renewal must not hold the cluster until it expires."""
    cluster = held_cluster()
    keeper_of(playbook, cluster).keep_once_taken("")
    assert holder_of(cluster.api).holder == ""
    assert playbook.poll() is None, "the run may try again"
    other = Claim(holder="ctl9_run-9", run_id="run-9")
    acquire(cluster.api, other)
    keeper_of(playbook, cluster).keep_once_taken("")
    assert holder_of(cluster.api).holder == other.holder, "what was never taken is not given back"


def test_what_was_taken_is_kept_once_that_is_said(playbook: subprocess.Popen[bytes]) -> None:
    cluster = held_cluster()
    keeper = keeper_of(playbook, cluster)
    thread = threading.Thread(target=keeper.keep_once_taken, args=(f"{TAKEN}\n",))
    thread.start()
    before = renewed(cluster)
    eventually(lambda: renewed(cluster) != before, 5)
    assert holder_of(cluster.api).holder == MINE.holder
    playbook.kill()
    thread.join(10)
    assert holder_of(cluster.api).holder == ""


def test_a_run_whose_lease_is_anothers_is_ended_and_nothing_is_removed(playbook: subprocess.Popen[bytes]) -> None:
    cluster = held_cluster()
    keeper = keeper_of(playbook, cluster)
    lease = cluster.find(LEASES, NAME, NAMESPACE) or {}
    lease["spec"]["holderIdentity"] = "ctl9_run-9"
    cluster.replace(LEASES, lease, NAMESPACE)
    with pytest.raises(SystemExit):
        keeper.keep()
    assert playbook.wait(5) == -signal.SIGTERM
    assert holder_of(cluster.api).holder == "ctl9_run-9"
    assert cluster.find(NAMESPACES, "t-one")


def test_a_run_that_could_not_renew_is_ended_before_another_may_begin(
    playbook: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_args: Any) -> None:
        raise UnavailableError("API server", "is away.")

    monkeypatch.setattr(module, "renew", away)
    keeper_of(playbook, held_cluster()).keep()
    assert playbook.wait(5) == -signal.SIGTERM


@pytest.mark.parametrize("tries", [2, 10**6])
def test_an_api_server_that_is_away_when_the_run_ends_is_waited_for_while_the_lease_is_ours(
    playbook: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch, tries: int
) -> None:
    cluster, left = held_cluster(), dict.fromkeys(("sweep_left", "release"), tries)

    def away(name: str, really: Callable[..., Any]) -> Callable[..., Any]:
        def answer(*args: Any, **more: Any) -> Any:
            left[name] -= 1
            if left[name] >= 0:
                raise UnavailableError("API server", "is away.")
            return really(*args, **more)

        return answer

    for name in left:
        monkeypatch.setattr(module, name, away(name, getattr(module, name)))
    thread = begun(keeper_of(playbook, cluster))
    playbook.kill()
    thread.join(10)
    assert not thread.is_alive()
    assert (holder_of(cluster.api).holder == "") is (tries == 2)
    assert (cluster.find(NAMESPACES, "t-one") is None) is (tries == 2)


@pytest.mark.parametrize("tries", [2, 10**6])
def test_a_server_that_forbids_while_it_starts_is_asked_again_for_a_while(
    playbook: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch, tries: int
) -> None:
    """Who may really not sweep still gives the cluster back."""
    cluster, left = held_cluster(), dict.fromkeys(("sweep_left", "release"), tries)
    really = {name: getattr(module, name) for name in left}
    monkeypatch.setattr(module, "RENEW_DEADLINE_S", 60.0)
    monkeypatch.setattr(module, "SETTLING_S", 90.0 if tries == 2 else 0.2)

    def forbidden(name: str) -> Callable[..., Any]:
        def answer(*args: Any, **more: Any) -> Any:
            left[name] -= 1
            if left[name] >= 0 and (tries == 2 or name == "sweep_left"):
                raise ForbiddenError("API server", "forbidden.")
            return really[name](*args, **more)

        return answer

    for name in left:
        monkeypatch.setattr(module, name, forbidden(name))
    thread = begun(keeper_of(playbook, cluster))
    playbook.kill()
    thread.join(60)
    assert not thread.is_alive()
    assert holder_of(cluster.api).holder == ""
    assert (cluster.find(NAMESPACES, "t-one") is None) is (tries == 2)


def test_a_cluster_whose_kubeconfig_is_gone_is_not_waited_for(
    playbook: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked = threading.Event()

    def away(*_args: Any, **_more: Any) -> None:
        asked.set()
        raise UnavailableError("API server", "is away.")

    for name in ("sweep_left", "release"):
        monkeypatch.setattr(module, name, away)
    monkeypatch.setattr(module, "RENEW_DEADLINE_S", 60.0)
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.touch()
    keeper = keeper_of(playbook, held_cluster())
    keeper.request = replace(keeper.request, connection={"kubeconfig": str(kubeconfig)})
    thread = begun(keeper)
    playbook.kill()
    assert asked.wait(10)
    thread.join(0.3)
    assert thread.is_alive(), "it is waited for"
    kubeconfig.unlink()
    thread.join(5)
    assert not thread.is_alive()


def test_who_looks_whether_a_run_lives_is_no_holder(playbook: subprocess.Popen[bytes], tmp_path: Path) -> None:
    running = tmp_path / RUNNING
    assert not is_locked(running)
    with running.open("w") as looking:
        fcntl.flock(looking, fcntl.LOCK_SH)
        assert not is_locked(running), "two who look"
        threading.Timer(0.05, lambda: fcntl.flock(looking, fcntl.LOCK_UN)).start()
        keeper = keeper_of(playbook, held_cluster())
        keeper.request = replace(keeper.request, running=str(running))
        assert keeper.begin() == "" and is_locked(running)


def test_hosts_without_cluster_are_held_by_one_run_of_this_controller(
    playbook: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    runs = [tmp_path / name for name in ("run-1", "run-2")]
    for run in runs:
        run.mkdir()
    first, second = claim_of("run-1", "make nodes"), claim_of("run-2")
    assert hold_hosts(first, runs[0], pid=playbook.pid, wait_s=0)
    assert not hold_hosts(first, runs[0], pid=playbook.pid, wait_s=0), "a later task of the same run"
    with pytest.raises(HeldError) as refused:
        hold_hosts(second, runs[1], pid=playbook.pid, wait_s=0)
    for word in ("run-1", "make nodes", "since 20", str(tmp_path / LOCK)):
        assert word in refused.value.reason
    end_keeper(runs[0])
    assert not is_locked(runs[0] / RUNNING)
    assert hold_hosts(second, runs[1], pid=playbook.pid, wait_s=0)
    playbook.kill()
    eventually(lambda: not is_locked(runs[1] / RUNNING))
