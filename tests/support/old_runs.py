# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What runs of earlier releases did not record, and checks of today therefore answer with `other`."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

# Check to the cause that it gives for a run of release 0.1.0: such a run holds the gate, and never passes it.
NOT_RECORDED = {
    # It asked lspci for the devices alone.
    "gpu-kernel-module": "lsmod-not-collected",
    "pcie-acs": "lspci-bridges-not-collected",
    "bios-uniform": "dmidecode-not-collected",
    "kernel-settings-uniform": "sysctl-not-collected",
    "partition-keys": "pkeys-not-collected",
    "unit-limits": "systemctl-show-not-collected",
    "cpu-governor": "cpu-governors-not-collected",
    "host-size-uniform": "lscpu-not-collected",
    "clock-source": "clock-source-not-collected",
    "cgroup-uniform": "cgroup-hierarchy-not-collected",
    "dcgm-health": "dcgmi-health-not-collected",
    # It did not ask mlxlink.
    "link-quality": "mlxlink-not-collected",
    # It kept the workloads that there were, not those that the releases' manifests name.
    "component-health": "manifest-unread",
    # It looked once, and did not note since when pods were ready.
    "cluster-policy-ready": "readiness-not-timed",
    # It stopped at the allocation; nobody looked into the container.
    "dra-allocation": "container-not-looked-into",
    # Pairs of hosts were not run over their adapters alone, and NVLink hides a slow adapter between two hosts.
    "nccl-pair-bw": "adapters-not-measured",
    # It asked a server twice, whichever engines answered, and made one load.
    "inference-smoke": "engines-unasked",
    "inference-errors": "load-missing",
    # Workers of torchrun begin when all agents are there, so their times say nothing of who was late.
    "training-gang-start": "no-start-times",
}


def drop_checks(run_dir: Path, gate: str, checks: set[str]) -> int:
    """Take the results of checks out of a gate's saved results, as a release without them left it; return how many."""
    path = run_dir / "ctrf" / f"{gate}.json"
    document: Any = json.loads(path.read_text(encoding="utf-8"))
    results = document["results"]
    kept = [test for test in results["tests"] if test["extra"]["outcome"]["check"] not in checks]
    dropped = len(results["tests"]) - len(kept)
    statuses = Counter(test["status"] for test in kept)
    results["summary"] |= {"tests": len(kept)} | {name: statuses[name] for name in ("passed", "failed", "other")}
    results["tests"] = kept
    path.write_text(json.dumps(document), encoding="utf-8")
    return dropped


def count_checks(run_dir: Path, gate: str, more: int, passed: int = 0) -> None:
    """Change how many checks the run says that a gate had, and how many results of them passed."""
    path = run_dir / "run.json"
    document: Any = json.loads(path.read_text(encoding="utf-8"))
    entry = next(entry for entry in document["gates"] if entry["gate"] == gate)
    entry["checks"] += more
    entry["counts"]["passed"] += passed
    path.write_text(json.dumps(document), encoding="utf-8")


def without_unrecorded(run_dir: Path) -> None:
    """Make a saved run one of a release that did not have the checks which it cannot answer; they had all passed."""
    recorded: Any = json.loads((run_dir / "run.json").read_text(encoding="utf-8"))
    for gate in [entry["gate"] for entry in recorded["gates"] if entry["status"] != "pending"]:
        path = run_dir / "ctrf" / f"{gate}.json"
        document: Any = json.loads(path.read_text(encoding="utf-8"))
        checks = {test["extra"]["outcome"]["check"] for test in document["results"]["tests"]} & set(NOT_RECORDED)
        if checks:
            dropped = drop_checks(run_dir, path.stem, checks)
            count_checks(run_dir, path.stem, -len(checks), -dropped)
