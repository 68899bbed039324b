# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One run holds a cluster: by the record alone, never by the clocks of two controllers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from lease_cluster import MemoryCluster

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.errors import ConflictError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import LEASES, NAMESPACES
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.lease import (
    DURATION_S,
    NAME,
    NAMESPACE,
    Claim,
    HeldError,
    LostError,
    acquire,
    confirm,
    holder_of,
    release,
    renew,
)

FIRST = Claim(holder="ctl1_run-1", run_id="run-1", command="make bring-up", controller="ctl1")
SECOND = Claim(holder="ctl1_run-2", run_id="run-2", command="make other", controller="ctl1")


class Clock:
    """A local clock that `sleep` moves; `every` is called with the time after each move."""

    def __init__(self, every: Callable[[float], None] = lambda now: None) -> None:
        self.now = 1000.0
        self.every = every

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.every(self.now)


def take(cluster: MemoryCluster, claim: Claim, clock: Clock, wait_s: float = 0.0) -> None:
    acquire(cluster.api, claim, wait_s=wait_s, clock=clock, sleep=clock.sleep)


def test_the_first_makes_namespace_and_lease_with_the_fields_of_leader_election() -> None:
    cluster = MemoryCluster()
    take(cluster, FIRST, Clock())
    assert cluster.find(NAMESPACES, NAMESPACE)
    lease = cluster.find(LEASES, NAME, NAMESPACE) or {}
    assert set(lease["spec"]) == {
        "holderIdentity", "leaseDurationSeconds", "acquireTime", "renewTime", "leaseTransitions",
    }  # fmt: skip
    assert lease["spec"]["holderIdentity"] == FIRST.holder
    assert lease["metadata"]["annotations"] == {
        "gpufleet.io/run": "run-1", "gpufleet.io/command": "make bring-up", "gpufleet.io/controller": "ctl1",
    }  # fmt: skip
    confirm(cluster.api, FIRST.holder)


def test_the_same_run_takes_it_again_without_a_transition() -> None:
    cluster = MemoryCluster()
    take(cluster, FIRST, Clock())
    acquired = holder_of(cluster.api).acquired
    take(cluster, FIRST, Clock())
    assert (holder_of(cluster.api).acquired, holder_of(cluster.api).transitions) == (acquired, 0)


def test_a_run_that_is_alive_is_named_to_the_second_one_which_is_refused_soon() -> None:
    cluster = MemoryCluster()
    take(cluster, FIRST, Clock())
    clock = Clock(lambda now: renew(cluster.api, FIRST) if int(now) % 10 == 0 else None)
    with pytest.raises(HeldError) as refused:
        take(cluster, SECOND, clock)
    assert clock.now - 1000 <= 20
    for word in ("run-1", FIRST.holder, "make bring-up", "since 20", "expires 20"):
        assert word in refused.value.reason
    assert "gpufleet_when_held=wait" in refused.value.hint
    confirm(cluster.api, FIRST.holder)


def test_a_dead_run_is_replaced_after_its_duration_by_the_clock_of_the_second() -> None:
    cluster = MemoryCluster()
    take(cluster, FIRST, Clock())
    clock = Clock()
    take(cluster, SECOND, clock)
    assert DURATION_S < clock.now - 1000 < DURATION_S + 10
    assert (holder_of(cluster.api).holder, holder_of(cluster.api).transitions) == (SECOND.holder, 1)
    with pytest.raises(LostError, match="run-2"):
        renew(cluster.api, FIRST)
    with pytest.raises(LostError):
        confirm(cluster.api, FIRST.holder)


@pytest.mark.parametrize("renewed", ["1999-01-01T00:00:00.000000Z", "2099-01-01T00:00:00.000000Z"])
def test_a_wrong_clock_of_the_other_controller_changes_nothing(renewed: str) -> None:
    cluster = MemoryCluster()
    take(cluster, FIRST, Clock())

    def renew_wrongly(now: float) -> None:
        if int(now) % 10 == 0:
            lease = cluster.find(LEASES, NAME, NAMESPACE) or {}
            lease["spec"]["renewTime"] = renewed[:-3] + f"{int(now) % 90 + 10}Z"
            cluster.replace(LEASES, lease, NAMESPACE)

    renew_wrongly(1000)
    with pytest.raises(HeldError):
        take(cluster, SECOND, Clock(renew_wrongly))


def test_who_waits_gets_it_when_the_first_gives_it_back() -> None:
    cluster = MemoryCluster()
    take(cluster, FIRST, Clock())

    def later(now: float) -> None:
        if now < 1500:
            renew(cluster.api, FIRST)
        else:
            release(cluster.api, FIRST)

    clock = Clock(later)
    take(cluster, SECOND, clock, wait_s=3600)
    assert 1500 <= clock.now < 1510
    assert holder_of(cluster.api).holder == SECOND.holder


def test_who_waits_does_not_wait_for_ever() -> None:
    cluster = MemoryCluster()
    take(cluster, FIRST, Clock())
    clock = Clock(lambda now: renew(cluster.api, FIRST))
    with pytest.raises(HeldError):
        take(cluster, SECOND, clock, wait_s=600)
    assert 600 <= clock.now - 1000 < 610


def test_of_two_that_see_it_free_one_gets_it() -> None:
    cluster = MemoryCluster()
    take(cluster, FIRST, Clock())
    release(cluster.api, FIRST)
    read = cluster.find

    def raced(*args: str) -> object:
        found = read(*args)  # type: ignore[arg-type]
        cluster.find = read  # type: ignore[method-assign]
        take(cluster, FIRST, Clock())
        return found

    cluster.find = raced  # type: ignore[assignment,method-assign]
    clock = Clock(lambda now: renew(cluster.api, FIRST))
    with pytest.raises(HeldError):
        take(cluster, SECOND, clock)
    confirm(cluster.api, FIRST.holder)


def test_renewing_and_giving_back_outlast_another_writer() -> None:
    cluster = MemoryCluster()
    take(cluster, FIRST, Clock())
    replace, refused = cluster.replace, [True, True]

    def spoiled(kind: Any, body: Any, namespace: str = "") -> Any:
        if refused:
            refused.pop()
            raise ConflictError("update Lease", "the object has been modified")
        return replace(kind, body, namespace)

    cluster.replace = spoiled  # type: ignore[method-assign]
    renew(cluster.api, FIRST)
    assert refused == []
    confirm(cluster.api, FIRST.holder)
    refused.append(True)
    release(cluster.api, FIRST)
    take(cluster, SECOND, Clock())


def test_giving_back_does_not_touch_the_lease_of_another() -> None:
    cluster = MemoryCluster()
    take(cluster, FIRST, Clock())
    release(cluster.api, SECOND)
    confirm(cluster.api, FIRST.holder)


@pytest.mark.parametrize(
    "spec", [{}, {"holderIdentity": None}, {"holderIdentity": "x", "leaseDurationSeconds": 0}, {"holderIdentity": "x"}]
)
def test_a_lease_that_says_little_is_taken_in_the_end(spec: dict[str, object]) -> None:
    cluster = MemoryCluster()
    cluster.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
    cluster.create(LEASES, {"metadata": {"name": NAME}, "spec": spec}, NAMESPACE)
    take(cluster, FIRST, Clock())
    confirm(cluster.api, FIRST.holder)
