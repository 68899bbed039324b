# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Readiness: all constraints at once, the kind of GPU of every pool, and nothing passed that was not seen."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.readiness.observe_snapshot import (
    SNAPSHOT,
    Readiness,
    keep_snapshot,
    restore,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.readiness.pool_accelerator import judge as kinds
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.readiness.readiness_constraints import judge
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import JudgeContext
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.codec import to_plain
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Outcome, Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import Host as SiteHost
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import Site, SiteProfile
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.snapshot.model import (
    COLLECTORS,
    Collected,
    CollectorResult,
    Host,
    HostGpu,
    Node,
    Server,
    Snapshot,
)

H100, A100 = "NVIDIA-H100-80GB-HBM3", "NVIDIA-A100-SXM4-40GB"


def node(product: str = H100, **changes: Any) -> Node:
    labels = {"nvidia.com/gpu.product": product} if product else {}
    plain = Node(
        labels=labels, kernel="6.8.0-1028-aws", os_image="Ubuntu 24.04.2 LTS", capacity={"nvidia.com/gpu": "8"}
    )
    return replace(plain, **changes)


def seen(*nodes: Node, installed: bool = True, version: str = "v1.34.1") -> Readiness:
    whole = CollectorResult(state=Collected.WHOLE)
    snapshot = Snapshot(
        taken="2026-11-23T05:00:00Z",
        made_by="gpufleet.bringup 1.0.0",
        collectors=dict.fromkeys(COLLECTORS, whole),
        server=Server(version=version),
        nodes={f"n{number}": entry for number, entry in enumerate(nodes)},
    )
    return Readiness(snapshot=snapshot, installed=installed)


def context(recipe: dict[str, Any] | None, *hosts: str) -> JudgeContext:
    inventory = tuple(SiteHost(name=name, sku="dgx-h100", node_name=name) for name in hosts)
    site = Site(name="lab", profile=SiteProfile.CLOUD, hosts=inventory, capabilities=("kubernetes",))
    return JudgeContext(gate="readiness", site=site, today=date(2026, 11, 23), recipe=recipe)


def constraints(**expressions: str) -> list[dict[str, str]]:
    names = {
        "server": "K8s.server.version",
        "system": "OS.release.ID",
        "kernel": "OS.sysctl./proc/sys/kernel/osrelease",
    }
    return [{"name": names[key], "value": value} for key, value in expressions.items()]


def told(outcomes: tuple[Outcome, ...]) -> list[tuple[str, str]]:
    return [(outcome.status.value, outcome.cause) for outcome in outcomes]


def test_a_cluster_that_is_as_demanded_passes_and_says_what_was_compared() -> None:
    recipe = {"constraints": constraints(server=">= 1.32.4", system="ubuntu", kernel=">= 6.8")}
    (outcome,) = judge(seen(node(), node()), context(recipe))
    assert outcome.status is Status.PASSED
    assert "3 of 3 constraints hold: K8s.server.version >= 1.32.4" in outcome.summary
    assert "OS.release.ID ubuntu on 2 nodes" in outcome.summary and ">= 1.32.4 on" not in outcome.summary


def test_a_gpu_node_known_by_its_label_alone_is_part_of_the_question() -> None:
    """A node whose feature discovery has died says only nvidia.com/gpu.present; without an inventory it is in scope."""
    labels = {"nvidia.com/gpu.present": "true", "node.kubernetes.io/instance-type": "p5.48xlarge"}
    silent = Node(labels=labels)
    recipe = {"constraints": constraints(system="ubuntu"), "criteria": {"accelerator": "h100"}}
    (outcome,) = judge(seen(node(), silent), context(recipe))
    assert (outcome.status, outcome.cause) == (Status.OTHER, "constraint-unmeasured")
    assert [subject.name for subject in outcome.subjects] == ["lab", "n1"]
    (kind,) = kinds(seen(node(), silent), context(recipe))
    assert kind.status is Status.OTHER and kind.summary == "1 of 2 node(s) do not say which GPUs they have: n1"


def test_a_fact_that_a_part_of_the_nodes_state_is_shown_with_what_is_missing() -> None:
    """NVIDIA/aicr, tests/chainsaw/cli/cuj1-training/mock-snapshot.yaml has the system of one node and no topology."""
    whole = seen()
    cut = CollectorResult(state=Collected.FAILED, reason="the upstream snapshot has no node in NodeTopology.label")
    snapshot = replace(
        whole.snapshot,
        collectors=whole.snapshot.collectors | {"nodes": cut},
        hosts={"gpu-1": Host(os={"ID": "ubuntu"})},
    )
    (outcome,) = judge(replace(whole, snapshot=snapshot), context({"constraints": constraints(system="ubuntu")}))
    assert (outcome.status, outcome.cause) == (Status.OTHER, "constraint-unmeasured")
    assert "OS.release.ID is ubuntu on gpu-1" in outcome.summary and "NodeTopology" in outcome.summary
    assert "bring the cluster" not in outcome.hint and "measured on every node" in outcome.hint


def test_every_constraint_that_does_not_hold_is_told_not_only_the_first() -> None:
    recipe = {"constraints": constraints(server=">= 1.35", system="rhel", kernel=">= 6.8")}
    found = judge(seen(node(), node()), context(recipe))
    assert told(found) == [("failed", "constraint-not-met")] * 2
    assert [subject.name for subject in found[1].subjects] == ["lab", "n0", "n1"]


def test_constraints_of_the_validation_section_and_of_pools_count_as_well() -> None:
    recipe = {
        "constraints": constraints(server=">= 1.32.4"),
        "validation": {"readiness": {"constraints": constraints(kernel=">= 6.8")}},
        "pools": [
            {"name": "new", "hosts": ["n0"], "constraints": constraints(system="ubuntu")},
            {"name": "old", "hosts": ["n1"], "constraints": constraints(system="rhel")},
        ],
    }
    (outcome,) = judge(seen(node(), node()), context(recipe, "n0", "n1"))
    assert outcome.cause == "constraint-not-met" and "n1=ubuntu" in outcome.summary and "n0" not in outcome.summary
    old = seen(node(), node(kernel="5.15.0-1050-aws"))
    assert len(judge(old, context(recipe, "n0", "n1"))) == 2


@pytest.mark.parametrize("bare", [Node(), Node(labels={"nvidia.com/gpu.product": H100})])
def test_what_a_node_does_not_say_is_no_pass(bare: Node) -> None:
    recipe = {"constraints": constraints(system="ubuntu")}
    assert told(judge(seen(node(), bare), context(recipe, "n0", "n1"))) == [("other", "constraint-unmeasured")]


def test_a_host_of_the_inventory_that_the_cluster_does_not_have_is_no_pass() -> None:
    recipe = {"constraints": constraints(system="ubuntu")}
    assert told(judge(seen(node()), context(recipe, "n0", "n7"))) == [("other", "constraint-unmeasured")]


def test_a_warning_waits_for_a_person_and_no_recipe_is_no_pass() -> None:
    entry = {"name": "K8s.server.version", "value": ">= 1.40", "severity": "warning"}
    (outcome,) = judge(seen(node()), context({"constraints": [entry]}))
    assert (outcome.status, outcome.rating.value) == (Status.OTHER, "marginal")
    assert told(judge(seen(node()), context(None))) == [("other", "no-data")]


@pytest.mark.parametrize("name", ["K8s.slinky-slurm.detected", "K8s.tenant-node-groups.driver-preset"])
def test_a_constraint_that_nothing_measures_is_other_and_the_rest_is_judged(name: str) -> None:
    entries = [*constraints(server=">= 1.35", system="ubuntu"), {"name": name, "value": "Install"}]
    found = judge(seen(node()), context({"constraints": entries}))
    assert told(found) == [("failed", "constraint-not-met"), ("other", "constraint-unmeasured")]
    assert f"{name} is measured by nothing in this release" in found[1].summary


@pytest.mark.parametrize(
    ("criteria", "products", "expected"),
    [
        ({"accelerator": "h100"}, (H100, H100), [("passed", "")]),
        ({"accelerator": "h100"}, (H100, A100), [("failed", "other-accelerator")]),
        ({"accelerator": "h100"}, (H100, "NVIDIA-NEW-9000"), [("failed", "other-accelerator")]),
        ({"accelerator": "h100"}, (H100, ""), [("other", "accelerator-unknown")]),
        ({"accelerator": "any"}, (H100, A100), [("passed", "")]),
        ({}, (A100,), [("passed", "")]),
    ],
)
def test_the_kind_of_gpu_is_compared_even_when_no_constraint_speaks_of_it(
    criteria: dict[str, str], products: tuple[str, ...], expected: list[tuple[str, str]]
) -> None:
    assert told(kinds(seen(*map(node, products)), context({"criteria": criteria}))) == expected


@pytest.mark.parametrize(
    "recipe",
    [
        {"criteria": {"accelerator": "h100"}},
        {"criteria": {}, "pools": [{"name": "a", "criteria": {"accelerator": "a100"}}]},
    ],
)
def test_a_snapshot_without_gpu_nodes_says_nothing_of_their_kind(recipe: dict[str, Any]) -> None:
    for nodes in ((), (node("", capacity={}),)):
        assert told(kinds(seen(*nodes), context(recipe))) == [("other", "no-nodes")]
    assert told(kinds(seen(), context({"criteria": {}}))) == [("passed", "")]


def test_a_node_is_named_with_what_it_has_and_what_the_recipe_is_for() -> None:
    (outcome,) = kinds(seen(node(), node(A100)), context({"criteria": {"accelerator": "h100"}}))
    assert outcome.summary == f"n1: {A100}, the recipe is for h100"


def test_one_gpu_of_another_kind_among_those_of_a_node_is_found() -> None:
    gpus = {str(n): HostGpu(product="NVIDIA H100 80GB HBM3" if n else "NVIDIA A100-SXM4-40GB") for n in range(8)}
    mixed = seen(node())
    hosts = {"n0": Host(gpus=gpus)}
    found = kinds(
        replace(mixed, snapshot=replace(mixed.snapshot, hosts=hosts)), context({"criteria": {"accelerator": "h100"}})
    )
    assert [outcome.summary for outcome in found] == ["n0: NVIDIA A100-SXM4-40GB, the recipe is for h100"]
    silent = {"n0": Host(gpus={**gpus, "0": HostGpu()})}
    found = kinds(
        replace(mixed, snapshot=replace(mixed.snapshot, hosts=silent)), context({"criteria": {"accelerator": "h100"}})
    )
    assert told(found) == [("other", "accelerator-unknown")]


def test_every_pool_is_compared_with_its_own_kind() -> None:
    pools = [
        {"name": "train", "criteria": {"accelerator": "h100"}, "nodeSelector": {"pool": "train"}},
        {"name": "serve", "criteria": {"accelerator": "a100"}, "nodeSelector": {"pool": "serve"}},
    ]
    nodes = [node(labels={"nvidia.com/gpu.product": H100, "pool": pool}) for pool in ("train", "serve")]
    found = kinds(seen(*nodes), context({"criteria": {}, "pools": pools}))
    assert [outcome.summary for outcome in found] == [f"n1: {H100}, the recipe is for a100"]


def test_before_the_driver_stack_is_there_silence_is_told_and_no_pass() -> None:
    recipe = {"criteria": {"accelerator": "h100"}}
    (outcome,) = kinds(seen(node(""), node(""), installed=False), context(recipe, "n0", "n1"))
    assert outcome.status is Status.SKIPPED and "2 of 2 node(s) say nothing" in outcome.summary
    found = kinds(seen(node(""), node(A100), installed=False), context(recipe, "n0", "n1"))
    assert told(found) == [("failed", "other-accelerator")]


def test_a_snapshot_is_as_private_as_the_run_that_keeps_it(tmp_path: Path) -> None:
    path = tmp_path / "run"
    path.mkdir(mode=0o700)
    keep_snapshot(seen(node()).snapshot, path, source="cluster", installed=True)
    made = list(path.rglob("*"))
    assert len(made) == 3 and {entry.stat().st_mode & 0o077 for entry in made} == {0}


def test_a_snapshot_that_was_changed_after_it_was_looked_at_is_refused(tmp_path: Path) -> None:
    taken = keep_snapshot(seen(node()).snapshot, tmp_path, source="the cluster", installed=True)
    site = context(None).site
    assert restore(to_plain(taken), tmp_path, site).snapshot == seen(node()).snapshot
    path = tmp_path / SNAPSHOT
    path.write_text(path.read_text().replace("v1.34.1", "v1.35.1"))
    with pytest.raises(InputError, match="another snapshot than the one"):
        restore(to_plain(taken), tmp_path, site)
