# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Logs of tests of nodes lie where the framework that this follows has them, compressed, and nowhere else."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.continuous.cycle_record import NodeLogs


def test_a_log_is_found_by_test_node_and_time(tmp_path: Path) -> None:
    logs = NodeLogs(tmp_path)
    path = logs.keep("nccl_loop", "gpu01", 1736367000.9, "# Out of bounds values : 0 OK\n")
    assert path == "nccl_loop/gpu01/nccl_loop_gpu01_1736367000.log.gz"
    assert logs.read(path) == "# Out of bounds values : 0 OK\n"
    assert (tmp_path / path).read_bytes()[:2] == b"\x1f\x8b"


def test_nothing_to_keep_makes_no_file_and_no_name_leads_elsewhere(tmp_path: Path) -> None:
    logs = NodeLogs(tmp_path / "logs")
    assert logs.keep("nccl_loop", "gpu01", 1.0, " \n") == ""
    kept = logs.keep("nccl_loop", "../../etc/x", 1.0, "text")
    assert (tmp_path / "logs" / kept).resolve().is_relative_to(tmp_path / "logs") and not (tmp_path / "etc").exists()
