# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a load leaves on a host fails the gate that made the load; what was there before does not."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
from fleet_faults import XID, AnyFleet, gpu, kernel, said

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.kit.load_growth import CAUSES
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.registry import checks_of
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import JudgeContext, ObserveContext
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.host_evidence import (
    HostEvidence,
    ToolRun,
    unreached,
    write_evidence,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.loads import AFTER, load_kind, tools_asked_again
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.codec import dumps
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Outcome, Status

CHECK = "host-state-after-diag"
GATES = {
    "fabric_validation": "host-state-after-nccl",
    "training_acceptance": "host-state-after-training",
    "inference_acceptance": "host-state-after-inference",
}
Edit = Callable[[str], str]
ROWS = "<remapped_row_pending>No"
HOT = "<clocks_event_reasons_counters><clocks_event_reasons_counters_hw_therm_slowdown>{} us</clocks_event_reasons_counters_hw_therm_slowdown></clocks_event_reasons_counters>"  # noqa: E501
FIRST_GPU = 'id="00000000:10:00.0"'


def _append(line: str) -> Edit:
    return lambda text: text + f"2026-11-21T09:30:00+00:00 gpu02 kernel: {line}\n"


def _hot(text: str) -> str:
    """Every GPU counts; the first one was slowed down by heat."""
    first, *others = text.split("<fb_memory_usage>")
    return "<fb_memory_usage>".join(
        [first + HOT.format(4_000_000), *(f"{o}{HOT.format(0)}" for o in others[:-1]), others[-1]]
    )


def _replace(old: str, new: str, count: int = 1) -> Edit:
    return lambda text: text.replace(old, new, count)


GROWTH: dict[str, tuple[str, Edit, str, str]] = {
    "uncorrectable error": (
        "nvidia_smi_xml", _replace("<dram_uncorrectable>0", "<dram_uncorrectable>2"), "memory-error-under-load", "gpu0",
    ),
    "row waits": (
        "nvidia_smi_xml", _replace(ROWS, ROWS.replace("No", "Yes")), "memory-error-under-load", "gpu0",
    ),
    "reset asked for": (
        "nvidia_smi_xml",
        _replace("<gpu_recovery_action>None", "<gpu_recovery_action>Reset"),
        "gpu-reset-under-load",
        "gpu0",
    ),
    "gpu lost": (
        "nvidia_smi_xml", _replace("<total>81559 MiB", "<total>GPU is lost"), "gpu-lost-under-load", "gpu0",
    ),
    "heat": (
        "nvidia_smi_xml", _hot, "gpu-throttled-under-load", "gpu0",
    ),
    "xid": ("kernel_log", _append(XID.format(48, "DBE")), "xid-under-load", ""),
    "recovery action": (
        "kernel_log",
        _append(XID.format(154, "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)")),
        "xid-under-load",
        "",
    ),
    "sxid": (
        "kernel_log",
        _append("nvidia-nvswitch1: SXid (PCI:0000:06:00.0): 20034, Fatal, Link 48 LTSSM Fault Up"),
        "xid-under-load",
        "",
    ),
    "hardware": (
        "kernel_log",
        _append("mce: [Hardware Error]: CPU 12: Machine Check: 0 Bank 7: fe00000000800400"),
        "hardware-error-under-load",
        "",
    ),
    "nvlink": (
        "nvidia_smi_nvlink", _replace("Link 3: 26.562 GB/s", "Link 3: <inactive>"), "nvlink-lost-under-load", "gpu0",
    ),
    "port": ("ibstat", _replace("State: Active", "State: Down"), "port-down-under-load", "mlx5_0"),
    "nvlink replays": (
        "nvidia_smi_nvlink_errors", _replace("Link 3: Replay Errors: 0", "Link 3: Replay Errors: 1"),
        "nvlink-errors-under-load", "gpu0",
    ),
    "link lost": (
        "port_counters", _replace("mlx5_0/ports/1/counters/link_downed:7", "mlx5_0/ports/1/counters/link_downed:8"),
        "port-lost-under-load", "mlx5_0",
    ),
}  # fmt: skip
DOUBT: dict[str, tuple[str, Edit, str]] = {
    "replays": (
        "nvidia_smi_xml", _replace("<replay_counter>150", "<replay_counter>950"), "pcie-replays-under-load",
    ),
    "contained error": ("kernel_log", _append(XID.format(94, "Contained")), "xid-marginal-under-load"),
    "unknown xid": ("kernel_log", _append(XID.format(999, "new")), "xid-marginal-under-load"),
    "nvlink noise": (
        "nvidia_smi_nvlink_errors", _replace("Link 0: CRC Errors: 0", "Link 0: CRC Errors: 3"),
        "nvlink-noise-under-load",
    ),
    "symbol errors": (
        "port_counters", _replace("counters/symbol_error:0", "counters/symbol_error:11"), "port-errors-under-load",
    ),
    "link flap": (
        "kernel_log", _append("mlx5_core 0000:99:00.0 ib2: Link down"), "link-flap-under-load",
    ),
    "non-fatal error of PCIe": (
        "kernel_log",
        _append(
            "pcieport 0000:16:02.0: PCIe Bus Error: severity=Uncorrected (Non-Fatal), type=Transaction Layer"
        ),
        "hardware-warning-under-load",
    ),
}  # fmt: skip


def _after_diag(fleet: AnyFleet, name: str, change: Edit) -> None:
    run = fleet.hosts["gpu02"].evidence().tools[name]
    fleet.hosts["gpu02"].after[name] = replace(run, stdout=change(run.stdout))


@pytest.mark.parametrize("case", GROWTH)
def test_error_that_the_diagnostic_raises_fails_its_gate(fleet: AnyFleet, case: str) -> None:
    name, change, cause, part = GROWTH[case]
    _after_diag(fleet, name, change)
    outcomes = fleet.judge()
    failed = said(outcomes, Status.FAILED)
    assert {(check, found) for check, found, _subject in failed} == {(CHECK, cause)}
    assert all(subject.startswith(f"gpu02/{part}" if part else "gpu02") for _check, _cause, subject in failed)
    assert not said(outcomes, Status.OTHER)


@pytest.mark.parametrize("case", DOUBT)
def test_doubtful_change_waits_for_a_person(fleet: AnyFleet, case: str) -> None:
    name, change, cause = DOUBT[case]
    _after_diag(fleet, name, change)
    outcomes = fleet.judge(only=CHECK)
    assert {found for _check, found, _subject in said(outcomes, Status.OTHER)} == {cause}
    assert not said(outcomes, Status.FAILED)


def test_every_cause_is_shown() -> None:
    assert {cause for _name, _change, cause, _part in GROWTH.values()} == set(CAUSES)


def test_what_was_there_before_is_not_told_again(fleet: AnyFleet) -> None:
    gpu(0, unc="5", replay="170")(fleet)
    kernel(XID.format(48, "DBE"))(fleet)
    assert {o.status for o in fleet.judge(only=CHECK)} == {Status.PASSED}


def test_old_counters_and_those_without_a_limit_are_not_judged(fleet: AnyFleet) -> None:
    """Discards are congestion as well, and a healthy fabric drops some packets of its management."""
    _after_diag(fleet, "port_counters", lambda text: text.replace("port_xmit_discards:0", "port_xmit_discards:900"))
    assert {o.status for o in fleet.judge(only=CHECK)} == {Status.PASSED}
    for one in fleet.hosts.values():
        one.tools["nvidia_smi_nvlink_errors"] = replace(
            one.evidence().tools["nvidia_smi_nvlink_errors"],
            stdout=one.evidence()
            .tools["nvidia_smi_nvlink_errors"]
            .stdout.replace("Replay Errors: 0", "Replay Errors: 5"),
        )
    assert {o.status for o in fleet.judge(only=CHECK)} == {Status.PASSED}


def test_ports_without_counters_pass_and_are_not_said_to_be_compared(fleet: AnyFleet) -> None:
    """As virtual functions have it."""
    for one in fleet.hosts.values():
        one.tools["port_counters"] = ToolRun(argv=("find",), rc=0, stdout="")
    outcomes = fleet.judge(only=CHECK)
    assert {o.status for o in outcomes} == {Status.PASSED}
    assert not any("port counters" in o.summary for o in outcomes)


@pytest.mark.parametrize(
    ("name", "change", "cause"),
    [
        ("port_counters", lambda _text: "", "host-state-unreadable"),
        ("port_counters", lambda text: text[: text.index("\n") + 1], "counters-not-comparable"),
        ("port_counters", lambda text: text.replace("mlx5_3", "mlx5_7"), "counters-not-comparable"),
        ("nvidia_smi_nvlink_errors", lambda text: text[: len(text) // 2], "counters-not-comparable"),
        ("nvidia_smi_nvlink_errors", lambda _text: "", "host-state-unreadable"),
        ("nvidia_smi_xml", lambda text: re.sub("<gpu_recovery_action>.*?</.*?>", "", text), "counters-not-comparable"),
        ("nvidia_smi_xml", lambda text: re.sub("<replay_counter>.*?</.*?>", "", text), "counters-not-comparable"),
        (
            "nvidia_smi_xml",
            lambda text: re.sub("<remapped_rows>.*?</remapped_rows>", "", text),
            "counters-not-comparable",
        ),
        (
            "nvidia_smi_xml",
            lambda text: re.sub("<gpu_recovery_action>.*?</.*?>", "", text, count=1),
            "host-state-unreadable",
        ),
    ],
)
def test_counters_that_one_reading_lacks_are_unknown(fleet: AnyFleet, name: str, change: Edit, cause: str) -> None:
    _after_diag(fleet, name, change)
    assert said(fleet.judge(only=CHECK), Status.OTHER) == {(CHECK, cause, "gpu02")}


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("nvidia_smi_nvlink", lambda text: re.sub(r"GPU 1: .*\n(\s.*\n)*", "", text)),
        ("nvidia_smi_nvlink", lambda text: re.sub(r"\t Link 3: .*\n", "", text, count=1)),
        ("ibstat", lambda text: text[: text.rindex("CA '")]),
    ],
)
def test_what_was_not_listed_before_the_load_is_unknown(fleet: AnyFleet, name: str, change: Edit) -> None:
    """A link or a port that is only in the second reading did not stay as it was: nobody knows what it was."""
    one = fleet.hosts["gpu02"]
    one.after[name] = one.evidence().tools[name]
    one.tools[name] = replace(one.after[name], stdout=change(one.after[name].stdout))
    assert one.tools[name].stdout != one.after[name].stdout
    assert said(fleet.judge(only=CHECK), Status.OTHER) == {(CHECK, "counters-not-comparable", "gpu02")}


def test_harmless_lines_of_the_load_are_noted(fleet: AnyFleet) -> None:
    _after_diag(fleet, "kernel_log", _append(XID.format(43, "pid=1, name=nvvs")))
    outcomes = fleet.judge(only=CHECK)
    assert {o.status for o in outcomes} == {Status.PASSED}
    assert any("XID 43" in o.summary for o in outcomes)


def test_reboot_or_lost_lines_are_unknown(fleet: AnyFleet) -> None:
    _after_diag(fleet, "kernel_log", lambda text: text.replace("08:00:0", "11:22:3"))
    assert said(fleet.judge(only=CHECK), Status.OTHER) == {(CHECK, "kernel-log-restarted", "gpu02")}


def test_run_that_did_not_ask_again_is_unknown(fleet: AnyFleet) -> None:
    """As runs of earlier releases."""
    fleet.judge()
    path = fleet.run_dir / "evidence/hosts/gpu02.json"
    data = json.loads(path.read_text())
    data["tools"] = {name: run for name, run in data["tools"].items() if not name.endswith(AFTER)}
    path.write_text(json.dumps(data))
    fleet.hosts["gpu02"].no_file = True
    assert said(fleet.judge(only=CHECK), Status.OTHER) == {(CHECK, "host-state-missing", "gpu02")}


def test_tool_that_fails_only_after_the_load_is_unknown(fleet: AnyFleet) -> None:
    fleet.hosts["gpu02"].after["nvidia_smi_xml"] = replace(
        fleet.hosts["gpu02"].evidence().tools["nvidia_smi_xml"], rc=None, timed_out=True, duration_s=60.0, stdout=""
    )
    assert said(fleet.judge(only=CHECK), Status.OTHER) == {(CHECK, "host-state-unreadable", "gpu02")}


class Around:
    """The hosts before and after the load of a benchmark gate."""

    def __init__(self, fleet: AnyFleet, gate: str) -> None:
        self.fleet, self.gate, self.run_dir = fleet, gate, Path(fleet.run_dir)
        names = {tool.name for tool in tools_asked_again()}
        for name, one in fleet.hosts.items():
            tools = {tool: run for tool, run in one.evidence().tools.items() if tool in names}
            for moment in ("before", "after"):
                self.write(moment, HostEvidence(host=name, reached=True, tools=tools))

    def write(self, moment: str, evidence: HostEvidence) -> None:
        write_evidence(self.run_dir, evidence, load_kind(self.gate, moment))  # type: ignore[arg-type]

    def path(self, host: str, moment: str) -> Path:
        return self.run_dir / "evidence/load" / self.gate / moment / f"{host}.json"

    def change(self, name: str, edit: Edit) -> None:
        path = self.path("gpu02", "after")
        data = json.loads(path.read_text())
        data["tools"][name]["stdout"] = edit(data["tools"][name]["stdout"])
        path.write_text(json.dumps(data))

    def judge(self) -> tuple[Outcome, ...]:
        site, today = self.fleet.site, date(2026, 11, 21)
        (check,) = [check for check in checks_of(self.gate, site) if check.spec.id == GATES[self.gate]]
        seen = check.observer.observe(ObserveContext(site=site, run_dir=self.run_dir, today=today))
        value = check.observer.restore(json.loads(dumps(seen)), self.run_dir, site)
        context = JudgeContext(gate=self.gate, site=site, today=today, hardware={"h100": self.fleet.sku})
        outcomes: tuple[Outcome, ...] = check.judge(value, context)
        return outcomes


@pytest.mark.parametrize("gate", GATES)
def test_unchanged_hosts_pass_in_every_gate_that_loads_them(fleet: AnyFleet, gate: str) -> None:
    around = Around(fleet, gate)
    assert {(o.status, o.check) for o in around.judge()} == {(Status.PASSED, GATES[gate])}


@pytest.mark.parametrize("gate", GATES)
def test_the_gate_that_made_the_load_has_the_fault(fleet: AnyFleet, gate: str) -> None:
    around = Around(fleet, gate)
    around.change("kernel_log", _append(XID.format(79, "GPU has fallen off the bus.")))
    around.change("nvidia_smi_nvlink", _replace("Link 3: 26.562 GB/s", "Link 3: <inactive>"))
    outcomes = around.judge()
    assert {(o.gate, o.cause) for o in outcomes if o.status is Status.FAILED} == {
        (gate, "xid-under-load"), (gate, "nvlink-lost-under-load"),
    }  # fmt: skip
    assert {o.subjects[0].name for o in outcomes if o.status is Status.FAILED} == {"gpu02"}


@pytest.mark.parametrize("moment", ["before", "after"])
def test_host_that_was_not_read_is_unknown(fleet: AnyFleet, moment: str) -> None:
    around = Around(fleet, "fabric_validation")
    around.path("gpu02", moment).unlink()
    assert {o.cause for o in around.judge() if o.status is Status.OTHER} == {"host-state-missing"}
    around.write(moment, unreached("gpu02", "ssh: connection timed out"))
    assert {o.cause for o in around.judge() if o.status is Status.OTHER} == {"host-state-unreachable"}


def test_evidence_of_another_host_is_no_reading(fleet: AnyFleet) -> None:
    around = Around(fleet, "fabric_validation")
    around.path("gpu02", "after").write_text(around.path("gpu01", "after").read_text())
    assert {o.cause for o in around.judge() if o.status is Status.OTHER} == {"host-state-unreachable"}
