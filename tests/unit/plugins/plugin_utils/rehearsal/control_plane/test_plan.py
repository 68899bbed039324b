# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Ports, keys, nodes and configuration files of a control plane, without starting it."""

from __future__ import annotations

import json
import random
import socket
import stat
from pathlib import Path

import pytest
import yaml

from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.control_plane.kwok import (
    NodeSpec,
    is_ready,
    node_object,
    with_slow_pulls,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.control_plane.plan import plan_control_plane
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.control_plane.ports import free_ports
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.telemetry.plan import (
    TelemetryPrograms,
    plan_telemetry,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.telemetry.programs import Prometheus

PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok")


def test_a_taken_port_is_passed_over() -> None:
    first = random.Random(7).randrange(20000, 32000)
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", first))
        taken.listen()
        chosen = free_ports(("a", "b", "c"), random.Random(7))
    assert len(set(chosen.values())) == 3
    assert first not in chosen.values()
    assert free_ports(("a",), random.Random(7)) == {"a": first}
    assert free_ports(("a",), random.Random(7), {first}) != {"a": first}


def test_ports_lie_below_the_range_of_outgoing_connections() -> None:
    assert all(20000 <= port < 32000 for port in free_ports(tuple("abcdefgh")).values())


def test_nobody_is_given_the_port_of_a_server_that_starts_much_later(tmp_path: Path) -> None:
    """The receiver of the test alert found the BMC of a host on its port: chosen apart, and free when both were."""
    programs = TelemetryPrograms(Prometheus("prometheus", {}), "alertmanager")
    planned = plan_telemetry(tmp_path / "t", programs, tmp_path / "model.yaml", 2, taken=range(20000, 31000))
    late = planned.ports.pop("alert-receiver")
    assert 18000 <= late < 20000
    assert all(31000 <= port < 32000 for port in planned.ports.values())


@pytest.fixture
def planned(tmp_path: Path, repository: Path) -> Path:
    stages = repository / "rehearsal/roles/rehearsal/files/kwok/stages.yaml.tpl"
    nodes = (NodeSpec(name="gpu01"),)
    plan_control_plane(tmp_path / "cluster", {name: Path("/bin/true") for name in PROGRAMS}, nodes, stages)
    return tmp_path / "cluster"


def test_no_key_can_be_read_by_others(planned: Path) -> None:
    assert stat.S_IMODE(planned.stat().st_mode) == 0o700
    for path in (*planned.glob("pki/*"), *planned.glob("*.kubeconfig")):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path.name


def test_every_listener_is_on_loopback(tmp_path: Path, repository: Path) -> None:
    stages = repository / "rehearsal/roles/rehearsal/files/kwok/stages.yaml.tpl"
    plan = plan_control_plane(tmp_path / "c", {name: Path("/bin/true") for name in PROGRAMS}, (), stages)
    for process in plan.processes:
        if process.name.startswith("kube-"):
            assert "--bind-address=127.0.0.1" in process.argv
        listens = [word for word in process.argv if "--listen-" in word and not word.endswith("=unix://etcd:1")]
        assert all("https://127.0.0.1:" in word for word in listens)
    options = json.loads((tmp_path / "c" / "kwok.yaml").read_text().split("\n---\n")[0])["options"]
    assert options["serverAddress"].startswith("127.0.0.1:")


def test_etcd_is_spoken_to_in_a_directory_that_nobody_else_may_enter(tmp_path: Path, repository: Path) -> None:
    stages = repository / "rehearsal/roles/rehearsal/files/kwok/stages.yaml.tpl"
    plan = plan_control_plane(tmp_path / "c", {name: Path("/bin/true") for name in PROGRAMS}, (), stages)
    told = {process.name: process for process in plan.processes}
    assert "--listen-client-urls=unix://etcd:1" in told["etcd"].argv
    assert "--client-cert-auth" in told["etcd"].argv and "--peer-client-cert-auth" in told["etcd"].argv
    assert "--etcd-servers=unix://etcd:1" in told["kube-apiserver"].argv
    # A name without a path lies where its process runs.
    assert {told[name].cwd for name in ("etcd", "kube-apiserver")} == {str(plan.directory)}
    assert stat.S_IMODE(plan.directory.stat().st_mode) == 0o700


@pytest.mark.parametrize(("number", "often"), [(1, "300"), (200, "300"), (201, "100")])
@pytest.mark.parametrize("stated", ["", "50"])
def test_garbage_is_collected_as_often_as_memory_asks_for(
    tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch, number: int, often: str, stated: str
) -> None:
    monkeypatch.setenv("GOGC", stated)
    monkeypatch.delenv("GOMAXPROCS", raising=False)
    stages = repository / "rehearsal/roles/rehearsal/files/kwok/stages.yaml.tpl"
    nodes = tuple(NodeSpec(name=f"gpu{n}") for n in range(number))
    plan = plan_control_plane(tmp_path / "c", {name: Path("/bin/true") for name in PROGRAMS}, nodes, stages)
    told = {process.name: process.env for process in plan.processes if process.name in PROGRAMS}
    assert {environment["GOGC"] for environment in told.values()} == {stated or often}
    one_thread = {name for name, environment in told.items() if environment.get("GOMAXPROCS") == "1"}
    assert one_thread == {"etcd", "kube-controller-manager", "kube-scheduler"}


def test_the_audit_log_is_written_where_somebody_asks_for_it(tmp_path: Path, repository: Path) -> None:
    stages, log = repository / "rehearsal/roles/rehearsal/files/kwok/stages.yaml.tpl", tmp_path / "audit.log"
    programs = {name: Path("/bin/true") for name in PROGRAMS}
    for asked in (None, log):
        plan = plan_control_plane(tmp_path / "c", programs, (), stages, audit=asked)
        (server,) = (process for process in plan.processes if process.name == "kube-apiserver")
        assert (f"--audit-log-path={log}" in server.argv) is (asked is not None)
    rules = json.loads((tmp_path / "c" / "audit.yaml").read_text())["rules"]
    # Whoever is not named by a rule before it is recorded.
    assert rules[-1] == {"level": "Metadata"} and not any("gpufleet-admin" in rule.get("users", ()) for rule in rules)


def test_one_scheduler_answers_to_every_scheduler_name(planned: Path) -> None:
    names = [profile["schedulerName"] for profile in json.loads((planned / "scheduler.yaml").read_text())["profiles"]]
    assert names == ["default-scheduler", "volcano", "kai-scheduler"]


def test_a_node_has_no_gpus_before_its_operator() -> None:
    node = node_object(NodeSpec(name="gpu01", labels={"a": "b"}))
    assert "nvidia.com/gpu" not in node["status"]["allocatable"]
    assert node["metadata"]["labels"]["a"] == "b"
    assert not is_ready(node)
    node["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    assert is_ready(node)
    node["spec"]["taints"] = [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]
    assert not is_ready(node)


def test_pods_of_tests_pull_their_image_first_and_no_other_pod_waits(repository: Path) -> None:
    stages = (repository / "rehearsal/roles/rehearsal/files/kwok/stages.yaml.tpl").read_text()
    plain = {stage["metadata"]["name"]: stage for stage in yaml.safe_load_all(stages)}
    slow = {stage["metadata"]["name"]: stage for stage in yaml.safe_load_all(with_slow_pulls(stages, 30.0))}
    assert slow.keys() - plain.keys() == {"pod-pull", "pod-pulled"}
    of_test = {"key": '.metadata.labels["gpufleet.io/purpose"]', "operator": "In", "values": ["test"]}
    for name in ("pod-pull", "pod-pulled"):
        assert of_test in slow[name]["spec"]["selector"]["matchExpressions"]
    assert {**of_test, "operator": "NotIn"} in slow["pod-run"]["spec"]["selector"]["matchExpressions"]
    assert slow["pod-pulled"]["spec"]["delay"] == {"durationMilliseconds": 30_000}
    assert slow["pod-pulled"]["spec"]["next"] == plain["pod-run"]["spec"]["next"]
    assert "ContainerCreating" in slow["pod-pull"]["spec"]["next"]["statusTemplate"]
    assert {name: slow[name] for name in plain if name != "pod-run"} == {
        n: s for n, s in plain.items() if n != "pod-run"
    }
