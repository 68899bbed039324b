# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A short sample of what each tool that measures, counts or lists prints, and what its parser must make of it."""

from __future__ import annotations

from tool_samples import Sample, Stated

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

_SIDE = '{"bw_bytes": 1000, "iops": 2.5, "clat_ns": {"mean": 7.5}, "total_ios": 9}'
SAMPLES_OF_MEASURES: dict[str, Sample] = {
    "fio": (
        fio.parse,
        f'{{"fio version": "fio-3.36", "jobs": [{{"jobname": "a", "error": 0, "read": {_SIDE}, "write": {_SIDE}}}]}}',
    ),
    "perftest": (
        perftest.parse,
        " Device         : mlx5_0\n Link type       : Ethernet\n GID index       : 3\n"
        " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n"
        " 65536      5000             392.38             392.34 \t\t     0.748336\n",
    ),
    "nvbandwidth": (
        nvbandwidth.parse,
        "nvbandwidth Version: v0.6\nDriver Version: 550.54.15\nRunning host_to_device_memcpy_ce.\n"
        "memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)\n           0\n 0    369.36\n\n"
        "SUM host_to_device_memcpy_ce 369.36\nWaived:\n",
    ),
    "nvbandwidth_json": (
        nvbandwidth.parse,
        '{"nvbandwidth": {"Driver Version": "565.02", "testcases": [{"name": "a", "status": "Passed", "sum": 12.5}, '
        '{"name": "b", "status": "Waived"}]}}',
    ),
    "nvidia_smi_query": (
        nvidia_smi_query.parse,
        "index, pci.bus_id, memory.total [MiB], temperature.memory\n0, 00000018:1B:00.0, 81559 MiB, N/A\n",
    ),
    "page_retirement": (
        page_retirement.parse,
        "Attached GPUs                             : 1\nGPU 00000001:00:00.0\n    Retired Pages\n"
        "        Single Bit ECC                    : 2\n        Double Bit ECC                    : N/A\n"
        "        Pending Page Blacklist            : Yes\n",
    ),
    "sinfo": (
        sinfo.parse,
        "NODELIST |PARTITION |STATE |REASON |GRES\ngpu1 |all* |drain* |bad fan |gpu:8\n"
        "gpu1 |few |drain* |bad fan |gpu:8\n",
    ),
    "perfquery": (
        perfquery.parse,
        "# Port extended counters: Lid 7 port 1 (CapMask: 0x5300)\nPortSelect:......................1\n"
        "CounterSelect:...................0x0000\nLinkDownedCounter:...............3\n",
    ),
    "ibswinfo": (
        ibswinfo.parse,
        "part number        | MSB7790-ES2F\nserial number      | MT1943X00498\nports              | 36\n"
        "PSU0 status        | OK\n     fan status    | OK\n     power (W)     | 72\ntemperature (C)    | 45\n"
        "fan status         | ERROR\nfan#1 (rpm)        | 8493\n",
    ),
    "ipmi_sensors": (
        ipmi_sensors.parse,
        "Ambient Temp     | 20 degrees C      | ok\nDASD Backplane 3 | Not Readable      | ns\n",
    ),
}
STATED_OF_MEASURES: dict[str, Stated] = {
    "fio": (
        lambda report: [(j.name, j.error, j.read.bytes_per_s, j.write.latency_ns) for j in report.jobs],
        [("a", 0, 1000.0, 7.5)],
    ),
    "perftest": (
        lambda r: (r.device, r.link_type, r.gid_index, r.best_gbps, r.rows[0].peak_gbps),
        ("mlx5_0", "Ethernet", 3, 392.34, 392.38),
    ),
    "nvbandwidth": (
        lambda r: ([(t.name, t.total, t.unit) for t in r.tests], r.waived),
        ([("host_to_device_memcpy_ce", 369.36, "GB/s")], 1),
    ),
    "nvbandwidth_json": (
        lambda r: ([(t.name, t.status, t.total) for t in r.tests], r.driver),
        ([("a", "passed", 12.5), ("b", "waived", None)], "565.02"),
    ),
    "nvidia_smi_query": (
        lambda gpus: [(g.bus_id, g.values["memory.total"], g.values["temperature.memory"]) for g in gpus],
        [("0018:1b:00.0", "81559", None)],
    ),
    "page_retirement": (
        lambda gpus: [(g.bus_id, g.single_bit, g.double_bit, g.pending) for g in gpus],
        [("0001:00:00.0", 2, None, True)],
    ),
    "sinfo": (
        lambda nodes: [(n.name, n.state, n.responding, n.reason, n.partitions) for n in nodes],
        [("gpu1", "drained", False, "bad fan", ("all", "few"))],
    ),
    "perfquery": (
        lambda found: [(b.kind, b.lid, b.port, b.counters) for b in found],
        [("Port extended", 7, 1, {"LinkDownedCounter": 3})],
    ),
    "ibswinfo": (
        lambda s: (
            s.fan_status,
            [(p.number, p.fan_status, p.power_w) for p in s.supplies],
            s.temperature_c,
            s.fans_rpm,
        ),
        ("ERROR", [(0, "OK", 72)], 45, {1: 8493}),
    ),
    "ipmi_sensors": (
        lambda found: [(s.name, s.state, s.value, s.unit) for s in found],
        [("Ambient Temp", "ok", 20.0, "degrees C"), ("DASD Backplane 3", "ns", None, "")],
    ),
}
