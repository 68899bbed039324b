# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A change rolled over four hosts of a simulated cluster, one of which has a fault that only its proof finds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from live_site import LiveSite, live_site
from rehearsal_harness import Rehearsed, left_behind, rehearse
from waiting import eventually

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.cluster import Cluster
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.connection import Connection
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import NODES
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.waves.journal import Journal
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.history import open_store
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.nodes import HELD_TAINT, MARK

pytestmark = pytest.mark.long("whole rolls; one in which all nodes return is in test_verdicts.py")

BAD, SITE_NAME = "gpu03", "rehearsal"
# What an earlier run of role converge left on gpu04: settings that are declared no more.
LEDGER = {"schema_version": 1, "files": ["/etc/sysctl.d/99-zz-gpufleet.conf"]}
# Waits in the second wave until it may go on, so that a test can end the controller there.
CHANGE = """
- name: Leave a trace
  ansible.builtin.shell: echo changed >> /etc/gpufleet-changed
  changed_when: true
- name: Leave what an earlier convergence wrote
  ansible.builtin.shell: |
    mkdir -p /etc/gpufleet /etc/sysctl.d
    echo '{{ own_ledger | to_json }}' > /etc/gpufleet/converged.json
    echo '# gpufleet' > /etc/sysctl.d/99-zz-gpufleet.conf
  changed_when: true
  when: inventory_hostname == 'gpu04'
- name: Wait in the middle of the change
  ansible.builtin.wait_for:
    path: "{{ own_go_on }}"
    timeout: 300
  delegate_to: localhost
  become: false
  when: inventory_hostname == own_waits
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveSite]:
    work = tmp_path_factory.mktemp("waves")
    with live_site(work, 4, (f"ecc-uncorrectable@{BAD}",)) as site:
        (work / "change.yml").write_text(CHANGE, encoding="utf-8")
        yield site
    assert not left_behind(work)


def options(site: LiveSite, roll: str, **more: Any) -> dict[str, Any]:
    return {
        "wave_roll": roll, "wave_change": str(site.directory / "change.yml"), "wave_directory": str(site.directory),
        "wave_keep": "1", "wave_size": "2", "wave_budget": "1", "own_go_on": str(site.directory / "go"),
        "own_waits": "nobody", "own_ledger": LEDGER, "gates": ["nodes"], **more,
    }  # fmt: skip


def roll_over(site: LiveSite, roll: str, cmdline: str = "", **more: Any) -> Rehearsed:
    inventory = site.inventory
    return rehearse(
        site.directory, playbook="waves.yml", inventory=inventory, cmdline=cmdline, **options(site, roll, **more)
    )


def journal(site: LiveSite, roll: str) -> Journal:
    return Journal(site.directory / f"{roll}.jsonl")


def stages(site: LiveSite, roll: str) -> dict[str, str]:
    return {node: state.stage.value for node, state in journal(site, roll).states.items()}


def out_of_work(site: LiveSite) -> dict[str, bool]:
    """The nodes that get no pods, each with whether it has our taint."""
    with Cluster(Connection(kubeconfig=str(site.kubeconfig))) as cluster:
        found = {}
        for node in cluster.list_objects(NODES):
            if node["spec"].get("unschedulable"):
                assert node["metadata"]["annotations"][MARK]
                taints = {taint["key"] for taint in node["spec"].get("taints") or []}
                found[node["metadata"]["name"]] = HELD_TAINT in taints
        return found


def test_a_bad_canary_stops_the_roll_and_an_abort_ends_it(site: LiveSite) -> None:
    done = roll_over(site, "canary", wave_canary_nodes=[BAD])
    assert done.rc != 0 and f"canary {BAD} is held: not verified: gpu-ecc" in done.output
    assert stages(site, "canary") == {BAD: "held", "gpu01": "pending", "gpu02": "pending", "gpu04": "pending"}
    assert out_of_work(site) == {BAD: True}
    assert done.stats["gpufleet_passed"] is False
    done = roll_over(site, "canary", wave_abort=True)
    assert Counter(stages(site, "canary").values()) == {"held": 1, "spared": 3} and out_of_work(site) == {BAD: True}
    # A person repairs it and gives it back.
    with Cluster(Connection(kubeconfig=str(site.kubeconfig))) as cluster:
        cluster.patch(NODES, BAD, {"spec": {"unschedulable": None, "taints": None}})


def test_a_roll_that_is_killed_goes_on_and_only_the_bad_node_stays_out(site: LiveSite) -> None:
    stated = options(site, "driver", own_waits="gpu02")
    run = site.controller("1-waves", "bastion", playbook="waves.yml", **stated)
    assert run.await_text("Wait in the middle of the change", 400), run.said()[-3000:]
    eventually(lambda: stages(site, "driver")["gpu02"] == "changing", 200, what=lambda: stages(site, "driver"))
    run.end_by("SIGKILL to its workers and its keeper too")
    assert stages(site, "driver") == {"gpu01": "returned", "gpu02": "changing", BAD: "changing", "gpu04": "pending"}
    assert out_of_work(site) == {"gpu02": False, BAD: False}
    site.let_lease_expire()
    done = roll_over(site, "driver", when_held="wait", wait_s=120)
    assert stages(site, "driver") == {"gpu01": "returned", "gpu02": "returned", BAD: "held", "gpu04": "returned"}
    assert out_of_work(site) == {BAD: True} and done.rc != 0
    assert f"not passed: 3 of 4 nodes returned; held: {BAD} (not verified: gpu-ecc" in done.stats["gpufleet_verdict"]
    assert "gpu-ecc" in journal(site, "driver").states[BAD].reason
    # Whatever driver it has then: no later run takes over what this node passed before.
    known = open_store(done.run_dir.resolve().parent / "history.sqlite").non_passes(SITE_NAME, "", rehearsal=True)
    failed = {(entry.outcome.check, entry.outcome.subjects[0].node) for entry in known if entry.outcome is not None}
    assert ("gpu-ecc", BAD) in failed and all("-wave-" in entry.run_id for entry in known)
    # Nothing was done twice to the nodes that had ended or had not begun.
    begun = Counter(event.node for event in journal(site, "driver").events if event.stage.value == "changing")
    assert begun == {"gpu01": 1, "gpu02": 2, BAD: 2, "gpu04": 1}


def without(*names: str) -> list[dict[str, str]]:
    """What the inventory says of hosts that its cabling plan has and that are not in service."""
    return [{"node": name, "reason": "not delivered", "ticket": "OPS-1", "who": "jo"} for name in names]


def test_a_node_that_is_added_goes_through_the_gate_and_the_old_ones_are_not_touched(site: LiveSite) -> None:
    old, new, closed = ("gpu01", "gpu02"), "gpu04", out_of_work(site)
    before = site.run("nodes", quarantine=without(BAD, new))
    assert before.rc == 0, before.output[-3000:]
    history, first = open_store(before.run_dir.resolve().parent / "history.sqlite"), before.run_dir.resolve().name
    added = roll_over(site, "added", wave_change="none", wave_nodes=[new], quarantine=without(BAD))
    assert added.rc == 0 and stages(site, "added") == {new: "returned"}, added.output[-3000:]
    # Nobody was cordoned or asked for it, and what they passed is still what they passed.
    assert {event.node for event in journal(site, "added").events if event.node} == {new}
    assert out_of_work(site) == closed
    asked = added.run_dir.resolve() / "waves"
    assert {path.stem for path in asked.glob("*/evidence/hosts/*.json")} == {new}
    newest = {p.subject: p.run_id for p in history.last_passes(SITE_NAME, rehearsal=True) if p.check == "gpu-census"}
    assert {name: newest[name] for name in old} == dict.fromkeys(old, first)
    assert newest[new] == f"{added.run_dir.resolve().name}-wave-000"
    # Among the hosts of a wave it has the driver of most; of all of them that is to be asked yet.
    compared = {p.subject for p in history.last_passes(SITE_NAME, rehearsal=True) if p.check == "driver-uniform"}
    assert compared == set(old)


def test_role_converge_is_the_change_where_hosts_declare_something(site: LiveSite) -> None:
    """The second host of the two waves has a part that an operator owns and stays in work, the third one waits for a
    reboot."""
    inventory = yaml.safe_load((site.inventory).read_text(encoding="utf-8"))
    limits = [{"domain": "*", "type": "-", "item": "memlock", "value": "unlimited"}]
    declared = {"gpu01": {"limits": limits}, "gpu02": {"ofed": {"kind": "doca", "version": "3.1.0"}}, "gpu04": {}}
    for host, declaration in declared.items():
        inventory["gpu_nodes"]["hosts"][host] |= {"gpufleet_converge": declaration, "gpufleet_converge_refresh": False}
    path = site.directory / "declared.yml"
    path.write_text(yaml.safe_dump(inventory), encoding="utf-8")
    with Cluster(Connection(kubeconfig=str(site.kubeconfig))) as cluster:
        label = {"nvidia.com/ofed-driver-upgrade-state": "upgrade-done"}
        cluster.patch(NODES, "gpu02", {"metadata": {"labels": label}})
    stated = options(site, "converge", wave_change="", wave_budget="2", wave_nodes=list(declared))
    done = rehearse(site.directory, playbook="waves.yml", inventory=path, **stated)
    states = journal(site, "converge").states
    assert {node: state.stage.value for node, state in states.items()} == {
        "gpu01": "returned", "gpu02": "spared", "gpu04": "held"
    }, done.output[-3000:]  # fmt: skip
    assert "network operator" in states["gpu02"].reason and "ofed" in states["gpu02"].reason
    assert "the change needs a reboot, which is not allowed" in states["gpu04"].reason
    assert out_of_work(site) == {BAD: True, "gpu04": True}
    assert [event.stage.value for event in journal(site, "converge").events if event.node == "gpu02"] == ["spared"]
    files = {name for name in site.files() if "gpufleet" in name}
    assert any(name.startswith("gpu01/") and "limits.d" in name for name in files), files
    assert not any(name.startswith("gpu04/") and name.endswith("99-zz-gpufleet.conf") for name in files), files
