# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Playbook continuous over Debian's Slurm with four nodes: whole calls, as cron makes them."""

from __future__ import annotations

import getpass
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from slurm import NODES, Slurm
from slurm_programs import SlurmPrograms
from waiting import eventually

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.benchmark.plan import BenchmarkHost
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.kit.settings_layers import checked_settings
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.shared_storage.run import storage_job
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.shared_storage.settings import KEY, StorageSettings
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.clock import Deadline
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.progress import Progress, silent
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.records import NodeResult
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.service import open_service
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.job import JobResult
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.slurm_jobs import (
    SlurmCommands,
    SlurmRunner,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.slurm_script import SlurmWays

pytestmark = pytest.mark.drawn(1, of="nodes in service", whole=True)

TESTS = ("dl_unit", "nccl_loop", "storage_io")
HOST = {
    "gpufleet_sku": "dgx-h100", "ansible_connection": "local", "ansible_become": False,
    "ansible_python_interpreter": sys.executable, "gpufleet_hcas": [f"mlx5_{number}" for number in range(8)],
}  # fmt: skip
# fio of a second: what is tested is its way through Slurm.
STORAGE = {"size_mib": 1, "threads": 1, "seconds": 0.2}


class Site:
    """Four hosts of a site whose work comes from Slurm; `play` is one call of the playbook."""

    def __init__(self, slurm: Slurm, path: Path, repository: Path) -> None:
        self.slurm, self.path, self.repository = slurm, path, repository
        self.programs = SlurmPrograms(path)
        self.store = path / "history.sqlite"
        self.shared = path / "shared"
        settings = {
            "continuous": {
                "slurm_dir": str(self.shared), "slurm_containers": "none", "passive": False, "tries": 1, "per_rack": 0,
            },
            "storage-integrity": {"volume": {"hostPath": {"path": str(self.programs.volume)}}, **STORAGE},
            "storage_io": {"rate_mib_s": 0},
        }  # fmt: skip
        variables = {
            "gpufleet_orchestrator": "slurm", "gpufleet_settings": settings, "gpufleet_store": str(self.store),
            "gpufleet_continuous_log_dir": str(path / "logs"), "gpufleet_continuous_scontrol": slurm.scontrol,
            "gpufleet_site_name": "lab",
        }  # fmt: skip
        hosts = {name: {**HOST, "gpufleet_rack": f"r{index}"} for index, name in enumerate(NODES)}
        (path / "hosts.yml").write_text(yaml.safe_dump({"all": {"vars": variables}, "gpu_nodes": {"hosts": hosts}}))

    def start(self, *words: str, runs: str = "runs") -> subprocess.Popen[str]:
        """Start a call; `runs` is the directory of its controller."""
        command = [str(Path(sys.executable).with_name("ansible-playbook")), "playbooks/continuous.yml"]
        environment = {
            **os.environ, "ANSIBLE_CONFIG": str(self.repository / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_COLLECTIONS_PATH": str(self.repository / ".cache"),
            "ANSIBLE_HOME": str(self.path / f"{runs}-home"), "PATH": f"{self.programs.bin}:{os.environ['PATH']}",
        }  # fmt: skip
        with (self.path / f"{runs}.out").open("w") as output:
            return subprocess.Popen(
                [*command, "-i", str(self.path / "hosts.yml"), "-e", f"gpufleet_run_dir={self.path / runs}", *words],
                cwd=self.repository, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output, text=True,
                start_new_session=True,
            )  # fmt: skip

    def said(self, runs: str = "runs") -> str:
        return (self.path / f"{runs}.out").read_text(errors="replace")

    def play(self, *words: str) -> tuple[int, str]:
        """Make a call and return its exit code with what it printed."""
        code = self.start(*words).wait(300)
        assert "Traceback" not in self.said()
        return code, self.said()

    def results(self) -> list[NodeResult]:
        found = open_service(self.store)
        try:
            return list(found.results("lab", rehearsal=False, since_s=0.0))
        finally:
            found.engine.dispose()

    def words(self) -> dict[tuple[str, str], str]:
        return {(result.node, result.test): result.status.value for result in self.results()}

    def nothing_left(self) -> None:
        """No job of ours is in Slurm, no lease in the history, nothing in the directories."""
        ours = [line for line in self.slurm.run("squeue", "-h", "-o", "%k").splitlines() if "gpufleet" in line]
        found = open_service(self.store)
        leases = found.leases("lab", rehearsal=False)
        found.engine.dispose()
        assert not ours and not leases and not list(self.shared.iterdir()), (ours, leases)
        assert not list(self.programs.volume.rglob("gpufleet-fio-*"))


@pytest.fixture
def site(server: Slurm, tmp_path: Path, repository: Path) -> Iterator[Site]:
    server.free_all()
    yield Site(server, tmp_path, repository)
    server.free_all()


def passed(*nodes: str, tests: tuple[str, ...] = TESTS) -> dict[tuple[str, str], str]:
    return {(node, test): "passed" for node in nodes for test in tests}


def users_job(slurm: Slurm, *words: str) -> str:
    return slurm.run("sbatch", "--parsable", "-o", "/dev/null", "-t", "10", *words, "--wrap=sleep 300").strip()


def test_only_idle_nodes_are_tested_and_users_come_first(site: Site) -> None:
    """Drained, reserved, flagged nodes and those with jobs are left; a user who comes gets the node."""
    slurm = site.slurm
    slurm.update("gpu02", "state=drain", "reason=bad fan")
    words = ("starttime=now", "duration=10", f"users={getpass.getuser()}", "nodes=gpu03")
    slurm.run("scontrol", "create", "reservation", "reservationname=visitors", *words)
    theirs = users_job(slurm, "-w", "gpu04", "-n1")
    slurm.wait_state(gpu03="IDLE+RESERVED", gpu04="MIXED")
    code, plan = site.play("--check")
    assert code == 0 and "1. gpu01: dl_unit never tested" in plan and not site.store.exists(), plan[-3000:]
    assert "not free: gpu02: is IDLE+DRAIN" in plan and "gpu03: is IDLE+RESERVED" in plan
    code, said = site.play()
    assert code == 0, said[-4000:]
    assert site.words() == passed("gpu01")
    slurm.wait_state(gpu01="IDLE", gpu02="IDLE+DRAIN", gpu03="IDLE+RESERVED", gpu04="MIXED")
    assert slurm.run("squeue", "-h", "-j", theirs, "-o", "%T").strip() == "RUNNING"
    site.nothing_left()
    # Now all are free, and a user wants gpu03 while its arithmetic is tested.
    slurm.free_all()
    users = f"{slurm.bin}/sbatch -w gpu03 --exclusive -t 10 -o /dev/null --wrap='sleep 300'; sleep 60"
    site.programs.does("gpu03", users)
    code, said = site.play()
    assert code == 0, said[-4000:]
    found = site.words()
    assert found.pop(("gpu03", "dl_unit")) == "pending"
    assert found == passed("gpu01", "gpu02", "gpu04")
    slurm.wait_state(gpu03="ALLOCATED")
    site.nothing_left()


@pytest.mark.drawn(1, of="cycles over a real Slurm")
def test_a_controller_that_was_killed_leaves_nothing_that_runs_twice(site: Site) -> None:
    site.programs.does("gpu02", "[ -f $SLURMD_NODENAME.once ] || { touch $SLURMD_NODENAME.once; sleep 240; }")
    first = site.start()
    eventually(lambda: bool(site.programs.began("gpu02")), 120, site.said)
    eventually(lambda: site.words().get(("gpu01", "dl_unit")) == "passed", 60, site.said)
    os.killpg(first.pid, signal.SIGKILL)
    first.wait(30)
    assert "RUNNING" in site.slurm.run("squeue", "-h", "-o", "%T"), "the killed controller's job goes on by itself"
    before = {node: len(site.programs.began(node)) for node in NODES}
    site.programs.does("gpu02", "")
    code, said = site.play("-e", "gpufleet_when_held=wait", "-e", "gpufleet_wait_s=60")
    assert code == 0, said[-4000:]
    # The job that went on was cancelled by the next cycle; its node was tested by one of its own.
    (old, _program, _pid), (new, *_rest) = site.programs.began("gpu02")
    states = [site.slurm.run("scontrol", "show", "job", job).partition("JobState=")[2].split()[0] for job in (old, new)]
    assert states == ["CANCELLED", "COMPLETED"]
    assert site.words() == passed(*NODES)
    assert len(site.programs.began("gpu01")) == before["gpu01"], "what had its result is not tested again"
    site.nothing_left()


@pytest.mark.drawn(1, of="cycles over a real Slurm")
def test_two_controllers_share_the_work_and_no_node(site: Site) -> None:
    """Both write into one history, and neither knows of the other's lock: leases alone keep them apart."""
    # Long enough that the second is there before the first has done all.
    for node in NODES:
        site.programs.does(node, "sleep 15")
    both = {"one": site.start("-e", "gpufleet_set=continuous.batch=2", runs="one")}
    eventually(lambda: bool(site.programs.began("gpu01")), 120, lambda: site.said("one"))
    # Leases of the first count among the four of the second.
    both["two"] = site.start("-e", "gpufleet_set=continuous.batch=4", runs="two")
    most = Counter[str]()
    while any(process.poll() is None for process in both.values()):
        jobs = site.slurm.run("squeue", "-h", "-t", "RUNNING,PENDING", "-o", "%n %k").splitlines()
        most |= Counter(job.split()[0] for job in jobs if "gpufleet" in job)
        time.sleep(0.3)
    for runs, process in both.items():
        assert process.returncode == 0 and "Traceback" not in site.said(runs), site.said(runs)[-4000:]
    assert set(most) == set(NODES) and max(most.values()) == 1, most
    results = site.results()
    assert Counter((result.node, result.test) for result in results) == Counter(passed(*NODES).keys())
    cycles = {result.cycle_id for result in results}
    assert {result.status.value for result in results} == {"passed"} and len(cycles) == 2, cycles
    site.nothing_left()


@pytest.mark.drawn(1, of="cycles over a real Slurm")
def test_two_calls_of_one_controller_do_not_run_at_once(site: Site) -> None:
    go_on = site.path / "go_on"
    site.programs.does("gpu01", f"until [ -e {go_on} ]; do sleep 0.2; done")
    first = site.start()
    eventually(lambda: bool(site.programs.began("gpu01")), 120, site.said)
    told = site.said()
    second = site.start(runs="runs")
    assert second.wait(120) != 0 and "are held by run" in site.said(), site.said()[-2000:]
    go_on.touch()
    assert first.wait(120) == 0, told[-2000:]
    assert site.words() == passed(*NODES)


@pytest.mark.drawn(1, of="cycles over a real Slurm")
def test_a_fault_on_the_volume_or_in_arithmetic_fails_its_node_alone(site: Site) -> None:
    bad = site.path / "wrong"
    text = (site.path / "dl_unit").read_text().splitlines()
    lines: list[dict[str, Any]] = [json.loads(line) for line in text]
    lines = [{**line, "wrong": 3} if line.get("op") == "exact-bf16" and line["slot"] == 5 else line for line in lines]
    bad.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))
    site.programs.does("gpu02", f"cat {bad}; exit 1")
    code, said = site.play()
    assert code != 0 and "gpu5 got 3 rows" in said, said[-3000:]
    assert site.words() == passed(*NODES) | {("gpu02", "dl_unit"): "failed"}


@pytest.mark.drawn(1, of="cycles over a real Slurm")
def test_a_storage_test_that_is_cancelled_removes_what_it_wrote(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{site.programs.bin}:{os.environ['PATH']}")
    volume = site.programs.volume
    stated = {"volume": {"hostPath": {"path": str(volume)}}, "size_mib": 8, "threads": 1, "seconds": 60.0}
    settings = checked_settings(StorageSettings, KEY, stated)
    spec = storage_job("storage-1", BenchmarkHost(name="gpu01", node="gpu01", sku="dgx-h100"), settings, "aa11")
    ways = SlurmWays(directory=site.shared, containers="none")
    seen: list[Path] = []

    def pause(seconds: float) -> None:
        if not seen and list(volume.rglob("gpufleet-fio-*/*")):
            seen.extend(volume.rglob("gpufleet-fio-*"))
            site.slurm.run("scancel", f"--user={getpass.getuser()}")
        time.sleep(seconds / 4)

    results: list[JobResult] = []
    runner = SlurmRunner(SlurmCommands(site.slurm.scontrol), ways, "c1", sleep=pause)
    runner.run([spec], Progress(silent), Deadline.after(120), results.append)
    assert [result.state for result in results] == ["preempted"] and seen
    eventually(lambda: not list(volume.rglob("gpufleet-fio-*")), 30, lambda: str(list(volume.rglob("*"))))
