# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""host_probe run for real: tools that hang, flood, fail and are missing; hosts that cannot be reached."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpufleet.bringup.plugins.module_utils.node_tools import run_tools
from ansible_collections.gpufleet.bringup.plugins.module_utils.tool_run import run_tool
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.host_evidence import HostEvidence, read_evidence
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.tool_requests import (
    fabric_requests,
    node_requests,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.host_tools import load_host_tools

TOOLS = [tool.name for tool in load_host_tools().used_by("host_probe")]
AGAIN = [f"{tool.name}_after" for tool in load_host_tools().used_by("host_probe") if tool.again]

PLAY = """
- hosts: all
  gather_facts: false
  tasks:
    - gpufleet.bringup.host_probe:
        run_dir: {run_dir}
        timeout: 2
        max_output_bytes: 2000
      environment: {{PATH: "{tools}:{path}"}}
"""
TOOLS_OF_A_HOST = {
    "nvidia-smi": "printf 'smi %s\\n' \"$*\"",
    "dcgmi": 'echo diag "$*"; exit 226',
    "ibstat": "sleep 300 & echo half; sleep 300",
    "lspci": "i=0; while [ $i -lt 400 ]; do echo 0123456789; i=$((i+1)); done; echo the end",
    "journalctl": "echo '-- No entries --'",
    "dmesg": "echo '[    1.0] token=abcdef123456'",
    "chronyc": "echo '506 Cannot talk to daemon'; exit 1",
    "systemctl": "echo inactive; exit 3",
}


@pytest.fixture
def tool_directory(tmp_path: Path) -> Path:
    directory = tmp_path / "tools"
    directory.mkdir()
    for name, body in TOOLS_OF_A_HOST.items():
        path = directory / name
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)
    return directory


def play(tmp_path: Path, repository: Path, tools: Path, hosts: dict[str, dict[str, Any]]) -> Path:
    """Run the play on these hosts and return the run directory."""
    run_dir = tmp_path / "run"
    run_dir.mkdir()
    (run_dir / "run.json").write_text("{}")
    (run_dir / "site.json").write_text("{}")
    inventory = tmp_path / "hosts.json"
    inventory.write_text(json.dumps({"all": {"hosts": hosts}}))
    playbook = tmp_path / "play.yml"
    playbook.write_text(PLAY.format(run_dir=run_dir, tools=tools, path=os.environ["PATH"]))
    config = tmp_path / "ansible.cfg"
    config.write_text("")
    environment = os.environ | {
        "ANSIBLE_COLLECTIONS_PATH": str(repository / ".cache"), "ANSIBLE_LOCAL_TEMP": str(tmp_path / "local"),
        "ANSIBLE_CONFIG": str(config), "ANSIBLE_SSH_TIMEOUT": "2",
    }  # fmt: skip
    command = [sys.executable, "-m", "ansible", "playbook", "-i", str(inventory), str(playbook)]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=120, cwd=tmp_path, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return run_dir


@pytest.fixture
def probed(tmp_path: Path, repository: Path, tool_directory: Path) -> dict[str, HostEvidence]:
    local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    hosts: dict[str, dict[str, Any]] = {
        "gpu01": local,
        "gpu02": {"ansible_host": "127.0.0.1", "ansible_port": 1, "ansible_python_interpreter": sys.executable},
        "gpu03": local | {"ansible_python_interpreter": "/nonexistent/python3"},
    }
    run_dir = play(tmp_path, repository, tool_directory, hosts)
    return {name: read_evidence(run_dir / f"evidence/hosts/{name}.json") for name in hosts}


def test_whole_way_from_play_to_evidence(probed: dict[str, HostEvidence]) -> None:
    runs = probed["gpu01"].tools
    assert probed["gpu01"].reached and set(runs) == {*TOOLS, *AGAIN}
    # What the load of the diagnostic left is asked once more.
    assert runs["nvidia_smi_xml_after"].stdout == "smi -q -x\n" and runs["ibstat_after"].timed_out
    assert runs["nvidia_smi_xml"].stdout == "smi -q -x\n" and runs["nvidia_smi_topo"].stdout == "smi topo -m\n"
    assert (runs["dcgmi_diag"].rc, runs["dcgmi_diag"].stdout) == (226, "diag diag -r 3 -j\n")
    assert runs["ibstat"].timed_out and runs["ibstat"].rc is None and runs["ibstat"].stdout == "half\n"
    assert runs["lspci"].truncated and runs["lspci"].stdout.endswith("the end\n") and len(runs["lspci"].stdout) < 2100
    # No journal: the kernel log comes from dmesg, and what looks like a secret is masked.
    assert runs["kernel_log"].argv[0] == "dmesg" and "abcdef123456" not in runs["kernel_log"].stdout
    assert (runs["fabric_manager"].rc, runs["fabric_manager"].stdout) == (3, "inactive\n")
    assert runs["chronyc"].rc == 1 and runs["ofed_info"].missing
    assert runs["uname"].stdout.strip() == os.uname().release
    # Unreachable, and an interpreter that is not there: evidence that says so.
    assert not probed["gpu02"].reached and "Connection refused" in probed["gpu02"].reason
    assert not probed["gpu03"].reached and "/nonexistent/python3" in probed["gpu03"].reason


def test_limit_ends_children_too(tmp_path: Path) -> None:
    mark = tmp_path / "child"
    script = tmp_path / "hang"
    script.write_text(f"#!/bin/sh\nsh -c 'sleep 1; touch {mark}' &\nsleep 60\n")
    script.chmod(0o755)
    started = time.monotonic()
    result = run_tool([str(script)], 0.5, 1000)
    assert result["timed_out"] and time.monotonic() - started < 5
    time.sleep(1)
    assert not mark.exists()


def test_daemon_that_keeps_the_pipe_open_does_not_hold_the_probe(tmp_path: Path) -> None:
    script = "setsid sh -c 'echo $$ > daemon; exec sleep 60' & while [ ! -s daemon ]; do sleep 0.01; done; echo done"
    started = time.monotonic()
    result = run_tool(["sh", "-c", f"cd {tmp_path}; {script}"], 30, 1000)
    taken = time.monotonic() - started
    os.kill(int((tmp_path / "daemon").read_text()), signal.SIGKILL)
    assert (result["rc"], result["stdout"]) == (0, "done\n") and taken < 30


def test_file_that_cannot_be_started_is_a_failure_of_the_tool(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.write_text("#!/nonexistent/interpreter\n")
    broken.chmod(0o755)
    assert run_tool([str(broken)], 5, 1000)["rc"] == 126


def test_diagnostic_is_left_out_where_the_driver_hangs(tool_directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tool_directory / "nvidia-smi").write_text("#!/bin/sh\nsleep 60\n")
    monkeypatch.setenv("PATH", f"{tool_directory}:{os.environ['PATH']}")
    names = ["nvidia_smi_xml", "dcgmi_diag"]

    def ran(level: int) -> set[str]:
        requests = node_requests(tools=names, timeout_s=1, diag_timeout_s=5, diag_level=level)
        return set(run_tools(requests, max_output_bytes=1000))

    assert ran(3) == {"nvidia_smi_xml"}
    (tool_directory / "nvidia-smi").write_text("#!/bin/sh\necho fine\n")
    assert ran(3) == {*names, "nvidia_smi_xml_after"}
    assert ran(0) == {"nvidia_smi_xml"}


def test_limits_of_a_task_win_over_those_of_the_table() -> None:
    def limits(**options: Any) -> dict[str, float]:
        return {request["tool"]: request["timeout_s"] for request in node_requests(diag_level=3, **options)}

    assert (limits()["lspci"], limits()["dcgmi_diag"]) == (60, 1800)
    given = limits(timeout_s=5, diag_timeout_s=7, timeouts={"ibstat": "9"})
    assert (given["lspci"], given["ibstat"], given["dcgmi_diag"]) == (5, 9, 7)
    assert {request["timeout_s"] for request in fabric_requests(ibdiagnet=False, timeout_s=3)} == {3}


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"tools": ["ibstats"]}, "ibstats.*did you mean 'ibstat'"),
        ({"timeouts": {"lspi": 5}}, "lspi.*did you mean 'lspci'"),
        ({"timeouts": {"lspci": "soon"}}, "timeouts: lspci.*'soon'"),
        ({"timeout_s": 0}, "timeout.*is 0"),
        ({"diag_timeout_s": -1}, "diag_timeout.*is -1"),
    ],
)
def test_what_cannot_be_asked_is_refused_before_the_host_is_touched(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(InputError, match=f"(?s){reason}"):
        node_requests(diag_level=3, **options)


def test_a_port_of_another_shape_is_refused() -> None:
    with pytest.raises(InputError, match="mlx5_0/1"):
        fabric_requests(ports=["mlx5_0/1"], ibdiagnet=False)
