# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs that end badly, early, or with values that nobody checked: whom they speak against."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from nccl_fleet import Fleet, findings

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.fabric_validation.model import Wanted
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.fabric_validation.parse_run import parse_run
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status

MakeFleet = Callable[..., Fleet]
SOCKET = (
    "NET/Socket : Using [0]eth0:10.0.0.2<0>\nUsing network Socket\nChannel 00/0 : 0[0] -> 8[0] [send] via NET/Socket/0"
)


def spoil(host: str, phases: tuple[str, ...], edit: Callable[[str], str]) -> Callable[[Wanted, str], str]:
    return lambda want, text: edit(text) if host in want.hosts and want.phase in phases else text


WRONG = spoil(
    "gpu04",
    ("node",),
    lambda t: t.replace(" 0\n# Out of bounds values : 0 OK", " 3\n# Out of bounds values : 3 FAILED"),
)
CUT = spoil("gpu04", ("node",), lambda text: text[: text.index("# Out of bounds")])
NO_ROWS = spoil("gpu04", ("node",), lambda text: text[: text.index(HEAD_END) + len(HEAD_END)])
HEAD_END = "time  algbw  busbw  #wrong\n"
UNCHECKED = spoil("gpu04", ("node",), lambda text: text.replace(" 0  10.0", " N/A  10.0"))
FEW_RANKS = spoil("gpu04", ("node",), lambda text: text.replace("#  Rank 7 ", "#  Kram 7 "))
LEFT_OUT = spoil(
    "gpu04", ("node",), lambda text: text.replace("\n", "\n[gpufleet: 99 bytes of this log are left out here]\n", 1)
)
HOLE = spoil(
    "gpu04", ("node",), lambda text: "\n".join(x for x in text.splitlines() if not x.startswith("  1073741824 "))
)


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        (WRONG, "wrong-results"),
        (CUT, "output-incomplete"),
        (NO_ROWS, "output-incomplete"),
        (HOLE, "output-incomplete"),
        (LEFT_OUT, "output-incomplete"),
        (UNCHECKED, "not-validated"),
        (FEW_RANKS, "output-incomplete"),
        (spoil("gpu04", ("node",), lambda _text: ""), "output-incomplete"),
    ],
)
def test_results_of_a_host(fleet: MakeFleet, change: Callable[[Wanted, str], str], cause: str) -> None:
    here = fleet(8, change=change)
    outcomes = here.outcomes()
    assert findings(outcomes) == [("nccl-results", cause, "gpu04")]
    (found,) = [o for o in outcomes if o.cause == cause]
    assert found.status is (Status.FAILED if cause == "wrong-results" else Status.OTHER)


def test_a_run_whose_smallest_size_was_not_saved_is_incomplete_at_once(fleet: MakeFleet) -> None:
    """By doubling nothing the largest size is never reached."""
    here = fleet(8)
    run = here.results().runs[0]
    assert run.problem is None
    log, settings = here.log(run.record.key, run.record.smallest), here.plan().settings
    for nothing in (0, -8):
        again = parse_run(replace(run.record, smallest=nothing), log, settings)
        assert again.problem is not None and again.problem.cause == "output-incomplete"
        assert "smallest is not recorded" in again.problem.text


def test_of_a_log_that_is_empty_it_is_said_how_the_run_ended(fleet: MakeFleet) -> None:
    """Why a log could not be read stands there."""
    nothing = spoil("gpu04", ("node",), lambda _text: "")
    (empty,), (rows,) = (
        [o for o in fleet(8, change=change).outcomes() if o.cause == "output-incomplete"]
        for change in (nothing, NO_ROWS)
    )
    assert "found no table" in empty.summary and "as the test says" in empty.summary
    assert "as the test says" not in rows.summary


@pytest.mark.parametrize(
    ("state", "code", "cause"),
    [
        ("timeout", None, "run-hung"),
        ("failed", 1, "run-crashed"),
        ("unschedulable", None, "launch-unschedulable"),
        ("image", None, "launch-image"),
        ("refused", None, "launch-refused"),
        ("lost-node", None, "launch-lost-node"),
        ("preempted", None, "launch-preempted"),
        ("aborted", None, "launch-aborted"),
        ("succeeded", 3, "run-crashed"),
    ],
)
@pytest.mark.parametrize("phase", ["node", "pair"])
def test_endings(fleet: MakeFleet, state: str, code: int | None, cause: str, phase: str) -> None:
    here = fleet(
        8, state=lambda want: (state, code) if "gpu04" in want.hosts and want.phase == phase else ("succeeded", 0)
    )
    assert findings(here.outcomes()) == [("nccl-results", cause, "gpu04")]


def test_memory_that_cannot_be_registered_ends_the_run(fleet: MakeFleet) -> None:
    here = fleet(
        8,
        says={"gpu04": "WARN Call to ibv_reg_mr_iova2 failed with error Cannot allocate memory"},
        state=lambda want: ("failed", 1) if "gpu04" in want.hosts and want.phase == "pair" else ("succeeded", 0),
    )
    assert findings(here.outcomes()) == [("nccl-transport", "memory-registration-failed", "gpu04")]


def test_wrong_results_of_the_whole(fleet: MakeFleet) -> None:
    change = spoil("gpu04", ("all",), lambda t: t.replace("values : 0 OK", "values : 9 FAILED"))
    (found,) = findings(fleet(8, change=change).outcomes())
    assert found[:2] == ("nccl-all-nodes-bw", "wrong-results")
