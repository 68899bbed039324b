# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A short sample of what each tool that measures, counts or lists prints, and what its parser must make of it."""

from __future__ import annotations

from tool_samples import Sample, Stated

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.nodes import (
    bmc_sensors,
    disk_space,
    gpu_direct,
    gpu_pcie_load,
    imex_domain,
    network_mounts,
    nvme_health,
    roce_ecn,
    stuck_processes,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.probe import (
    fabric_summary,
    fio,
    ibswinfo,
    nvidia_smi_query,
)

_SIDE = '{"bw_bytes": 1000, "iops": 2.5, "clat_ns": {"mean": 7.5}, "total_ios": 9}'
SAMPLES_OF_MEASURES: dict[str, Sample] = {
    "fio": (
        fio.parse,
        f'{{"fio version": "fio-3.36", "jobs": [{{"jobname": "a", "error": 0, "read": {_SIDE}, "write": {_SIDE}}}]}}',
    ),
    "nvidia_smi_query": (
        nvidia_smi_query.parse,
        "index, pci.bus_id, memory.total [MiB], temperature.memory\n0, 00000018:1B:00.0, 81559 MiB, N/A\n",
    ),
    "ibswinfo": (
        ibswinfo.parse,
        "part number        | MSB7790-ES2F\nserial number      | MT1943X00498\nports              | 36\n"
        "PSU0 status        | OK\n     fan status    | OK\n     power (W)     | 72\ntemperature (C)    | 45\n"
        "fan status         | ERROR\nfan#1 (rpm)        | 8493\n",
    ),
    "ipmi_sensors": (
        bmc_sensors.parse,
        "Ambient Temp     | 20 degrees C      | ok\nDASD Backplane 3 | Not Readable      | ns\n",
    ),
    "roce_ecn": (
        roce_ecn.parse,
        "".join(f"/sys/class/net/eth0/ecn/roce_{s}/enable/{n}:{int(n == 3)}\n" for s in ("np", "rp") for n in range(8)),
    ),
    "imex_domain": (
        imex_domain.parse,
        '{"nodes": {"0": {"status": "READY", "host": "10.0.0.1", "hostName": "a", "version": "580.95.05"}, '
        '"1": {"status": "UNAVAILABLE", "host": "10.0.0.2"}}, "status": "DEGRADED"}',
    ),
    "disk_space": (
        disk_space.parse,
        "Filesystem     1024-blocks      Used Available Capacity Mounted on\n"
        "/dev/sda2        959786032 290512000 620000000      32% /\n"
        "/dev/sda2        959786032 290512000 620000000      32% /\n/dev/sda3 100 60 20 75% /var/log\n",
    ),
    "waiting_processes": (
        stuck_processes.parse,
        "".join(f"===== {n} =====\n  42 1 D 7200 python3\n 311 2 D 9 kworker/u9:1\nprocesses 9\n" for n in (1, 2, 3)),
    ),
    "nvme_health": (
        nvme_health.parse,
        '===== nvme0 =====\n{"critical_warning": 4, "temperature": 308, "avail_spare": 9, "percent_used": 3,'
        ' "spare_thresh": 5, "media_errors": 0}\n'
        "===== nvme1 =====\nPermission denied\n===== end =====\n",
    ),
    "network_mounts": (
        network_mounts.parse,
        "/home autofs rw\n/home/ann nfs4 rw\n/shared nfs4 ro,hard\n",
    ),
    "pcie_under_load": (
        gpu_pcie_load.parse,
        "pci.bus_id, utilization.gpu [%], pcie.link.gen.current, pcie.link.gen.max, pcie.link.width.current\n"
        "00000000:1B:00.0, 0 %, 1, 5, 16\npci.bus_id, utilization.gpu [%], pcie.link.gen.current, "
        "pcie.link.gen.max, pcie.link.width.current\n00000000:1B:00.0, 98 %, 5, 5, 16\n",
    ),
    "fabric_summary": (
        fabric_summary.parse,
        "IB Switches             : 3\nIB Aggregation Nodes    : 2\nAdaptive Routing is enabled on 3 switches\n"
        "Stage                     Warnings   Errors     Comment\nSHARP                     0          1\n",
    ),
    "module_licence": (gpu_direct.parse, "Dual MIT/GPL\n"),
}
STATED_OF_MEASURES: dict[str, Stated] = {
    "fio": (
        lambda report: [(j.name, j.error, j.read.bytes_per_s, j.write.latency_ns) for j in report.jobs],
        [("a", 0, 1000.0, 7.5)],
    ),
    "nvidia_smi_query": (
        lambda gpus: [(g.bus_id, g.values["memory.total"], g.values["temperature.memory"]) for g in gpus],
        [("0018:1b:00.0", "81559", None)],
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
    "roce_ecn": (lambda ports: [(p.device, p.notifies, p.reacts) for p in ports], [("eth0", (3,), (3,))]),
    "imex_domain": (
        lambda d: (d.status, [(n.address, n.name, n.status) for n in d.nodes], len(d.unready)),
        ("DEGRADED", [("10.0.0.1", "a", "READY"), ("10.0.0.2", "", "UNAVAILABLE")], 1),
    ),
    "disk_space": (lambda found: [(f.mount, round(f.free_percent)) for f in found], [("/", 68), ("/var/log", 25)]),
    "waiting_processes": (lambda found: [(w.pid, w.program, w.age_s) for w in found], [(42, "python3", 7200)]),
    "nvme_health": (
        lambda found: [(d.name, d.warning, d.used_percent, d.temperature_c, d.complaint) for d in found],
        [("nvme0", 4, 3.0, 35.0, ""), ("nvme1", 0, 0.0, 0.0, "Permission denied")],
    ),
    "network_mounts": (lambda found: [(m.path, m.kind, m.read_only) for m in found], [("/shared", "nfs4", True)]),
    "pcie_under_load": (
        lambda links: [(g.bus_id, g.busy, g.generation, g.able, g.least_width) for g in links],
        [("0000:1b:00.0", 1, 5, 5, 16)],
    ),
    "fabric_summary": (
        lambda f: (f.switches, f.aggregation_nodes, f.adaptive, f.stages[0].errors),
        (3, 2, 3, 1),
    ),
    "module_licence": (lambda kind: kind, "open"),
}
