# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes against checks: the right letter in the right place, and a table that can be read however large the fleet."""

from __future__ import annotations

import itertools
from pathlib import Path

from report_runs import MadeRun, failed, held, passed

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.decisions import Acceptance, Quarantine, Waiver
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import (
    Outcome,
    Rating,
    Status,
    Subject,
    SubjectKind,
    node_subject,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.report.facts import load_facts
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.report.matrix import (
    MOST_COLUMNS,
    MOST_ROWS,
    Matrix,
    matrix,
)


def matrix_of(made: MadeRun, run_dir: Path) -> Matrix:
    return matrix(load_facts(run_dir, made.write(run_dir)))


def letters(table: Matrix) -> dict[str, str]:
    (block,) = table.blocks
    return {row.label: "".join(mark.letter or " " for mark in row.marks) for row in block.rows}


def gpu(name: str) -> Subject:
    return Subject(SubjectKind.GPU, name, name.partition("/")[0])


def test_every_kind_of_answer_has_its_letter(tmp_path: Path) -> None:
    made = MadeRun(
        nodes=9,
        waivers=(Waiver(check="c", subject="gpu07", reason="r", who="w", until="2026-12-31"),),
        acceptances=(Acceptance(check="c", subject="gpu08", reason="r", who="w", until="2026-12-31"),),
        quarantine=(Quarantine(node="gpu09", reason="r", ticket="t", who="w"),),
    )
    names = made.names
    made.outcomes["nodes"] = (
        passed("nodes", "c", node_subject(names[0])),
        failed("nodes", "c", gpu("gpu02/gpu3"), "gpu-missing"),
        held("nodes", "c", node_subject(names[2]), "drift"),
        held("nodes", "c", node_subject(names[3]), "timeout", Rating.UNKNOWN),
        held("nodes", "c", node_subject(names[4]), "blocked-by-d", Rating.UNKNOWN, blocked_by="d"),
        passed("nodes", "c", node_subject(names[5]), status=Status.SKIPPED, rating=Rating.UNKNOWN),
        failed("nodes", "c", node_subject(names[6]), "gpu-missing"),
        held("nodes", "c", node_subject(names[7]), "drift"),
        failed("nodes", "c", node_subject(names[8]), "gpu-missing"),
    )
    table = matrix_of(made, tmp_path)
    assert "".join(letters(table)[name] for name in names) == "\u00b7FM?BSWAQ"
    assert table.blocks[0].columns == (("nodes", ("c",)),)
    assert [mark.letter for mark in table.legend] == list("\u00b7F?BMSWAQ") and table.note == ""


def test_the_worst_of_several_answers_counts_and_a_shared_answer_counts_for_all(tmp_path: Path) -> None:
    made = MadeRun(nodes=3)
    together = failed("nodes", "d", node_subject("gpu01"), "cohort-slow")
    both: Outcome = passed("nodes", "d", node_subject("gpu01"))
    made.outcomes["nodes"] = (
        passed("nodes", "c", gpu("gpu01/gpu0")),
        failed("nodes", "c", gpu("gpu01/gpu1"), "x"),
        held("nodes", "c", gpu("gpu01/gpu2"), "y"),
        both,
        failed(
            "nodes",
            "d",
            Subject(SubjectKind.CLUSTER, "s"),
            "slow",
            subjects=(*together.subjects, node_subject("gpu02")),
        ),
    )
    assert letters(matrix_of(made, tmp_path)) == {"gpu01": "FF", "gpu02": " F", "gpu03": "  "}


def test_checks_without_nodes_make_no_matrix(tmp_path: Path) -> None:
    made = MadeRun(nodes=2)
    made.outcomes["facility"] = (passed("facility", "power", Subject(SubjectKind.RACK, "rack-1")),)
    assert matrix_of(made, tmp_path).blocks == ()


def test_a_large_fleet_is_drawn_together(tmp_path: Path) -> None:
    made = MadeRun(nodes=1000)
    outcomes = list(made.every_node("nodes", "c"))
    for index in (41, 42, 43, 99):
        outcomes[index] = failed("nodes", "c", outcomes[index].subjects[0], "gpu-missing")
    made.outcomes["nodes"] = tuple(outcomes)
    table = matrix_of(made, tmp_path)
    assert letters(table) == {
        "gpu0042 to gpu0044, gpu0100": "F",
        "gpu0001 to gpu0041, gpu0045 to gpu0099, gpu0101 to gpu1000": "\u00b7",
    }
    assert [row.nodes for row in table.blocks[0].rows] == [4, 996]
    assert table.note.startswith("1000 nodes; those with the same letters share a row")


def test_more_patterns_than_rows_keep_the_worst_and_the_largest(tmp_path: Path) -> None:
    made = MadeRun(nodes=120)
    checks = [f"c{number}" for number in range(20)]
    outcomes = [o for check in checks for o in made.every_node("nodes", check)]
    for number, pair in enumerate(itertools.islice(itertools.combinations(range(20), 2), 80)):
        for place in (check * 120 + number for check in pair):
            outcomes[place] = failed("nodes", outcomes[place].check, outcomes[place].subjects[0], "x")
    made.outcomes["nodes"] = tuple(outcomes)
    (block,) = matrix_of(made, tmp_path).blocks
    assert len(block.rows) == MOST_ROWS and block.rows[-1].nodes == 40
    assert all("F" in "".join(m.letter for m in row.marks) for row in block.rows[:-1])
    assert block.note.startswith("17 nodes in 17 more rows are not drawn")
    assert sum(row.nodes for row in block.rows) + 17 == 120


def test_columns_come_in_blocks_that_fit_on_a_page(tmp_path: Path) -> None:
    made = MadeRun(nodes=2)
    for gate, number in {"fabric": 5, "nodes": 45, "gpu_stack": 20, "fabric_validation": 7}.items():
        made.outcomes[gate] = tuple(o for i in range(number) for o in made.every_node(gate, f"{gate}-{i}"))
    blocks = matrix_of(made, tmp_path).blocks
    shape = [[(gate, len(checks)) for gate, checks in block.columns] for block in blocks]
    assert shape == [[("fabric", 5), ("nodes", 22)], [("nodes", 23)], [("gpu_stack", 20), ("fabric_validation", 7)]]
    assert all(sum(number for _gate, number in part) <= MOST_COLUMNS for part in shape)
    assert all(
        len(row.marks) == sum(number for _gate, number in part)
        for block, part in zip(blocks, shape, strict=True)
        for row in block.rows
    )
    listed = [check for block in blocks for _gate, checks in block.columns for check in checks]
    assert len(listed) == len(set(listed)) == 77
