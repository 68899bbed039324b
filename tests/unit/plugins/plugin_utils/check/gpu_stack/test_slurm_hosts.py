# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The hosts of a Slurm without Kubernetes: states, partitions and GPUs. Texts are of Slurm 22.05.8."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from slurm_captures import capture

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack import slurm_hosts
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack.observe_slurm import Said

from .test_slurm_daemons import CONFIG, HEALTHY_PROGRAMS, healthy, nodes, said, site, told

NODES, PARTITIONS, GRES = "slurm-nodes", "slurm-partitions", "slurm-gres"
FIRST = "Port=26821 Version=22.05.8"
IDLE = "State=IDLE ThreadsPerCore"
ROW = ("   Partitions=main,night \n", "   Partitions=main,night \n")


def state(word: str, reason: str = "") -> Said:
    """Both hosts in this state."""
    said_so = f"   ExtSensorsJoules=n/s ExtSensorsWatts=0 ExtSensorsTemp=n/s\n   Reason={reason}\n"
    more = (("   ExtSensorsJoules=n/s ExtSensorsWatts=0 ExtSensorsTemp=n/s\n", said_so),) if reason else ()
    text = capture("nodes.txt").replace("   Reason=cooling loop 3 [root@2026-11-29T22:48:57]\n", "")
    text = text.split("NodeName=gpu03")[0].replace("State=IDLE+DRAIN", "State=IDLE")
    return said(text, (IDLE, f"State={word} ThreadsPerCore"), *more)


SOON = "gres/gpu count reported lower than configured (7 < 8) [slurm@2026-11-29T22:48:50]"
FAULTS: list[tuple[dict[str, Any], dict[str, Any], str, tuple[str, str]]] = [
    ({"nodes": state("DOWN", "Not responding [slurm@2026-11-29T22:48:50]")}, {}, NODES, ("failed", "slurm-node-down")),
    ({"nodes": state("IDLE+NOT_RESPONDING")}, {}, NODES, ("failed", "slurm-node-down")),
    ({"nodes": state("IDLE*")}, {}, NODES, ("failed", "slurm-node-down")),
    ({"nodes": state("UNKNOWN+DRAIN+INVALID_REG", SOON)}, {}, NODES, ("failed", "slurm-node-down")),
    ({"nodes": state("FUTURE")}, {}, NODES, ("failed", "slurm-node-down")),
    ({"nodes": nodes((FIRST, "Port=26821"))}, {}, NODES, ("failed", "slurm-node-down")),
    ({"nodes": said(capture("nodes-invalid.txt"))}, {}, NODES, ("failed", "slurm-node-down")),
    ({"nodes": nodes(("NodeName=gpu01", "NodeName=gpu09"))}, {}, NODES, ("failed", "slurm-node-missing")),
    ({"nodes": state("IDLE+DRAIN")}, {}, NODES, ("failed", "slurm-node-unexplained")),
    ({"nodes": state("MIXED+SOMETHING_NEW")}, {}, NODES, ("failed", "slurm-node-unexplained")),
    ({"nodes": state("IDLE+DRAIN", "cooling [anna@2026-11-29T22:48:57]")}, {}, NODES, ("other", "slurm-node-drained")),
    ({"nodes": state("IDLE+SOMETHING_NEW", "x [anna@2026-11-29T22:48:57]")}, {}, NODES,
     ("other", "slurm-node-drained")),
    ({"nodes": state("IDLE+MAINTENANCE", "x [anna@2026-11-29T22:48:57]")}, {}, NODES, ("other", "slurm-node-drained")),
    ({"nodes": Said(rc=0, stdout="State=IDLE\n")}, {}, NODES, ("other", "slurm-unread")),
    ({"nodes": Said(rc=None, timed_out=True)}, {}, NODES, ("other", "slurm-timeout")),
    ({"nodes": Said(rc=1, stderr="slurm_load_node error: x")}, {}, NODES, ("other", "slurm-unread")),
    ({"nodes": Said(rc=0)}, {}, NODES, ("failed", "slurm-node-missing")),
    ({"nodes": nodes(("   Partitions=main,night \n", ""))}, {}, PARTITIONS, ("failed", "slurm-partition-missing")),
    ({}, {PARTITIONS: {"names": ["train"]}}, PARTITIONS, ("failed", "slurm-partition-missing")),
    ({}, {PARTITIONS: {"names": ["night"]}}, PARTITIONS, ("failed", "slurm-partition-down")),
    ({"nodes": nodes(("Partitions=main,night", "Partitions=night"))}, {}, PARTITIONS,
     ("failed", "slurm-partition-down")),
    ({"nodes": nodes(("Partitions=main,night", "Partitions=hidden"))}, {}, PARTITIONS,
     ("other", "slurm-partition-unseen")),
    ({"partitions": Said(rc=0)}, {}, PARTITIONS, ("other", "slurm-unread")),
    ({"partitions": Said(rc=None, timed_out=True)}, {}, PARTITIONS, ("other", "slurm-timeout")),
    ({"nodes": nodes(("Gres=gpu:h100:8", "Gres=(null)"))}, {}, GRES, ("failed", "slurm-gres-missing")),
    ({"nodes": nodes(("Gres=gpu:h100:8", "Gres=shard:8"))}, {}, GRES, ("failed", "slurm-gres-missing")),
    ({"nodes": nodes(("Gres=gpu:h100:8", "Gres=gpu:h100:7"))}, {}, GRES, ("failed", "slurm-gres-count")),
    ({}, {GRES: {"counts": {"test-sku": 56}}}, GRES, ("failed", "slurm-gres-count")),
    ({}, {GRES: {"types": {"test-sku": "h200"}}}, GRES, ("failed", "slurm-gres-type")),
    ({"nodes": nodes(("Gres=gpu:h100:8", "Gres=gpu:8"))}, {GRES: {"types": {"test-sku": "h100"}}}, GRES,
     ("failed", "slurm-gres-type")),
    # Slurm 22.05 still says 8 where a drain of a person took the place of its own reason; the state says it, too.
    ({"nodes": state("UNKNOWN+DRAIN+INVALID_REG", SOON)}, {}, GRES, ("failed", "slurm-gres-short")),
    ({"nodes": said(capture("nodes-invalid.txt"))}, {}, GRES, ("other", "blocked-by-slurm-nodes")),
    ({"nodes": nodes(("Gres=gpu:h100:8", "Gres=gpu:h100:many"))}, {}, GRES, ("other", "slurm-unread")),
    ({"nodes": nodes((FIRST, "Port=26821"))}, {}, GRES, ("other", "blocked-by-slurm-nodes")),
    ({"nodes": nodes(("NodeName=gpu01", "NodeName=gpu09"))}, {}, GRES, ("other", "blocked-by-slurm-nodes")),
    ({"nodes": Said(rc=None, timed_out=True)}, {}, GRES, ("other", "blocked-by-slurm-nodes")),
    ({"config": said(CONFIG, *HEALTHY_PROGRAMS.items(), (
        "SlurmdParameters        = (null)", "SlurmdParameters        = config_overrides"))}, {}, GRES,
     ("other", "slurm-gres-believed")),
    ({"config": said(CONFIG, *HEALTHY_PROGRAMS.items(), ("SlurmdParameters ", "Slurmd "))}, {}, GRES,
     ("other", "slurm-unread")),
    ({"config": Said(rc=0)}, {}, GRES, ("other", "blocked-by-slurm-controller")),
]  # fmt: skip


@pytest.mark.parametrize(("broken", "settings", "check", "expected"), FAULTS)
def test_what_is_wrong_is_told(
    broken: dict[str, Any], settings: dict[str, Any], check: str, expected: tuple[str, str]
) -> None:
    assert expected in told(healthy(**broken), site(**settings))[check]


def test_every_declared_cause_is_shown() -> None:
    shown = {(check, cause) for _seen, _settings, check, (status, cause) in FAULTS if status == "failed"}
    assert shown == {(check.spec.id, cause) for check in slurm_hosts.CHECKS for cause in check.spec.causes}


@pytest.mark.parametrize(
    "word", ["ALLOCATED", "MIXED", "IDLE+PLANNED", "IDLE+CLOUD", "MIXED+COMPLETING", "IDLE+RESERVED"]
)
def test_hosts_at_work_pass(word: str) -> None:
    assert told(healthy(nodes=state(word))) == {}


def test_the_reason_and_who_set_it_are_told() -> None:
    outcome = slurm_hosts.judge_nodes(healthy(nodes=state("IDLE+DRAIN", "fan 3 [anna@2026-11-29T22:48:57]")), site())[0]
    assert "reason: fan 3, by anna" in outcome.summary and "state=resume" in outcome.hint


def test_what_is_right_for_a_site_passes() -> None:
    stated = {GRES: {"types": {"test-sku": "h100"}}, PARTITIONS: {"names": ["main"]}}
    assert told(healthy(), site(**stated)) == {}
    parts = nodes(("Gres=gpu:h100:8", "Gres=gpu:1g.10gb:56"))
    assert told(healthy(nodes=parts), site(**{GRES: {"counts": {"test-sku": 56}}})) == {}


def test_a_host_has_the_name_that_its_node_has_in_slurm() -> None:
    given = site()
    hosts = tuple(replace(host, name=f"dgx-{host.name}") for host in given.site.hosts)
    assert told(healthy(), replace(given, site=replace(given.site, hosts=hosts))) == {}


def test_a_host_whose_sku_is_not_known_is_not_passed() -> None:
    assert told(healthy(), replace(site(), hardware={}))[GRES] == {("other", "sku-unknown")}
