# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every fact that the description of the captures states of benchmarks of parts, of lists and of sensors."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.nodes import bmc_sensors
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.probe import (
    fio,
    ibswinfo,
    nvidia_smi_query,
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


def test_the_fans_of_the_chassis_are_not_those_of_its_supplies(shared: Path) -> None:
    switch = ibswinfo.parse(text(shared, "ibswinfo/switchib-fan-ERROR.out"))
    assert switch.fan_status == "ERROR" and [supply.fan_status for supply in switch.supplies] == ["OK", "OK"]
    assert [supply.power_w for supply in switch.supplies] == [72, 71]
    assert (switch.temperature_c, switch.temperature_max_c, switch.ports, len(switch.fans_rpm)) == (45, 57, 36, 8)


def test_sensors_of_a_server(shared: Path) -> None:
    found = bmc_sensors.parse(text(shared, "ipmitool/ibm-sdr-v1-text.txt"))
    assert Counter(sensor.state for sensor in found) == {"ok": 131, "ns": 2}
    by_name = {sensor.name: sensor for sensor in found}
    assert (by_name["Ambient Temp"].value, by_name["Avg Power"].value) == (20.0, 210.0)
    assert by_name["Power Supply 1"].value is None and by_name["Power Supply 1"].state == "ok"
    assert {sensor.name for sensor in found if sensor.state == "ns"} == {"DASD Backplane 3", "DASD Backplane 4"}


@pytest.mark.parametrize(
    ("parse", "output"),
    [
        (nvidia_smi_query.parse, "index, name\n0\n"),
        (nvidia_smi_query.parse, "No devices were found\n"),
        (ibswinfo.parse, "part number        | MSB7790-ES2F\n"),
        (bmc_sensors.parse, "Ambient Temp     | 20 degrees C      | fine\n"),
        (fio.parse, '{"fio version": "fio-3.36", "jobs": []}'),
    ],
)
def test_what_says_too_little_is_refused(parse: object, output: str) -> None:
    with pytest.raises(InputError):
        parse(output)  # type: ignore[operator]  # one of several parsers
