# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Wrong input: a clear error that says where, what and how to mend it, non-zero, nothing left, no traceback."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from typing import Any

import pytest
import yaml
from accounts import kubeconfig_of_account
from cluster_bench import ClusterBench, cluster_bench
from rehearsal_harness import Rehearsed, rehearse

HOST = {"gpufleet_sku": "h100", "gpufleet_rack": "r1", "ansible_connection": "local"}
CRITERIA = {"service": "generic", "intent": "training", "os": "ubuntu", "platform": "volcano"}


def site(tmp_path: Path, hosts: dict[str, Any], group: str = "gpu_nodes", **variables: Any) -> Rehearsed:
    """Run site.yml with an inventory."""
    inventory = tmp_path / "hosts.yml"
    inventory.write_text(yaml.safe_dump({group: {"hosts": hosts}}))
    return rehearse(tmp_path, playbook="site.yml", inventory=inventory, **variables)


def assert_refused(run: Rehearsed, *words: str) -> None:
    """The run ended with an error that has these words, proved nothing and says so in its report."""
    assert run.rc != 0
    assert "Traceback" not in run.output and "crashed with" not in run.output, run.output[-3000:]
    for word in words:
        assert word in run.output, (word, run.output[-3000:])
    assert {gate["status"] for gate in run.record["gates"]} == {"pending"}
    assert run.record["problem"]
    assert "not started" in (run.run_dir / "report.html").read_text()


@pytest.mark.drawn(4, of="input that preflight refuses")
def test_no_gpu_host(tmp_path: Path) -> None:
    assert_refused(site(tmp_path, {"n1": HOST}, group="others"), "gpu_nodes", "matches no host", "others")


@pytest.mark.drawn(4, of="input that preflight refuses")
def test_an_unknown_sku_and_every_other_mistake_in_one_list(tmp_path: Path) -> None:
    run = site(tmp_path, {"n1": HOST | {"gpufleet_sku": "h1000"}}, gates=["node"], settings={"gpu-cencus": {}})
    assert_refused(run, "3 problems", "h1000", "did you mean nodes?", "did you mean 'gpu-census'")


@pytest.mark.drawn(4, of="input that preflight refuses")
def test_a_dependency_cycle_in_the_recipe(tmp_path: Path) -> None:
    private = tmp_path / "private"
    (private / "overlays").mkdir(parents=True)
    layer = {
        "apiVersion": "gpufleet.bringup/v1",
        "kind": "RecipeMetadata",
        "metadata": {"name": "ring"},
        "spec": {
            "base": "generic",
            "criteria": CRITERIA | {"accelerator": "h100"},
            "componentRefs": [
                {"name": "gpu-operator", "dependencyRefs": ["volcano"]},
                {"name": "volcano", "dependencyRefs": ["gpu-operator"]},
            ],
        },
    }
    (private / "overlays/ring.yaml").write_text(yaml.safe_dump(layer))
    run = site(tmp_path, {"n1": HOST}, criteria=CRITERIA, recipe_data=[str(private)])
    assert_refused(run, "cycle", "gpu-operator", "volcano")


@pytest.mark.drawn(4, of="input that preflight refuses")
def test_an_unsupported_combination(tmp_path: Path) -> None:
    run = site(tmp_path, {"n1": HOST}, criteria=CRITERIA | {"service": "gkee"})
    assert_refused(run, "gkee", "gke")


@pytest.mark.drawn(4, of="input that preflight refuses")
def test_helm_is_missing(tmp_path: Path) -> None:
    run = site(tmp_path, {"n1": HOST}, criteria=CRITERIA, helm="/nowhere/helm")
    assert_refused(run, "/nowhere/helm", "gpu_stack", "install Helm")


def _kubeconfig(tmp_path: Path, server: str) -> Path:
    path = tmp_path / "kubeconfig"
    path.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "c",
                "clusters": [{"name": "c", "cluster": {"server": server, "insecure-skip-tls-verify": True}}],
                "users": [{"name": "u", "user": {"token": "not-a-real-one"}}],
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            }
        )
    )
    return path


@pytest.mark.drawn(4, of="input that preflight refuses")
def test_an_api_server_that_does_not_answer(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        config = _kubeconfig(tmp_path, f"https://127.0.0.1:{port}")
        run = site(tmp_path, {"n1": HOST}, criteria=CRITERIA, helm="/bin/true", kubeconfig=str(config))
    assert_refused(run, f"127.0.0.1:{port}")
    assert "not-a-real-one" not in run.output


@pytest.mark.drawn(4, of="input that preflight refuses")
def test_hosts_that_do_not_answer_at_all(tmp_path: Path) -> None:
    hosts = {
        name: HOST | {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 1}
        for name in ("n1", "n2")
    }
    assert_refused(site(tmp_path, hosts, gates=["nodes"]), "none of 2 answers", "n1")


def test_a_run_directory_that_cannot_be_written(tmp_path: Path) -> None:
    inventory = tmp_path / "hosts.yml"
    inventory.write_text(yaml.safe_dump({"gpu_nodes": {"hosts": {"n1": HOST}}}))
    blocked = tmp_path / "file"
    blocked.write_text("")
    run = rehearse(tmp_path, playbook="site.yml", inventory=inventory, run_dir=str(blocked / "runs"))
    assert run.rc != 0 and "set gpufleet_run_dir" in run.output and "Traceback" not in run.output


@pytest.mark.parametrize("fault", ["gpu-mising", "gpu-missing@gpu99"])
def test_a_fault_that_is_not_there(tmp_path: Path, fault: str) -> None:
    run = rehearse(tmp_path, rehearsal_nodes=2, rehearsal_faults=[fault])
    assert run.rc != 0 and "Traceback" not in run.output
    assert "gpu-missing" in run.output if "@" not in fault else "gpu99" in run.output
    assert not (tmp_path / ".run/rehearsal/cluster").exists()


def test_a_rehearsal_directory_that_cannot_be_written(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    run = rehearse(tmp_path, rehearsal_nodes=2, rehearsal_dir=str(blocked / "rehearsal"))
    assert run.rc != 0 and "gpufleet_rehearsal_dir" in run.output and "Traceback" not in run.output
    assert os.path.isfile(blocked)


def test_an_api_server_that_forbids(tmp_path: Path) -> None:
    directory = tmp_path / "kept"
    directory.mkdir()
    with cluster_bench(ClusterBench, directory, 1, {}) as kept:
        config = _as_nobody(kept.kubeconfig, tmp_path)
        run = site(tmp_path, {"n1": HOST}, criteria=CRITERIA, helm="/bin/true", kubeconfig=str(config))
        assert_refused(run, "this user may not ", "list nodes", "docs/rbac.md")


def _as_nobody(admin: Path, tmp_path: Path) -> Path:
    """Make a kubeconfig for a service account that nobody gave a right."""
    from kubernetes import client, config

    core = client.CoreV1Api(config.new_client_from_config(str(admin)))
    core.create_namespaced_service_account("default", {"metadata": {"name": "nobody"}})
    return kubeconfig_of_account(admin, "nobody", "default", tmp_path / "nobody")
