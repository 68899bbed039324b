# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Playbook waves over four nodes of a real Slurm: simulated hosts, real drains, a job that runs, a drain of others."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rehearsal_harness import ROOT, Rehearsed, rehearse
from slurm import NODES, NoSlurmError, Slurm, running_slurm
from waiting import eventually

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.waves.journal import Journal
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.waves.slurm import SlurmLimits, SlurmNodes
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import load_hardware
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import UnavailableError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.probe import slurm_nodes
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.hosts.enclosed import run_enclosed
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.hosts.prepare import prepare_hosts
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.patch import build_model
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.spec import (
    Change,
    Fault,
    ModelSpec,
    numbered_nodes,
)

pytestmark = pytest.mark.drawn(1, of="nodes in service", whole=True)

WITH_JOB, BAD, FOREIGN, OURS = "gpu02", "gpu03", "gpu04", "gpufleet.bringup:driver"
CHANGE = """
- name: Leave a trace
  ansible.builtin.shell: echo changed >> /etc/gpufleet-changed
  changed_when: true
"""


@pytest.fixture(scope="module")
def slurm() -> Iterator[Slurm]:
    try:
        with running_slurm() as found:
            yield found
    except NoSlurmError as error:
        pytest.skip(f"no Slurm: {error}")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four simulated hosts, one with a GPU that has errors, in an inventory whose nodes Slurm gives work."""
    work = tmp_path_factory.mktemp("slurm-waves")
    errors = (Change(at="gpu.ecc.volatile_uncorrectable", set=5), Change(at="gpu.ecc.aggregate_uncorrectable", set=8))
    bad = Fault(id="ecc", kind="gpu", subject=f"{BAD}/gpu2", patch=errors)
    spec = ModelSpec(name="slurm", seed=1, nodes=numbered_nodes(len(NODES), "h100"), faults=(bad,))
    rehearsal = work / "rehearsal"
    prepare_hosts(build_model(spec, load_hardware([ROOT / "recipes/hardware"])), rehearsal, ROOT / "rehearsal/recipes")
    try:
        run_enclosed(rehearsal, "gpu01", "true")
    except UnavailableError as error:
        pytest.skip(f"no simulated hosts here: {error}")
    variables = {
        "ansible_connection": "gpufleet.rehearsal.rehearsal", "ansible_python_interpreter": sys.executable,
        "gpufleet_rehearsal_dir": str(rehearsal), "gpufleet_site_name": "slurm", "gpufleet_orchestrator": "slurm",
    }  # fmt: skip
    hosts = {node: {"gpufleet_sku": "h100", "gpufleet_rack": "rack-a1"} for node in NODES}
    inventory = {
        "all": {"vars": variables, "hosts": {"localhost": {"ansible_connection": "local"}}},
        "gpu_nodes": {"hosts": hosts},
    }
    (work / "inventory.yml").write_text(json.dumps(inventory), encoding="utf-8")
    (work / "change.yml").write_text(CHANGE, encoding="utf-8")
    return work


def roll_over(site: Path, slurm: Slurm, inventory: Path | None = None, **more: Any) -> Rehearsed:
    stated = {
        "wave_roll": "driver", "wave_change": str(site / "change.yml"), "wave_directory": str(site), "wave_keep": "0",
        "wave_size": "3", "wave_budget": "1", "wave_scontrol": slurm.scontrol, "wave_drain_timeout": 300,
        "gates": ["nodes"],
    }  # fmt: skip
    return rehearse(site, playbook="waves.yml", inventory=inventory or site / "inventory.yml", **stated | more)


def sleeping_job(slurm: Slurm, *words: str) -> str:
    return slurm.run("sbatch", "--parsable", "-o", "/dev/null", "-w", WITH_JOB, *words, "--wrap=sleep 600").strip()


def seen(slurm: Slurm) -> dict[str, tuple[str, str]]:
    """State and reason of every node; without the time that scontrol puts behind a reason."""
    return {node.name: (node.state, node.reason) for node in slurm_nodes.parse(slurm.run("scontrol", "show", "nodes"))}


def test_a_roll_waits_for_jobs_and_resumes_only_what_it_drained(slurm: Slurm, site: Path) -> None:
    job = sleeping_job(slurm, "--exclusive")
    slurm.wait_state(**{WITH_JOB: "ALLOCATED"})
    slurm.update(FOREIGN, "state=drain", "reason=bad fan")
    # Its user ends the job a while after the drain of its node began.
    ends = (
        f"until {slurm.bin}/sinfo -h -n {WITH_JOB} -o %E | grep -q '^{OURS}$'; do sleep 0.2; done; "
        f"{slurm.bin}/squeue -h -j {job} -o %T > {site}/while-draining; sleep 5; {slurm.bin}/scancel {job}"
    )
    with subprocess.Popen(["sh", "-c", ends]) as user:
        try:
            done = roll_over(site, slurm)
        finally:
            user.terminate()
    states = {node: state.stage.value for node, state in Journal(site / "driver.jsonl").states.items()}
    assert states == {"gpu01": "returned", WITH_JOB: "returned", BAD: "held"}, done.output[-3000:]
    # Nobody cancelled the job: it ran while its node was draining, and the change came after its end.
    assert (site / "while-draining").read_text().strip() == "RUNNING"
    assert done.rc != 0 and f"{FOREIGN}: is IDLE+DRAIN" in done.output and "bad fan" in done.output
    eventually(lambda: seen(slurm)[WITH_JOB][0] == "IDLE", 60, what=lambda: seen(slurm))
    now = seen(slurm)
    assert now["gpu01"] == now[WITH_JOB] == ("IDLE", "") and now[FOREIGN] == ("IDLE+DRAIN", "bad fan")
    assert now[BAD][0] == "IDLE+DRAIN" and now[BAD][1].startswith(f"{OURS} held: not verified: gpu-ecc")
    traces = {node: run_enclosed(site / "rehearsal", node, "cat /etc/gpufleet-changed")[1] for node in NODES}
    assert traces == {node: b"" if node == FOREIGN else b"changed\n" for node in NODES}


@pytest.mark.drawn(1, of="rolls over a real Slurm")
def test_a_version_that_no_repository_has_takes_no_node_out_of_work(slurm: Slurm, site: Path) -> None:
    """Role converge is the change; apt of the simulated hosts is real, and has no such toolkit."""
    inventory = json.loads((site / "inventory.yml").read_text(encoding="utf-8"))
    inventory["gpu_nodes"]["hosts"]["gpu01"] |= {"gpufleet_converge": {"container_toolkit": {"version": "9.9.9"}}}
    inventory["gpu_nodes"]["vars"] = {"gpufleet_converge_refresh": False}
    path = site / "declared.yml"
    path.write_text(json.dumps(inventory), encoding="utf-8")
    before = seen(slurm)
    done = roll_over(site, slurm, inventory=path, wave_roll="toolkit", wave_change="", wave_nodes=["gpu01"])
    state = Journal(site / "toolkit.jsonl").states["gpu01"]
    assert state.stage.value == "spared", done.output[-3000:]
    assert "its change would be refused" in state.reason and "nvidia-container-toolkit" in state.reason
    assert [event.stage.value for event in Journal(site / "toolkit.jsonl").events] == ["spared"] and seen(
        slurm
    ) == before


@pytest.mark.drawn(1, of="rolls over a real Slurm")
def test_a_node_that_is_rebooted_while_it_is_ours_is_still_ours(slurm: Slurm, site: Path) -> None:
    """Whatever Slurm says of a start that it did not expect, the reason stays ours, and so does the way back."""
    nodes = SlurmNodes("kernel", {"gpu01": "gpu01"}, SlurmLimits(scontrol=slurm.scontrol))
    assert nodes.cordon("gpu01") == ""
    slurm.stop_node("gpu01")
    slurm.start_node("gpu01")
    slurm.wait("the node answers again", lambda: "NOT_RESPONDING" not in slurm.states()["gpu01"])
    assert nodes.ours(["gpu01"]) == {"gpu01"} and seen(slurm)["gpu01"][1].startswith("gpufleet.bringup:kernel")
    assert nodes.give_back("gpu01") == ""
    slurm.wait_state(gpu01="IDLE")


@pytest.mark.drawn(1, of="rolls over a real Slurm")
def test_an_abort_resumes_nothing_of_others_and_keeps_what_is_held(slurm: Slurm, site: Path) -> None:
    before = seen(slurm)
    assert before[BAD][1].startswith(OURS)
    done = roll_over(site, slurm, wave_abort=True)
    assert seen(slurm) == before and done.rc != 0


@pytest.mark.drawn(1, of="rolls over a real Slurm")
def test_a_job_that_does_not_end_spares_its_node_and_gives_it_back(slurm: Slurm, site: Path) -> None:
    job = sleeping_job(slurm, "-n1")
    slurm.wait_state(**{WITH_JOB: "MIXED"})
    done = roll_over(site, slurm, wave_roll="firmware", wave_nodes=[WITH_JOB], wave_canaries=0, wave_drain_timeout=6)
    state = Journal(site / "firmware.jsonl").states[WITH_JOB]
    assert state.stage.value == "spared" and "jobs still run on it" in state.reason, done.output[-3000:]
    assert seen(slurm)[WITH_JOB] == ("MIXED", "")
    assert slurm.run("squeue", "-h", "-j", job, "-o", "%T").strip() == "RUNNING"
