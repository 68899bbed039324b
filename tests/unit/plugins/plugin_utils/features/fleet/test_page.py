# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The report about a fleet: what a page and its Markdown show of clusters that are well, that are not, and of none."""

from __future__ import annotations

import time
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.fleet.clusters import (
    ClusterState,
    SavedRun,
    fleet_sentence,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.fleet.page import (
    render_fleet_markdown,
    render_fleet_page,
    version_rows,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.gates import GATE_IDS
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.gate import (
    AppliedDecision,
    GateVerdict,
    TakenOver,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.run import new_run

MOMENT = "2026-11-03T10:00:00Z"


def cluster(name: str, *, driver: str = "580.105.08", operator: str = "v26.7.0", **gates: Status) -> ClusterState:
    """Return a cluster of two hosts whose gates passed, but for those that are given otherwise."""
    record = replace(new_run("r1", name, MOMENT, GATE_IDS, rehearsal=False), nodes=2)
    for gate in GATE_IDS:
        status = gates.get(gate, Status.PASSED)
        record = record.with_gate(replace(record.gate(gate), status=status, started=MOMENT, message=f"{gate} says"))
    bring_up = SavedRun(
        cluster=name, place=f"{name}/.run/1", record=record, recipe=f"gpu-operator {operator}, nfd 0.19.0, values 1f",
        drivers={"gpu01": driver, "gpu02": driver},
    )  # fmt: skip
    return ClusterState(name=name, bring_up=bring_up, gates={verdict.gate: verdict for verdict in record.gates})


def rows(page: str) -> list[list[str]]:
    """Return the rows of the first table of a page, cell by cell."""
    text = page.partition('<table class="matrix">')[2].partition("</table>")[0]
    table = ElementTree.fromstring(f"<table>{text}</table>")
    return [["".join(cell.itertext()) for cell in row] for row in table.iter("tr")]


BAD = cluster("west", driver="575.57.08", operator="v26.3.0", telemetry=Status.FAILED, fabric_validation=Status.PENDING)


def test_a_row_for_each_cluster_and_a_letter_for_each_gate() -> None:
    page = render_fleet_page([cluster("east"), BAD])
    head, east, west = rows(page)
    assert head[2:10] == [str(number) for number in range(1, 9)]
    assert east == ["east", "accepted", *["\u00b7"] * 8, "2", "580.105.08", "2026-11-03", "east/.run/1"]
    assert west[:10] == ["west", "not passed", *["\u00b7"] * 4, "F", "-", "\u00b7", "\u00b7"]
    assert fleet_sentence([cluster("east"), BAD]) in page and "REHEARSAL" not in page
    markdown = render_fleet_markdown([cluster("east"), BAD])
    assert "| east | accepted | passed | " in markdown and "| failed | - |" in markdown
    # What holds a cluster is in both; one that is accepted is held by nothing.
    for text in (page, markdown):
        assert "telemetry says (west/.run/1)" in text and "east/.run/1)" not in text


def test_a_pass_by_a_waiver_and_one_of_an_earlier_run_are_told_apart() -> None:
    state = cluster("east")
    verdict: GateVerdict = state.gates["nodes"]
    earlier = TakenOver(runs=("r0",), oldest=MOMENT, newest=MOMENT, results=3)
    waiver = AppliedDecision(check="xid", subject="gpu01", cause="xid-79", who="Ada", reason="swapped", until="")
    others = (
        (replace(verdict, taken_over=earlier), "T"),
        (replace(verdict, waived=(waiver,)), "W"),
        (verdict, "\u00b7"),
    )
    for other, letter in others:
        assert rows(render_fleet_page([replace(state, gates=state.gates | {"nodes": other})]))[1][4] == letter


def test_versions_that_differ_come_first_with_their_clusters() -> None:
    found = version_rows([cluster("a"), cluster("b"), BAD])
    assert [(row.name, len(row.versions)) for row in found] == [("GPU driver", 2), ("gpu-operator", 2), ("nfd", 1)]
    assert found[1].versions == (("v26.7.0", ("a", "b")), ("v26.3.0", ("west",)))
    markdown = render_fleet_markdown([cluster("a"), cluster("b"), BAD])
    assert "- gpu-operator: v26.7.0: 2 clusters (a, b); v26.3.0: 1 cluster (west)" in markdown and "nfd" not in markdown
    assert "differ" not in render_fleet_markdown([cluster("a"), cluster("b")])


@pytest.mark.parametrize("named", ["rehearsal", "lab"])
def test_a_rehearsal_is_one_on_the_page(named: str) -> None:
    state = cluster(named)
    assert state.bring_up.record is not None
    simulated = replace(state, bring_up=replace(state.bring_up, record=replace(state.bring_up.record, rehearsal=True)))
    for text in (render_fleet_page([simulated, BAD]), render_fleet_markdown([simulated, BAD])):
        assert "REHEARSAL: the hardware of 1" in text and "0 of 2 clusters accepted" in text


def test_names_of_others_are_text_and_not_markup() -> None:
    evil = "<script>alert(1)</script>|`x`"
    state = replace(cluster(evil, driver=evil), name=evil)
    page = render_fleet_page([state])
    assert "<script" not in page and rows(page)[1][0] == evil
    assert "<script" not in render_fleet_markdown([state])


def test_a_run_that_cannot_be_read_is_a_row() -> None:
    state = ClusterState(name="dc1", bring_up=SavedRun(cluster="dc1", place=".run/1", problem="cannot be read: cut"))
    page = render_fleet_page([state])
    assert rows(page)[1][:4] == ["dc1", "not known", "-", "-"] and "cannot be read: cut" in page


def test_five_hundred_clusters_take_seconds() -> None:
    states = [cluster(f"dc{number:03}") for number in range(500)]
    began = time.process_time()
    assert len(rows(render_fleet_page(states))) == 501
    assert time.process_time() - began < 20
