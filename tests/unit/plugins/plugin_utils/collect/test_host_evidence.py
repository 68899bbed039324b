# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Evidence files: whole, redacted, read back strictly; rules that are consistent."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.host_evidence import (
    DRIVERS,
    HostEvidence,
    ToolRun,
    evidence_file,
    evidence_from_exec,
    read_evidence,
    write_evidence,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.host_facts import host_facts
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.loads import AFTER, load_xids, tools_asked_again
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.tool_reading import ProbeFailure
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.tool_requests import pod_tools
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.codec import from_plain, to_plain
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import DriverOwner


def test_evidence_comes_back_as_written_with_secrets_masked(tmp_path: Path) -> None:
    run = ToolRun(argv=("uname", "-r"), rc=0, stdout="6.8.0\n", stderr="password=hunter22", duration_s=0.1)
    path = write_evidence(tmp_path, evidence_from_exec("gpu01", {"uname": run}), DRIVERS)
    assert path == tmp_path / "evidence/drivers/gpu01.json"
    back = read_evidence(path)
    assert back.tools["uname"].stdout == "6.8.0\n"
    assert "hunter22" not in path.read_text() and "password" in back.tools["uname"].stderr


@pytest.mark.parametrize("name", ["", "../gpu01", ".hidden", "a/b"])
def test_host_name_that_is_no_file_name_is_refused(name: str) -> None:
    with pytest.raises(InputError):
        evidence_file(name)


@pytest.mark.parametrize(
    "change", [{"schema_version": 3}, {"surprise": 1}, {"tools": []}, {"tools": {"uname": {"rc": "x"}}}]
)
def test_evidence_of_another_shape_is_refused(tmp_path: Path, change: dict[str, object]) -> None:
    path = write_evidence(tmp_path, evidence_from_exec("gpu01", {"uname": ToolRun(argv=("uname",), rc=0)}))
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(InputError):
        read_evidence(path)


@pytest.mark.parametrize("field", ["rc", "truncated", "withheld"])
def test_evidence_without_a_field_that_is_always_written_is_refused(tmp_path: Path, field: str) -> None:
    """Read by its default it would say that nothing was wrong."""
    path = write_evidence(tmp_path, evidence_from_exec("gpu01", {"uname": ToolRun(argv=("uname",), rc=0)}))
    document = json.loads(path.read_text())
    del document["tools"]["uname"][field]
    path.write_text(json.dumps(document))
    with pytest.raises(InputError, match=field):
        read_evidence(path)


def test_evidence_of_another_host_is_not_taken_for_this_one(tmp_path: Path) -> None:
    source = write_evidence(
        tmp_path, evidence_from_exec("gpu01", {"uname": ToolRun(argv=("uname",), rc=0, stdout="6")})
    )
    (tmp_path / evidence_file("gpu02")).write_text(source.read_text())
    facts = host_facts("gpu02", tmp_path, DriverOwner.HOST)
    assert (facts.reached, facts.unread) == (False, "unreadable")
    assert isinstance(facts.kernel_release, ProbeFailure)


def test_no_pod_is_data() -> None:
    evidence = evidence_from_exec("gpu01", {}, "no driver pod on gpu01")
    assert (evidence.reached, evidence.reason) == (False, "no driver pod on gpu01")


def test_driver_commands_leave_the_diagnostic_out_unless_asked() -> None:
    commands = {tool.name: command for tool, command in pod_tools()}
    assert set(commands) == {
        "nvidia_smi_xml", "nvidia_smi_topo", "nvidia_smi_nvlink", "nvidia_smi_nvlink_errors", "fabric_manager",
    }  # fmt: skip
    assert commands["nvidia_smi_xml"] == ("nvidia-smi", "-q", "-x") and commands["fabric_manager"][:2] == ("sh", "-c")
    assert {tool.name: command for tool, command in pod_tools(3)}["dcgmi_diag"] == ("dcgmi", "diag", "-r", "3", "-j")


def test_the_catalogue_survives_json_and_knows_the_xids_that_operators_act_on() -> None:
    catalogue = load_xids()
    assert from_plain(type(catalogue), json.loads(json.dumps(to_plain(catalogue))), "saved") == catalogue
    meaning = {rule.number: rule.meaning for rule in catalogue.xids}
    assert {meaning[n] for n in (48, 54, 64, 74, 79, 95, 119, 120, 140, 149, 151, 158, 168)} == {"fatal"}
    assert {meaning[n] for n in (13, 31, 43, 63, 92, 121, 126, 162)} == {"note"}
    # In service an application is restarted; a machine that is being accepted waits for a person.
    assert {meaning[n] for n in (94, 157)} == {"marginal"}
    assert all(rule.action and rule.source.startswith("https://") for rule in catalogue.xids)


def test_a_catalogue_with_a_mistake_is_refused(tmp_path: Path) -> None:
    (tmp_path / "xid.yaml").write_text("xids:\n  - {number: 79, nam: off the bus}\n")
    with pytest.raises(InputError):
        load_xids(tmp_path)


def test_single_facts_can_be_read_of_a_host_that_ran_its_diagnostic(tmp_path: Path) -> None:
    after = {f"{tool.name}{AFTER}": ToolRun(argv=(tool.name,), rc=0, stdout="x") for tool in tools_asked_again()}
    write_evidence(tmp_path, HostEvidence(host="gpu01", reached=True, tools=after))
    facts = host_facts("gpu01", tmp_path, DriverOwner.HOST, only=("smi",))
    assert facts.around_diag is None


@pytest.mark.parametrize("text", ["[]", "5", '{"host": "gpu01"}', '{"tools": []}', '{"tools": {"lspci": 5}}', "null"])
def test_evidence_without_its_tools_is_refused_in_a_sentence(text: str, tmp_path: Path) -> None:
    """Found by random edits of a saved run: the field that is always written was asked before it was looked for."""
    path = tmp_path / "gpu01.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError):
        read_evidence(path)
