# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How long a snapshot of a large cluster takes, and how much memory: .cache/venv/bin/python bench/snapshot.py

    python bench/snapshot.py [--nodes 5000] [--pods 40000]

The objects are made beforehand and lie on disk as the server would send them: nodes of 12 KB with 100 labels, pods of
5 KB, in pages of 500. What is measured reads each page, decodes it, keeps what a snapshot has, joins and writes the
file, and compares the snapshot with itself read back. No network is in it, and making the objects is not measured: that
is done in a process of its own. Time is that of the process on a CPU (`cpu`), since others may use the machine; the
budget is for the time by the clock of a machine that does nothing else, for which the process never waits here.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from time import monotonic, process_time
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / ".cache"), str(ROOT / "tests/support")]

from snapshot_api import PagedApi, cluster_of, everything, node, pod

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.node_pod import node_facts
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.snapshot import collect_cluster, host_from_pod
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.snapshot.difference import drift_between
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.snapshot.formats import parse_snapshot, to_text
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.snapshot.model import (
    COLLECTORS,
    Collected,
    CollectorResult,
    Snapshot,
)

BUDGET_S, BUDGET_MB = 15.0, 500.0
PAGE, NODE_BYTES, POD_BYTES, LABELS = 500, 12_000, 5_000, 100
Json = dict[str, Any]


class OnDisk(PagedApi):
    """Lists come from files, a page each."""

    def json(self, method: str, path: str, *, query: Any = None, body: Any = None, **how: Any) -> Any:
        """Answer with the text of a page, decoded as the client does it."""
        files = self.lists.get(path)
        if files is None:
            return super().json(method, path, query=query, body=body, **how)
        number = int((query or {}).get("continue") or 0)
        return json.loads(Path(str(files[number])).read_text(encoding="utf-8"))


def big_node(number: int) -> Json:
    """Return a node of 12 KB with 100 labels."""
    labels = {f"feature.node.kubernetes.io/feature-{n:03}": f"value-{n % 7}" for n in range(LABELS - 2)}
    found = node(f"gpu{number:05}", **labels)
    lacking = NODE_BYTES - len(json.dumps(found))
    found["status"]["images"] = [{"names": ["x" * 100], "sizeBytes": 1} for _image in range(max(0, lacking) // 133)]
    return found


def big_pod(number: int, nodes: int) -> Json:
    """Return a pod of 5 KB: of 60 DaemonSets or a Job, with one image each."""
    kind = number % 80
    owner = ("DaemonSet", f"set-{kind}") if kind < 60 else ("Job", f"job-{number}")
    found = pod(f"pod-{number}", owner, f"registry.example/team/part-{kind}:1.{kind}", "ab"[number % 2])
    found["spec"]["nodeName"] = f"gpu{number % nodes:05}"
    found["spec"]["volumes"] = [{"name": "x" * max(0, POD_BYTES - len(json.dumps(found)))}]
    return found


def make(directory: Path, nodes: int, pods: int) -> None:
    """Write the pages of nodes, pods and ResourceSlices."""
    slices = "/apis/resource.k8s.io/v1/resourceslices"
    for name, count, maker in (
        ("nodes", nodes, big_node),
        ("pods", pods, lambda number: big_pod(number, nodes)),
        ("slices", nodes, lambda number: everything([node(f"gpu{number:05}")], []).lists[slices][0]),
    ):
        for start in range(0, count, PAGE):
            items = [maker(number) for number in range(start, min(start + PAGE, count))]
            more = str(start // PAGE + 1) if start + PAGE < count else ""
            text = json.dumps({"items": items, "metadata": {"continue": more}})
            (directory / f"{name}-{start // PAGE:05}.json").write_text(text, encoding="utf-8")


def api_of(directory: Path) -> OnDisk:
    """Return a server that answers with the pages in a directory."""
    small = everything([], [])
    paths = {
        "/api/v1/nodes": "nodes",
        "/api/v1/pods": "pods",
        "/apis/resource.k8s.io/v1/resourceslices": "slices",
    }
    lists: dict[str, list[Any]] = {path: sorted(directory.glob(f"{name}-*.json")) for path, name in paths.items()}
    return OnDisk(lists, objects=small.objects)


def measure(directory: Path) -> dict[str, float]:
    """Take the snapshot and return seconds, CPU seconds and the largest memory in MB."""
    started, used = monotonic(), process_time()
    snapshot = collect_cluster(cluster_of(api_of(directory)), "bench", limit_s=600.0)
    figures = {
        "nodes": float(len(snapshot.nodes)),
        "take_s": monotonic() - started,
        "take_cpu_s": process_time() - used,
    }
    if snapshot.failed:
        raise SystemExit(f"collectors failed: {snapshot.failed}")
    used = process_time()
    text = to_text(snapshot)
    (directory / "snapshot.json").write_text(text, encoding="utf-8")
    figures |= {"write_cpu_s": process_time() - used, "file_mb": len(text) / 1e6, "take_mb": _largest_mb()}
    used = process_time()
    again = parse_snapshot(text, "snapshot.json")
    figures["read_cpu_s"] = process_time() - used
    used = process_time()
    if drift_between(snapshot, again).changes:
        raise SystemExit("a snapshot differs from itself")
    return figures | {"drift_cpu_s": process_time() - used, "all_mb": _largest_mb()}


def node_log(number: int) -> str:
    """Return what a pod on a node prints: 350 sysctls, as a host with Ubuntu has, 180 modules, 8 GPUs."""
    place = "/proc/driver/nvidia"
    said = {
        "uname": "6.8.0-79-generic",
        "os_release": "ID=ubuntu\nVERSION_ID=24.04",
        "kernel_cmdline": "BOOT_IMAGE=/boot/vmlinuz iommu=pt",
        "lsmod": "\n".join(["Module Size Used by", *(f"module_{n} 4096 0 - Live 0x0" for n in range(180))]),
        "sysctl": "\n".join(f"/proc/sys/kernel/setting_{n:03}:{number % 3 if n == 7 else n}" for n in range(350)),
        "cgroup_units": "\n".join(f"/host/cgroup/s.slice/unit{n}.service/cgroup.events:populated 1" for n in range(40)),
        "nvidia_proc": "\n".join(
            [f"{place}/version:NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build"]
            + [
                f"{place}/gpus/0000:{n:02x}:00.0/information:{line}"
                for n in range(8)
                for line in (
                    "Model: NVIDIA H100 80GB HBM3",
                    f"GPU UUID: GPU-{number}-{n}",
                    "Video BIOS: 96.00.74.00.01",
                )
            ]
        ),
        "infiniband_class": "no adapters",
    }
    parts = (f"gpufleet-begin {t} 0\n{text}\ngpufleet-stderr {t}\n\ngpufleet-end {t}" for t, text in said.items())
    return "\n".join((*parts, "gpufleet-done\n"))


def measure_hosts(hosts: int) -> dict[str, float]:
    """Return what it takes beside that to read the logs of pods on so many nodes, to write and to compare them."""
    used = process_time()
    found = {f"gpu{n:05}": host_from_pod(node_facts(f"gpu{n:05}", node_log(n), 30.0)) for n in range(hosts)}
    figures = {"hosts": float(hosts), "hosts_cpu_s": process_time() - used}
    seen = CollectorResult(state=Collected.WHOLE)
    snapshot = Snapshot(taken="", made_by="bench", collectors=dict.fromkeys(COLLECTORS, seen), hosts=found)
    used = process_time()
    text = to_text(snapshot)
    figures |= {"hosts_write_s": process_time() - used, "hosts_file_mb": len(text) / 1e6}
    return figures | {"hosts_mb": _largest_mb()}


def _largest_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> int:
    """Print the figures beside their budgets; 1 if one is over it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=40000)
    parser.add_argument("--hosts", type=int, default=5000, help="nodes whose facts pods read, measured by itself")
    parser.add_argument("--measure-hosts", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--make", default="", help=argparse.SUPPRESS)
    parser.add_argument("--measure", default="", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.make:
        make(Path(asked.make), asked.nodes, asked.pods)
        return 0
    if asked.measure:
        print(json.dumps(measure(Path(asked.measure))))
        return 0
    if asked.measure_hosts:
        print(json.dumps(measure_hosts(asked.hosts)))
        return 0
    with tempfile.TemporaryDirectory() as name:
        sizes = ["--nodes", str(asked.nodes), "--pods", str(asked.pods)]
        subprocess.run([sys.executable, __file__, "--make", name, *sizes], check=True)
        done = subprocess.run([sys.executable, __file__, "--measure", name], check=True, capture_output=True, text=True)
    argv = [sys.executable, __file__, "--measure-hosts", "--hosts", str(asked.hosts)]
    alone = subprocess.run(argv, check=True, capture_output=True, text=True)
    figures = json.loads(done.stdout) | json.loads(alone.stdout)
    for title, value in figures.items():
        print(f"{title:<14}{value:>10.1f}")
    taken_s = figures["take_cpu_s"] + figures["write_cpu_s"]
    print(
        f"snapshot taken and written: {taken_s:.1f} s of {BUDGET_S:.0f}, {figures['take_mb']:.0f} MB of {BUDGET_MB:.0f}"
    )
    return int(taken_s > BUDGET_S or figures["take_mb"] > BUDGET_MB)


if __name__ == "__main__":
    raise SystemExit(main())
