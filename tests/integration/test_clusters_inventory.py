# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The inventory of many clusters, as ansible-inventory shows it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cluster_files import write_fleet, write_run
from examples import examples, inventory_of
from first_commands import ROOT, play

CRASHES = ("Traceback", "this is a defect", "is undefined")


def inventory(source: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run ansible-inventory on a source."""
    return subprocess.run(
        [sys.executable, "-m", "ansible", "inventory", "-i", source.name, *words],
        cwd=source.parent, capture_output=True, text=True, timeout=120, check=False,
        env=os.environ | {"ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".cache")} | environment,
    )  # fmt: skip


def listed(source: Path) -> dict[str, Any]:
    done = inventory(source, "--list")
    assert done.returncode == 0 and done.stderr == "", done.stderr
    # Text that is no template is listed in the form in which Ansible reads it back as such.
    found: dict[str, Any] = json.loads(done.stdout, object_hook=lambda entry: entry.get("__ansible_unsafe", entry))
    return found


@pytest.fixture
def fleet(tmp_path: Path) -> Path:
    """Three clusters: two with hosts of their file, one with an inventory of its own; one of them accepted."""
    source = write_fleet(tmp_path, {"lab1": "ring: lab\nsite: fra1\n", "can-2": "ring: canary\n"})
    shutil.copytree(ROOT / "inventories/example", tmp_path / "own")
    (tmp_path / "clusters/prod3.yml").write_text(
        "name: prod3\nowners: [ada]\nkubeconfig: k3\ninventory: ../own/hosts.yml\n", "utf-8"
    )
    write_run(tmp_path / ".run/lab1/1", "lab1", "2026-11-01T10:00:00Z")
    write_run(tmp_path / ".run/can-2/1", "can-2", "2026-11-01T10:00:00Z", passed=False)
    return source


def test_each_cluster_is_a_group_with_its_variables_and_hosts(fleet: Path) -> None:
    found = listed(fleet)
    assert found["clusters"]["hosts"] == ["can-2", "lab1", "prod3"]
    # The hosts of two clusters have the same names there, and are two here.
    assert found["cluster_can_2"]["hosts"] == ["can-2", "can-2.gpu01", "can-2.gpu02"]
    assert found["cluster_lab1"]["hosts"] == ["lab1", "lab1.gpu01", "lab1.gpu02"]
    assert found["ring_lab"]["children"] == found["site_fra1"]["children"] == ["cluster_lab1"]
    assert found["sku_dgx_h100"]["hosts"][:2] == ["can-2.gpu01", "can-2.gpu02"]
    assert len(found["sku_dgx_h100"]["hosts"]) == 2 + 2 + 8
    assert found["rack_prod3_rack_a2"]["hosts"][0] == "prod3.gpu05"
    states = {name: found[f"acceptance_{name}"]["children"] for name in ("accepted", "not_passed", "no_run")}
    assert states == {"accepted": ["cluster_lab1"], "not_passed": ["cluster_can_2"], "no_run": ["cluster_prod3"]}
    assert "gpu_nodes" not in found
    hosts = found["_meta"]["hostvars"]
    assert hosts["lab1"]["gpufleet_cluster"]["ring"] == "lab" and hosts["prod3"]["gpufleet_cluster"]["owners"] == [
        "ada"
    ]
    assert hosts["lab1.gpu01"]["gpufleet_kubeconfig"] == str(fleet.parent / "clusters/lab1.conf")
    assert (
        hosts["prod3.gpu08"] | {"ansible_host": "gpu08", "gpufleet_node_name": "gpu08.cluster.example.org"}
        == (hosts["prod3.gpu08"])
    )
    assert "@cluster_lab1:" in inventory(fleet, "--graph", "ring_lab").stdout


def test_variables_of_groups_beside_the_source_count(fleet: Path) -> None:
    (fleet.parent / "group_vars").mkdir()
    (fleet.parent / "group_vars/ring_canary.yml").write_text("gpufleet_when_held: wait\n", "utf-8")
    hosts = listed(fleet)["_meta"]["hostvars"]
    assert hosts["can-2"]["gpufleet_when_held"] == "wait" and "gpufleet_when_held" not in hosts["lab1"]


def test_all_problems_of_all_files_are_one_error(fleet: Path) -> None:
    (fleet.parent / "clusters/a.yml").write_text("name: lab1\nrnig: x\n", "utf-8")
    (fleet.parent / "clusters/b.yml").write_text("name: B\nhosts: [x]\n", "utf-8")
    done = inventory(fleet, "--list", ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED="true")
    said = done.stdout + done.stderr
    assert done.returncode != 0 and [word for word in CRASHES if word in said] == [], said
    for words in (
        "a.yml:2: rnig: unknown key. Fix: did you mean 'ring'?",
        "b.yml: name: is 'B'",
        "b.yml: kubeconfig: ",
    ):
        assert words in said, said
    # Without that setting Ansible warns, and there is no half of a fleet.
    done = inventory(fleet, "--list")
    assert "a.yml:2: rnig" in done.stderr and "clusters" not in json.loads(done.stdout)


def test_the_inventory_of_a_fleet_is_no_inventory_of_a_cluster(fleet: Path) -> None:
    """A playbook for one cluster would take all hosts for those of one."""
    said = play(fleet.parent, "site", "-i", fleet.name, inventory=False)
    assert said.rc != 0 and "gpu_nodes" in said.output and "Traceback" not in said.output, said.output


def test_an_own_inventory_may_not_be_that_of_the_fleet(fleet: Path) -> None:
    (fleet.parent / "clusters/prod3.yml").write_text(
        "name: prod3\nkubeconfig: k\ninventory: ../clusters.yml\n", "utf-8"
    )
    assert "is the inventory of the fleet" in inventory(fleet, "--list").stderr


def test_the_example_of_ansible_doc_is_an_inventory(tmp_path: Path) -> None:
    (example,) = (found for found in examples(ROOT) if found.kind == "inventory")
    assert listed(inventory_of(example, tmp_path))["ring_lab"]["children"] == ["cluster_lab1"]


def test_runs_that_are_about_no_cluster_make_none_accepted(fleet: Path) -> None:
    """A validation of files alone, for one: it lies in the cluster's directory of runs, and is about no host."""
    run = write_run(fleet.parent / ".run/prod3/1", "cluster", "2026-11-01T10:00:00Z") / "run.json"
    run.write_text(json.dumps(json.loads(run.read_text("utf-8")) | {"nodes": 0}), "utf-8")
    assert listed(fleet)["acceptance_no_run"]["children"] == ["cluster_prod3"]
