# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Daily cycles of continuous validation over a rehearsal cluster whose users come and go: who is covered, who is hurt.

    python bench/cycles.py [--nodes 128] [--days 10] [--step 1] [--seed 1]

The control plane, its scheduler and the whole product are real. Day 0 is a run of the playbook; every --step days after
it comes a cycle whose clock is so many days ahead. Pods of users hold all GPUs of a part of the nodes; between cycles
and while they run, some go and others come, and the scheduler lets them take the place of our tests. Each 21st node has
an adapter at half its rate, and the first one, which never becomes idle, an XID. Printed are, with what must hold:

covered         nodes that were free for a whole cycle and have no result of the last Z days (7) after it: none
users           pods of users that were removed, moved or ended by others than their users: none; requests of the
                cycles' identity that changed what is not theirs, by the audit log of the API server: none
found           nodes with a planted fault that were free for a whole cycle and are not failed with its cause: none
false           other nodes that failed: none
left            objects, leases and holders that cycles left behind: none
"""

from __future__ import annotations

import argparse
import ctypes
import resource
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from random import Random
from threading import Event, Thread
from time import monotonic, time
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / ".cache"), str(ROOT / "tests/support")]

from audit_log import disturbances, kubeconfig_of_identity
from continuous_bench import PASSIVE, TEST, USER, Bench
from live_site import live_site
from waiting import eventually

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.cluster import Cluster
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.connection import Connection
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import PODS
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.records import NodeResult
from rehearsal import cpu_by_owner, memory_by_owner

Z_DAYS, DAY_S, SLOW_EACH, CYCLE_LIMIT_S, TICK_S = 7.0, 86400.0, 21, 1800.0, 3.0
STORE, SPACE, LABEL = "fleet", "default", "example.org/user=training"
# How many of the free nodes get a user, and how many users go, between two cycles and by the tick while one runs.
COME, GO, COME_TICK, GO_TICK = 0.3, 0.4, 0.004, 0.006
SETTINGS = {"continuous": {"batch": 64, "per_rack": 4}}
# A pod that was made so short a time ago may wait for the end of the test that it takes the place of.
PLACED_WITHIN_S = 120.0
ADOPT_ORPHANS = 36


@dataclass
class Stay:
    """A pod of a user on a node, from when to when by the monotonic clock."""

    node: str
    uid: str
    since: float
    until: float = float("inf")


@dataclass
class Users:
    """Whoever uses the cluster: their pods by node, all that ever were, and what was done to them by others."""

    cluster: Cluster
    nodes: tuple[str, ...]
    always: str
    draw: Random
    now: dict[str, Stay] = field(default_factory=dict)
    past: list[Stay] = field(default_factory=list)
    hurt: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)

    def come(self, node: str) -> None:
        """Put a user's pod on a node; its scheduler decides what has to go for it."""
        spec = {**USER["spec"], "nodeSelector": {"kubernetes.io/hostname": node}}  # type: ignore[dict-item]
        name, key = f"training-{node}-{len(self.past)}", LABEL.split("=")
        body = {**USER, "metadata": {"name": name, "namespace": SPACE, "labels": {key[0]: key[1]}}, "spec": spec}
        since = monotonic()
        made = self.cluster.create(PODS, body, SPACE)
        stay = Stay(node, str(made["metadata"]["uid"]), since)
        self.now[node] = stay
        self.past.append(stay)

    def go(self, node: str) -> None:
        """Remove the user's pod of a node."""
        stay = self.now[node]
        (name,) = (pod["metadata"]["name"] for pod in self._pods() if pod["metadata"]["uid"] == stay.uid)
        self.cluster.delete(PODS, name, SPACE)
        stay.until = monotonic()
        del self.now[node]

    def _pods(self) -> list[dict[str, Any]]:
        return self.cluster.list_objects(PODS, namespace=SPACE, labels=LABEL)

    def look(self) -> None:
        """Note every pod of a user that is not as it was made."""
        there = {pod["metadata"]["uid"]: pod for pod in self._pods()}
        for node, stay in self.now.items():
            pod = there.get(stay.uid)
            status = pod["status"].get("phase") if pod else "gone"
            young = status == "Pending" and monotonic() - stay.since < PLACED_WITHIN_S
            leaves = bool(pod and pod["metadata"].get("deletionTimestamp"))
            if pod is None or leaves or not (status == "Running" or young):
                self.hurt.append(f"the user's pod on {node} is {status}{' and leaves' if leaves else ''}")

    def change(self, come: float, go: float) -> None:
        """Let some come and some go."""
        for node in self.nodes:
            if node not in self.now and self.draw.random() < come:
                self.come(node)
            elif node in self.now and node != self.always and self.draw.random() < go:
                self.go(node)

    def live(self, over: Event) -> None:
        """Come and go until it is over."""
        try:
            while not over.wait(TICK_S):
                self.look()
                self.change(COME_TICK, GO_TICK)
        except Exception as error:  # noqa: BLE001 - the bench says what ended its users
            self.lost.append(f"users ended: {type(error).__name__} {error}")

    def free(self, begun: float, ended: float) -> set[str]:
        """Return the nodes on which no user was between these times."""
        busy = {stay.node for stay in self.past if stay.since <= ended and stay.until >= begun}
        return set(self.nodes) - busy


@dataclass
class Told:
    """What came of the days."""

    free_once: set[str] = field(default_factory=set)
    uncovered: list[str] = field(default_factory=list)
    disturbed: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    cycles_s: list[float] = field(default_factory=list)
    memory: Counter[str] = field(default_factory=Counter)


def cycle(bench: Bench, users: Users, told: Told, day: int) -> None:
    """Run the cycle of a day while users come and go, and look at what came of it."""
    users.change(COME, GO)
    over = Event()
    living = Thread(target=users.live, args=(over,))
    begun = monotonic()
    living.start()
    try:
        with bench.audited() as (kubeconfig, seen):
            if day:
                run = bench.controller(STORE, kubeconfig=kubeconfig, later_s=day * DAY_S)
                if run.wait(CYCLE_LIMIT_S) not in (0, 8):
                    told.left.append(f"day {day}: the cycle ended with {run.returncode}: {bench.said(run)[-500:]}")
            else:
                done = bench.continuous(STORE, kubeconfig=kubeconfig, settings=SETTINGS)
                bench.run_dir = done.run_dir.resolve()
    finally:
        ended = monotonic()
        told.memory = max(told.memory, memory_by_owner(), key=Counter.total)
        over.set()
        living.join()
    users.look()
    told.cycles_s.append(ended - begun)
    told.disturbed += disturbances(seen)
    # Namespaces take a moment to go.
    eventually(lambda: not bench.site.tests(), 60, what=bench.site.tests)
    told.left += bench.site.tests() + [f"lease of {lease.node}" for lease in _leases(bench)]
    told.left += [f"holder {holder}" for holder in (bench.site.holder(),) if holder]
    free, newest, now_s = users.free(begun, ended), _newest(bench), time() + day * DAY_S
    told.free_once |= free
    for node in sorted(free):
        last = newest.get(node)
        if last is None or now_s - last.started_s > (Z_DAYS + 1) * DAY_S:
            told.uncovered.append(f"{node} on day {day}")
    results = Counter(result.status.value for result in _results(bench) if result.started_s > now_s - DAY_S / 2)
    print(f"    day {day}: {ended - begun:.0f} s, {len(free)} of {len(users.nodes)} free throughout, {len(users.now)} "
          f"with users, results {dict(results)}", file=sys.stderr, flush=True)  # fmt: skip


def _leases(bench: Bench) -> tuple[Any, ...]:
    return bench.history(STORE).leases("rehearsal", rehearsal=True)


def _results(bench: Bench) -> list[NodeResult]:
    found = bench.history(STORE).results("rehearsal", rehearsal=True, since_s=0.0)
    return [result for result in found if result.test != PASSIVE]


def _newest(bench: Bench) -> dict[str, NodeResult]:
    """By node the last result that passed or failed."""
    known = (result for result in _results(bench) if result.status in (Status.PASSED, Status.FAILED))
    return {result.node: result for result in sorted(known, key=lambda result: result.started_s)}


def verdict(bench: Bench, users: Users, told: Told, slow: set[str]) -> bool:
    """Print what came of it; return whether everything holds."""
    results = _results(bench)
    failed = {result.node: result.cause for result in results if result.status is Status.FAILED}
    found = {node for node in slow if failed.get(node) == "slow-adapter"}
    missed = sorted((slow & told.free_once) - found)
    false = sorted(set(failed) - slow)
    seen = bench.passive(STORE).get(users.always)
    if seen is None or seen.status is not Status.FAILED:
        missed.append(f"the XID of {users.always}, which is busy")
    statuses = Counter(result.status.value for result in results)
    gave_way = sum(result.cause == "launch-preempted" for result in results)
    hurt = [*dict.fromkeys(users.hurt), *users.lost, *told.disturbed]
    print(f"  covered         {len(told.free_once)} of {len(users.nodes)} nodes were free for a whole cycle; without a "
          f"result of {Z_DAYS:g} days: {_few(told.uncovered)}")  # fmt: skip
    print(f"  users           {len(users.past)} pods, {gave_way} of them took the place of a test; hurt: {_few(hurt)}")
    print(f"  found           {len(found)} of {len(slow)} slow nodes, {len(slow & told.free_once)} of them ever free, "
          f"and the XID of the busy one; not found: {_few(missed)}")  # fmt: skip
    print(f"  false           {_few(false)}; results: {dict(statuses)}")
    print(f"  left            {_few(told.left)}")
    return not (told.uncovered or hurt or missed or false or told.left)


def _few(texts: list[str]) -> str:
    more = f" and {len(texts) - 5} more" if len(texts) > 5 else ""
    return f"{len(texts)}: {'; '.join(texts[:5])}{more}" if texts else "none"


def main() -> int:
    """Print what came of the days; 1 if something does not hold."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--nodes", type=int, default=128)
    parser.add_argument("--days", type=int, default=10)
    parser.add_argument("--step", type=int, default=1, help="days from one cycle to the next")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    ctypes.CDLL(None).prctl(ADOPT_ORPHANS, 1, 0, 0, 0)
    width = max(2, len(str(given.nodes)))
    names = tuple(f"gpu{number:0{width}d}" for number in range(1, given.nodes + 1))
    slow = set(names[2::SLOW_EACH])
    faults = (f"xid-48@{names[0]}/gpu4", *(f"adapter-slow@{name}/mlx5_5" for name in sorted(slow)))
    begun, told = monotonic(), Told()
    with tempfile.TemporaryDirectory(prefix="gpufleet-bench-") as directory:
        work = Path(directory)
        with live_site(work, given.nodes, faults, audit=True) as site:
            stack = site.run("gpu_stack", driver_owner="host")
            if stack.rc:
                print(stack.output[-3000:])
                return 1
            print(f"    the site is up after {monotonic() - begun:.0f} s", file=sys.stderr, flush=True)
            with Cluster(Connection(kubeconfig=str(site.kubeconfig))) as cluster:
                identity = kubeconfig_of_identity(site.kubeconfig, work / "identity.kubeconfig")
                bench = Bench(site, cluster, count(1), identity, "host")
                users = Users(cluster, names, names[0], Random(f"users {given.seed}"))
                users.come(users.always)
                for day in range(0, given.days + 1, given.step):
                    cycle(bench, users, told, day)
                holds = verdict(bench, users, told, slow)
                spent = cpu_by_owner()
    own = resource.getrusage(resource.RUSAGE_SELF)
    cpu_s = spent.total() + own.ru_utime + own.ru_stime
    cycles = sorted(told.cycles_s)
    print(f"  {given.nodes} nodes, {len(cycles)} cycles of {TEST}: {monotonic() - begun:.0f} s, {cpu_s:.0f} s CPU; "
          f"a cycle {cycles[len(cycles) // 2]:.0f} s (median), {cycles[-1]:.0f} at most; most memory "
          f"{told.memory.total():.0f} MB")  # fmt: skip
    print("  everything holds" if holds else "  SOMETHING DOES NOT HOLD")
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
