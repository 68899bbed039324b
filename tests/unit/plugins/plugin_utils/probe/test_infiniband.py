# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The InfiniBand parsers: every fact of the captures, and nothing that is not the tool's output passes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.probe import (
    ibdiagnet,
    iblinkinfo,
    ibqueryerrors,
    ibstat,
    saquery,
    sminfo,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.probe.text import guid

PARSERS: dict[str, Callable[[str], Any]] = {
    "iblinkinfo": iblinkinfo.parse,
    "ibqueryerrors": ibqueryerrors.parse,
    "sminfo": sminfo.parse,
    "saquery": saquery.parse,
    "ibdiagnet": ibdiagnet.parse,
}
LINE = (
    '0x9c0591030003f071 "                  gpu64 mlx5_7"    532    1[  ] ==( 4X        53.125 Gbps Active/  LinkUp)'
    '==>  0x248a070300000f00     21   32[  ] "leaf-g2-rail7" (Could be 12X )'
)
ERRORS = (
    'Errors for 0x248a070300000000 "leaf-g1-rail0"\n'
    "   GUID 0x248a070300000000 port ALL: [SymbolErrorCounter == 3]\n"
    "   GUID 0x248a070300000000 port 2: [SymbolErrorCounter == 3] [PortXmitWait == 99]\n\n"
    "## Summary: 532 nodes checked, 1 bad nodes found\n"
    "##          1313 ports checked, 1 ports have errors beyond threshold\n## Thresholds: \n## Suppressed:\n"
)
MANAGERS = (
    "IsSM ports\nPortInfoRecord dump:\n\t\tEndPortLid..............1\n\t\tPortNum.................1\n"
    "\t\tbase_lid................1\nPortInfoRecord dump:\n\t\tEndPortLid..............25\n"
    "\nIsSMdisabled ports\nPortInfoRecord dump:\n\t\tEndPortLid..............7\n"
)
DIAGNOSIS = (
    "-E- Node leaf1: port 3 symbol errors\n---------------------------------------------\nSummary\n"
    "-I- Stage                     Warnings   Errors     Comment   \n"
    "-I- Discovery                 0          0         \n"
    "-I- Lids Check                0          0         \n"
    "-I- Port Counters             2          1         see ibdiagnet2.pm\n\n"
    "-I- You can find detailed errors/warnings in: /var/tmp/ibdiagnet2/ibdiagnet2.log\n"
)


def capture(shared: Path, name: str) -> str:
    return (shared / "captures" / name).read_text(encoding="utf-8")


def test_iblinkinfo_in_blocks(shared: Path) -> None:
    ends = iblinkinfo.parse(capture(shared, "iblinkinfo/edr-sb7700-truncated.txt"))
    switch = [end for end in ends if end.switch]
    assert len(ends) == 20
    assert [end.port for end in switch] == list(range(1, 19))
    assert {(end.state, end.physical, end.peer) for end in switch[:16]} == {("Down", "Polling", None)}
    assert [(e.width, e.lane_gbps, e.state, e.peer.name if e.peer else "") for e in switch[16:]] == [
        ("4X", 25.78125, "Active", "n02 HCA-1"),
        ("4X", 25.78125, "Active", "n01 HCA-1"),
    ]
    (mgt,) = [end for end in ends if end.name == "mgt mlx5_0"]
    assert mgt.peer == iblinkinfo.Peer(name="MF0;SB7700:MSB7700/U1", port=36, lid=2)
    assert switch[0].guid == 0x506B4B0300820910


def test_iblinkinfo_with_one_line_a_port() -> None:
    slow = LINE.replace("(Could be 12X )", "(Could be 12X Could be 106.25 Gbps)")
    blind = '0x1000000000000100 "leaf-rail0" 2 3[  ] ==( 1X 53.125 Gbps Init/  LinkUp)==>      "Port not available"'
    down = '0x1000000000000100 "leaf-rail0" 2 2[  ] ==( Down/ Polling)==>             [  ] "" ( )'
    first, second, third, fourth = iblinkinfo.parse("\n".join([LINE, slow, blind, down]))
    assert (first.name, first.lid, first.port, first.width, first.lane_gbps) == ("gpu64 mlx5_7", 532, 1, "4X", 53.125)
    assert first.peer == iblinkinfo.Peer(name="leaf-g2-rail7", port=32, lid=21, guid=0x248A070300000F00)
    assert (first.could_be_gbps, second.could_be_gbps) == (0.0, 106.25), "12X is what the port could never be wired as"
    assert third.up and third.peer is None
    assert not fourth.up and fourth.peer is None


def test_ibqueryerrors(shared: Path) -> None:
    report = ibqueryerrors.parse(capture(shared, "ibqueryerrors/fdr-4nodes-BAD-saturated-counters.txt"))
    assert (report.nodes_checked, report.bad_nodes, report.ports_checked, report.bad_ports) == (4, 4, 43, 14)
    switch = {p.port: p.counters for p in report.ports if p.guid == 0x2C903006E29B0}
    assert [port for port, counters in switch.items() if counters.get("SymbolErrorCounter") == 65535] == [5, 7]
    assert [switch[port]["LinkDownedCounter"] for port in range(1, 9)] == [8, 5, 5, 8, 2, 9, 2, 9]
    assert sum(counters.get("LinkDownedCounter", 0) for counters in switch.values()) == 48, (
        "port ALL is not added again"
    )
    assert switch[1]["PortXmitWait"] == 4294967295
    assert {p.node for p in report.ports} == {
        "dl380g7 mlx4_0",
        "server mlx4_0",
        "MF0;ys23ib4:SX6036/U1",
        "rd240 mlx4_0",
    }


def test_a_guid_is_a_number_whether_a_tool_pads_it_or_not() -> None:
    padded = LINE.replace("0x248a070300000f00", "0x0002c903006e29b0")
    (first, *_rest) = iblinkinfo.parse(padded)
    assert first.peer is not None
    short = ERRORS.replace("0x248a070300000000", "0x2c903006e29b0")
    assert ibqueryerrors.parse(short).ports[0].guid == first.peer.guid == 0x0002C903006E29B0
    with pytest.raises(InputError, match="a GUID such as"):
        guid("0xfrog", "a tool")


def test_counters_of_64_bits_have_their_value_once_more_behind_it() -> None:
    text = ERRORS.replace("port 2: [SymbolErrorCounter == 3]", "port 2: [SymbolErrorCounter == 70000 (68.359K)]")
    (port,) = ibqueryerrors.parse(text).ports
    assert (port.counters["SymbolErrorCounter"], port.wide) == (70000, {"SymbolErrorCounter"})


def test_a_summary_that_counts_other_ports_than_are_listed_is_no_report() -> None:
    with pytest.raises(InputError, match="3 nodes and 14 ports, as its summary says"):
        ibqueryerrors.parse(ERRORS.replace("1 bad nodes", "3 bad nodes").replace("1 ports have", "14 ports have"))
    with pytest.raises(InputError, match="as its summary says"):
        ibqueryerrors.parse(ERRORS[ERRORS.index("## Summary") :])


def test_ports_that_did_not_tell_their_counters_are_counted() -> None:
    text = ERRORS.replace("## Suppressed:", "##          2 PMA query failures\n## Suppressed:")
    assert (ibqueryerrors.parse(text).failures, ibqueryerrors.parse(ERRORS).failures) == (2, 0)


def test_speeds_that_the_tool_has_no_number_for() -> None:
    rate = LINE[LINE.index("==(") + 3 : LINE.index(" Active/")]
    (unknown, *_others) = iblinkinfo.parse(LINE.replace(rate, " undefined (0)        undefined (0)", 1))
    assert (unknown.width, unknown.lane_gbps, unknown.state) == ("", 0.0, "Active")
    (old, *_others) = iblinkinfo.parse(LINE.replace(rate, " 4X    10.0 Gbps (FDR10)", 1))
    assert (old.width, old.lane_gbps) == ("4X", 10.0)


def test_sminfo_and_ibstat(shared: Path) -> None:
    info = sminfo.parse(capture(shared, "sminfo/master-priority15.txt"))
    assert (info.lid, info.guid, info.activity, info.priority, info.state) == (
        25, 0x21283A8620B0F0, 25950, 15, sminfo.MASTER,
    )  # fmt: skip
    hcas = ibstat.parse(capture(shared, "ibstat/cx6-2hca-rate100.txt"))
    assert [(h.name, h.kind, h.ports[0].rate_gbps, h.ports[0].base_lid, h.ports[0].sm_lid) for h in hcas] == [
        ("mlx5_6", "MT4123", 100, 25, 104),
        ("mlx5_7", "MT4123", 100, 184, 104),
    ]


def test_the_rest_of_what_the_tools_print() -> None:
    assert saquery.parse(MANAGERS) == (1, 25), "a disabled one does not count"
    found = ibdiagnet.parse(DIAGNOSIS)
    assert [(s.name, s.warnings, s.errors) for s in found.stages] == [
        ("Discovery", 0, 0),
        ("Lids Check", 0, 0),
        ("Port Counters", 2, 1),
    ]
    assert found.errors == ("Node leaf1: port 3 symbol errors",)


def test_no_row_of_a_table_of_stages_is_left_out(shared: Path) -> None:
    """A name as wide as its column leaves one space; a row that is not understood makes the table unreadable."""
    text = (shared / "findings/captures-fails/P128-ibdiagnet-plugin-stage.txt").read_text(encoding="utf-8")
    wrong = {stage.name: stage.errors for stage in ibdiagnet.parse(text).stages if stage.errors}
    assert wrong == {"Cable Diagnostic (Plugin)": 4, "Phy Diagnostic (Plugin)": 1}
    ruled = DIAGNOSIS.replace("-I- Discovery ", "-----------\n-I- Discovery ")
    assert ibdiagnet.parse(ruled) == ibdiagnet.parse(DIAGNOSIS)
    with pytest.raises(InputError, match="Port Counters"):
        ibdiagnet.parse(DIAGNOSIS.replace("2          1  ", "2          n/a"))


@pytest.mark.parametrize("name", PARSERS)
@pytest.mark.parametrize(
    "text", ["", "\n\n", "command not found", "sminfo: iberror: failed: query", "\0\1<<%%!!segment", "{}"]
)
def test_what_is_not_the_tools_output_is_refused(name: str, text: str) -> None:
    with pytest.raises(InputError):
        PARSERS[name](text)


def test_an_unfinished_report_is_refused() -> None:
    with pytest.raises(InputError):
        ibqueryerrors.parse(ERRORS.partition("## Summary")[0])
    with pytest.raises(InputError):
        ibdiagnet.parse(DIAGNOSIS.partition("-I- Stage")[0])
    with pytest.raises(InputError):
        iblinkinfo.parse(LINE + "\n" + LINE[:60])


@given(name=st.sampled_from(sorted(PARSERS)), data=st.data())
def test_no_damage_makes_a_parser_crash(name: str, data: st.DataObject) -> None:
    whole = {
        "iblinkinfo": LINE, "ibqueryerrors": ERRORS, "saquery": MANAGERS, "ibdiagnet": DIAGNOSIS,
        "sminfo": "sminfo: sm lid 1 sm guid 0x3, activity count 4 priority 0 state 3 SMINFO_MASTER\n",
    }[name]  # fmt: skip
    PARSERS[name](whole)
    at = data.draw(st.integers(0, len(whole)))
    until = data.draw(st.integers(at, len(whole)))
    with suppress(InputError):
        PARSERS[name](whole[:at] + data.draw(st.text(max_size=12)) + whole[until:])
