# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes of Slurm: every release that left a capture, text and JSON, and what is no list of nodes."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.probe import slurm_nodes

IDLE = "NodeName=gpu01 Arch=x86_64\n   Gres=gpu:8\n   State=IDLE ThreadsPerCore=1\n   Partitions=main\n"


def capture(shared: Path, name: str) -> str:
    return (shared / "captures/slurm" / name).read_text()


@pytest.mark.parametrize(
    ("name", "node", "state", "reason", "by", "gres", "version"),
    [
        (
            "scontrol-show-node-17.11-8gpu-drain.txt", "gn0101.twcc.ai", "IDLE+DRAIN", "node-switch", "root",
            "gpu:8", "17.11",
        ),
        ("scontrol-show-node-19.05-mixed.txt", "hb60rs-0001", "MIXED+CLOUD", "", "", "", "19.05.5"),
        (
            "scontrol-show-node-25.11-gpu-drain.txt", "gpu010", "IDLE+DRAIN", "health_ps___blocked", "root",
            "gpu:nvidia_geforce_rtx_5090:4(S:0-3),VramPerGpu:no_consume:32G", "25.11.3",
        ),
    ],
)  # fmt: skip
def test_text_of_every_release(
    shared: Path, name: str, node: str, state: str, reason: str, by: str, gres: str, version: str
) -> None:
    (found,) = slurm_nodes.parse(capture(shared, name))
    assert (found.name, found.state, found.reason, found.reason_by) == (node, state, reason, by)
    assert (found.gres, found.version) == (gres, version)
    assert found.draining == ("DRAIN" in state) and not found.free


def test_a_drained_node_of_22_05_says_idle_and_is_not_free(shared: Path) -> None:
    nodes = slurm_nodes.parse_json(capture(shared, "slurmrestd-v0.0.38-nodes-drain.json"))
    assert [(node.name, node.base, node.draining, node.free, node.busy) for node in nodes] == [
        ("naboo145", "IDLE", True, False, False),
        ("naboo146", "IDLE", True, False, False),
        ("naboo147", "ALLOCATED", False, False, True),
    ]
    assert nodes[0].reason == "Kill task failed" and nodes[0].reason_by == "root"


def test_a_node_of_24_05_with_a_list_of_states_is_free(shared: Path) -> None:
    node = json.loads(capture(shared, "slurmrestd-v0.0.41-h100-node-idle.json"))
    (found,) = slurm_nodes.parse_json(json.dumps({"nodes": [node], "errors": []}))
    assert (found.base, found.flags, found.free, found.busy) == ("IDLE", {"DYNAMIC_NORM"}, True, False)
    assert found.gres == "gpu:nvidia_h100_80gb_hbm3:1(S:0)" and found.version == "24.05.7"


def test_sinfo_of_21_08_lists_nodes(shared: Path) -> None:
    nodes = slurm_nodes.parse_json(capture(shared, "sinfo-json-v0.0.37.json"))
    assert [(node.base, node.free) for node in nodes] == [
        ("MIXED", False), ("IDLE", True), ("ALLOCATED", False), ("DOWN", False),
    ]  # fmt: skip


def test_sinfo_of_23_02_counts_nodes_and_is_refused() -> None:
    with pytest.raises(InputError, match="does not list them"):
        slurm_nodes.parse_json('{"sinfo": [{"node": {"state": ["IDLE"]}}], "errors": []}')


@pytest.mark.parametrize(
    ("state", "flags"),
    [
        ("DOWN*", {"NOT_RESPONDING"}),
        ("IDLE*+DRAIN", {"NOT_RESPONDING", "DRAIN"}),
        ("IDLE+DRAIN+REBOOT_ISSUED", {"DRAIN", "REBOOT_ISSUED"}),
        ("IDLE+BLOCKED", {"BLOCKED"}),
        ("IDLE+A_FLAG_OF_TOMORROW", {"A_FLAG_OF_TOMORROW"}),
        ("ALLOCATED+COMPLETING+DRAIN", {"COMPLETING", "DRAIN"}),
    ],
)
def test_whatever_stands_beside_the_state_makes_a_node_not_free(state: str, flags: set[str]) -> None:
    (node,) = slurm_nodes.parse(IDLE.replace("State=IDLE", f"State={state}"))
    assert node.flags == flags and not node.free


def test_several_nodes_and_one_a_line() -> None:
    second = IDLE.replace("gpu01", "gpu02").replace("State=IDLE", "State=DOWN+DRAIN")
    reason = (
        "   Reason=gpufleet.bringup:roll-7 wave 2 : reboot issued [root@2026-11-01T10:00:00]\n   Comment=State=IDLE\n"
    )
    for text in (f"{IDLE}\n{second}{reason}", f"{IDLE} ".replace("\n  ", "") + "\n" + second.replace("\n  ", "")):
        assert [(node.name, node.base) for node in slurm_nodes.parse(text)] == [("gpu01", "IDLE"), ("gpu02", "DOWN")]
    found = slurm_nodes.parse(IDLE + second + reason)[1]
    assert (found.reason, found.reason_by) == ("gpufleet.bringup:roll-7 wave 2 : reboot issued", "root")


def test_a_reason_that_names_a_state_does_not_set_it() -> None:
    text = "NodeName=gpu01 Arch=x86_64\n   Reason=was State=IDLE once [root@2026-11-01T10:00:00]\n"
    with pytest.raises(InputError, match="State="):
        slurm_nodes.parse(text)


@pytest.mark.parametrize(
    "text", ["", "\n", "No nodes in the system\n", "Node gpu09 not found\n", IDLE + IDLE, "NodeName=gpu01\n",
             IDLE.replace("IDLE", "SLEEPY"), "slurm_load_node error: Unable to contact slurm controller\n" + IDLE],
)  # fmt: skip
def test_what_is_no_list_of_nodes_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="scontrol show nodes"):
        slurm_nodes.parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "{}", '{"nodes": []}', '{"nodes": [{}]}', '{"nodes": [{"name": "a", "state": []}]}',
        '{"nodes": [{"name": "a", "state": ["IDLE", 3]}]}', '{"nodes": [{"name": "a", "state": ["DRAIN"]}]}',
        '{"nodes": [{"name": "a", "state": "idle"}], "errors": [{"error": "x"}]}',
        '{"nodes": [{"name": "a", "state": "idle"}, {"name": "a", "state": "idle"}]}',
    ],
)  # fmt: skip
def test_what_is_no_json_of_nodes_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        slurm_nodes.parse_json(text)


@given(st.integers(0, len(IDLE)), st.text(max_size=40))
def test_a_cut_or_spoiled_answer_gives_nodes_or_an_error(at: int, junk: str) -> None:
    for text in (IDLE[:at], IDLE[:at] + junk + IDLE[at:]):
        with contextlib.suppress(InputError):
            assert slurm_nodes.parse(text)
        with contextlib.suppress(InputError):
            assert slurm_nodes.parse_json(text)


@pytest.mark.parametrize(
    ("gres", "gpus"),
    [
        ("gpu:8", 8),
        ("gpu:h100:8(S:0-1)", 8),
        ("gpu:nvidia_h100_80gb_hbm3:1(S:0)", 1),
        ("gpu:a100:4(S:0),gpu:a30:2(S:1)", 6),
        ("gpu:v100:8(S:0,2),nic:4", 8),
        ("gpu:nvidia_geforce_rtx_5090:4(S:0-3),VramPerGpu:no_consume:32G", 4),
        ("gpu:h100:8(S:0-1),shard:h100:64(S:0-1)", 8),
        ("gpu:h100:no_consume:8", 8),
        ("craynetwork:4,gpu:b200:8", 8),
        ("gpu", 1),
        ("gpu:h100", 1),
        ("gpu:0", 0),
        ("nic:4", None),
        ("(null)", None),
    ],
)
def test_the_gpus_of_a_node_are_counted_as_releases_22_to_25_tell_them(gres: str, gpus: int | None) -> None:
    (node,) = slurm_nodes.parse(IDLE.replace("Gres=gpu:8", f"Gres={gres}"))
    assert node.gpus == gpus
    (told,) = slurm_nodes.parse_json(json.dumps({"nodes": [{"name": "gpu01", "state": ["IDLE"], "gres": gres}]}))
    assert told.gpus == gpus


@pytest.mark.parametrize("gres", ["gpu:8K", "gpu:h100:many", "gpu:8(S:0-1", "gpu::8", "gpu:8,,nic:1", "gpu:a:b:c:8"])
def test_gpus_in_another_form_are_no_number(gres: str) -> None:
    with pytest.raises(InputError, match="Gres="):
        slurm_nodes.gpus_in(gres)
