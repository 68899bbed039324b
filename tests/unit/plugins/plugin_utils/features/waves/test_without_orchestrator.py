# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reboots that a roll did not ask for, and cordons that somebody lifts while a node is changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.waves.engine import NodeChange, Roll
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.waves.journal import Journal
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.waves.orchestrator import ManualOrchestrator
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.waves.plan import (
    RollMember,
    RollPolicy,
    Stage,
    make_plan,
)


class Nodes(ManualOrchestrator):
    """One node: the boot id that its kubelet reports, and whether it is cordoned by us."""

    def __init__(self) -> None:
        self.boot, self.out, self.foreign = "one", False, ""

    def cordon(self, node: str, *, again: bool = False) -> str:
        self.out = self.out or not self.foreign
        return self.foreign

    def ours(self, nodes: Sequence[str]) -> frozenset[str]:
        return frozenset(nodes if self.out else ())

    def boots(self, nodes: Sequence[str]) -> Mapping[str, str]:
        return dict.fromkeys(nodes, self.boot)


@pytest.fixture
def nodes() -> Nodes:
    return Nodes()


@pytest.fixture
def roll(tmp_path: Path, nodes: Nodes) -> Roll:
    policy = RollPolicy(keep="0", canaries=0)
    Journal.begin(tmp_path / "j", "roll", make_plan([RollMember(name="a")], policy), policy)
    found = Roll(Journal(tmp_path / "j"), nodes, policy)
    assert found.drain(found.begin().nodes) == ("a",)
    return found


def ended(roll: Roll) -> tuple[Stage, str]:
    # As a process that begins now reads it.
    state = Journal(roll.journal.path).states["a"]
    return state.stage, state.reason


def test_a_node_that_nobody_disturbs_is_given_back_without_a_word(roll: Roll) -> None:
    roll.changed({"a": NodeChange(boot_id="one")}, reboots="never")
    roll.verified({"a": ""})
    assert ended(roll) == (Stage.RETURNED, "")


def test_our_own_reboot_is_no_news_even_while_the_kubelet_still_reports_the_old_system(
    roll: Roll, nodes: Nodes
) -> None:
    roll.changed({"a": NodeChange(boot_id="one", reboot=True)}, reboots="needed")
    assert roll.rebooted({"a": NodeChange(boot_id="two")}) == ("a",)
    assert roll.sift({"a": ""}) == ("a",)
    nodes.boot = "two"
    roll.verified({"a": ""})
    assert ended(roll) == (Stage.RETURNED, "")


def test_a_reboot_during_the_change_is_told_with_what_became_of_it(roll: Roll, nodes: Nodes) -> None:
    nodes.boot = "two"
    roll.changed({}, reboots="needed")
    stage, reason = ended(roll)
    assert stage is Stage.HELD and reason.startswith("the change failed: did not answer after the change; it rebooted")
    assert "its boot id is two, was one, and the roll had not asked for it" in reason


def test_a_reboot_during_a_change_that_went_well_is_told_and_the_proof_decides(roll: Roll, nodes: Nodes) -> None:
    nodes.boot = "two"
    roll.changed({"a": NodeChange(boot_id="two")}, reboots="never")
    roll.verified({"a": ""})
    stage, reason = ended(roll)
    assert stage is Stage.RETURNED and "it rebooted during its change: its boot id is two, was one" in reason


def test_a_reboot_that_the_kubelet_reports_late_is_told_once_it_is_known(roll: Roll, nodes: Nodes) -> None:
    roll.changed({"a": NodeChange(boot_id="two")}, reboots="never")
    nodes.boot = "two"
    roll.verified({"a": ""})
    assert ended(roll) == (Stage.RETURNED, "it rebooted during its change, and the roll had not asked for it")


@pytest.mark.parametrize("ours", [True, False])
def test_a_reboot_since_the_change_makes_its_proof_worthless(roll: Roll, nodes: Nodes, ours: bool) -> None:
    roll.changed({"a": NodeChange(boot_id="one", reboot=ours)}, reboots="needed")
    if ours:
        roll.rebooted({"a": NodeChange(boot_id="two")})
    nodes.boot = "three"
    roll.verified({"a": ""})
    stage, reason = ended(roll)
    assert stage is Stage.HELD and reason.startswith("not verified: it rebooted since its change: its boot id is three")


def test_a_node_whose_roll_was_interrupted_is_changed_again_and_its_reboot_told(roll: Roll, nodes: Nodes) -> None:
    nodes.boot = "two"
    later = Roll(Journal(roll.journal.path), nodes, RollPolicy(keep="0", canaries=0))
    assert later.drain(["a"]) == ("a",)
    assert "begun again after an interruption; it rebooted meanwhile" in ended(later)[1]
    later.changed({"a": NodeChange(boot_id="two")}, reboots="never")
    later.verified({"a": ""})
    assert ended(later) == (Stage.RETURNED, "it rebooted during its change, and the roll had not asked for it")


def test_boot_ids_of_simulated_nodes_are_those_of_another_system_and_say_nothing(roll: Roll) -> None:
    roll.changed({"a": NodeChange(boot_id="this-machine")}, reboots="never")
    roll.verified({"a": ""})
    assert ended(roll) == (Stage.RETURNED, "")


def test_a_cordon_that_somebody_lifts_is_set_again_and_told(roll: Roll, nodes: Nodes) -> None:
    nodes.out = False
    roll.changed({"a": NodeChange(boot_id="one")}, reboots="never")
    assert nodes.out
    roll.verified({"a": ""})
    assert ended(roll) == (Stage.RETURNED, "somebody lifted its cordon meanwhile, and it is cordoned again")


def test_a_node_that_somebody_else_took_over_in_its_change_is_told(roll: Roll, nodes: Nodes) -> None:
    nodes.out, nodes.foreign = False, "cordoned by somebody else"
    roll.changed({"a": NodeChange(boot_id="one")}, reboots="never")
    assert "and it is cordoned by somebody else" in roll.states["a"].reason
