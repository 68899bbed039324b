# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tools that load a host: who is in their way, and that they end with whoever started them."""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from waiting import always, eventually

from ansible_collections.gpufleet.bringup.plugins.module_utils import host_guard, node_tools
from ansible_collections.gpufleet.bringup.plugins.module_utils.host_guard import (
    end_with_parent,
    lock_of_host,
    processes_on_gpus,
)
from ansible_collections.gpufleet.bringup.plugins.module_utils.node_tools import run_tools
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.host_evidence import ToolRun
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.tool_reading import ProbeFailure, read_tool
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.codec import from_plain
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.host_tools import load_host_tools
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.process import identify

# The form of nvidia-smi -q -x (nvsmi_device DTD).
PROCESS = """<processes><process_info><gpu_instance_id>N/A</gpu_instance_id>
<pid>{pid}</pid><type>{kind}</type><process_name>{name}</process_name><used_memory>20 MiB</used_memory></process_info>
</processes>"""
IDLE = "<nvidia_smi_log><gpu><processes></processes></gpu></nvidia_smi_log>"
OWNER = {"run": "run-1", "controller": "ctl1", "command": "make bring-up"}


@pytest.fixture
def lock_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(host_guard.os, "access", lambda *_args: False)
    monkeypatch.setattr(host_guard.tempfile, "gettempdir", lambda: str(tmp_path))
    return tmp_path


def diagnosed(
    monkeypatch: pytest.MonkeyPatch, smi: str, *, disturb: bool = False, in_use: tuple[str, ...] = ()
) -> dict[str, dict[str, Any]]:
    """Run smi and a diagnostic that prints `diag`, where the first prints that."""
    ran = {"missing": False, "timed_out": False, "rc": 0, "stdout": smi}
    monkeypatch.setattr(
        node_tools, "run_tool", lambda argv, *_rest: {**ran, "stdout": "diag" if argv[0] == "dcgmi" else smi}
    )
    common = {"timeout_s": 5, "again": False}
    requests = [
        {"tool": "nvidia_smi_xml", "commands": [["nvidia-smi"]], "alone": False, "after": "", **common},
        {"tool": "dcgmi_diag", "commands": [["dcgmi"]], "alone": True, "after": "nvidia_smi_xml", **common},
    ]
    return run_tools(requests, 1000, {"owner": OWNER, "in_use": list(in_use), "disturb": disturb})


def test_programs_that_compute_use_a_gpu_and_a_display_does_not() -> None:
    text = PROCESS.format(pid=71, kind="C", name="python3") + PROCESS.format(pid=72, kind="G", name="Xorg")
    text += PROCESS.format(pid=73, kind="M+C", name="nvidia-cuda-mps-server")
    assert processes_on_gpus(text) == ["python3 (pid 71)", "nvidia-cuda-mps-server (pid 73)"]
    assert processes_on_gpus(IDLE) == []


@pytest.mark.usefixtures("lock_directory")
def test_an_idle_host_is_diagnosed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert diagnosed(monkeypatch, IDLE)["dcgmi_diag"]["stdout"] == "diag"


@pytest.mark.usefixtures("lock_directory")
@pytest.mark.parametrize(
    ("smi", "in_use", "who"),
    [
        (PROCESS.format(pid=7, kind="C", name="train"), (), "train (pid 7)"),
        (IDLE, ("pod team/job-0",), "pod team/job-0"),
    ],
)
def test_a_host_that_somebody_uses_is_not_diagnosed_unless_the_site_says_so(
    monkeypatch: pytest.MonkeyPatch, smi: str, in_use: tuple[str, ...], who: str
) -> None:
    run = diagnosed(monkeypatch, smi, in_use=in_use)["dcgmi_diag"]
    assert run["withheld"] == "in-use"
    assert who in run["stderr"]
    seen = read_tool(load_host_tools().named("dcgmi_diag"), from_plain(ToolRun, run, "x"))
    assert isinstance(seen, ProbeFailure)
    assert (seen.kind, "disturb" in seen.tool.advice[seen.kind]) == ("in-use", True)
    assert diagnosed(monkeypatch, smi, in_use=in_use, disturb=True)["dcgmi_diag"]["stdout"] == "diag"


def test_a_host_that_another_run_loads_is_not_diagnosed(monkeypatch: pytest.MonkeyPatch, lock_directory: Path) -> None:
    with lock_of_host({"run": "run-0", "controller": "ctl9", "command": "site.yml"}) as taken:
        assert taken == ""
        run = diagnosed(monkeypatch, IDLE, disturb=True)["dcgmi_diag"]
    assert run["withheld"] == "held"
    for word in ("run run-0", "controller ctl9", "command site.yml", "since 20"):
        assert word in run["stderr"]
    # The lock ended with its holder, whatever the file says.
    assert (lock_directory / host_guard.LOCK).exists()
    assert diagnosed(monkeypatch, IDLE)["dcgmi_diag"]["stdout"] == "diag"


def test_a_lock_that_cannot_be_taken_is_no_permission(monkeypatch: pytest.MonkeyPatch, lock_directory: Path) -> None:
    (lock_directory / host_guard.LOCK).symlink_to(lock_directory / "elsewhere")
    assert diagnosed(monkeypatch, IDLE)["dcgmi_diag"]["withheld"] == "held"


CODE = """
import sys
from ansible_collections.gpufleet.bringup.plugins.module_utils.tool_run import run_tool
print("begun", flush=True)
run_tool(["sh", "-c", "echo $$ > {pid}; exec sleep 300"], 300, 1000)
"""


@pytest.mark.parametrize("victim", ["the module", "what called it"])
def test_a_tool_ends_with_its_controller(tmp_path: Path, repository: Path, victim: str) -> None:
    pid = tmp_path / "pid"
    module = tmp_path / "module.py"
    module.write_text(CODE.format(pid=pid))
    # As sshd does: a shell above the module, which is told of nothing when the connection ends.
    shell = f"{sys.executable} {module} & echo $!; wait"
    environment = {**os.environ, "PYTHONPATH": str(repository / ".cache")}
    with subprocess.Popen(["sh", "-c", shell], stdout=subprocess.PIPE, text=True, env=environment) as caller:
        assert caller.stdout is not None
        module_pid = int(caller.stdout.readline())
        eventually(lambda: pid.exists() and pid.read_text().strip())
        tool = identify(int(pid.read_text()))
        assert tool is not None
        os.kill(module_pid if victim == "the module" else caller.pid, signal.SIGKILL)
        eventually(lambda: not tool.alive())
        eventually(lambda: identify(module_pid) is None)


@pytest.mark.parametrize(("other", "code"), [(0, 0), (1, 1)])
def test_a_tool_whose_module_went_before_it_was_bound_to_it_does_not_run(tmp_path: Path, other: int, code: int) -> None:
    bind = functools.partial(end_with_parent, os.getpid() + other)
    done = subprocess.run(["touch", str(tmp_path / "ran")], preexec_fn=bind, check=False)
    assert (done.returncode, (tmp_path / "ran").exists()) == (code, not code)


def test_a_tool_goes_on_when_only_what_is_above_the_connection_ends(tmp_path: Path, repository: Path) -> None:
    """As with a daemon of OpenSSH that is started again, or a shell that ends while its playbook goes on."""
    pid, module = tmp_path / "pid", tmp_path / "module.py"
    module.write_text(CODE.format(pid=pid))
    connection = tmp_path / "sshd-session"
    connection.write_text(f"#!/bin/sh\n{sys.executable} {module} &\necho $! $$\nwait\n")
    connection.chmod(0o755)
    environment = {**os.environ, "PYTHONPATH": str(repository / ".cache")}
    with subprocess.Popen(
        ["sh", "-c", f"{connection} & wait"], stdout=subprocess.PIPE, text=True, env=environment
    ) as shell:
        assert shell.stdout is not None
        module_pid, connection_pid = map(int, shell.stdout.readline().split())
        eventually(lambda: pid.exists() and pid.read_text().strip())
        tool = identify(int(pid.read_text()))
        assert tool is not None
        shell.kill()
        shell.wait(5)
        # Longer than it takes to look again.
        always(tool.alive, 2.5)
        os.kill(connection_pid, signal.SIGKILL)
        eventually(lambda: not tool.alive())
        eventually(lambda: identify(module_pid) is None)


def test_what_runs_beside_a_load_ends_with_it_and_has_said_something() -> None:
    """It is started first, read until the load ends, and never longer; without the load it is not run."""
    common = {"timeout_s": 20.0, "after": "", "again": False}
    endless = "while :; do echo reading; sleep 0.1; done"
    requests = [
        {"tool": "load", "commands": [["sh", "-c", "sleep 0.3; echo done"]], "alone": True, **common},
        {"tool": "links", "commands": [["sh", "-c", endless]], "alone": False, "beside": "load", **common},
    ]
    runs = run_tools(requests, max_output_bytes=10_000)
    assert runs["load"]["stdout"] == "done\n"
    assert (runs["links"]["rc"], runs["links"]["timed_out"]) == (0, False)
    assert runs["links"]["stdout"].startswith("reading\n") and runs["links"]["duration_s"] < 10.0
    assert run_tools(requests[1:], max_output_bytes=10_000) == {}
