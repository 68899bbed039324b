# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A roll of a run: who takes part, what a journal must agree with, what the proof of a wave says of its nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sites import make_site

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.inventory.hosts import Inventory
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.waves.orchestrator import ManualOrchestrator
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.waves.plan import RollEvent, Stage
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.waves.proof import (
    accused_nodes,
    problems_found,
    start_verification,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.waves.roll import (
    begin_or_resume,
    journal_path,
    members_of,
    open_roll,
    roll_problems,
    stage_lines,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.decisions import Quarantine
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status, Subject, SubjectKind
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.run import Run
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.progress import silent
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import DriverOwner, Host
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.baseline import AcceptedBaseline, AcceptedFigure
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.figures import Figure
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.gate import Blocking, GateVerdict
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.run import new_run

HOSTS = tuple(Host(name=f"gpu0{n}", sku="dgx-h100", node_name=f"node-{n}", rack=f"r{n % 2}") for n in range(1, 6))
WAY = (Stage.CORDONED, Stage.DRAINED, Stage.CHANGING, Stage.CHANGED, Stage.VERIFIED, Stage.RETURNED)
BAD_FAN = Quarantine(node="gpu05", reason="bad fan", ticket="OPS-7", who="jo")


class Nodes(ManualOrchestrator):
    """Of which one is cordoned by somebody else."""

    def look(self, nodes: Sequence[str]) -> dict[str, str]:
        return {node: "cordoned by somebody else" if node == "gpu04" else "" for node in nodes}


def inventory(silent_host: str = "") -> Inventory:
    contact = {
        h.name: {"reached": h.name != silent_host, "reason": "" if h.name != silent_host else "no route"} for h in HOSTS
    }
    return Inventory({}, {name: {"gpufleet_contact": found} for name, found in contact.items()})


def run_of(tmp_path: Path, **stated: Any) -> Run:
    run = Run(tmp_path / "run")
    (tmp_path / "run").mkdir(exist_ok=True)
    run.save_site(make_site(HOSTS, gates=("nodes",), quarantine=(BAD_FAN,), **stated))
    run.save_hardware({})
    run.save_record(new_run("r1", "lab", "2026-11-23T08:00:00Z", ("nodes",), rehearsal=False))
    return run


def options(tmp_path: Path, **more: Any) -> dict[str, Any]:
    return {
        "roll": "driver-580", "directory": str(tmp_path / "rolls"), "orchestrator": "none", "by": "share", "size": "1",
        "per_rack": 0, "keep": "1", "budget": "0", "canaries": 1, "canary_nodes": [], "soak_h": 0.0, "nodes": [],
        "drain_timeout_s": 5.0, "reboot": "never", "scontrol": "scontrol", "change": "", **more,
    }  # fmt: skip


def test_who_takes_no_part_is_said_with_the_reason(tmp_path: Path) -> None:
    found = members_of(run_of(tmp_path).site, inventory("gpu03"), Nodes(), ["gpu01", "gpu03"])
    assert {member.name: (member.left_out, member.serving) for member in found} == {
        "gpu01": ("", True),
        "gpu02": ("not asked for", True),
        "gpu03": ("does not answer: no route", False),
        "gpu04": ("cordoned by somebody else", False),
        "gpu05": ("quarantined: bad fan (OPS-7)", False),
    }
    with pytest.raises(InputError, match="gpu99: not in the inventory"):
        members_of(run_of(tmp_path).site, inventory(), Nodes(), ["gpu99"])


def test_a_roll_is_begun_and_taken_up(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    journal, new = begin_or_resume(run, inventory(), options(tmp_path), silent, keep=True)
    assert new and journal.path == journal_path(options(tmp_path)) and len(journal.plan.places) == 4
    journal.add(RollEvent(node="gpu01", stage=Stage.CORDONED))
    # Budget and capacity may be other than when it began.
    again, new = begin_or_resume(run, inventory("gpu02"), options(tmp_path, budget="2", keep="0"), silent, keep=True)
    assert not new and stage_lines(again.states) == ["3 pending, 1 cordoned", "gpu01: cordoned"]
    with open_roll(run, options(tmp_path), silent) as opened:
        assert opened.roll.drain(["gpu01"]) == ("gpu01",)
    with pytest.raises(InputError, match=r"was planned with size 1, now it is 2\. Fix: -e gpufleet_wave_size=1, or"):
        begin_or_resume(run, inventory(), options(tmp_path, size="2"), silent, keep=True)


def test_a_roll_that_ended_well_is_refused_and_no_pass_of_a_schedule(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    journal, _new = begin_or_resume(run, inventory(), options(tmp_path), silent, keep=True)
    for place in journal.plan.places:
        for stage in WAY:
            journal.add(RollEvent(node=place.node, stage=stage))
    for keep in (True, False):
        with pytest.raises(InputError, match=r"ended at 2.+ with 4 nodes returned, and nothing was done") as refused:
            begin_or_resume(run, inventory(), options(tmp_path), silent, keep=keep)
        assert "-e gpufleet_wave_roll=driver-580-2" in refused.value.hint


def test_a_roll_with_a_node_that_is_held_is_no_finished_one(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    journal, _new = begin_or_resume(run, inventory(), options(tmp_path), silent, keep=True)
    for place in journal.plan.places:
        for stage in WAY if place.node != "gpu01" else (*WAY[:-1], Stage.HELD):
            journal.add(RollEvent(node=place.node, stage=stage))
    assert not begin_or_resume(run, inventory(), options(tmp_path), silent, keep=True)[1]


def test_a_roll_that_can_take_no_node_is_refused_and_says_why(tmp_path: Path) -> None:
    """It would end with nobody held, as one that went well."""
    with pytest.raises(InputError, match="none of them can be taken: gpu02: does not answer: no route"):
        begin_or_resume(run_of(tmp_path), inventory("gpu02"), options(tmp_path, nodes=["gpu02"]), silent, keep=True)
    assert not journal_path(options(tmp_path)).exists()


def test_a_plan_that_is_only_asked_for_begins_no_roll(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    journal, new = begin_or_resume(run, inventory(), options(tmp_path), silent, keep=False)
    assert new and journal.path.parent == run.path and not journal_path(options(tmp_path)).exists()


def test_nodes_that_left_the_inventory_while_they_are_out_are_an_error(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    journal, _new = begin_or_resume(run, inventory(), options(tmp_path), silent, keep=True)
    journal.add(RollEvent(node="gpu01", stage=Stage.CORDONED))
    run.save_site(replace(run.site, hosts=HOSTS[1:]))
    with pytest.raises(InputError, match="not in the inventory any more, or quarantined: gpu01"):
        begin_or_resume(run, inventory(), options(tmp_path), silent, keep=True)


@pytest.mark.parametrize("name", ["", "Driver", "a b", "-a", "a" * 49, "../x"])
def test_a_name_that_is_no_label_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="name of the roll"):
        journal_path(options(tmp_path, roll=name))


def test_a_roll_without_a_name_or_a_change_is_refused_with_both(tmp_path: Path) -> None:
    said = [str(problem) for problem in roll_problems(options(tmp_path, roll="", change=""))]
    assert ["-e gpufleet_wave_roll=NAME" in said[0], "-e gpufleet_wave_change=NAME" in said[1]] == [True, True]
    assert roll_problems(options(tmp_path, change="none")) == []


@pytest.mark.parametrize(
    ("owner", "change", "refused"),
    [
        (DriverOwner.OPERATOR, "site.cluster.driver", "is operator, and the change is not"),
        (DriverOwner.OPERATOR, "none", ""),
        (DriverOwner.OPERATOR, "operator", "no GPU operator without Kubernetes"),
        (DriverOwner.HOST, "operator", "the GPU operator upgrades no driver here"),
    ],
)
def test_a_driver_is_changed_by_its_owner_alone(tmp_path: Path, owner: DriverOwner, change: str, refused: str) -> None:
    run, stated = run_of(tmp_path, driver_owner=owner), options(tmp_path, change=change)
    if refused:
        with pytest.raises(InputError, match=refused):
            begin_or_resume(run, inventory(), stated, silent, keep=True)
        assert not journal_path(stated).exists()
    else:
        assert begin_or_resume(run, inventory(), stated, silent, keep=True)[1]


def test_a_rehearsal_reboots_no_host_because_its_hosts_are_this_machine(tmp_path: Path) -> None:
    run = run_of(tmp_path, rehearsal=True)
    with pytest.raises(InputError, match="this machine, which would be rebooted"):
        begin_or_resume(run, inventory(), options(tmp_path, reboot="needed"), silent, keep=True)
    assert begin_or_resume(run, inventory(), options(tmp_path), silent, keep=True)[1]


def blocking(check: str, *nodes: str, kind: SubjectKind = SubjectKind.NODE, status: Status = Status.FAILED) -> Blocking:
    subjects = tuple(Subject(kind=kind, name=node) for node in nodes)
    return Blocking(check=check, subject=",".join(nodes), status=status, cause="c", summary="bad", subjects=subjects)


def proof_of(tmp_path: Path, status: Status, *entries: Blocking) -> Path:
    run = run_of(tmp_path)
    path = start_verification(run, ["gpu01", "gpu02"], 1)
    proof = Run(path)
    assert [host.name for host in proof.site.in_scope] == ["gpu01", "gpu02"] and proof.site.gates == ("nodes",)
    verdict = GateVerdict(gate="nodes", status=status, message="said", blocking=entries)
    proof.save_record(proof.record.with_gate(verdict))
    return path


def test_a_wave_that_passed_holds_nothing_against_its_nodes(tmp_path: Path) -> None:
    assert problems_found(proof_of(tmp_path, Status.PASSED), ["gpu01"]) == {"gpu01": ""}


@pytest.mark.parametrize("status", [Status.SKIPPED, Status.PENDING, Status.OTHER])
def test_a_gate_that_proved_nothing_is_held_against_every_node(tmp_path: Path, status: Status) -> None:
    found = problems_found(proof_of(tmp_path, status), ["gpu01", "gpu02"])
    assert set(found.values()) == {f"gate nodes is {status.value}: said"}


def test_only_the_node_that_is_named_is_held_and_what_names_none_holds_all(tmp_path: Path) -> None:
    path = proof_of(tmp_path, Status.FAILED, blocking("gpu-ecc", "gpu02"))
    assert problems_found(path, ["gpu01", "gpu02"]) == {"gpu01": "", "gpu02": "gpu-ecc: bad"}
    entries = (
        blocking("os-uniform", "lab", kind=SubjectKind.SITE, status=Status.OTHER),
        Blocking(check="x", subject="gpu02/0000:1b:00.0", status=Status.FAILED, cause="c", summary="bad", subjects=(
            Subject(kind=SubjectKind.GPU, name="gpu02/0000:1b:00.0", node="gpu02"),
        )),
    )  # fmt: skip
    path = proof_of(tmp_path, Status.FAILED, *entries)
    assert problems_found(path, ["gpu01", "gpu02"]) == {
        "gpu01": "os-uniform (other): bad", "gpu02": "os-uniform (other): bad; x: bad",
    }  # fmt: skip


def test_what_could_not_be_judged_accuses_nobody(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    gpu02 = Subject(SubjectKind.NODE, "gpu02", "gpu02")
    slow = Blocking(
        check="nccl-intra-node-bw", subject="gpu02", status=Status.FAILED, cause="slow-nvlink", summary="slow",
        subjects=(gpu02,),
    )  # fmt: skip
    unknown = Blocking(
        check="nccl-pair-bw", subject="gpu01", status=Status.OTHER, cause="blocked", summary="not judged",
        subjects=(Subject(SubjectKind.NODE, "gpu01", "gpu01"),),
    )  # fmt: skip
    path = start_verification(run, ["gpu01", "gpu02"], 1, "fabric_validation")
    proof = Run(path)
    verdict = GateVerdict(
        gate="fabric_validation", status=Status.FAILED, message="held", blocking=(slow, unknown)
    )  # fmt: skip
    proof.save_record(proof.record.with_gate(verdict))
    assert accused_nodes(path, ["gpu01", "gpu02"]) == ("gpu02",)
    found = problems_found(path, ["gpu01", "gpu02"])
    assert "nccl-pair-bw (other)" in found["gpu01"] and "nccl-intra-node-bw" in found["gpu02"]
    again = start_verification(run, ["gpu01"], 1, "fabric_validation", again=True)
    assert again.name == "001-fabric_validation-again" and again != path


def figure(name: str, node: str = "") -> AcceptedFigure:
    measured = Figure(
        figure=name, subject=node or "lab", node=node, value=470.0, unit="GB/s", conditions={"nodes": "4"}
    )
    return AcceptedFigure(figure=measured, gate="fabric_validation", run_id="r", who="ada", accepted="2026-11-21")


ACCEPTED = AcceptedBaseline(
    site="lab", rehearsal=False,
    figures=(*(figure("intra-node-busbw", f"gpu0{n}") for n in range(1, 5)), figure("all-nodes-busbw")),
)  # fmt: skip


@pytest.mark.parametrize(
    ("nodes", "neighbours", "kept"),
    [
        (["gpu01", "gpu02"], [], ["gpu01", "gpu02"]),
        (["gpu01"], ["gpu03"], ["gpu01"]),
        (["gpu01", "gpu02", "gpu03", "gpu04"], [], ["gpu01", "gpu02", "gpu03", "gpu04", "lab"]),
    ],
    ids=["a wave", "a neighbour is in service", "all nodes of the site"],
)
def test_a_wave_is_judged_by_what_was_accepted_of_its_nodes_when_the_run_began(
    tmp_path: Path, nodes: list[str], neighbours: list[str], kept: list[str]
) -> None:
    run = run_of(tmp_path)
    run.save_baseline(ACCEPTED)
    proof = Run(start_verification(run, nodes, 1, "fabric_validation", neighbours=neighbours))
    assert proof.baseline is not None and [entry.figure.subject for entry in proof.baseline.figures] == kept
    assert proof.record.wave == tuple(nodes)
    assert {host.name for host in proof.site.in_scope} == {*nodes, *neighbours}


def test_a_wave_of_which_nothing_was_accepted_says_so(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    assert Run(start_verification(run, ["gpu01"], 1)).baseline is None
    run.save_baseline(replace(ACCEPTED, figures=ACCEPTED.figures[1:]))
    proof = Run(start_verification(run, ["gpu01"], 2, "fabric_validation"))
    assert proof.baseline is not None and "of the nodes of this wave" in proof.baseline.absent
