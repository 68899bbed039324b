# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every capture of a real tool is read or judged by a test, or comes from a tool that no check asks."""

from __future__ import annotations

from pathlib import Path

# What no check asks: its folder or file, and what is asked in its place.
UNASKED = {
    "aicr/": "reports and snapshots of another tool; recipes are compared with its catalogue",
    "dcgm-exporter/nvidia_gpu_exporter-h100-mig-idle.metrics": "another exporter; Prometheus is asked, not an exporter",
    "dcgm-exporter/readme-blank-sentinel-memory-temp.prom": "text of an exporter; Prometheus is asked",
    "dcgmi-discovery/": "GPUs are counted by nvidia-smi and lspci",
    "dcgmproftester/": "dcgmi diag loads the GPUs",
    "fabric-manager/": "systemctl says whether it runs, NVLinks what it did",
    "gpu-burn/": "dcgmi diag loads the GPUs",
    "gpu-fryer/": "dcgmi diag loads the GPUs",
    "ibnetdiscover/": "links are read by iblinkinfo",
    "k8s/aicr-dra-evidence-h100.md": "a document; its slices are a capture of their own",
    "k8s/gfd-labels-mig-mixed-golden.txt": "labels are never taken for what a node offers",
    "h200-single/nvidia-smi-q.txt": "nvidia-smi -q -x is asked",
    "ib-perftest/": "pairs of hosts are measured by NCCL over each adapter, which is what jobs use",
    "nvbandwidth/": "dcgmi diag measures copies to and from the host, NCCL those between GPUs",
    "nvidia-smi-text/a100-8gpu-page-retirement-BAD.txt": "nvidia-smi -q -x has the same counts",
    "nvidia-smi-text/h100-": "nvidia-smi -q -x is asked",
    "nvidia-smi-text/h200-": "nvidia-smi -q -x is asked",
    "perfquery/": "ibqueryerrors reads the counters of every port of switches and adapters",
    "slurm/scontrol-show-partition-oneliner.txt": "nothing is decided by the partition of a node",
    "slurm/sinfo-fallback-jsonlines.txt": "lines of a script of others around sinfo; scontrol is asked",
    "slurm/sinfo-wide-text-gpu-drain.txt": "scontrol is asked, which has states, reasons and GPUs of every node",
}


def said_by_tests(repository: Path) -> str:
    """Everything that other tests say."""
    here = Path(__file__)
    return "\n".join(path.read_text() for path in (repository / "tests/unit").rglob("*.py") if path != here)


def test_every_capture_is_used_or_comes_from_what_no_check_asks(repository: Path, shared: Path) -> None:
    said = said_by_tests(repository)
    captures = shared / "captures"
    files = [path for path in sorted(captures.rglob("*")) if path.is_file() and path.parent != captures]
    # A folder of which a test reads every file.
    whole = {"inference-bench", "nccl-tests"}
    unused = [
        name
        for path in files
        if path.name not in said and path.parent.name not in whole
        and not (name := path.relative_to(captures).as_posix()).startswith(tuple(UNASKED))
    ]  # fmt: skip
    assert unused == []


def test_the_list_names_only_what_there_is_and_no_test_reads(repository: Path, shared: Path) -> None:
    said, captures = said_by_tests(repository), shared / "captures"
    files = [path for path in sorted(captures.rglob("*")) if path.is_file()]
    names = [path.relative_to(captures).as_posix() for path in files]
    assert [entry for entry in UNASKED if not any(name.startswith(entry) for name in names)] == []
    listed = [name for name in names if name.startswith(tuple(UNASKED))]
    assert [name for name in listed if name.rpartition("/")[2] in said] == []
    assert all(len(reason.split()) > 3 for reason in UNASKED.values())
