# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Leases: one test of one node runs once, whoever asks, and whatever is killed meanwhile."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
import service_rows
from service_rows import SITE, cycle, node_result

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import BringupError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.database import Place, StoreUrl
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.records import Lease
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.service import ServiceStore, open_service


@pytest.fixture
def store(place: Place) -> ServiceStore:
    found = open_service(place)
    found.begin_cycle(cycle())
    found.begin_cycle(cycle("c2"))
    return found


def lease(cycle_id: str = "c1", node: str = "gpu01", test: str = "dl", until_s: float = 100.0) -> Lease:
    return Lease(node=node, test=test, cycle_id=cycle_id, until_s=until_s)


def test_one_cycle_has_a_node_until_its_lease_ends(store: ServiceStore) -> None:
    assert store.take_lease("gpu01", "dl", "c1", 0, 100).lease == lease()
    assert store.take_lease("gpu01", "dl", "c2", 50, 150).holder == lease()
    assert store.take_lease("gpu01", "fio", "c2", 50, 150).holder == lease(), "two tests would measure each other"
    assert store.take_lease("gpu02", "dl", "c2", 50, 150).lease == lease("c2", "gpu02", until_s=150)
    assert store.take_lease("gpu01", "fio", "c1", 50, 150).lease == lease(test="fio", until_s=150)
    assert store.leases(SITE, rehearsal=False) == (
        lease(), lease(test="fio", until_s=150), lease("c2", "gpu02", until_s=150),
    )  # fmt: skip


def test_who_comes_back_after_a_crash_follows_its_own_test(store: ServiceStore) -> None:
    assert store.take_lease("gpu01", "dl", "c1", 0, 100).lease
    again = store.take_lease("gpu01", "dl", "c1", 50, 150)
    assert (again.lease, again.holder) == (None, lease())


def test_a_lease_that_ran_out_is_taken_over_and_its_holder_is_told(store: ServiceStore) -> None:
    old = store.take_lease("gpu01", "dl", "c1", 0, 100).lease
    assert old is not None
    claim = store.take_lease("gpu01", "dl", "c2", 100, 200)
    assert (claim.lease, claim.took_over) == (lease("c2", until_s=200), lease())
    assert store.renew(old, 300) is None
    assert not store.release(old)
    assert store.leases(SITE, rehearsal=False) == (lease("c2", until_s=200),)


def test_a_lease_is_renewed_and_released_by_its_holder(store: ServiceStore) -> None:
    old = store.take_lease("gpu01", "dl", "c1", 0, 100).lease
    assert old is not None
    assert store.renew(old, 300) == lease(until_s=300)
    assert store.take_lease("gpu01", "dl", "c2", 200, 300).holder == lease(until_s=300)
    assert store.release(old)
    assert not store.release(old)
    assert store.take_lease("gpu01", "dl", "c2", 200, 300).lease


def test_what_a_cycle_recorded_it_does_not_run_again(store: ServiceStore) -> None:
    store.add_result(node_result(status=Status.PENDING))
    assert store.take_lease("gpu01", "dl", "c1", 0, 100).lease == lease()
    store.add_result(node_result(started_s=2000.0))
    claim = store.take_lease("gpu01", "dl", "c1", 200, 300)
    assert claim.recorded and claim.lease is None


def test_a_cycle_that_ended_takes_nothing(store: ServiceStore) -> None:
    store.end_cycle("c1", "2026-11-01T11:00:00Z")
    with pytest.raises(BringupError, match="ended at"):
        store.take_lease("gpu01", "dl", "c1", 0, 100)


def test_a_rehearsal_takes_no_lease_of_the_real_site(store: ServiceStore) -> None:
    store.begin_cycle(cycle("c3", rehearsal=True))
    assert store.take_lease("gpu01", "dl", "c1", 0, 100).lease
    assert store.take_lease("gpu01", "dl", "c3", 0, 100).lease


PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
import service_rows as t
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.database import place_of
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.service import open_service
store, who = open_service(place_of(sys.argv[2])), sys.argv[3]
store.begin_cycle(t.cycle(who))
print("ready", flush=True)
sys.stdin.readline()
"""

TAKER = """
for number in range(60):
    if store.take_lease(f"gpu{number:03d}", "dl", who, 0, 100).lease:
        print(f"gpu{number:03d}", flush=True)
"""

WRITER = """
for number in range(100000):
    result = t.node_result(who, node=f"gpu{number:06d}", started_s=float(number))
    store.take_lease(result.node, result.test, who, number, number + 100)
    store.add_result(result)
    print(result.node, flush=True)
"""


def begin(program: str, place: Place, who: str) -> subprocess.Popen[str]:
    where = place.secret if isinstance(place, StoreUrl) else str(place)
    words = [sys.executable, "-c", PROGRAM + program, str(Path(service_rows.__file__).parent), where, who]
    environment = {"PYTHONPATH": ":".join(entry for entry in sys.path if entry)}
    process = subprocess.Popen(words, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def test_of_processes_that_want_the_same_leases_one_gets_each(place: Place) -> None:
    takers = [begin(TAKER, place, who) for who in ("c1", "c2", "c3")]
    for taker in takers:
        assert taker.stdin is not None
        taker.stdin.write("\n")
        taker.stdin.flush()
    taken = [node for taker in takers for node in taker.communicate(timeout=120)[0].split()]
    assert [taker.returncode for taker in takers] == [0, 0, 0]
    assert sorted(taken) == [f"gpu{number:03d}" for number in range(60)]


@pytest.mark.parametrize("after", [1, 2, 7, 23])
def test_a_killed_writer_loses_nothing_that_it_was_told_is_written(place: Place, after: int) -> None:
    writer = begin(WRITER, place, "c1")
    assert writer.stdin is not None and writer.stdout is not None
    writer.stdin.write("\n")
    writer.stdin.flush()
    written = [writer.stdout.readline().strip() for unused in range(after)]
    writer.send_signal(signal.SIGKILL)
    written += writer.communicate(timeout=60)[0].split()
    store = open_service(place)
    found = store.results(SITE, rehearsal=False, since_s=0)
    # One more may have been written whole before the writer could say so.
    assert [result.node for result in found][: len(written)] == written
    assert len(found) in (len(written), len(written) + 1)
    assert all(result == node_result(node=result.node, started_s=result.started_s) for result in found)
    assert {node for node, test in store.latest(SITE, rehearsal=False)} == {result.node for result in found}
    assert {node for node, slot in store.parts(SITE, rehearsal=False)} == {result.node for result in found}
    assert {lease.node for lease in store.leases(SITE, rehearsal=False)} >= {result.node for result in found}
    assert store.add_result(node_result(node="gpu999999", started_s=9e9))
