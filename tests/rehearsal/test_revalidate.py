# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A new driver rolled over five hosts of a simulated cluster with its GPU stack, proven by gates nodes and
fabric_validation before a host works again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from live_site import LiveSite, live_site
from rehearsal_harness import ROOT, Rehearsed, left_behind, rehearse
from waiting import await_model, eventually

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.cluster import Cluster
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.connection import Connection
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import CLUSTER_POLICIES, NODES, PODS
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.waves.journal import Journal
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.waves.kubernetes import SKIP, STATE
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import load_hardware
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.history import open_store
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.nodes import HELD_TAINT, MARK
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.faults.catalogue import (
    choose_faults,
    load_catalogue,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.patch import healthy_cluster
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.spec import read_spec, write_spec

pytestmark = pytest.mark.long("whole rolls; one in which all nodes return is in test_verdicts.py")

BAD, BLOCKED = "gpu03", "gpu05"
NAMES = tuple(f"gpu{n:02}" for n in range(1, 6))
# What the new driver does to the host is in the model that the test has written.
CHANGE = """
- name: Install the new driver
  ansible.builtin.copy:
    src: "{{ own_model }}"
    dest: "{{ gpufleet_rehearsal_dir }}/model.yaml"
    mode: "0600"
  delegate_to: localhost
  become: false
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveSite]:
    work = tmp_path_factory.mktemp("revalidate")
    with live_site(work, 5) as site:
        (work / "change.yml").write_text(CHANGE, encoding="utf-8")
        # The operator's driver is there beside that of the hosts, which rolls below say to be theirs.
        done = site.run("gpu_stack", driver_owner="operator")
        assert done.rc == 0, done.output[-3000:]
        yield site
    assert not left_behind(work)


def model_with(site: LiveSite, *faults: str) -> str:
    """Write a model of the site with these faults beside it, and return its path."""
    spec = read_spec(site.rehearsal / "model.yaml")
    hardware, catalogue = load_hardware([ROOT / "recipes" / "hardware"]), load_catalogue()
    healthy = replace(spec, faults=())
    path = site.directory / f"model-{len(list(site.directory.glob('model-*')))}.yaml"
    write_spec(replace(healthy, faults=choose_faults(faults, healthy_cluster(healthy, hardware), catalogue)), path)
    return str(path)


def options(site: LiveSite, roll: str, **more: Any) -> dict[str, Any]:
    return {
        "wave_roll": roll, "wave_change": str(site.directory / "change.yml"), "wave_directory": str(site.directory),
        "wave_size": "2", "wave_budget": "1", "wave_drain_timeout": 20, "wave_grace": 1, **more,
    }  # fmt: skip


def revalidate(site: LiveSite, roll: str, **more: Any) -> Rehearsed:
    inventory = site.inventory
    return rehearse(site.directory, playbook="revalidate.yml", inventory=inventory, **options(site, roll, **more))


def states(site: LiveSite, roll: str) -> dict[str, tuple[str, str]]:
    found = Journal(site.directory / f"{roll}.jsonl").states
    return {node: (state.stage.value, state.reason) for node, state in found.items()}


def stages(site: LiveSite, roll: str) -> dict[str, str]:
    return {node: stage for node, (stage, unused) in states(site, roll).items()}


def cluster_of(site: LiveSite) -> Cluster:
    return Cluster(Connection(kubeconfig=str(site.kubeconfig)))


def out_of_work(site: LiveSite) -> dict[str, bool]:
    """The nodes that get no pods, each with whether it has our taint."""
    with cluster_of(site) as cluster:
        out = [node for node in cluster.list_objects(NODES) if node["spec"].get("unschedulable")]
    assert all(MARK in node["metadata"]["annotations"] for node in out)
    return {
        node["metadata"]["name"]: HELD_TAINT in {taint["key"] for taint in node["spec"].get("taints") or []}
        for node in out
    }


def blocked_by_a_budget() -> list[dict[str, Any]]:
    """A web server on a node, and a budget that lets none of its pods go."""
    labels, container = {"app": "web"}, {"name": "web", "image": "web"}
    pod = {
        "nodeSelector": {"kubernetes.io/hostname": BLOCKED}, "containers": [container],
        "tolerations": [{"operator": "Exists"}],
    }  # fmt: skip
    template = {"metadata": {"labels": labels}, "spec": pod}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    budget = {"minAvailable": 1, "selector": {"matchLabels": labels}}
    return [
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec},
        {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"}, "spec": budget},
    ]


def running(cluster: Cluster) -> bool:
    pods = cluster.list_objects(PODS, "default", labels="app=web")
    return [(pod["status"]["phase"], pod["spec"]["nodeName"]) for pod in pods] == [("Running", BLOCKED)]


def upgrade_states(cluster: Cluster) -> dict[str, str]:
    return {node["metadata"]["name"]: node["metadata"]["labels"].get(STATE, "") for node in cluster.list_objects(NODES)}


def suite(done: Rehearsed, proof: str, gate: str) -> list[dict[str, Any]]:
    """The results of a proof of a wave."""
    path = done.run_dir.resolve() / "waves" / proof / "ctrf" / f"{gate}.json"
    found: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["results"]["tests"]
    return found


def repaired(site: LiveSite, *nodes: str) -> None:
    """A person repairs nodes and gives them back."""
    write_spec(read_spec(type(site.rehearsal)(model_with(site))), site.rehearsal / "model.yaml")
    await_model(site.rehearsal / "model.yaml")
    with cluster_of(site) as cluster:
        for node in nodes:
            cluster.patch(NODES, node, {"spec": {"unschedulable": None, "taints": None}})


def test_a_node_that_is_added_is_proven_between_hosts_and_the_old_ones_keep_what_they_passed(site: LiveSite) -> None:
    old, new = NAMES[:-1], NAMES[-1]
    absent = [{"node": new, "reason": "not delivered", "ticket": "OPS-1", "who": "jo"}]
    before = site.run("nodes", "fabric_validation", quarantine=absent)
    assert before.rc == 0, before.output[-3000:]
    first, history = before.run_dir.name, open_store(before.run_dir.parent / "history.sqlite")

    def passes() -> dict[tuple[str, str], str]:
        found = history.last_passes("rehearsal", rehearsal=True)
        return {(entry.check, entry.subject): entry.run_id for entry in found if not entry.check.endswith("-uniform")}

    kept = {key: run_id for key, run_id in passes().items() if run_id == first}
    assert (
        {name for check, name in kept if check == "nccl-intra-node-bw"}
        == set(old)
        == {name for check, name in kept if check == "gpu-census"}
    )
    added = revalidate(site, "added", wave_change="none", wave_nodes=[new])
    assert added.rc == 0 and stages(site, "added") == {new: "returned"}, added.output[-3000:]
    # It was measured by itself and with a neighbour, which was neither cordoned nor asked for anything else.
    measured = {(test["extra"]["outcome"]["check"], test["status"]) for test in suite(
        added, "000-fabric_validation", "fabric_validation"
    )}  # fmt: skip
    assert {("nccl-intra-node-bw", "passed"), ("nccl-pair-bw", "passed")} <= measured, measured
    assert {event.node for event in Journal(site.directory / "added.jsonl").events if event.node} == {new}
    assert out_of_work(site) == {}
    asked = added.run_dir.resolve() / "waves"
    assert {path.stem for path in asked.glob("000/evidence/hosts/*.json")} == {new}
    # What the old ones passed is still what they passed, in both gates; the new one has its own.
    now = passes()
    assert {key: now[key] for key in kept} == kept
    assert now["gpu-census", new].startswith(added.run_dir.resolve().name)


def test_a_bad_driver_stops_at_the_canary(site: LiveSite) -> None:
    done = revalidate(site, "bad-driver", own_model=model_with(site, "nvlink-slow@gpu01"))
    assert done.rc != 0 and "canary gpu01 is held: not verified: nccl-" in done.output, done.output[-3000:]
    assert stages(site, "bad-driver") == {"gpu01": "held"} | {f"gpu{n:02}": "pending" for n in range(2, 6)}
    assert out_of_work(site) == {"gpu01": True}
    repaired(site, "gpu01")


def test_one_bad_node_stays_out_and_the_rest_is_proven_between_hosts(site: LiveSite) -> None:
    with cluster_of(site) as cluster:
        for body in blocked_by_a_budget():
            cluster.create(cluster.kind(body["apiVersion"], body["kind"]), body, "default")
        eventually(lambda: running(cluster), 60, what="the pod of the budget runs")
    stated = options(site, "new-driver", own_model=model_with(site, f"nvlink-slow@{BAD}"))
    run = site.controller("1-waves", "bastion", gates=(), playbook="revalidate.yml", **stated)
    # The second wave is measured, the canary works again.
    asked = "TASK [gpufleet.bringup.waves : Run NCCL within the nodes of the wave and between them]"
    assert run.await_text(asked, 400), run.said()[-3000:]
    eventually(lambda: run.said().count(asked) == 2, 400, what="the proof of the second wave")
    run.end_by("SIGKILL to its workers and its keeper too")
    assert stages(site, "new-driver") == {
        "gpu01": "returned", "gpu02": "changed", BAD: "changed", "gpu04": "pending", BLOCKED: "pending"
    }  # fmt: skip
    assert out_of_work(site) == {"gpu02": False, BAD: False}
    site.let_lease_expire()
    done = revalidate(site, "new-driver", own_model=stated["own_model"], when_held="wait", wait_s=120)
    assert done.rc != 0
    assert stages(site, "new-driver") == {
        "gpu01": "returned", "gpu02": "returned", BAD: "held", "gpu04": "returned", BLOCKED: "spared"
    }, done.output[-3000:]  # fmt: skip
    found = states(site, "new-driver")
    assert out_of_work(site) == {BAD: True} and "nccl-intra-node-bw" in found[BAD][1]
    assert "disruption budget default/web" in found[BLOCKED][1].replace("PodDisruptionBudget", "disruption budget")
    with cluster_of(site) as cluster:
        assert running(cluster)
    repaired(site, BAD)


def test_a_driver_that_the_operator_owns_is_upgraded_wave_by_wave(site: LiveSite) -> None:
    with cluster_of(site) as cluster:
        for node in cluster.list_objects(NODES):
            cluster.patch(NODES, node["metadata"]["name"], {"metadata": {"labels": {SKIP: "true"}}})
        (policy,) = cluster.list_objects(CLUSTER_POLICIES)
        upgrades = {"upgradePolicy": {"autoUpgrade": True, "maxParallelUpgrades": 1}}
        # The operator takes over its pods before there is a newer driver.
        cluster.patch(CLUSTER_POLICIES, policy["metadata"]["name"], {"spec": {"driver": upgrades}})
        eventually(lambda: upgrade_states(cluster) == dict.fromkeys(NAMES, "upgrade-done"), 60)
        newer = {"version": "580.105.08"}
        cluster.patch(CLUSTER_POLICIES, policy["metadata"]["name"], {"spec": {"driver": newer}})
        eventually(lambda: upgrade_states(cluster) == dict.fromkeys(NAMES, "upgrade-required"), 60)
    done = revalidate(
        site, "operators", wave_change="operator", driver_owner="operator", wave_nodes=["gpu01", "gpu02"],
        wave_upgrade_timeout=120,
    )  # fmt: skip
    assert stages(site, "operators") == {"gpu01": "returned", "gpu02": "returned"}, done.output[-3000:]
    assert done.rc == 0 and out_of_work(site) == {}
    with cluster_of(site) as cluster:
        required = dict.fromkeys(NAMES[2:], "upgrade-required")
        assert upgrade_states(cluster) == {"gpu01": "upgrade-done", "gpu02": "upgrade-done"} | required
    waves = sorted(path.name for path in (done.run_dir.resolve() / "waves").iterdir())
    assert waves == [f"00{n}{gate}" for n in range(2) for gate in ("", "-fabric_validation", "-gpu_stack")]
    judged = {test["extra"]["outcome"]["check"] for test in suite(done, "000-gpu_stack", "gpu_stack")}
    assert {"gpu-census", "gpu-ecc", "driver-uniform", "dcgm-diag"} <= judged
    assert "component-health" not in judged
