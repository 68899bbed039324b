# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A parser gives a value or an InputError, whatever it is given."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from measuring_samples import SAMPLES_OF_MEASURES, STATED_OF_MEASURES
from tool_samples import DOCUMENTS, MORE_SAMPLES, MORE_STATED

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.nodes import clock_sync
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.tool_reading import parser_named
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.probe import (
    chronyc,
    dcgmi_diag,
    ibstat,
    kernel_log,
    lsmod,
    lspci,
    lspci_bridges,
    nvidia_smi_nvlink,
    nvidia_smi_nvlink_errors,
    nvidia_smi_topo,
    nvidia_smi_xml,
    os_release,
    port_counters,
    word,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.host_tools import load_host_tools

GPU = (
    '<gpu id="00000000:53:00.0"><product_name>NVIDIA H100</product_name><uuid>GPU-0</uuid><fb_memory_usage>'
    "<total>81559 MiB</total></fb_memory_usage><ecc_errors><volatile>"
    "<dram_uncorrectable>0</dram_uncorrectable></volatile></ecc_errors></gpu>"
)
SAMPLES: dict[str, tuple[Callable[[str], Any], str]] = {
    **{tool.name: (parser_named(tool.parser), tool.healthy) for tool in load_host_tools().tools if tool.healthy},
    "nvidia_smi_xml": (
        nvidia_smi_xml.parse,
        f"<nvidia_smi_log><driver_version>580.1</driver_version><attached_gpus>1</attached_gpus>{GPU}</nvidia_smi_log>",
    ),
    "nvidia_smi_topo": (
        nvidia_smi_topo.parse,
        "\tGPU0\tGPU1\tNIC0\tCPU Affinity\nGPU0\t X \tNV18\tPIX\t0-47\nGPU1\tNV18\t X \tSYS\t0-47\n\n  NIC0: mlx5_0\n",
    ),
    "nvidia_smi_nvlink": (
        nvidia_smi_nvlink.parse,
        "GPU 0: NVIDIA H200 (UUID: GPU-0)\n\t Link 0: 26.562 GB/s\n\t Link 1: <inactive>\n",
    ),
    "dcgmi_diag": (
        dcgmi_diag.parse,
        'text {"DCGM Diagnostic":{"test_categories":[{"category":"Hardware","tests":[{"name":"memory","results":'
        '[{"entity_group":"GPU","entity_id":0,"status":"Fail","warnings":[{"warning":"w","error_id":6}]}]}]}]}}',
    ),
    "ibstat": (
        ibstat.parse,
        "CA 'mlx5_0'\n\tCA type: MT4129\n\tNumber of ports: 1\n\tFirmware version: 28.43.2566\n"
        "\tNode GUID: 0x1070fd0300a4103a\n\tPort 1:\n\t\tState: Active\n\t\tPhysical state: LinkUp\n\t\tRate: 400\n"
        "\t\tBase lid: 7\n\t\tSM lid: 1\n\t\tPort GUID: 0x1070fd0300a4103b\n\t\tLink layer: InfiniBand\n",
    ),
    "chronyc": (
        chronyc.parse,
        "Reference ID    : 83E17991 (x)\nStratum         : 3\nSystem time     : 0.000004709 seconds fast of NTP time\n"
        "Last offset     : +0.000004989 seconds\nRoot delay      : 0.000411626 seconds\n"
        "Root dispersion : 0.018570010 seconds\nLeap status     : Normal\n",
    ),
    "lspci_bridges": (
        lspci_bridges.parse,
        "0000:17:00.0 PCI bridge [0604]: Broadcom / LSI PEX890xx [1000:c030] (rev b0) (prog-if 00 [Normal decode])\n"
        "\tBus: primary=17, secondary=18, subordinate=1c, sec-latency=0\n"
        "\tCapabilities: [68] Express (v2) Downstream Port (Slot+), MSI 00\n"
        "\tCapabilities: [f24 v1] Access Control Services\n"
        "\t\tACSCap:\tSrcValid+ ReqRedir+\n\t\tACSCtl:\tSrcValid- ReqRedir+ DirectTrans-\n",
    ),
    "nvlink_errors": (
        nvidia_smi_nvlink_errors.parse,
        "GPU 0: NVIDIA B200 (UUID: GPU-a)\n\t Link 0: Rx Errors: 3\n\t Link 0: Symbol BER: 15e-255\n"
        "\t Link 0: FEC Errors - 0: 17941761\n",
    ),
    "port_counters": (port_counters.parse, "/sys/class/infiniband/mlx5_0/ports/1/counters/link_downed:255\n"),
    "ntpq": (
        clock_sync.parse_ntpq,
        "associd=0 status=0615 leap_none, sync_ntp, 1 event, clock_sync,\nleap=00, stratum=2, rootdelay=9.0, "
        "rootdisp=40.9, tc=6, offset=-0.25\n",
    ),
    "lsmod": (lsmod.parse, "Module                  Size  Used by\nnvidia  11534336  2 nvidia_uvm\n"),
    "lspci": (lspci.parse, "0000:53:00.0 3D controller [0302]: NVIDIA Corporation GH100 [10de:2330] (rev a1)\n"),
    "kernel_log": (
        kernel_log.parse,
        "[   12.5] NVRM: Xid (PCI:0000:9b:00): 119, pid=1\n[ 13.0] mlx5_core 0001:43:00.0: 63.008 Gb/s available PCIe "
        "bandwidth, limited by 8.0 GT/s PCIe x8 link at 0001:42:01.0 (capable of 126.016 Gb/s with x)\n",
    ),
    "os_release": (os_release.parse, 'ID=ubuntu\nVERSION_ID="24.04"\n'),
    "word": (word.parse, "6.8.0-45-generic\n"),
    **MORE_SAMPLES,
    **SAMPLES_OF_MEASURES,
}


# What each sample states, as the parser returns it.
STATED: dict[str, tuple[Callable[[Any], Any], Any]] = {
    **{tool.name: (lambda value: value is None, False) for tool in load_host_tools().tools if tool.healthy},
    "nvidia_smi_xml": (lambda log: (log.driver_version, log.gpus[0].bus_id), ("580.1", "0000:53:00.0")),
    "nvidia_smi_topo": (lambda topology: topology.paths["GPU1", "mlx5_0"], "SYS"),
    "nvidia_smi_nvlink": (lambda status: status.gpus[0].links, ((0, 26.562), (1, 0.0))),
    "dcgmi_diag": (lambda report: [(r.status, r.gpus) for r in report.tests[0].results], [("fail", (0,))]),
    "ibstat": (lambda hcas: [(hca.name, hca.ports[0].rate_gbps) for hca in hcas], [("mlx5_0", 400)]),
    "chronyc": (lambda tracking: (tracking.stratum, tracking.leap_status), (3, "Normal")),
    "lspci": (lambda devices: [(device.address, device.pci_id) for device in devices], [("0000:53:00.0", "10de:2330")]),
    "lspci_bridges": (
        lambda bridges: [(b.address, b.first_bus, b.last_bus, b.port, b.acs) for b in bridges],
        [("0000:17:00.0", 0x18, 0x1C, "downstream", ("ReqRedir",))],
    ),
    "nvlink_errors": (
        lambda errors: errors.gpus[0].counters,
        {(0, "Rx Errors"): 3, (0, "FEC Errors - 0"): 17941761},
    ),
    "port_counters": (lambda ports: [(p.port, p.counters) for p in ports], [("mlx5_0:1", {"link_downed": 255})]),
    "ntpq": (lambda daemon: (daemon.synchronised, daemon.stratum, daemon.offset_s), (True, 2, -0.00025)),
    "lsmod": (sorted, ["nvidia"]),
    "kernel_log": (lambda log: (log.xids[0].number, log.pcie_limits[0].available_gbps), (119, 63.008)),
    "os_release": (lambda release: (release.id, release.version_id), ("ubuntu", "24.04")),
    "word": (lambda word: word, "6.8.0-45-generic"),
    **MORE_STATED,
    **STATED_OF_MEASURES,
}


@pytest.mark.parametrize("name", SAMPLES)
def test_sample_is_read(name: str) -> None:
    parse, sample = SAMPLES[name]
    fact, expected = STATED[name]
    assert fact(parse(sample)) == expected


@pytest.mark.parametrize("bad", ["", "\n\n", "\x00\x01\x02", "bash: command not found", "{}", "[]", "<html></html>"])
@pytest.mark.parametrize("name", SAMPLES)
def test_nonsense_is_refused_with_what_was_expected(name: str, bad: str) -> None:
    with pytest.raises(InputError) as caught:
        SAMPLES[name][0](bad)
    assert "expected" in caught.value.reason


@pytest.mark.parametrize("name", SAMPLES)
@given(data=st.data())
def test_damaged_output_is_read_or_refused(name: str, data: st.DataObject) -> None:
    parse, sample = SAMPLES[name]
    at = data.draw(st.integers(0, len(sample)))
    length = data.draw(st.integers(0, 12))
    middle = data.draw(st.text(max_size=8))
    with contextlib.suppress(InputError):
        parse(sample[:at] + middle + sample[at + length :])


def test_a_count_is_a_count_with_whatever_stands_around_it() -> None:
    """Python takes a unit separator for white space where it strips a text, and not where it reads a number."""
    line = "/sys/class/infiniband/mlx5_0/ports/1/counters/link_downed:"
    assert port_counters.parse(f"{line}\x1f255\n")[0].counters == {"link_downed": 255}
    for other in ("N/A (no PMA)", "25\x1f5", "-1", ""):
        found = port_counters.parse(f"{line}{other}\n{line.replace('link', 'port')}7\n")
        assert found[0].counters == {"port_downed": 7}


@pytest.mark.parametrize("name", SAMPLES)
@given(text=st.text(alphabet=st.characters(codec="utf-8"), max_size=200))
def test_random_text_is_read_or_refused(name: str, text: str) -> None:
    with contextlib.suppress(InputError):
        SAMPLES[name][0](text)


def diag(tests: str) -> str:
    return f'{{"DCGM Diagnostic":{{"test_categories":[{{"category":"Hardware","tests":{tests}}}]}}}}'


@pytest.mark.parametrize(
    "tests",
    [
        "[]",
        '[{"name":"memory","results":[]}]',
        '[{"name":"memory","results":[{"status":"Fine"}]}]',
        "{}",
        '[{"results":[]}]',
    ],
)
def test_diagnostic_without_a_known_answer_is_refused(tests: str) -> None:
    with pytest.raises(InputError):
        dcgmi_diag.parse(diag(tests))


@pytest.mark.parametrize("category", ["null", "[]", "7"])
def test_diagnostic_with_a_category_that_is_none_is_refused(category: str) -> None:
    with pytest.raises(InputError, match="category"):
        dcgmi_diag.parse(f'{{"DCGM Diagnostic":{{"test_categories":[{category}]}}}}')


def test_diagnostic_that_did_not_run_says_why() -> None:
    report = dcgmi_diag.parse('{"DCGM GPU Diagnostic":{"runtime_error":"Unable to complete diagnostic"}}')
    assert report.runtime_error == "Unable to complete diagnostic" and report.tests == ()


def test_summary_counts_where_no_result_says_so() -> None:
    report = dcgmi_diag.parse(
        diag('[{"name":"memory","results":[{"status":"Pass","entity_id":0}],"test_summary":{"status":"Fail"}}]')
    )
    assert {result.status for result in report.tests[0].results} == {"pass", "fail"}


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("digit", ["²", "٣"])
def test_a_digit_that_is_none_of_ours_is_read_or_refused_anywhere(name: str, digit: str) -> None:
    """Python calls `²` a digit, and makes no number of it."""
    parse, sample = SAMPLES[name]
    for at in range(len(sample) + 1):
        with contextlib.suppress(InputError):
            parse(sample[:at] + digit + sample[at:])


def test_endless_nesting_is_survived() -> None:
    sample = SAMPLES["nvidia_smi_xml"][1].replace("</gpu>", "<a>" * 5000 + "</a>" * 5000 + "</gpu>")
    assert len(nvidia_smi_xml.parse(sample).gpus) == 1
    with pytest.raises(InputError):
        dcgmi_diag.parse('{"DCGM Diagnostic":' + "[" * 100_000)


def test_entities_in_xml_are_refused() -> None:
    bomb = '<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><nvidia_smi_log>&b;</nvidia_smi_log>'
    with pytest.raises(InputError, match="entities"):
        nvidia_smi_xml.parse(bomb)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("81559 MiB", "many"), ("<total>81559 MiB</total>", ""), ("580.1", "nonsense"),
        (">1</attached", ">-1</attached"),
        (">0</dram", ">zero</dram"), ("00000000:53:00.0", "elsewhere"), ("<uuid>GPU-0</uuid>", ""),
    ],
)  # fmt: skip
def test_xml_with_a_nonsense_field_is_refused(old: str, new: str) -> None:
    sample = SAMPLES["nvidia_smi_xml"][1]
    assert old in sample
    with pytest.raises(InputError):
        nvidia_smi_xml.parse(sample.replace(old, new))


@pytest.mark.parametrize("name", sorted(set(SAMPLES) - {"nvidia_smi_xml", "dcgmi_diag"} - DOCUMENTS))
@pytest.mark.parametrize("word", [" ", "a", "a:", "# Rank ", "NVRM: Xid (", "["])
def test_line_without_end_is_refused_unread(name: str, word: str) -> None:
    """Expressions that look for the end of a line would take minutes for four million characters."""
    parse, sample = SAMPLES[name]
    with pytest.raises(InputError):
        parse(sample + word * (4_000_000 // len(word)))


TWO = GPU.replace("<uuid>", "<persistence_mode>Enabled</persistence_mode><uuid>")
LOG = "<nvidia_smi_log><driver_version>580.1</driver_version><attached_gpus>2</attached_gpus>{}{}</nvidia_smi_log>"


@pytest.mark.parametrize("word", ["<dram_uncorrectable>0</dram_uncorrectable>", "N/A"])
def test_a_gpu_of_which_less_is_printed_than_of_its_like_is_refused(word: str) -> None:
    """A line that was lost would else say what a driver says by not printing it: nothing. N/A is a word of its own."""
    second = TWO.replace("53:", "64:").replace("<dram_uncorrectable>0</dram_uncorrectable>", word)
    whole = LOG.format(TWO, second)
    assert len(nvidia_smi_xml.parse(whole).gpus) == 2
    with pytest.raises(InputError, match="no <persistence_mode> of 0000:53"):
        nvidia_smi_xml.parse(whole.replace("<persistence_mode>Enabled</persistence_mode>", "", 1))
    lost = whole.replace("<persistence_mode>Enabled</persistence_mode>", "", 1).replace("81559 MiB", "GPU is lost", 1)
    assert nvidia_smi_xml.parse(lost).gpus[0].trouble == "GPU is lost"
    other = whole.replace("<persistence_mode>Enabled</persistence_mode>", "", 1).replace("NVIDIA H100", "NVIDIA A2", 1)
    assert [gpu.persistence for gpu in nvidia_smi_xml.parse(other).gpus] == [None, "Enabled"]


def test_a_list_of_clocks_without_its_end_is_refused() -> None:
    """What is left out with it would be the rest of one GPU and the beginning of the next."""
    clocks = "<supported_clocks><value>1980 MHz</value></supported_clocks></gpu>"
    text = LOG.format(TWO.replace("</gpu>", clocks), TWO.replace("53:", "64:").replace("</gpu>", clocks))
    assert len(nvidia_smi_xml.parse(text).gpus) == 2
    with pytest.raises(InputError, match="supported_clocks"):
        nvidia_smi_xml.parse(text.replace("</supported_clocks>", "", 1))


@pytest.mark.parametrize(
    ("name", "cut"),
    [
        *[("ibstat", line) for line in (
            "\tCA type: MT4129\n", "\tFirmware version: 28.43.2566\n", "\tNode GUID: 0x1070fd0300a4103a\n",
            "\t\tBase lid: 7\n", "\t\tSM lid: 1\n", "\t\tPort GUID: 0x1070fd0300a4103b\n", "CA 'mlx5_0'\n", "0a4103b",
        )],
        ("lspci_bridges", " DirectTrans-"), ("lspci_bridges", "SrcValid- "),
        ("nvidia_smi_topo", "  NIC0: mlx5_0\n"),
    ],
)  # fmt: skip
def test_output_without_a_line_that_is_always_printed_is_refused(name: str, cut: str) -> None:
    parse, sample = SAMPLES[name]
    assert cut in sample
    head, _cut, tail = sample.rpartition(cut)
    with pytest.raises(InputError):
        parse(head + tail)


def test_a_device_of_the_bus_without_the_numbers_that_others_have_is_refused() -> None:
    parse, sample = SAMPLES["lspci"]
    second = "0000:64:00.0 3D controller [0302]: NVIDIA Corporation GH100 [10de:2330] (rev a1)\n"
    assert len(parse(sample + second)) == 2
    with pytest.raises(InputError, match="vendor and device"):
        parse(sample + second[: second.index(" [10de")] + "\n")
