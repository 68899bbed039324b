# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The rehearsal from its playbook: up, used, stopped; killed in every phase, and nothing of it left."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from waiting import eventually

from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.lifecycle.starter import (
    id_prefix,
    read_state,
    stop,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.processes.spec import (
    descendants,
    identify,
    kill_all,
    marked,
)

# Takes the place of site.yml: looks at a host as a gate does, then waits to be killed where a test asks for it.
SITE = """
- name: Look at the simulated hosts
  hosts: gpu_nodes
  gather_facts: false
  tasks:
    - name: Ask the host for its name
      ansible.builtin.command: hostname
      changed_when: false
      register: answer
    - name: Leave a trace
      ansible.builtin.command: touch /etc/rehearsal-was-here
      changed_when: false
    - name: Compare
      ansible.builtin.assert:
        that:
          - answer.stdout == inventory_hostname
          - gpufleet_node_name == inventory_hostname
- name: Look at the cluster
  hosts: localhost
  gather_facts: false
  tasks:
    - name: Say what was handed over
      ansible.builtin.copy:
        dest: "{{ lookup('ansible.builtin.env', 'PWD') }}/facts.json"
        mode: "0600"
        content: >-
          {{ {'kubeconfig': gpufleet_kubeconfig, 'mirror': gpufleet_chart_mirror, 'notes': gpufleet_notes,
              'charts': query('ansible.builtin.fileglob', gpufleet_chart_mirror ~ '/gpu-operator-*.tgz'),
              'record': gpufleet_forced_settings.facility.record is file, 'hosts': groups['gpu_nodes'],
              'racks': groups['gpu_nodes'] | map('extract', hostvars, 'gpufleet_rack') | list} | to_json }}
    - name: Wait for the test
      ansible.builtin.wait_for:
        timeout: "{{ linger | default(0) }}"
      when: linger | default(0) | int > 0
"""


@dataclass(frozen=True)
class Bench:
    """A working directory in which the playbook runs."""

    path: Path
    environ: dict[str, str]

    @property
    def directory(self) -> Path:
        return self.path / ".run" / "rehearsal"

    def begin(self, *extra: str) -> subprocess.Popen[str]:
        argv = [sys.executable, "-m", "ansible", "playbook", str(self.path / "rehearse.yml"), *extra]
        return subprocess.Popen(
            argv, cwd=self.path, env=self.environ, text=True, stdout=(self.path / "out").open("w"),
            stderr=subprocess.STDOUT, start_new_session=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )  # fmt: skip

    def run(self, *extra: str) -> str:
        process = self.begin(*extra)
        assert process.wait(240) == 0, self.output()
        return self.output()

    def output(self) -> str:
        return (self.path / "out").read_text(errors="replace")

    def starting(self, process: subprocess.Popen[str], name: str) -> None:
        """Wait until one of the rehearsal's processes was started."""

        def started() -> bool:
            state = read_state(self.directory)
            return process.poll() is not None or (state is not None and name in [c.name for c in state.children])

        eventually(started, what=name)
        assert process.poll() is None, self.output()

    def reach(self, process: subprocess.Popen[str], text: str) -> None:
        """Wait until the playbook says something."""
        eventually(lambda: text in self.output() or process.poll() is not None, what=text)
        assert process.poll() is None, self.output()

    def leftovers(self) -> list[str]:
        """Processes that carry the rehearsal's mark or work in this directory, and mounts below it."""
        found = [f"marked {process.pid}" for process in marked(id_prefix(self.directory))]
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid() and identify(int(entry.name)):
                try:
                    if (entry / "cwd").readlink().is_relative_to(self.path):
                        found.append(f"{entry.name} {(entry / 'cmdline').read_bytes()[:200]!r}")
                except OSError:
                    continue
        mounts = Path("/proc/self/mountinfo").read_text().splitlines()
        return found + [line for line in mounts if str(self.path) in line]


@pytest.fixture
def bench(tmp_path: Path, repository: Path) -> Iterator[Bench]:
    for name in ("rehearse.yml", "rehearse_stop.yml"):
        text = (repository / "rehearsal" / "playbooks" / name).read_text(encoding="utf-8")
        (tmp_path / name).write_text(text.replace("gpufleet.bringup.site", "site.yml"), encoding="utf-8")
    (tmp_path / "site.yml").write_text(SITE)
    environ = {
        **{name: value for name, value in os.environ.items() if name != "ANSIBLE_CONFIG"},
        "ANSIBLE_COLLECTIONS_PATH": str(repository / ".cache"),
        "ANSIBLE_NOCOLOR": "1",
        "PWD": str(tmp_path),
    }
    bench = Bench(tmp_path, environ)
    yield bench
    stop(bench.directory)


def test_up_used_and_down_without_inventory_and_configuration(bench: Bench) -> None:
    output = bench.run("-e", "gpufleet_rehearsal_nodes=5")
    facts = json.loads((bench.path / "facts.json").read_text())
    assert facts["hosts"] == ["gpu01", "gpu02", "gpu03", "gpu04", "gpu05"]
    assert facts["racks"] == ["rack-a1"] * 4 + ["rack-a2"]
    assert facts["notes"][0].startswith("rehearsal: hosts: 5 simulated")
    assert facts["charts"] and facts["record"]
    assert "5 nodes Ready, Kubernetes v1.36." in output
    assert not Path(facts["kubeconfig"]).exists() and not Path(facts["mirror"]).exists()
    assert not Path("/etc/rehearsal-was-here").exists()
    assert bench.leftovers() == []


def test_hosts_of_an_inventory_are_simulated_and_never_touched(bench: Bench) -> None:
    inventory = bench.path / "hosts.yml"
    real = {"ansible_connection": "ssh", "ansible_host": "192.0.2.1", "gpufleet_sku": "h100", "gpufleet_rack": "r7"}
    inventory.write_text(json.dumps({"gpu_nodes": {"hosts": {"alpha": real, "beta": real}}}))
    (bench.path / "host_vars").mkdir()
    (bench.path / "host_vars" / "beta.yml").write_text("ansible_connection: ssh\ngpufleet_node_name: other\n")
    bench.run("-i", str(inventory))
    facts = json.loads((bench.path / "facts.json").read_text())
    assert facts["hosts"] == ["alpha", "beta"]
    assert facts["racks"] == ["r7", "r7"]


def test_a_connection_forced_from_outside_stops_the_run(bench: Bench) -> None:
    process = bench.begin("-e", "gpufleet_rehearsal_nodes=1", "-e", "ansible_connection=local")
    assert process.wait(120) == 2
    assert "must not touch a machine" in bench.output()
    assert not (bench.path / "facts.json").exists()
    eventually(lambda: bench.leftovers() == [], what=bench.leftovers)


WORKING = "TASK [Wait for the test]"
# Processes of the rehearsal: from the moment when one is started until it serves, the start waits for it.
PHASES = ("etcd", "kube-apiserver", "kwok", WORKING)


@pytest.mark.long("kills in each phase; a supervisor and a process that are killed while all works stay")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
@pytest.mark.parametrize("phase", PHASES)
def test_killed_in_any_phase_leaves_nothing(bench: Bench, phase: str, number: signal.Signals) -> None:
    # Ansible's own module outlives a controller that is killed: it ends well within the wait below.
    process = bench.begin("-e", "gpufleet_rehearsal_nodes=2", "-e", "linger=90")
    if phase == WORKING:
        bench.reach(process, phase)
        # ansible-core says a task's name before it has a worker for it; interrupted in between, it waits for the task.
        time.sleep(1)
    else:
        bench.starting(process, phase)
    if number == signal.SIGINT:
        os.killpg(process.pid, number)  # Ctrl-C reaches the whole group of the terminal
    else:
        process.send_signal(number)
    process.wait(120)
    eventually(lambda: bench.leftovers() == [], what=bench.leftovers)
    assert not (bench.directory / "cluster").exists()


@pytest.mark.drawn(2, of="ends of a rehearsal")
def test_a_killed_supervisor_takes_its_children_along_and_the_next_start_works(bench: Bench) -> None:
    process = bench.begin("-e", "gpufleet_rehearsal_nodes=2", "-e", "linger=120")
    bench.reach(process, WORKING)
    state = read_state(bench.directory)
    assert state is not None
    os.kill(state.supervisor_pid, signal.SIGKILL)
    eventually(lambda: not any(child.process.alive() for child in state.children))
    # With nobody left to know whose they were, the workers of ansible-core would end with their task only.
    workers = descendants(process.pid)
    process.kill()
    process.wait()
    kill_all(workers)
    assert (bench.directory / "cluster").exists()
    output = bench.run("-e", "gpufleet_rehearsal_nodes=1")
    assert "removed what an earlier run left" in output
    assert bench.leftovers() == []


@pytest.mark.drawn(2, of="ends of a rehearsal")
def test_a_process_that_dies_ends_the_run_and_is_named(bench: Bench) -> None:
    # The simulated controllers are no server that a gate could miss: it would wait for its own time limits.
    process = bench.begin("-e", "gpufleet_rehearsal_nodes=2", "-e", "linger=120")
    bench.reach(process, WORKING)
    state = read_state(bench.directory)
    assert state is not None
    (victim,) = [child for child in state.children if child.name == "controllers"]
    os.kill(victim.pid, signal.SIGKILL)
    assert process.wait(30) != 0
    eventually(lambda: bench.leftovers() == [], what=bench.leftovers)
    assert "rehearsal: controllers was killed by signal 9, so this run says nothing of the site" in bench.output()


@pytest.mark.drawn(2, of="ends of a rehearsal")
def test_kept_then_refused_then_stopped(bench: Bench) -> None:
    bench.run("-e", "gpufleet_rehearsal_nodes=2", "-e", "gpufleet_rehearsal_keep=1")
    state = read_state(bench.directory)
    assert state is not None
    assert state.supervisor.alive()
    second = bench.begin("-e", "gpufleet_rehearsal_nodes=1")
    assert second.wait(60) == 2
    assert "one is up already (kept)" in bench.output()
    assert "rehearse_stop" in bench.output()
    assert state.supervisor.alive()
    shutil.copy(bench.path / "rehearse_stop.yml", bench.path / "rehearse.yml")
    stopped = bench.run()
    assert bench.leftovers() == []
    assert stopped.rstrip().splitlines()[-1] == f"stopped the rehearsal in {bench.directory}", stopped[-2000:]
    left = {path.relative_to(bench.directory).parts[0] for path in bench.directory.rglob("*")}
    assert left == {".lock", "facility-day", "logs", "rehearsal.json", "supervisor.json"}
