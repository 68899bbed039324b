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
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.rehearsal.control_plane.prime import LocalApi, open_api
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.rehearsal.lifecycle.process_table import (
    descendants,
    identify,
    kill_all,
    marked,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.rehearsal.lifecycle.starter import (
    id_prefix,
    read_state,
    stop,
)

PREFIX = "rehearsal.gpufleet.invalid"
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
          {{ {'kubeconfig': gpufleet_kubeconfig, 'mirror': gpufleet_chart_mirror, 'rehearsal': gpufleet_rehearsal,
              'settings': gpufleet_rehearsal_settings, 'hosts': groups['gpu_nodes'],
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

    def reach(self, process: subprocess.Popen[str], text: str) -> None:
        """Wait until the playbook says something."""
        eventually(lambda: text in self.output() or process.poll() is not None, 90, text)
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


def eventually(condition: Callable[[], object], limit_s: float, what: str = "") -> None:
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {limit_s} s: {what}"
        time.sleep(0.05)


@pytest.fixture
def bench(tmp_path: Path, repository: Path) -> Iterator[Bench]:
    for name in ("rehearse.yml", "rehearse_stop.yml"):
        shutil.copy(repository / "playbooks" / name, tmp_path / name)
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
    assert facts["rehearsal"] is True
    assert list(Path(facts["mirror"]).glob("gpu-operator-*.tgz"))
    assert Path(facts["settings"]["facility"]["record"]).is_file()
    assert "5 nodes Ready, Kubernetes v1.36." in output
    assert not Path(facts["kubeconfig"]).exists()
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
    eventually(lambda: bench.leftovers() == [], 8)


PHASES = ("waiting for etcd", "waiting for kube-apiserver", "waiting for kwok", "TASK [Wait for the test]")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
@pytest.mark.parametrize("phase", PHASES)
def test_killed_in_any_phase_leaves_nothing(bench: Bench, phase: str, number: signal.Signals) -> None:
    process = bench.begin("-e", "gpufleet_rehearsal_nodes=2", "-e", "linger=120")
    bench.reach(process, phase)
    # ansible-core says a task's name before it has a worker for it; interrupted in between, it waits for the task.
    time.sleep(1 if phase.startswith("TASK") else 0)
    if number == signal.SIGINT:
        os.killpg(process.pid, number)  # Ctrl-C reaches the whole group of the terminal
    else:
        process.send_signal(number)
    process.wait(30)
    eventually(lambda: bench.leftovers() == [], 8)
    assert not (bench.directory / "cluster").exists()


def test_a_killed_supervisor_takes_its_children_along_and_the_next_start_works(bench: Bench) -> None:
    process = bench.begin("-e", "gpufleet_rehearsal_nodes=2", "-e", "linger=120")
    bench.reach(process, PHASES[-1])
    state = read_state(bench.directory)
    assert state is not None
    os.kill(state.supervisor_pid, signal.SIGKILL)
    eventually(lambda: not any(child.process.alive() for child in state.children), 5)
    # With nobody left to know whose they were, the workers of ansible-core would end with their task only.
    workers = descendants(process.pid)
    process.kill()
    process.wait()
    kill_all(workers)
    assert (bench.directory / "cluster").exists()
    output = bench.run("-e", "gpufleet_rehearsal_nodes=1")
    assert "removed what an earlier run left" in output
    assert bench.leftovers() == []


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
    bench.run()
    assert bench.leftovers() == []


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory, repository: Path) -> Iterator[LocalApi]:
    """The API of a rehearsal of four nodes, started once for the tests below."""
    path = tmp_path_factory.mktemp("kept")
    shutil.copy(repository / "playbooks" / "rehearse.yml", path)
    (path / "site.yml").write_text("- name: Nothing\n  hosts: localhost\n  gather_facts: false\n  tasks: []\n")
    environ = {**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(repository / ".cache"), "PWD": str(path)}
    bench = Bench(path, environ)
    bench.run("-e", "gpufleet_rehearsal_nodes=4", "-e", "gpufleet_rehearsal_keep=true")
    state = read_state(bench.directory)
    assert state is not None
    yield open_api(bench.directory / "cluster", state.ports["kube-apiserver"])
    stop(bench.directory)


def pod(name: str, annotations: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    marks = {f"{PREFIX}/{key}": value for key, value in (annotations or {}).items()}
    container = {"name": "main", "image": "none", "resources": {"limits": {"cpu": "200"}}}
    body = {"containers": [container], "restartPolicy": "Never", "terminationGracePeriodSeconds": 0, **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "annotations": marks}, "spec": body}


def phase_of(api: LocalApi, name: str) -> str:
    code, body = api.call("GET", f"/api/v1/namespaces/default/pods/{name}")
    return str(body["status"].get("phase", "")) if code == 200 else ""


def make(api: LocalApi, body: dict[str, Any]) -> None:
    path = "/api/v1/namespaces/default/pods"
    # The controller manager makes the namespace's account a moment after the start.
    eventually(lambda: api.call("POST", path, body)[0] in (201, 409), 20, body["metadata"]["name"])


def remove(api: LocalApi, *names: str) -> None:
    for name in names:
        api.call("DELETE", f"/api/v1/namespaces/default/pods/{name}")
    eventually(lambda: all(api.call("GET", f"/api/v1/namespaces/default/pods/{n}")[0] == 404 for n in names), 20)


@pytest.mark.parametrize(
    ("annotations", "phase"), [({}, "Running"), ({"exit-code": "0"}, "Succeeded"), ({"exit-code": "3"}, "Failed")]
)
def test_a_pod_ends_only_as_its_annotation_says(kept: LocalApi, annotations: dict[str, str], phase: str) -> None:
    name = f"end-{phase.lower()}"
    make(kept, pod(name, annotations))
    eventually(lambda: phase_of(kept, name) == phase, 20, name)
    status = kept.call("GET", f"/api/v1/namespaces/default/pods/{name}")[1]["status"]
    ended = status["containerStatuses"][0]["state"].get("terminated")
    assert (ended["exitCode"] if ended else None) == (int(annotations["exit-code"]) if annotations else None)
    remove(kept, name)


def test_a_faulty_pod_runs_and_is_never_ready(kept: LocalApi) -> None:
    make(kept, pod("faulty", {"fault": "CrashLoopBackOff"}))
    eventually(lambda: phase_of(kept, "faulty") == "Running", 20)
    status = kept.call("GET", "/api/v1/namespaces/default/pods/faulty")[1]["status"]
    assert status["containerStatuses"][0]["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    assert {c["type"]: c["status"] for c in status["conditions"]}["Ready"] == "False"
    remove(kept, "faulty")


def test_two_gangs_that_do_not_fit_together_run_one_after_the_other(kept: LocalApi) -> None:
    groups = "/apis/scheduling.k8s.io/v1alpha2/namespaces/default/podgroups"
    for gang in ("red", "blue"):
        body = {
            "apiVersion": "scheduling.k8s.io/v1alpha2",
            "kind": "PodGroup",
            "metadata": {"name": gang},
            "spec": {"schedulingPolicy": {"gang": {"minCount": 3}}},
        }
        assert kept.call("POST", groups, body)[0] in (201, 409)
    names = [f"{gang}-{n}" for gang in ("red", "blue") for n in range(3)]
    for name in names:
        # One pod fills a node, and the four nodes hold one gang of three.
        group = {"schedulingGroup": {"podGroupName": name.split("-")[0]}, "schedulerName": "volcano"}
        make(kept, pod(name, **group))

    def running() -> list[str]:
        return [name for name in names if phase_of(kept, name) == "Running"]

    eventually(lambda: len(running()) >= 3, 30)
    time.sleep(3)
    assert len({name.split("-")[0] for name in running()}) == 1
    assert len(running()) == 3
    winner = running()[0].split("-")[0]
    remove(kept, *[name for name in names if name.startswith(winner)])
    eventually(lambda: len(running()) == 3, 30, "the other gang")
    remove(kept, *[name for name in names if not name.startswith(winner)])


def test_a_node_can_go_down_and_come_back(kept: LocalApi) -> None:
    def marked_with(message: str | None) -> bool:
        node = kept.call("GET", "/api/v1/nodes/gpu02")[1]
        node["metadata"]["annotations"].pop(f"{PREFIX}/not-ready", None)
        if message:
            node["metadata"]["annotations"][f"{PREFIX}/not-ready"] = message
        # 409: a controller wrote in between.
        return bool(kept.call("PUT", "/api/v1/nodes/gpu02", node)[0] == 200)

    def mark(message: str | None) -> None:
        eventually(lambda: marked_with(message), 10)

    def ready() -> str:
        conditions = kept.call("GET", "/api/v1/nodes/gpu02")[1]["status"]["conditions"]
        return next(str(entry["status"]) for entry in conditions if entry["type"] == "Ready")

    mark("kubelet stopped posting node status")
    eventually(lambda: ready() == "False", 10)
    mark(None)
    eventually(lambda: ready() == "True", 10)


def test_what_the_gates_need_of_the_api_is_served(kept: LocalApi) -> None:
    names = {group["name"] for group in kept.call("GET", "/apis")[1]["groups"]}
    assert {"resource.k8s.io", "scheduling.k8s.io", "admissionregistration.k8s.io", "kwok.x-k8s.io"} <= names
    policies = kept.call("GET", "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies")
    assert policies[0] == 200


def test_nobody_without_a_key_gets_in(kept: LocalApi) -> None:
    import http.client
    import ssl

    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    connection = http.client.HTTPSConnection("127.0.0.1", kept.port, context=context, timeout=5)
    connection.request("GET", "/api/v1/nodes")
    assert connection.getresponse().status == 401
