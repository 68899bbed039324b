# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The real AIPerf of a rehearsal writes below the directory of the rehearsal."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.workloads import aiperf_pods
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.workloads.pod_simulator import RealProcess


def test_what_the_real_aiperf_writes_lies_in_the_rehearsal(tmp_path: Path) -> None:
    context: Any = SimpleNamespace(directory=str(tmp_path), program=lambda _set, name: f"/full/bin/{name}")
    pod = {"metadata": {"name": "load-1"}, "spec": {"containers": [{"name": "load", "env": []}]}}
    words = ["aiperf", "profile", "--url", "http://vllm-1:8000", "--tokenizer", "a/b"]
    process = cast(RealProcess, aiperf_pods._real(pod, words, context, 24000).process)
    assert process.argv[0] == "/full/bin/aiperf" and "http://127.0.0.1:24000" in process.argv
    # What it maps into memory it would leave in /tmp, a directory for each load.
    for variable in ("ARTIFACTS", "HF_HOME", "HOME", "AIPERF_DATASET_MMAP_BASE_PATH"):
        assert Path(process.env[variable]).is_relative_to(tmp_path / "aiperf" / "load-1"), variable
