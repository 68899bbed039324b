# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a pass depends on: kept whole beside it, and different exactly when that is different."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import date
from pathlib import Path

import pytest
from sites import make_site

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.fingerprint.dependencies import Dependencies, SiteState
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import (
    Measure,
    Outcome,
    Rating,
    Status,
    Subject,
    SubjectKind,
    node_subject,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import Host
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.history import Store, open_store
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.gate import decide
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.run import new_run

HOSTS = ("gpu01", "gpu02")
SITE = make_site(tuple(Host(name=name, sku="h100", node_name=name) for name in HOSTS), name="island")
CLUSTER = Subject(SubjectKind.CLUSTER, "island")


def passed(gate: str, check: str, subject: Subject, **measured: str) -> Outcome:
    return Outcome(
        check=check,
        gate=gate,
        status=Status.PASSED,
        rating=Rating.GOOD,
        subjects=(subject,),
        summary="as seen",
        measured=tuple(Measure(name, value) for name, value in measured.items()),
        started="2026-11-21T10:00:00Z",
    )


def per_host() -> list[Outcome]:
    return [passed("nodes", "driver-uniform", node_subject(name)) for name in HOSTS]


def record(store: Store, gate: str, outcomes: list[Outcome], state: SiteState) -> None:
    run = new_run("run-1", SITE.name, "2026-11-21T09:00:00Z", (gate,), rehearsal=False)
    expected: dict[str, tuple[str, ...]] = {}
    for entry in outcomes:
        expected[entry.check] = (*expected.get(entry.check, ()), entry.subjects[0].name)
    verdict = decide(gate, expected, outcomes, SITE, date(2026, 11, 21))
    store.record_gate(run, verdict, outcomes, SITE, state)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(tmp_path / "history.sqlite")


def _prints(store: Store, gate: str) -> dict[str, str]:
    return {p.subject: p.fingerprint for p in store.last_passes("island", rehearsal=False) if p.gate == gate}


def _state(second_driver: str = "580.95.05", **whole: str) -> SiteState:
    versions = {"gpu01": "580.95.05", "gpu02": second_driver}
    return SiteState(hosts={name: {"driver": version} for name, version in versions.items()}, whole=whole)


def test_a_changed_host_makes_its_result_and_that_of_the_whole_stale_and_no_other(store: Store) -> None:
    def fingerprints(second_driver: str) -> dict[str, str]:
        whole = passed("nodes", "same-everywhere", CLUSTER)
        record(store, "nodes", [*per_host(), whole], state=_state(second_driver))
        return _prints(store, "nodes")

    before, after = fingerprints("580.95.05"), fingerprints("580.95.06")
    assert {name for name in before if before[name] != after[name]} == {"gpu02", "island"}
    assert fingerprints("580.95.05") == before


@pytest.mark.parametrize(
    ("gate", "fact", "stale"),
    [
        ("facility", "record", True),
        ("facility", "recipe", False),
        ("fabric", "topology", True),
        ("fabric", "recipe", False),
        ("gpu_stack", "recipe", True),
        ("gpu_stack", "cluster", True),
        ("nodes", "recipe", False),
        ("telemetry", "recipe", True),
        ("fabric_validation", "topology", True),
        ("fabric_validation", "record", False),
    ],
)
def test_a_result_depends_on_what_its_gate_depends_on(store: Store, gate: str, fact: str, stale: bool) -> None:
    found = []
    for word in ("one", "another"):
        record(store, gate, [passed(gate, "some-check", CLUSTER)], state=_state(**{fact: word}))
        found.append(_prints(store, gate)["island"])
    assert (found[0] != found[1]) is stale


def test_what_stands_behind_a_pass_comes_back_whole(store: Store) -> None:
    record(store, "nodes", per_host(), state=_state("580.1"))
    record(
        store,
        "fabric_validation",
        [passed("fabric_validation", "nccl-intra-node-bw", node_subject("gpu01"), nccl="2.28.3")],
        state=_state("580.1", topology="64 links"),
    )
    behind = {(p.gate, p.subject): p.dependencies for p in store.last_passes("island", rehearsal=False)}
    assert behind["nodes", "gpu02"].hosts == {"gpu02": {"driver": "580.1"}}
    found = behind["fabric_validation", "gpu01"]
    assert found.hosts == {"gpu01": {"driver": "580.95.05"}}
    assert (found.own["topology"], found.own["NCCL"]) == ("64 links", "2.28.3")


def test_a_history_of_the_first_schema_is_brought_forward_and_its_passes_have_nothing_behind_them(store: Store) -> None:
    record(store, "nodes", per_host(), state=_state())
    with closing(sqlite3.connect(store.path)) as connection:
        connection.execute("DROP TABLE fingerprint")
        connection.execute("UPDATE schema_version SET version = 1")
        connection.commit()
    again = open_store(store.path)
    assert [p.dependencies for p in again.last_passes("island", rehearsal=False)] == [Dependencies(), Dependencies()]
    record(again, "nodes", per_host(), state=_state())
    assert all(p.dependencies.hosts for p in again.last_passes("island", rehearsal=False))
