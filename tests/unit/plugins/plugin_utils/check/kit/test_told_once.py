# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What holds every host is one result with all of them as its subjects; what holds some is told of each."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.kit.told_once import told_once
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.decisions import Waiver
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import (
    Outcome,
    Rating,
    Status,
    node_subject,
)

GOOD: dict[str, Any] = {"status": Status.PASSED, "rating": Rating.GOOD, "cause": "", "hint": ""}


def _outcome(host: str, cause: str = "gone", text: str = "no scheduler", **more: Any) -> Outcome:
    bad = {"status": Status.FAILED, "rating": Rating.BAD, "cause": cause, "hint": "bring it back"}
    return Outcome(check="c", gate="gpu_stack", subjects=(node_subject(host),), summary=text, **{**bad, **more})


def _told(*outcomes: Outcome, decisions: tuple[Waiver, ...] = ()) -> list[tuple[str, list[str]]]:
    return [(o.cause, [s.name for s in o.subjects]) for o in told_once(outcomes, decisions)]


def test_one_cause_at_all_hosts_is_one_result() -> None:
    hosts = [f"gpu{number:02}" for number in range(1, 17)]
    assert _told(*map(_outcome, hosts)) == [("gone", hosts)]
    (outcome,) = told_once([_outcome("a", text="a: nothing"), _outcome("b", text="b: nothing")])
    assert outcome.summary == "all 2 hosts: <host>: nothing"


def test_different_causes_stay_apart_and_keep_their_hosts() -> None:
    found = _told(_outcome("a"), _outcome("b", "other-thing"), _outcome("c"))
    assert found == [("gone", ["a", "c"]), ("other-thing", ["b"])]
    texts = told_once([_outcome("a", text="7 of 8"), _outcome("b", text="6 of 8")])
    assert texts[0].summary == "all 2 hosts: a: 7 of 8; b: 6 of 8"


def test_while_a_host_passes_the_others_are_told_one_by_one() -> None:
    outcomes = (_outcome("a"), _outcome("b"), _outcome("c", **GOOD))
    assert told_once(outcomes) == outcomes
    assert told_once((_outcome("a"),)) == (_outcome("a"),)


def test_a_decision_about_one_host_keeps_its_hold() -> None:
    waiver = Waiver(check="c", subject="a", reason="r", who="w", until="2030-01-01")
    assert len(_told(_outcome("a"), _outcome("b"), decisions=(waiver,))) == 2
