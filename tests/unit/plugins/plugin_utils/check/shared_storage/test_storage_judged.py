# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The shared volume of simulated hosts: healthy ones pass however noisy, each fault is found where it is, alone."""

from __future__ import annotations

import re
from functools import partial
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from seeds import drawing
from storage_fleet import CATALOGUE, StorageFleet

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.spec import Change, Shape

INTEGRITY, THROUGHPUT, LATENCY = "storage-integrity", "storage-throughput", "storage-latency"
OURS = [name for name, entry in CATALOGUE.items() if entry.expect.check in (INTEGRITY, THROUGHPUT, LATENCY)]


def noisy(part: float) -> tuple[Shape, ...]:
    return (Shape(kind="cluster", patch=(Change(at="cluster.stack.storage_noise", set=part),)),)


@pytest.mark.parametrize("nodes", [1, 2, 5, 16])
def test_healthy_hosts_pass(nodes: int) -> None:
    assert StorageFleet(nodes=nodes).findings() == []


def test_an_nfs_server_whose_figures_spread_by_15_percent_blames_nobody() -> None:
    for seed in range(6):
        fleet = StorageFleet(nodes=16, shapes=noisy(0.15), seed=seed, stated={"floor_mib_s": {}, "p99_ms": {}})
        assert fleet.findings() == [], seed


@pytest.mark.parametrize("fault", OURS)
@pytest.mark.parametrize("nodes", [5, 12])
def test_a_fault_is_found_where_it_is_and_nowhere_else(fault: str, nodes: int) -> None:
    expected = CATALOGUE[fault].expect
    node = f"gpu{drawing(fault).randint(1, nodes):02d}"
    of_node = CATALOGUE[fault].kind == "node"
    fleet = StorageFleet(nodes=nodes, faults=(f"{fault}@{node}" if of_node else fault,))
    assert fleet.findings() == [(expected.check, expected.cause, expected.status, node if of_node else "lab")]


def test_a_slow_mount_is_measured_three_times_and_never_alone() -> None:
    fleet = StorageFleet(nodes=8, faults=("storage-mount-slow@gpu03",), stated={"parallel": 4})
    assert fleet.findings() == [(THROUGHPUT, "slow-mount", "failed", "gpu03")]
    assert [len(group) for group in fleet.groups] == [4, 4, 4, 4]
    assert sum("gpu03" in group for group in fleet.groups) == 3


def test_groups_are_of_one_size_and_never_more_than_sixteen() -> None:
    fleet = StorageFleet(nodes=17, stated={"parallel": 8})
    assert fleet.findings() == []
    assert [len(group) for group in fleet.groups] == [6, 6, 5]
    many = StorageFleet(nodes=48, stated={"parallel": 1})
    assert many.findings() == []
    assert [len(group) for group in many.groups] == [3] * 16


def test_one_bad_run_of_three_is_no_finding() -> None:
    def once(host: str, attempt: int, log: str) -> str:
        return log if (host, attempt) != ("gpu02", 1) else re.sub(r'("bw_bytes" ?: ?)(\d+)', r"\g<1>9", log)

    assert StorageFleet(edit=once).findings() == []


def test_all_slow_alike_without_a_floor_is_for_the_history_to_tell() -> None:
    """Peers alone cannot know it; that is why the site may state a floor."""
    fleet = StorageFleet(faults=("storage-slow-everywhere",), stated={"floor_mib_s": {}, "p99_ms": {}})
    assert fleet.findings() == []


def test_few_hosts_without_a_floor_have_nothing_to_be_held_against() -> None:
    found = StorageFleet(nodes=3, stated={"floor_mib_s": {}, "p99_ms": {}}).findings()
    assert {entry[:3] for entry in found if entry[0] == THROUGHPUT} == {(THROUGHPUT, "no-reference", "other")}


def test_half_of_the_hosts_slow_is_told_once_and_names_what_they_share() -> None:
    faults = tuple(f"storage-mount-slow@gpu{n:02d}" for n in range(1, 5))
    racks = {f"gpu{n:02d}": {"rack": "rack-a1" if n <= 4 else "rack-a2"} for n in range(1, 9)}
    together = StorageFleet(faults=faults, shared=racks).findings()
    assert together == [(THROUGHPUT, "slow-group", "failed", "rack-a1")]


@pytest.mark.parametrize("stated", [{}, {"floor_mib_s": {}, "p99_ms": {}}])
def test_one_host_that_reads_far_faster_makes_no_other_slow(stated: dict[str, Any]) -> None:
    def cached(host: str, _attempt: int, log: str) -> str:
        faster = partial(re.sub, r'("bw_bytes" ?: ?)(\d+)', lambda found: f"{found[1]}{9 * int(found[2])}")
        return faster(log) if host == "gpu08" else log

    racks = {f"gpu{n:02d}": {"rack": "rack-a2" if n == 8 else "rack-a1"} for n in range(1, 9)}
    found = StorageFleet(edit=cached, shared=racks, stated=stated).findings()
    # Without a floor nobody can tell; with one the others reach it.
    assert {entry[1:3] for entry in found if entry[0] == THROUGHPUT} == (
        {("slow-mount-uneven", "other")} if stated else set()
    )
    assert not [entry for entry in found if entry[2] == "failed"]


@pytest.mark.parametrize(("fault", "check"), [("storage-mount-slow", THROUGHPUT), ("storage-answers-late", LATENCY)])
def test_a_slow_rack_is_not_told_of_one_run(fault: str, check: str) -> None:
    faults = tuple(f"{fault}@gpu{n:02d}" for n in range(1, 4))
    racks = {f"gpu{n:02d}": {"rack": "rack-a1" if n <= 3 else "rack-a2"} for n in range(1, 13)}
    fleet = StorageFleet(nodes=12, faults=faults, shared=racks)
    assert fleet.findings() == [(check, "slow-group", "failed", "rack-a1")]
    assert all(sum(name in group for group in fleet.groups) == 3 for name in ("gpu01", "gpu02", "gpu03"))


def test_a_host_below_the_sites_own_floor_fails_though_its_peers_are_no_faster_by_much() -> None:
    stated: dict[str, Any] = {"p99_ms": {"random-read": 0.5}}
    found = StorageFleet(nodes=4, stated=stated).findings()
    assert found == [(LATENCY, "late-storage", "failed", "lab")]


@pytest.mark.parametrize(
    ("state", "reason", "cause"),
    [
        ("slow-start", "FailedMount", "launch-slow-start"), ("image", "ErrImagePull", "launch-image"),
        ("timeout", "not done after 300 s", "run-hung"), ("lost-node", "NotReady", "launch-lost-node"),
    ],
)  # fmt: skip
def test_a_run_that_did_not_end_is_known_of_nothing(state: str, reason: str, cause: str) -> None:
    found = StorageFleet(ended={"gpu02": (state, reason)}).findings()
    assert found == [(INTEGRITY, cause, "other", "gpu02")]


def test_a_host_without_a_place_is_not_measured() -> None:
    fleet = StorageFleet(closed={"gpu02": "its GPUs are busy"})
    assert fleet.findings() == [(INTEGRITY, "no-capacity", "other", "gpu02")]


def test_what_keeps_a_pod_from_its_place_for_a_moment_is_tried_again() -> None:
    fleet = StorageFleet(ended={"gpu02": ("unschedulable", "0/8 nodes are available")})
    assert fleet.findings() == [(INTEGRITY, "launch-unschedulable", "other", "gpu02")]
    assert sum("gpu02" in group for group in fleet.groups) == 2


def test_data_that_come_back_otherwise_once_are_proof() -> None:
    def later(host: str, attempt: int, log: str) -> str:
        if (host, attempt) != ("gpu05", 2):
            return log
        return log.replace(
            "gpufleet-fio begin\n", "gpufleet-fio begin\ncrc32c: verify failed at file /data/x offset 0\n"
        )

    fleet = StorageFleet(faults=("storage-mount-slow@gpu05",), edit=later)
    assert (INTEGRITY, "data-corrupt", "failed", "gpu05") in fleet.findings()


def fixed(nodes: int, racks: int = 0, **parts: float) -> StorageFleet:
    """Return hosts that are measured all at once and move a part of what the others do."""

    def edit(host: str, _attempt: int, log: str) -> str:
        return re.sub(r'("bw_bytes" ?: ?)\d+', rf"\g<1>{int(1e9 * parts.get(host, 1.0))}", log)

    stated: dict[str, Any] = {"parallel": nodes, "floor_mib_s": {}, "p99_ms": {}}
    shared = {f"gpu{n:02d}": {"rack": f"r{(n - 1) // racks}"} for n in range(1, nodes + 1)} if racks else {}
    return StorageFleet(nodes=nodes, edit=edit, stated=stated, shared=shared)


def slow(fleet: StorageFleet) -> dict[str, str]:
    return {who: cause for _check, cause, _status, who in fleet.findings()}


def test_hosts_that_are_slow_alike_have_one_status() -> None:
    """The line of what is bad lay between hosts that differ by less than a measurement does (T114)."""
    found = slow(fixed(16, gpu03=0.497, gpu05=0.505, gpu07=0.52))
    assert found == {"gpu03": "slow-mount", "gpu05": "slow-mount", "gpu07": "slow-mount-marginal"}
    assert slow(fixed(16, gpu05=0.505, gpu07=0.52)) == dict.fromkeys(("gpu05", "gpu07"), "slow-mount-marginal")


def test_a_rack_on_both_sides_of_the_line_of_the_peers_is_one_finding() -> None:
    rack = {"gpu01": 0.49, "gpu02": 0.582, "gpu03": 0.588}
    assert slow(fixed(30, racks=3, **rack)) == {"r0": "slow-group"}
    # What is beyond the noise of the slow ones is not explained by the rack.
    assert set(slow(fixed(30, racks=3, **{**rack, "gpu03": 0.6}))) == {"gpu01", "gpu02"}


@settings(max_examples=30, deadline=None)
@given(parts=st.lists(st.floats(0.3, 1.0), min_size=4, max_size=12), about=st.floats(0.45, 0.65))
def test_a_slower_host_is_never_judged_better(parts: list[float], about: float) -> None:
    """Half of the hosts lie around a line, and status follows throughput whatever the others are."""
    drawn = {f"gpu{n:02d}": part if n % 2 else about + (part - 0.65) / 10 for n, part in enumerate(parts, 1)}
    worse = {Status.PASSED: 0, Status.OTHER: 1, Status.FAILED: 2}
    told = [outcome for outcome in fixed(len(parts), **drawn).outcomes() if outcome.check == THROUGHPUT]
    status = {subject.name: outcome.status for outcome in told for subject in outcome.subjects}
    order = sorted(drawn, key=lambda name: (drawn[name], name))
    assert all(worse[status[a]] >= worse[status[b]] for a, b in pairwise(order)), (drawn, status)
