# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every fact that the description of the captures states of benchmarks of parts, of lists and of sensors."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.probe import (
    fio,
    ibswinfo,
    ipmi_sensors,
    nvbandwidth,
    nvidia_smi_query,
    page_retirement,
    perfquery,
    perftest,
    sinfo,
)


def text(shared: Path, name: str) -> str:
    return (shared / "captures" / name).read_text()


@pytest.mark.parametrize(
    ("name", "version", "job", "read", "write"),
    [
        ("superbench-seq-rand-rw.json", "fio-3.16", "rand_read_write", (340570, 85138.890741, 1444476.063469),
         (340283, 85066.1, 1558511.433)),
        ("virtualclient-fio-write.json", "fio-3.26-19-ge7e53", "disk_fill", (0, 0, 0), (188085, 734.7, 87015125.958)),
    ],
)  # fmt: skip
def test_fio(
    shared: Path, name: str, version: str, job: str, read: tuple[float, ...], write: tuple[float, ...]
) -> None:
    report = fio.parse(text(shared, f"fio/{name}"))
    (found,) = report.jobs
    assert (report.version, found.name, found.error) == (version, job, 0)
    for side, expected in ((found.read, read), (found.write, write)):
        assert int(side.bytes_per_s / 1024) == expected[0]
        assert (side.iops, side.latency_ns) == pytest.approx(expected[1:], rel=1e-3)


@pytest.mark.parametrize(
    ("name", "says"), [("fio-error-2.txt", "err=84"), ("fio-verification-error.txt", "verify failed")]
)
def test_errors_of_fio_are_no_result(shared: Path, name: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        fio.parse(text(shared, f"fio/{name}"))


def test_a_verification_that_failed_before_a_whole_document_is_no_result(shared: Path) -> None:
    good, bad = (text(shared, f"fio/{name}") for name in ("superbench-seq-rand-rw.json", "fio-verification-error.txt"))
    with pytest.raises(InputError, match="verify failed"):
        fio.parse(bad + good)


def test_perftest_over_all_sizes(shared: Path) -> None:
    report = perftest.parse(text(shared, "ib-perftest/ib-read-bw-all-sizes-hdr-aks.txt"))
    assert len(report.rows) == 23 and (report.rows[0].size_bytes, report.rows[-1].size_bytes) == (2, 8388608)
    assert report.best_gbps == 197.48


def test_perftest_by_duration_has_no_peak(shared: Path) -> None:
    report = perftest.parse(text(shared, "ib-perftest/ib-write-bw-bidir-roce-100g-duration.txt"))
    (row,) = report.rows
    assert (row.peak_gbps, row.average_gbps) == (None, 98.02)
    assert (report.link_type, report.gid_index, report.bidirectional) == ("Ethernet", 4, True)


def test_perftest_in_megabytes_of_server_and_client(shared: Path) -> None:
    report = perftest.parse(text(shared, "ib-perftest/ib-write-bw-loopback-8M-hdr.log"))
    assert [row.size_bytes for row in report.rows] == [8388608, 8388608] and report.device == "ib0"
    assert report.best_gbps == pytest.approx(24056.72 * 2**20 * 8 / 1e9)


def test_perftest_with_a_warning_within_its_table(shared: Path) -> None:
    (row,) = perftest.parse(text(shared, "ib-perftest/ib-write-bw-ndr-65536.txt")).rows
    assert (row.size_bytes, row.iterations, row.peak_gbps, row.average_gbps, row.messages_mpps) == (
        65536, 5000, 392.38, 392.34, 0.748336,
    )  # fmt: skip


def test_nvbandwidth_as_text_has_gigabytes_and_nanoseconds(shared: Path) -> None:
    report = nvbandwidth.parse(text(shared, "nvbandwidth/gh200-v0.6.log"))
    totals = {test.name: (test.total, test.unit) for test in report.tests}
    assert (report.version, report.driver) == ("v0.6", "550.54.15") and report.waived > 0
    assert totals["host_to_device_memcpy_ce"] == (1985.60, "GB/s")
    assert totals["device_to_host_memcpy_ce"] == (607.26, "GB/s")
    assert totals["host_to_device_bidirectional_memcpy_ce"] == (176.92, "GB/s")
    assert totals["host_device_latency_sm"] == (772.58, "ns")


def test_nvbandwidth_as_json_waives_what_one_gpu_cannot_do(shared: Path) -> None:
    report = nvbandwidth.parse(text(shared, "nvbandwidth/nvbandwidth-json-565-passed-waived.json"))
    assert Counter(test.status for test in report.tests) == {"passed": 15, "waived": 17}
    totals = {test.name: test.total for test in report.tests}
    assert totals["host_to_device_memcpy_ce"] == pytest.approx(12.396361, abs=1e-6)
    assert totals["device_to_host_memcpy_ce"] == pytest.approx(13.200094, abs=1e-6)
    assert totals["host_to_device_bidirectional_memcpy_ce"] == pytest.approx(11.503124, abs=1e-6)
    assert report.driver == "565.02" and totals["device_to_device_memcpy_read_ce"] is None


def test_eight_rows_of_csv_have_four_addresses(shared: Path) -> None:
    gpus = nvidia_smi_query.parse(text(shared, "nvidia-smi-csv/h100-8gpu-query-gpu.csv"))
    assert len(gpus) == 8 and len({gpu.bus_id for gpu in gpus}) == 4


@pytest.mark.parametrize(
    "name",
    [
        "h100-mig-590-query-gpu-idle.csv", "h100-mig-590-query-gpu-load.csv", "h200-590-query-gpu-idle.csv",
        "h200-590-query-gpu-load.csv",
    ],
)  # fmt: skip
def test_csv_of_all_columns(shared: Path, name: str) -> None:
    (gpu,) = nvidia_smi_query.parse(text(shared, f"nvidia-smi-csv/{name}"))
    assert len(gpu.values) == 212 and gpu.values["driver_version"] == "590.48.01" and not gpu.lost
    assert None in gpu.values.values() and gpu.values["serial"] == "0000000000000"


def test_two_spellings_of_what_is_absent(shared: Path) -> None:
    (gpu,) = nvidia_smi_query.parse(text(shared, "nvidia-smi-csv/t4-1gpu-query-gpu-na.csv"))
    assert (gpu.values["temperature.memory"], gpu.values["power.draw.average"]) == (None, None)


def test_retired_pages_by_gpu(shared: Path) -> None:
    gpus = page_retirement.parse(text(shared, "nvidia-smi-text/a100-8gpu-page-retirement-BAD.txt"))
    assert [(gpu.single_bit, gpu.double_bit, gpu.pending) for gpu in gpus] == [
        (60, 5, False), (2, 61, True), (0, 0, False), (6, 0, True), (0, 0, False), (20, 45, True), (0, 0, False),
        (8, 56, True),
    ]  # fmt: skip
    assert gpus[1].bus_id == "0002:00:00.0"


def test_nodes_of_sinfo_stand_once_for_all_their_partitions(shared: Path) -> None:
    nodes = sinfo.parse(text(shared, "slurm/sinfo-wide-text-gpu-drain.txt"))
    assert [(node.name, node.state, node.responding) for node in nodes] == [
        ("node0201", "drained", False), ("node1537", "allocated", True), ("node4180", "allocated", True),
    ]  # fmt: skip
    assert (nodes[0].reason, nodes[0].gres, nodes[1].reason) == ("replace", "gpu:gen:8", "")


def test_counters_of_a_switch_and_of_an_adapter(shared: Path) -> None:
    first, second = perfquery.parse(text(shared, "perfquery/edr-switch-2ports.out"))
    assert (first.lid, first.port, second.port, first.counters["PortXmitWait"]) == (1719, 1, 2, 22730501)
    assert not any(value for name, value in first.counters.items() if "Error" in name)
    (detail,) = perfquery.parse(text(shared, "perfquery/edr-ca-rcv-errors-detail.out"))
    assert len(detail.counters) == 6 and set(detail.counters.values()) == {0}
    (switch,) = perfquery.parse(text(shared, "perfquery/switch-port0-relay-errors.txt"))
    assert (switch.lid, switch.port, switch.counters["PortRcvSwitchRelayErrors"]) == (1, 0, 6)


def test_the_fans_of_the_chassis_are_not_those_of_its_supplies(shared: Path) -> None:
    switch = ibswinfo.parse(text(shared, "ibswinfo/switchib-fan-ERROR.out"))
    assert switch.fan_status == "ERROR" and [supply.fan_status for supply in switch.supplies] == ["OK", "OK"]
    assert [supply.power_w for supply in switch.supplies] == [72, 71]
    assert (switch.temperature_c, switch.temperature_max_c, switch.ports, len(switch.fans_rpm)) == (45, 57, 36, 8)


def test_sensors_of_a_server(shared: Path) -> None:
    found = ipmi_sensors.parse(text(shared, "ipmitool/ibm-sdr-v1-text.txt"))
    assert Counter(sensor.state for sensor in found) == {"ok": 131, "ns": 2}
    by_name = {sensor.name: sensor for sensor in found}
    assert (by_name["Ambient Temp"].value, by_name["Avg Power"].value) == (20.0, 210.0)
    assert by_name["Power Supply 1"].value is None and by_name["Power Supply 1"].state == "ok"
    assert {sensor.name for sensor in found if sensor.state == "ns"} == {"DASD Backplane 3", "DASD Backplane 4"}


@pytest.mark.parametrize(
    ("parse", "output"),
    [
        (perftest.parse, "#bytes #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n"),
        (perftest.parse, "Couldn't connect to 10.0.0.1:18515\n"),
        (nvbandwidth.parse, "nvbandwidth Version: v0.6\nRunning a_test.\n"),
        (nvbandwidth.parse, '{"nvbandwidth": {"testcases": [{"name": "a", "status": "Passed"}]}}'),
        (nvidia_smi_query.parse, "index, name\n0\n"),
        (nvidia_smi_query.parse, "No devices were found\n"),
        (page_retirement.parse, "Attached GPUs    : 2\nGPU 00000001:00:00.0\n"),
        (sinfo.parse, "NODELIST|STATE\nn1|idle\nn1|down\n"),
        (sinfo.parse, "PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST\n"),
        (perfquery.parse, "# Port counters: Lid 1 port 0 (CapMask: 0x5300)\n"),
        (ibswinfo.parse, "part number        | MSB7790-ES2F\n"),
        (ipmi_sensors.parse, "Ambient Temp     | 20 degrees C      | fine\n"),
        (fio.parse, '{"fio version": "fio-3.36", "jobs": []}'),
    ],
)
def test_what_says_too_little_is_refused(parse: object, output: str) -> None:
    with pytest.raises(InputError):
        parse(output)  # type: ignore[operator]  # one of several parsers
