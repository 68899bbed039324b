# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A roll over simulated nodes: every node ends once, the budget and the capacity hold, and a roll that dies goes on."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.waves.engine import NodeChange, Roll
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.waves.journal import Journal, only_one
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.waves.orchestrator import ManualOrchestrator
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.waves.plan import (
    RollEvent,
    RollMember,
    RollPolicy,
    Stage,
    make_plan,
    nodes_of,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import BringupError, InputError

# What may happen to a node; `reboot` and `good` come back.
FATES = ("good", "reboot", "foreign", "blocked", "fails", "silent", "stuck", "bad", "gone", "old-kernel")


class Killed(BaseException):
    """The controller dies."""


@dataclass
class World(ManualOrchestrator):
    """Nodes with their fates. It dies at the moment `dies_at`, counted over everything that happens in it."""

    fates: Mapping[str, str]
    dies_at: int = 0
    moments: int = 0
    out: set[str] = field(default_factory=set)
    most_out: int = 0
    held: dict[str, str] = field(default_factory=dict)
    changes: Counter[str] = field(default_factory=Counter)
    starts: Counter[str] = field(default_factory=Counter)

    def moment(self) -> None:
        self.moments += 1
        if self.moments == self.dies_at:
            raise Killed

    def cordon(self, node: str, *, again: bool = False) -> str:
        del again
        self.moment()
        if self.fates[node] == "foreign":
            return "cordoned by somebody else"
        self.out.add(node)
        self.most_out = max(self.most_out, len(self.out))
        self.moment()
        return ""

    def drain(self, nodes: Sequence[str]) -> Mapping[str, str]:
        self.moment()
        assert set(nodes) <= self.out
        return {node: "disruption budget a/web" if self.fates[node] == "blocked" else "" for node in nodes}

    def give_back(self, node: str) -> str:
        self.moment()
        assert node not in self.held
        self.out.discard(node)
        self.moment()
        return ""

    def hold(self, node: str, reason: str, *, again: bool = False) -> None:
        self.moment()
        assert node in self.out
        self.held[node] = reason

    def ours(self, nodes: Sequence[str]) -> frozenset[str]:
        return frozenset(node for node in nodes if node in self.out)

    def boots(self, nodes: Sequence[str]) -> Mapping[str, str]:
        return {node: str(self.starts[node]) for node in nodes}

    def change(self, nodes: Sequence[str]) -> dict[str, NodeChange]:
        found = {}
        for node in nodes:
            self.moment()
            assert node in self.out
            self.changes[node] += 1
            if self.fates[node] == "lifted":
                self.out.discard(node)
            problem = "task Install driver: no such package" if self.fates[node] == "fails" else ""
            reboot = self.fates[node] in ("reboot", "stuck", "gone", "old-kernel")
            if self.fates[node] != "silent":
                found[node] = NodeChange(problem=problem, reboot=reboot, boot_id=str(self.starts[node]), kernel="new")
        return found

    def up(self, node: str) -> NodeChange:
        """What runs on a node now."""
        fate, boots = self.fates[node], self.starts[node]
        if fate == "gone" and boots:
            return NodeChange()
        return NodeChange(boot_id=str(boots), kernel="new" if boots and fate != "old-kernel" else "old")

    def reboot(self, nodes: Sequence[str]) -> dict[str, NodeChange]:
        for node in nodes:
            self.moment()
            self.starts[node] += self.fates[node] != "stuck"
            self.moment()
        return {node: self.up(node) for node in nodes}


def drive(roll: Roll, world: World) -> str:
    """Go through the steps as the playbook does, and return why the roll stopped."""
    while True:
        decision = roll.begin()
        if not decision.nodes:
            return decision.stopped
        # What was rebooting when the controller died is asked for its boot id before anything else.
        begun = {node: world.up(node) for node in roll.at(Stage.REBOOTING)}
        gone = [node for node, found in begun.items() if found.boot_id == roll.states[node].boot_id]
        roll.rebooted({**begun, **world.reboot(gone)})
        results = world.change(roll.drain(decision.nodes))
        roll.rebooted(world.reboot(roll.changed(results, reboots="needed")))
        nodes = roll.at(Stage.CHANGED, Stage.REBOOTED)
        roll.verified({node: "gpu-ecc" if world.fates[node] == "bad" else "" for node in nodes})


def new_roll(directory: Path, world: World, policy: RollPolicy) -> Roll:
    path = directory / "roll.jsonl"
    if not path.exists():
        members = [RollMember(name=name, rack=f"r{n % 3}") for n, name in enumerate(world.fates)]
        Journal.begin(path, "roll", make_plan(members, policy), policy)
    return Roll(Journal(path), world, policy)


def whole(fates: Sequence[str], policy: RollPolicy) -> tuple[World, Roll, str]:
    world = World({f"n{n:02}": fate for n, fate in enumerate(fates)})
    with tempfile.TemporaryDirectory() as directory:
        roll = new_roll(Path(directory), world, policy)
        return world, roll, drive(roll, world)


def stages(roll: Roll) -> dict[str, tuple[Stage, str]]:
    return {node: (state.stage, state.reason) for node, state in roll.states.items()}


FLEETS = st.lists(st.sampled_from([*FATES, *["good"] * 6]), min_size=2, max_size=9)
POLICIES = st.builds(
    RollPolicy, by=st.sampled_from(["rack", "share"]), size=st.sampled_from(["1", "40%", "100%"]),
    keep=st.sampled_from(["0", "1", "50%"]), budget=st.sampled_from(["0", "1", "30%"]), canaries=st.integers(0, 1),
)  # fmt: skip


@settings(max_examples=60)
@given(FLEETS, POLICIES)
def test_every_node_ends_once_and_budget_and_capacity_hold(fates: list[str], policy: RollPolicy) -> None:
    world, roll, stopped = whole(fates, policy)
    states = roll.states
    open_nodes = [node for node, state in states.items() if not state.stage.ended]
    assert all(states[node].stage is Stage.PENDING for node in open_nodes) and bool(open_nodes) == bool(stopped)
    keep = nodes_of(policy.keep, len(fates), "keep", up=True)
    assert len(fates) - world.most_out >= keep
    assert {node for node, state in states.items() if state.stage is Stage.HELD} == world.out == set(world.held)
    for node, state in states.items():
        good = {"good": Stage.RETURNED, "reboot": Stage.RETURNED, "foreign": Stage.SPARED, "blocked": Stage.SPARED}
        expected = good.get(world.fates[node], Stage.HELD)
        assert state.stage in (expected, Stage.PENDING) or "stay in service" in state.reason
        assert state.reason or state.stage in (Stage.RETURNED, Stage.PENDING)
        assert world.changes[node] == (state.stage in (Stage.RETURNED, Stage.HELD))
    _budget_holds(roll, policy)


def _budget_holds(roll: Roll, policy: RollPolicy) -> None:
    """No node is begun in a wave after the budget was spent."""
    held, budget = 0, nodes_of(policy.budget, len(roll.states), "budget")
    wave_of = {place.node: place.wave for place in roll.journal.plan.places}
    spent_in = None
    for event in roll.journal.events:
        held += event.stage is Stage.HELD
        if held > budget and spent_in is None:
            spent_in = wave_of[event.node]
        if event.stage is Stage.CORDONED and spent_in is not None:
            assert wave_of[event.node] == spent_in


@settings(max_examples=60)
@given(FLEETS, POLICIES, st.data())
def test_a_roll_that_dies_anywhere_ends_as_one_that_did_not(
    fates: list[str], policy: RollPolicy, data: st.DataObject
) -> None:
    undisturbed, expected, stopped = whole(fates, policy)
    deaths = data.draw(st.lists(st.integers(1, max(1, undisturbed.moments)), min_size=1, max_size=3))
    world = World(undisturbed.fates)
    with tempfile.TemporaryDirectory() as directory:
        ends = ""
        for dies_at in [*deaths, 0]:
            world.moments, world.dies_at = 0, dies_at
            try:
                roll = new_roll(Path(directory), world, policy)
                ends = drive(roll, world)
            except Killed:
                # A line that it did not finish.
                with open(Path(directory) / "roll.jsonl", "ab") as handle:
                    handle.write(b'{"node": "n0')
        found = {node: (stage, reason.partition("; ")[0]) for node, (stage, reason) in stages(roll).items()}
    assert found == {node: (stage, reason.partition("; ")[0]) for node, (stage, reason) in stages(expected).items()}
    assert ends == stopped and world.out == undisturbed.out and world.held == undisturbed.held
    # Only what was under way when it died is done again, and a reboot that happened is never done again.
    assert sum((world.changes - undisturbed.changes).values()) <= len(deaths) * len(fates)
    for node, boots in undisturbed.starts.items():
        assert world.starts[node] == boots
    twice = Counter(event.node for event in roll.journal.events if event.stage.ended)
    assert all(count == 1 for count in twice.values())


def test_a_bad_canary_stops_the_roll_at_the_canary(tmp_path: Path) -> None:
    world, roll, stopped = whole(["bad", "good", "good", "good"], RollPolicy(keep="0", budget="3"))
    assert stopped == "canary n00 is held: not verified: gpu-ecc"
    assert world.changes == {"n00": 1} and world.out == {"n00"}
    assert [state.stage.value for state in roll.states.values()] == ["held", "pending", "pending", "pending"]


def test_one_bad_node_of_a_later_wave_is_held_and_the_rest_finishes() -> None:
    fates = ["good"] * 12
    fates[7] = "bad"
    world, roll, stopped = whole(fates, RollPolicy(size="25%", keep="50%", budget="1"))
    assert not stopped and world.out == {"n07"}
    assert Counter(state.stage for state in roll.states.values()) == {Stage.RETURNED: 11, Stage.HELD: 1}


@pytest.mark.parametrize(("bad", "budget", "said"), [(1, "0", "1 node is held, "), (2, "1", "2 nodes are held, ")])
def test_a_roll_that_spent_its_budget_says_how_many_nodes_are_held(bad: int, budget: str, said: str) -> None:
    fates = ["good"] * 4 + ["bad"] * bad + ["good"] * 4
    _world, _roll, stopped = whole(fates, RollPolicy(size="1", keep="0", budget=budget))
    assert stopped.startswith(f"{said}the budget is {budget} ({budget}); last n0")


def test_an_abort_leaves_every_node_in_a_known_state(tmp_path: Path) -> None:
    for dies_at in range(1, 40):
        directory = tmp_path / str(dies_at)
        directory.mkdir()
        world = World(dict.fromkeys(("a", "b", "c"), "reboot"), dies_at=dies_at)
        policy = RollPolicy(keep="0", size="2")
        with pytest.raises(Killed):
            drive(new_roll(directory, world, policy), world)
            raise Killed
        world.dies_at = 0
        roll = new_roll(directory, world, policy)
        roll.abort()
        for node, state in roll.states.items():
            assert state.stage.ended and (state.stage is Stage.HELD) == (node in world.out) == (node in world.held)
            assert state.stage is not Stage.SPARED or not world.changes[node]
        roll.abort()


def test_held_nodes_are_begun_again_only_when_asked_for() -> None:
    world = World({"a": "good", "b": "bad", "c": "good"})
    policy = RollPolicy(keep="0", budget="1", size="1")
    with tempfile.TemporaryDirectory() as directory:
        drive(new_roll(Path(directory), world, policy), world)
        again = new_roll(Path(directory), world, policy)
        assert again.decision().done and world.changes["b"] == 1
        world.fates = {**world.fates, "b": "good"}
        world.held.clear()
        assert again.again(["a", "b"]) == ("b",)
        assert drive(again, world) == "" and again.states["b"].stage is Stage.RETURNED and not world.out


def test_a_reboot_that_is_not_allowed_holds_the_node(tmp_path: Path) -> None:
    world = World({"a": "reboot"})
    roll = new_roll(tmp_path, world, RollPolicy(keep="0", canaries=1))
    results = world.change(roll.drain(roll.begin().nodes))
    assert roll.changed(results, reboots="never") == ()
    assert "not allowed" in roll.states["a"].reason and world.starts["a"] == 0


class TestJournal:
    def journal(self, path: Path) -> Journal:
        policy = RollPolicy(keep="0")
        return Journal.begin(
            path, "roll", make_plan([RollMember(name="a"), RollMember(name="b")], policy), policy, "run-1"
        )

    def test_it_is_read_back_as_it_was_written(self, tmp_path: Path) -> None:
        written = self.journal(tmp_path / "j")
        written.add(RollEvent(node="a", stage=Stage.CORDONED))
        read = Journal(tmp_path / "j")
        assert (read.plan, read.policy, read.states, read.events) == (
            written.plan, written.policy, written.states, written.events,
        )  # fmt: skip
        assert read.events[0].run_id == "run-1" and read.events[0].at.endswith("Z")

    def test_a_torn_line_is_cut_off_by_the_next_step(self, tmp_path: Path) -> None:
        self.journal(tmp_path / "j").add(RollEvent(node="a", stage=Stage.CORDONED))
        whole = (tmp_path / "j").read_bytes()
        (tmp_path / "j").write_bytes(whole + b'{"node": "b", "sta')
        journal = Journal(tmp_path / "j")
        assert journal.states["b"].stage is Stage.PENDING
        journal.add(RollEvent(node="b", stage=Stage.SPARED, reason="x"))
        assert Journal(tmp_path / "j").states["b"].stage is Stage.SPARED

    @pytest.mark.parametrize(
        ("text", "says"),
        [("", "empty"), ("{}\n", "no journal"), ("[]\n", "spoiled"), ("{...\n", "spoiled"), ("\n", "spoiled")],
    )
    def test_what_is_no_journal_is_refused(self, tmp_path: Path, text: str, says: str) -> None:
        (tmp_path / "j").write_text(text)
        with pytest.raises(InputError, match=says):
            Journal(tmp_path / "j")

    def test_a_step_that_cannot_follow_and_an_unknown_node_are_refused(self, tmp_path: Path) -> None:
        journal = self.journal(tmp_path / "j")
        with pytest.raises(InputError, match="is pending and cannot become returned"):
            journal.add(RollEvent(node="a", stage=Stage.RETURNED))
        with pytest.raises(InputError, match="not in the plan"):
            journal.add(RollEvent(node="z", stage=Stage.CORDONED))
        assert Journal(tmp_path / "j").events == []

    def test_a_roll_is_begun_once_and_one_works_on_it(self, tmp_path: Path) -> None:
        journal = self.journal(tmp_path / "j")
        with pytest.raises(InputError, match="there already"):
            self.journal(tmp_path / "j")
        with only_one(journal.path), pytest.raises(BringupError, match="another process"), only_one(journal.path):
            pass


def test_a_node_that_fails_its_first_proof_is_held_and_the_others_go_on_to_the_next(tmp_path: Path) -> None:
    world = World({"n00": "good", "n01": "good", "n02": "good"})
    roll = new_roll(tmp_path, world, RollPolicy(keep="0", budget="3", canaries=0, size="100%"))
    roll.changed(world.change(roll.drain(roll.begin().nodes)), reboots="never")
    assert roll.sift({"n00": "", "n01": "gpu-ecc"}) == ("n00",)
    assert set(world.held) == {"n01", "n02"} and "no verdict about it" in world.held["n02"]
    assert roll.states["n00"].stage is Stage.CHANGED and world.out == {"n00", "n01", "n02"}
    roll.verified({"n00": ""})
    assert roll.states["n00"].stage is Stage.RETURNED and world.out == {"n01", "n02"}


def test_a_node_that_is_not_as_declared_after_its_reboot_is_held(tmp_path: Path) -> None:
    world = World({"n00": "reboot", "n01": "reboot"})
    roll = new_roll(tmp_path, world, RollPolicy(keep="0", budget="3", canaries=0, size="100%"))
    asked = roll.changed(world.change(roll.drain(roll.begin().nodes)), reboots="needed")
    up = world.reboot(asked)
    up["n01"] = replace(up["n01"], problem="still waits for a reboot: nouveau")
    assert roll.rebooted(up) == ("n00",)
    assert world.held == {"n01": "not as declared after its reboot: still waits for a reboot: nouveau"}


def test_a_reboot_ends_with_the_kernel_that_was_installed(tmp_path: Path) -> None:
    """One comes back with the new kernel, one with the old one, one not at all, and one did not go down."""
    world = World({"n00": "reboot", "n01": "old-kernel", "n02": "gone", "n03": "stuck"})
    roll = new_roll(tmp_path, world, RollPolicy(keep="0", budget="4", canaries=0, size="100%"))
    asked = roll.changed(world.change(roll.drain(roll.begin().nodes)), reboots="needed")
    # The roll is taken up by another controller, which knows the kernel from the journal alone.
    again = new_roll(tmp_path, world, RollPolicy(keep="0", budget="4", canaries=0, size="100%"))
    assert again.rebooted(world.reboot(asked)) == ("n00",)
    assert world.held == {
        "n01": "came back with kernel old, and new was installed: see its boot loader",
        "n02": "did not come back after its reboot",
        "n03": "did not reboot: its boot id is still 0",
    }


def test_a_kernel_that_nobody_installed_is_not_waited_for(tmp_path: Path) -> None:
    world = World({"n00": "old-kernel"})
    roll = new_roll(tmp_path, world, RollPolicy(keep="0", budget="1", canaries=0, size="100%"))
    found = world.change(roll.drain(roll.begin().nodes))
    asked = roll.changed({node: replace(entry, kernel="") for node, entry in found.items()}, reboots="needed")
    assert roll.rebooted(world.reboot(asked)) == ("n00",) and not world.held


def test_a_node_whose_change_would_be_refused_is_never_taken_out_of_service(tmp_path: Path) -> None:
    world = World({"n00": "good", "n01": "good", "n02": "good"})
    roll = new_roll(tmp_path, world, RollPolicy(keep="0", budget="0", canaries=0, size="100%"))
    refused = {"n01": "version 580.126.09 is not in the repositories", "n02": ""}
    assert roll.drain(roll.begin().nodes, refused) == ("n00", "n02")
    assert world.out == {"n00", "n02"} and roll.states["n01"].stage is Stage.SPARED
    assert roll.states["n01"].reason == f"its change would be refused: {refused['n01']}"
    # One whose change was begun is not given up by it.
    again = new_roll(tmp_path, world, RollPolicy(keep="0", budget="0", canaries=0, size="100%"))
    assert again.drain(again.begin().nodes, dict.fromkeys(world.fates, "dpkg was interrupted")) == ("n00", "n02")
    # One that an earlier controller cordoned and did not begin to change is given back.
    roll.journal.add(RollEvent(node="n01", stage=Stage.PENDING))
    roll.journal.add(RollEvent(node="n01", stage=Stage.CORDONED))
    world.out.add("n01")
    assert "n01" not in roll.drain(["n01"], refused) and "n01" not in world.out
