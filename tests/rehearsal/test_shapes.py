# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Sites of other shapes, end to end over all gates: one machine, a workstation without a fabric, tenants of clouds."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from rehearsal_harness import ROOT, Rehearsed, left_behind, rehearse

GATES = (
    "facility", "fabric", "nodes", "gpu_stack", "telemetry", "fabric_validation", "training_acceptance",
    "inference_acceptance",
)  # fmt: skip
FACILITY, FABRIC = GATES[:2]
ROOM = "the provider owns the room"
# What the vendor's pages do not say of a workstation, its owner states.
WORKSTATION = {
    "power_max_w": 2900, "heat_w": 2900, "weight_kg": 42, "rack_units": 4, "intra_node_busbw_gbps": {"ring": 18},
}  # fmt: skip


# No published figure says how fast this machine must serve, either.
SLO = {"inference_acceptance": {"slo": {"throughput_per_gpu": 4000.0, "ttft_ms": 2000.0, "tpot_ms": 60.0}}}


def own_hardware(directory: Path) -> Path:
    """Recipe data of a site that states the facts of its L40S machine."""
    known = yaml.safe_load((ROOT / "recipes/hardware/pcie-l40s.yaml").read_text())
    path = directory / "hardware" / "pcie-l40s.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(yaml.safe_dump(known | WORKSTATION))
    return directory


def assert_passed(run: Rehearsed, *empty: str) -> None:
    """Every gate passed but those that declare nothing, and the verdict names these."""
    assert run.rc == 0, run.output[-6000:]
    assert {gate: run.status(gate) for gate in GATES} == {g: "skipped" if g in empty else "passed" for g in GATES}
    assert not run.findings()
    told = f"not declared here: {', '.join(empty)}"
    assert (told in run.stats["gpufleet_verdict"]) is bool(empty)
    # A rehearsal watches what is ready for a second only, and the verdict says that a limit is not the release's.
    said = re.match(
        r"REHEARSAL passed for (.*), with \d+ limits? other than the release's;", run.stats["gpufleet_verdict"]
    )
    assert said is not None and said[1].split(", ") == [gate for gate in GATES if gate not in empty]
    assert "not proven before" not in run.stats["gpufleet_verdict"]
    assert not left_behind(run.run_dir.parents[1])


def left_out(run: Rehearsed, gate: str) -> dict[str, str]:
    """The reason of each check that is not declared."""
    entry = next(entry for entry in run.record["gates"] if entry["gate"] == gate)
    return {left["id"]: left["reason"] for left in entry["not_declared"]}


def not_declared(run: Rehearsed, gate: str) -> str:
    return "; ".join(f"{check} ({reason})" for check, reason in left_out(run, gate).items())


@pytest.mark.drawn(1, of="runs from elsewhere")
@pytest.mark.parametrize("sku", ["h100", "l40s"])
def test_one_machine_has_nothing_between_machines_to_prove(tmp_path: Path, sku: str) -> None:
    more: dict[str, Any] = {}
    if sku == "l40s":
        more = {"recipe_data": [str(own_hardware(tmp_path / "data"))], "settings": SLO}
    run = rehearse(tmp_path, rehearsal_nodes=1, rehearsal_sku=sku, **more)
    assert_passed(run, FABRIC)
    assert "needs multi_node: one host is in scope" in not_declared(run, FABRIC)
    for check in ("nccl-pair-bw", "nccl-all-nodes-bw", "nccl-transport"):
        assert f"{check} (needs multi_node: one host is in scope" in not_declared(run, "fabric_validation")
    if sku == "l40s":
        assert "fabric-manager (needs nvswitch: the inventory has none)" in not_declared(run, "nodes")
    assert "not declared here: needs" in run.output and "between the GPUs of a host" in run.output
    assert "one host is in scope" in (run.run_dir / "report.html").read_text()


@pytest.mark.drawn(1, of="runs from elsewhere")
@pytest.mark.parametrize(
    ("sku", "service", "platform"), [("p5", "eks", "kai-scheduler"), ("nd-h100-v5", "aks", "volcano")]
)
def test_a_tenant_of_a_cloud_has_no_room_and_no_subnet_manager(
    tmp_path: Path, sku: str, service: str, platform: str
) -> None:
    criteria = {"service": service, "intent": "training", "os": "ubuntu"}
    criteria |= {"platform": platform} if platform == "volcano" else {}
    run = rehearse(tmp_path, rehearsal_nodes=2, rehearsal_sku=sku, profile="cloud", rehearsal_criteria=criteria)
    assert_passed(run, FACILITY, FABRIC)
    assert ROOM in not_declared(run, FACILITY) and "facility-power" in not_declared(run, FACILITY)
    assert "a tenant's partition cannot query it" in not_declared(run, FABRIC)
    # Nobody has accepted a baseline, stated a contract or a bound in the recipe yet. The switches are not the tenant's.
    nccl = left_out(run, "fabric_validation")
    switches = nccl.pop("link-errors-under-load")
    assert "a tenant's partition cannot query it" in switches or "needs infiniband" in switches, switches
    assert nccl.keys() == {"fabric-baseline", "fabric-contract", "fabric-recipe-bounds"}
    assert platform in " ".join(entry["subjects"][0]["name"] for entry in _outcomes(run, "component-health"))
    assert ROOM in (run.run_dir / "report.html").read_text()


@pytest.mark.drawn(1, of="other drivers and kinds of hosts")
def test_hosts_of_two_kinds_are_pools_of_one_recipe(tmp_path: Path) -> None:
    hosts = {"gpu01": {"gpufleet_sku": "dgx-h100"}, "gpu02": {"gpufleet_sku": "dgx-a100"}}
    local = {"ansible_connection": "local", "ansible_python_interpreter": "{{ ansible_playbook_python }}"}
    common = {"ansible_host": "192.0.2.1", "gpufleet_site_name": "pools"}
    inventory = tmp_path / "hosts.yml"
    groups = {"gpu_nodes": {"hosts": hosts}, "all": {"hosts": {"localhost": local}, "vars": common}}
    inventory.write_text(yaml.safe_dump(groups))
    linux = {"kubernetes.io/os": "linux"}
    pools = [
        {"name": "new", "criteria": {"accelerator": "h100"}, "node_selector": {**linux, "pool": "new"}},
        {"name": "old", "criteria": {"accelerator": "a100"}, "node_selector": {**linux, "pool": "old"}},
    ]
    criteria = {"service": "generic", "intent": "training", "os": "ubuntu"}
    run = rehearse(tmp_path / "run", inventory=inventory, gates=["gpu_stack"], recipe_pools=pools, criteria=criteria,
                   rehearsal_criteria=criteria)  # fmt: skip
    assert run.rc == 0, run.output[-6000:]
    assert run.status("gpu_stack") == "passed" and not run.findings()
    recipe = json.loads((run.run_dir / "recipe.json").read_text())
    assert {pool["name"]: pool["hosts"] for pool in recipe["pools"]} == {"new": ["gpu01"], "old": ["gpu02"]}
    (driver,) = (entry for entry in recipe["componentRefs"] if entry["name"] == "nvidia-dra-driver-gpu")
    assert driver["values"]["kubeletPlugin"]["nodeSelector"] == linux


def _outcomes(run: Rehearsed, check: str) -> list[dict[str, Any]]:
    tests = json.loads((run.run_dir / "ctrf/gpu_stack.json").read_text())["results"]["tests"]
    return [test["extra"]["outcome"] for test in tests if test["labels"]["check"] == check]
