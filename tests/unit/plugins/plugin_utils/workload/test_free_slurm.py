# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which nodes of Slurm are free: exactly idle ones, in every form in which Slurm was asked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.probe.slurm_nodes import parse, parse_json
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.free_slurm import free_in_slurm
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.node_use import NodeUse, Use


def text(state: str, reason: str = "") -> NodeUse:
    said = f"NodeName=gpu01 Gres=gpu:8\n   State={state} ThreadsPerCore=1\n" + (
        f"   Reason={reason}\n" if reason else ""
    )
    return free_in_slurm(["gpu01"], parse(said))["gpu01"]


def test_an_idle_node_is_free() -> None:
    assert text("IDLE") == NodeUse(name="gpu01", use=Use.FREE) and text("IDLE+CLOUD").free


@pytest.mark.parametrize(
    "state",
    [
        "IDLE+DRAIN", "IDLE+PLANNED", "IDLE-", "IDLE+RESERVED", "IDLE+BLOCKED", "IDLE+MAINTENANCE+RESERVED", "IDLE*",
        "IDLE~", "IDLE+COMPLETING", "IDLE+POWERED_DOWN", "IDLE+REBOOT_REQUESTED", "IDLE@", "IDLE+INVALID_REG",
        "IDLE+SOMETHING_NEW", "DOWN", "DOWN*+DRAIN", "FUTURE", "UNKNOWN", "ERROR", "ALLOCATED+DRAIN", "MIXED+PLANNED",
    ],
)  # fmt: skip
def test_every_other_state_is_not(state: str) -> None:
    found = text(state)
    assert found.use is Use.CLOSED and found.why.startswith("is ")


def test_nodes_of_our_own_reservation_are_free_and_those_of_others_are_not() -> None:
    for state, use in (
        ("IDLE+RESERVED", Use.FREE), ("IDLE+MAINTENANCE+RESERVED", Use.FREE), ("MIXED+RESERVED", Use.BUSY),
        ("IDLE+DRAIN+RESERVED", Use.CLOSED), ("IDLE+PLANNED+RESERVED", Use.CLOSED),
    ):  # fmt: skip
        nodes = parse(f"NodeName=gpu01 Gres=gpu:8\n   State={state} ThreadsPerCore=1\n")
        assert free_in_slurm(["gpu01"], nodes, reserved={"gpu01"})["gpu01"].use is use, state
        assert not free_in_slurm(["gpu01"], nodes, reserved={"gpu02"})["gpu01"].free


def test_a_node_with_jobs_is_busy() -> None:
    assert text("ALLOCATED") == NodeUse(name="gpu01", use=Use.BUSY, why="jobs run on it (ALLOCATED)")
    assert text("MIXED+CLOUD").use is Use.BUSY


def test_who_drained_it_is_said_and_a_drain_of_ours_is_known() -> None:
    foreign = text("IDLE+DRAIN", "bad fan [root@2026-11-22T10:00:00]")
    assert (foreign.use, foreign.why) == (Use.CLOSED, "is IDLE+DRAIN by root: bad fan")
    ours = text("IDLE+DRAIN", "gpufleet.bringup:continuous held: wrong digest [root@2026-11-22T10:00:00]")
    assert (ours.use, ours.why) == (Use.OURS, "drained by us: gpufleet.bringup:continuous held: wrong digest")
    assert text("IDLE+DRAIN+NOT_RESPONDING", "gpufleet.bringup:continuous").use is Use.CLOSED
    assert text("DOWN+DRAIN", "gpufleet.bringup:continuous").use is Use.CLOSED
    assert text("IDLE+DRAIN", "gpufleet.bringup.other: x").use is Use.CLOSED


def test_a_reason_without_a_drain_is_somebodys_note() -> None:
    assert text("IDLE", "watch this one [root@2026-11-22T10:00:00]").use is Use.CLOSED


def test_every_form_has_to_say_so() -> None:
    idle = {"name": "gpu01", "state": ["IDLE"], "gres": "gpu:8"}
    as_json, as_text = parse_json(json.dumps({"nodes": [idle]})), parse("NodeName=gpu01\n State=IDLE+BLOCKED\n")
    assert free_in_slurm(["gpu01"], as_json)["gpu01"].free
    assert free_in_slurm(["gpu01"], as_json, as_text)["gpu01"].why == "is IDLE+BLOCKED"
    assert free_in_slurm(["gpu01"], as_json, ())["gpu01"].why == "it is not in Slurm"
    assert not free_in_slurm(["gpu01"])["gpu01"].free


def test_real_captures(shared: Path) -> None:
    def of(name: str) -> dict[str, NodeUse]:
        said = (shared / "captures/slurm" / name).read_text()
        if name.endswith("idle.json"):
            said = json.dumps({"nodes": [json.loads(said)]})
        nodes = parse_json(said) if name.endswith(".json") else parse(said)
        return free_in_slurm([node.name for node in nodes], nodes)

    drained = of("slurmrestd-v0.0.38-nodes-drain.json")
    assert {name: found.use for name, found in drained.items()} == {
        "naboo145": Use.CLOSED, "naboo146": Use.CLOSED, "naboo147": Use.BUSY,
    }  # fmt: skip
    assert [found.use for found in of("slurmrestd-v0.0.41-h100-node-idle.json").values()] == [Use.FREE]
    for name in ("scontrol-show-node-17.11-8gpu-drain.txt", "scontrol-show-node-25.11-gpu-drain.txt"):
        assert [found.use for found in of(name).values()] == [Use.CLOSED]
