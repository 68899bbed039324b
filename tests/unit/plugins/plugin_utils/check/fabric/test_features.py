# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Adaptive routing and SHARP as the site states, and what switches say of their fans and supplies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpufleet.bringup.plugins.module_utils import fabric_tools
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.fabric.fabric_facts import subnets_of
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.host_evidence import HostEvidence, ToolRun
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.tool_reading import ProbeFailure
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.tool_requests import fabric_requests
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.probe import fabric_summary, ibswinfo, sharp_hello
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.host_tools import load_host_tools

TOOLS = load_host_tools()
WORDS = ("infiniband", "multi_node", "subnet_manager", "host_access")
# As NVIDIA's manual of SHARP and operators print it.
SUMMARY = """Fabric Summary

Total Nodes             : 15
IB Switches             : 3
IB Channel Adapters     : 9
IB Aggregation Nodes    : {nodes}
IB Routers              : 0

{adaptive}
---------------------------------------------
Summary
-I- Stage                     Warnings   Errors     Comment
-I- Discovery                 3          0
-I- Routing                   0          0
{sharp}
"""
ADAPTIVE = "Adaptive Routing is enabled on {} switches\n"
SHARP = "-I- SHARP                     0          {}"


def summary(adaptive: str = ADAPTIVE.format(3), nodes: int = 3, sharp: str = SHARP.format(0)) -> Any:
    return fabric_summary.parse(SUMMARY.format(adaptive=adaptive, nodes=nodes, sharp=sharp))


@pytest.mark.parametrize(
    ("stated", "seen", "status", "cause"),
    [
        ({"adaptive_routing": True, "sharp": True}, {}, None, ""),
        ({"adaptive_routing": True}, {"nodes": 0, "sharp": ""}, None, ""),
        ({"sharp": True}, {"adaptive": ""}, None, ""),
        ({"adaptive_routing": False}, {"adaptive": ""}, None, ""),
        ({"adaptive_routing": True}, {"adaptive": ""}, Status.FAILED, "adaptive-routing-off"),
        ({"adaptive_routing": True}, {"adaptive": ADAPTIVE.format(2)}, Status.FAILED, "adaptive-routing-off"),
        ({"adaptive_routing": False}, {}, Status.FAILED, "adaptive-routing-on"),
        ({"sharp": True}, {"nodes": 2}, Status.FAILED, "sharp-nodes-missing"),
        ({"sharp": True}, {"sharp": SHARP.format(4)}, Status.FAILED, "sharp-errors"),
        ({"sharp": True}, {"sharp": ""}, Status.OTHER, "sharp-not-reported"),
        ({}, {}, Status.OTHER, "nothing-stated"),
    ],
)
def test_what_switches_do_is_held_against_what_the_site_states(
    fabric: Any, stated: dict[str, Any], seen: dict[str, Any], status: Status | None, cause: str
) -> None:
    fabric.words = (*WORDS, "fabric_features")
    fabric.settings = {"fabric-features": stated}
    fabric.subnet = {"features": summary(**seen)}
    assert [(o.check, o.status, o.cause) for o in fabric.held()] == (
        [("fabric-features", status, cause)] if status else []
    )


def test_features_that_were_not_asked_for_are_open(fabric: Any) -> None:
    assert not fabric.held() and "fabric-features" not in {o.check for o in fabric.judge()}
    fabric.words = (*WORDS, "fabric_features")
    fabric.settings = {"fabric-features": {"sharp": True}}
    assert [o.cause for o in fabric.held()] == ["ibdiagnet-features-not-collected"]


# NVIDIA SHARP's manual 2.6.1 has the first line, scripts that run it the last.
JOB = "[thor001:0:15042 - context.c:581] INFO job (ID: 12159720107860141553) resource request quota: ( osts:0 )\n"
PASSED = f"{JOB}\nTest Passed.\n"
# A B200 cluster whose aggregation manager has no reservation for the host ("SHARP Not Operational", 2026).
NO_RESERVATION = f"""{JOB}
[b200-256][warn] - Begin job id: 17800447739156601301 failed with status: No reservation
[b200-256] ERROR sharp_get_job_data_len failed: Job error(-35)
[b200-256] ERROR SHArP Job init error: No reservation
sharp_coll_init failed: Cannot create SHARP job
"""


def hello(stdout: str, rc: int | None = 0, **more: Any) -> Any:
    run = ToolRun(argv=("sharp_hello", "-d", "mlx5_0:1"), rc=rc, stdout=stdout, **more)
    tools = {"sminfo": ToolRun(argv=("sminfo",), rc=1), "sharp_hello": run}
    (subnet,) = subnets_of(HostEvidence(host="gpu01", reached=True, tools=tools))
    return subnet.sharp_job


@pytest.mark.parametrize(
    ("job", "status", "cause"),
    [
        (hello(PASSED), None, ""), (hello(f"{JOB}[warn] - no GPU memory: failed to load\n{PASSED}"), None, ""),
        (hello(PASSED, 1), Status.FAILED, "sharp-job-refused"),
        (hello(NO_RESERVATION, 255), Status.FAILED, "sharp-job-refused"),
        (hello(JOB, 1, stderr="sharp_coll_init failed: Cannot create SHARP job"), Status.FAILED, "sharp-job-refused"),
        # It ended well and said that it did not, or nothing: nobody knows.
        (hello(NO_RESERVATION), Status.FAILED, "sharp-job-refused"), (hello(JOB), Status.OTHER, "sharp-hello-garbage"),
        (hello(f"{PASSED}{JOB}"), Status.OTHER, "sharp-hello-garbage"), (hello(""), Status.OTHER, "sharp-hello-empty"),
        (hello("", None, missing=True), Status.OTHER, "sharp-hello-missing"),
        (hello("", None, timed_out=True), Status.OTHER, "sharp-hello-timeout"),
        (None, Status.OTHER, "sharp-hello-not-collected"),
    ],
)  # fmt: skip
def test_a_site_that_wants_it_makes_a_job_of_sharp(fabric: Any, job: Any, status: Status | None, cause: str) -> None:
    fabric.words = (*WORDS, "fabric_features")
    fabric.settings = {"fabric-features": {"sharp_job": True}}
    fabric.subnet = {"sharp_job": job}
    held = fabric.held()
    assert [(o.check, o.status, o.cause) for o in held] == ([("fabric-features", status, cause)] if status else [])
    if cause == "sharp-job-refused":
        assert "SHARP" in held[0].summary and "sharp_am" in held[0].hint
    fabric.settings = {"fabric-features": {"sharp_job": True, "sharp": True}}
    fabric.subnet = {"sharp_job": job, "features": summary(nodes=2)}
    assert fabric.held() and (status is not None or fabric.held()[0].cause == "sharp-nodes-missing")


@pytest.mark.parametrize("text", ["", JOB, "Test Passed? No.\nbye", PASSED + "x"])
def test_what_says_neither_is_no_answer_of_sharp(text: str) -> None:
    with pytest.raises(InputError):
        sharp_hello.parse(text)


@pytest.mark.parametrize("text", ["", "IB Switches : 3\n", SUMMARY.format(adaptive="", nodes="", sharp="")])
def test_a_diagnosis_that_counts_nothing_is_no_answer(text: str) -> None:
    with pytest.raises(InputError):
        fabric_summary.parse(text)


@pytest.fixture
def switches(fabric: Any, shared: Path) -> Callable[..., list[Any]]:
    """Judge a fabric whose switches say this of themselves; the first one has the changes."""
    capture = ibswinfo.parse((shared / "captures/ibswinfo/switchib-fan-ERROR.out").read_text())
    good = replace(capture, fan_status="OK")

    def judge(*, settings: dict[str, Any] | None = None, first: Any = None, **changes: Any) -> list[Any]:
        fabric.words = (*WORDS, "switch_health")
        fabric.settings = {"switch-health": settings or {}}
        fabric.ends()
        answers = {fabric.lid(f"leaf{k}"): good for k in range(4)} | {fabric.lid("spine1"): good}
        answers[fabric.lid("leaf0")] = first or replace(good, **changes)
        fabric.subnet = {"switches": {lid: said for lid, said in answers.items() if said != "left out"}}
        return [(o.status, o.cause, o.subjects[0].name) for o in fabric.held()]

    return judge


def test_switches_that_are_well_pass(switches: Callable[..., list[Any]]) -> None:
    assert switches() == []
    assert switches(settings={"temperature_c": 60}) == []


def test_what_a_switch_says_against_itself_is_said_of_it(switches: Callable[..., list[Any]]) -> None:
    assert switches(fan_status="ERROR") == [(Status.FAILED, "switch-fan-failed", "leaf0")]
    dead = ibswinfo.SwitchSupply(1, "ERROR", "ERROR", "OK", None)
    assert switches(supplies=(dead,)) == [(Status.FAILED, "switch-supply-failed", "leaf0")]
    assert switches(settings={"temperature_c": 60}, temperature_c=71) == [(Status.FAILED, "switch-hot", "leaf0")]


def test_a_switch_that_does_not_answer_leaves_the_check_open(switches: Callable[..., list[Any]]) -> None:
    silent = ProbeFailure(TOOLS.named("ibswinfo"), "failed", "`ibswinfo -d lid-3` ended with 1")
    assert [(status, cause) for status, cause, _name in switches(first=silent)] == [(Status.OTHER, "ibswinfo-failed")]
    left = switches(first="left out")
    assert [(status, cause) for status, cause, _name in left] == [(Status.OTHER, "ibswinfo-not-collected")]


def test_every_switch_is_asked_once_and_adapters_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    line = '0x{guid:016x} "{name}" {lid} {port}[  ] ==( 4X 53.125 Gbps Active/ LinkUp)==> 0x1 9 1[  ] "x" ( )\n'
    links = "".join(line.format(guid=7, name="leaf 1", lid=7, port=port) for port in range(1, 5))
    links += line.format(guid=2, name="gpu01 mlx5_0", lid=2, port=1)
    asked: list[list[str]] = []

    def run_tool(argv: list[str], timeout_s: float, max_output_bytes: int) -> dict[str, Any]:
        del timeout_s, max_output_bytes
        asked.append(argv)
        said = links if argv[0] == "iblinkinfo" else ""
        return {"argv": argv, "rc": 0, "stdout": said, "stderr": "", "missing": False}

    monkeypatch.setattr(fabric_tools, "run_tool", run_tool)
    requests = fabric_requests(ibdiagnet=False, extras=["ibswinfo", "ibdiagnet_features", "sharp_hello"])
    runs = fabric_tools.run_fabric_tools(requests, ["mlx5_0:1"], interval_s=0, max_output_bytes=1000)
    assert [argv for argv in asked if argv[0] == "ibswinfo"] == [["ibswinfo", "-d", "lid-7,mlx5_0,1"]]
    assert sum(argv[0] == "ibdiagnet" for argv in asked) == 1
    assert [argv[1:] for argv in asked if argv[0].endswith("/sharp_hello")] == [["-d", "mlx5_0:1", "-v", "3"]]
    tools = {name: ToolRun(argv=tuple(run["argv"]), rc=0, stdout=run["stdout"]) for name, run in runs.items()}
    (subnet,) = subnets_of(HostEvidence(host="gpu01", reached=True, tools=tools))
    assert list(subnet.switches) == [7] and isinstance(subnet.features, ProbeFailure)


def test_an_extra_that_is_none_is_refused() -> None:
    with pytest.raises(InputError, match="ibswinf"):
        fabric_requests(ibdiagnet=False, extras=["ibswinf"])
