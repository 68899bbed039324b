# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every fact that the description of the captures states of links, RoCE, EFA, DCGM's watches and the firmware."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.nodes import dcgm_health, efa_devices, roce_setup
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.probe import (
    dmidecode,
    ethtool_stats,
    mlxlink,
    rdma_link,
)


def text(shared: Path, name: str) -> str:
    return (shared / "captures" / name).read_text()


def test_a_port_of_half_its_width_is_told_beside_what_the_adapter_cannot_say(shared: Path) -> None:
    (port,) = mlxlink.parse(text(shared, "mlxlink/cx6-hdr-width-2x.txt"))
    assert (port.device, port.state, port.physical_state, port.speed, port.width) == (
        "", "Active", "LinkUp", "IB-HDR", 2,
    )  # fmt: skip
    assert (port.status_opcode, port.recommendation) == ("0", "No issue was observed")
    assert port.firmware == "20.36.1010" and "not supported for HCA" in port.complaint
    assert (port.raw_ber, port.effective_ber, port.temperature_c) == (None, None, None)


def test_error_rates_of_three_adapters_and_the_one_that_means_none(shared: Path) -> None:
    ports = mlxlink.parse(text(shared, "mlxlink/cx6-hdr-counters-3hca-grep.txt"))
    assert [(port.device, port.raw_ber) for port in ports] == [("mlx5_0", 1e-8), ("mlx5_3", 1e-7), ("mlx5_6", 4e-9)]
    assert max(ports, key=lambda port: port.raw_ber or 0).device == "mlx5_3"
    assert {(port.effective_ber, port.symbol_ber, port.effective_errors) for port in ports} == {(0.0, 0.0, 0)}
    assert [port.raw_errors_per_lane for port in ports] == [
        (3183333, 242074), (32379149, 224947), (1068084, 136509),
    ]  # fmt: skip
    assert {(port.link_recoveries, port.link_downed) for port in ports} == {(0, None)}


def test_rdma_links_of_which_one_has_no_network_device(shared: Path) -> None:
    links = rdma_link.parse(text(shared, "rdma/rdma-link-2up-2disabled.txt"))
    assert [(link.device, link.port, link.up, link.netdev) for link in links] == [
        ("mlx5_49", 1, True, "eno0"),
        ("mlx5_113", 1, True, ""),
    ]


def test_the_gid_of_roce_version_two_and_a_row_without_network_device(shared: Path) -> None:
    gids = roce_setup.parse_show_gids(text(shared, "show_gids/mlx5-2ports-gid3-rocev2.txt"))
    assert len(gids) == 5
    assert [(gid.device, gid.index) for gid in gids if gid.version == "v2" and gid.ipv4] == [("mlx5_0", 3)]
    assert (gids[-1].device, gids[-1].version, gids[-1].ipv4, gids[-1].netdev) == ("mlx5_1", "v1", "", "")
    assert gids[0].ipv4 == "" and gids[0].netdev == "mce0"


def test_a_table_of_gids_that_lost_a_row_is_refused(shared: Path) -> None:
    lines = text(shared, "show_gids/mlx5-2ports-gid3-rocev2.txt").splitlines()
    with pytest.raises(InputError, match="the 5 that it counts"):
        roce_setup.parse_show_gids("\n".join(lines[:3] + lines[4:]))


def test_one_lossless_priority_by_dscp(shared: Path) -> None:
    (port,) = roce_setup.parse_mlnx_qos(text(shared, "mlnx_qos/pfc-prio3-dscp.txt"))
    assert (port.trust, port.pfc, port.dcbx) == ("dscp", (3,), "Firmware controlled")
    assert len(port.dscp) == 64 and (port.dscp[26], port.dscp[46]) == (3, 5)
    assert [(c.number, c.algorithm, c.bandwidth_percent) for c in port.classes] == [
        (0, "ets", 50), (3, "ets", 50), (6, "vendor", None),
    ]  # fmt: skip
    assert port.classes[1].priorities == (3,) and port.classes[0].priorities == (0, 1, 2, 4, 5, 7)


def test_discards_of_a_network_device(shared: Path) -> None:
    (device,) = ethtool_stats.parse(text(shared, "ethtool/mlx5-S-rx-discards-kernel5.15.txt"))
    told = device.counters
    assert (told["rx_discards_phy"], told["rx_out_of_buffer"], told["rx_prio0_discards"]) == (
        58591428329, 990473555, 58591314012,
    )  # fmt: skip
    assert (told["tx_pause_ctrl_phy"], told["tx_global_pause_duration"], told["tx_discards_phy"]) == (
        5745055, 771103810, 0,
    )  # fmt: skip
    assert not any(name.startswith("rx_prio3") for name in told)


def test_dcgm_says_that_all_is_well(shared: Path) -> None:
    assert dcgm_health.parse(text(shared, "dcgmi-health/dcgm-health-c-healthy.json")) == dcgm_health.DcgmHealth(
        "Healthy"
    )


def test_two_entries_of_libfabric_are_one_device(shared: Path) -> None:
    entries = efa_devices.parse(text(shared, "fi_info/efa-p-rdmap49s0.txt"))
    assert [(entry.provider, entry.fabric) for entry in entries] == [("efa", "efa-direct"), ("efa", "efa")]
    assert {entry.domain for entry in entries} == {"rdmap49s0-rdm"} and {e.kind for e in entries} == {"FI_EP_RDM"}


def test_what_the_firmware_calls_the_machine(shared: Path) -> None:
    table = dmidecode.parse(text(shared, "dmidecode/dell-xe9680.txt"))
    (system,) = table.of_kind(dmidecode.SYSTEM)
    assert [system.value(name) for name in ("Manufacturer", "Product Name", "Serial Number", "UUID", "Version")] == [
        "Dell Inc.", "PowerEdge XE9680", "HSR8X04", "4c4c4544-0053-5210-8038-c8c04f583034", "",
    ]  # fmt: skip
    assert table.smbios == "3.3.0" and len(table.records) == 3


@pytest.mark.parametrize(
    ("parse", "output"),
    [
        (mlxlink.parse, "===== mlx5_0 =====\nState : Active\n===== mlx5_1 =====\n"),
        (mlxlink.parse, "Raw Physical BER : many\n"),
        (mlxlink.parse, "-E- Device is not supported\n"),
        (mlxlink.parse, "State : Active\nState : Disable\n"),
        (rdma_link.parse, "link mlx5_0/1 state ACTIVE\n"),
        (rdma_link.parse, "link mlx5_0/1 state ACTIVE physical_state LINK_UP\n" * 2),
        (roce_setup.parse_mlnx_qos, "Priority trust state: dscp\n"),
        (ethtool_stats.parse, "===== eth0 =====\nno stats available\n"),
        (ethtool_stats.parse, "NIC statistics:\n"),
        (dcgm_health.parse, '{"body": {"Overall Health": {"value": "Fine"}}, "header": ["Health Monitor Report"]}'),
        (efa_devices.parse, "fi_getinfo: -61 (No data available)\n"),
        (efa_devices.parse, "provider: efa\n    fabric: efa\n"),
        (dmidecode.parse, "# dmidecode 3.3\n/sys/firmware/dmi/tables/smbios_entry_point: Permission denied\n"),
    ],
)
def test_what_says_too_little_is_refused(parse: object, output: str) -> None:
    with pytest.raises(InputError):
        parse(output)  # type: ignore[operator]  # one of several parsers


def test_a_port_whose_module_has_no_thermometer_and_one_that_mlxlink_does_not_know() -> None:
    ports = mlxlink.parse(
        "===== mlx5_0 =====\nState : Active\nTemperature [C] : N/A\n===== mlx5_9 =====\n-E- Device is not supported\n"
    )
    assert [(port.device, port.temperature_c, port.complaint) for port in ports] == [
        ("mlx5_0", None, ""),
        ("mlx5_9", None, "Device is not supported"),
    ]
