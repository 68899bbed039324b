# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The driver's tools are asked in pods of the GPU operator, and never in a pod that somebody else labelled like one."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from sites import make_site

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack import observe_hosts_in_pods
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import ObserveContext
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import PODS
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.host_evidence import (
    DRIVERS,
    HostEvidence,
    evidence_file,
    read_evidence,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import UnavailableError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import DriverOwner, Host

Json = dict[str, Any]
NAMES = ("gpu01", "gpu02", "gpu03")
POLICY = {"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "uid": "p", "controller": True}
DRIVER, TOOLKIT = "app=nvidia-driver-daemonset", "openshift.driver-toolkit=true"


class Api:
    """An API server with DaemonSets by UID, pods by label, and what is run in them."""

    def __init__(self) -> None:
        self.sets: dict[str, Json] = {"drivers": POLICY}
        self.pods: list[tuple[str, Json]] = []
        self.asked: list[tuple[str, str, tuple[str, ...]]] = []
        self.silent: set[str] = set()

    def pod(
        self, node: str, owner: str = "drivers", label: str = DRIVER, space: str = "gpu-operator", **status: Any
    ) -> None:
        metadata: Json = {"name": f"{owner}-{node}", "namespace": space}
        if owner:
            metadata["ownerReferences"] = [{"kind": "DaemonSet", "uid": owner, "controller": True}]
        spec = {"nodeName": node, "containers": [{"name": "nvidia-peermem-ctr"}, {"name": "nvidia-driver-ctr"}]}
        self.pods.append((label, {"metadata": metadata, "spec": spec, "status": {"phase": "Running", **status}}))

    def list_objects(self, kind: Any, labels: str = "") -> list[Json]:
        if kind is PODS:
            return [pod for label, pod in self.pods if label == labels]
        return [{"metadata": {"uid": uid, "ownerReferences": [owner]}} for uid, owner in self.sets.items()]

    def run(self, _cluster: Any, name: str, space: str, argv: tuple[str, ...], *_rest: Any, **more: Any) -> Any:
        self.asked.append((space, name, argv))
        assert more["container"] == "nvidia-driver-ctr"
        if name in self.silent:
            raise UnavailableError(f"pod {name}", "did not answer.")
        return SimpleNamespace(rc=0, stdout="said", stderr="", duration_s=0.1, timed_out=False)


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Api:
    found = Api()

    @contextmanager
    def cluster(_connection: Any) -> Any:
        yield found

    monkeypatch.setattr(observe_hosts_in_pods, "Cluster", cluster)
    monkeypatch.setattr(observe_hosts_in_pods, "connection_from", lambda _connections: None)
    monkeypatch.setattr(observe_hosts_in_pods, "run_in_pod", found.run)
    return found


def read(path: Path) -> dict[str, HostEvidence]:
    hosts = tuple(Host(name=name, sku="h100", node_name=name) for name in NAMES)
    site = make_site(hosts, capabilities=("kubernetes",), driver_owner=DriverOwner.OPERATOR)
    observe_hosts_in_pods.observe_without_load(ObserveContext(site=site, run_dir=path, today=date(2026, 11, 21)))
    return {name: read_evidence(path / evidence_file(name, DRIVERS)) for name in NAMES}


@pytest.mark.parametrize("label", [DRIVER, "app.kubernetes.io/component=nvidia-driver", TOOLKIT])
@pytest.mark.parametrize("kind", ["ClusterPolicy", "NVIDIADriver"])
def test_pods_of_the_operator_are_asked_whatever_they_are_called(
    api: Api, tmp_path: Path, label: str, kind: str
) -> None:
    api.sets["drivers"] = POLICY | {"kind": kind}
    for name in NAMES:
        api.pod(name, label=label)
    assert all(evidence.reached for evidence in read(tmp_path).values())
    # Nothing that loads a GPU, in nobody's pods but the operator's.
    assert {space for space, _name, _argv in api.asked} == {"gpu-operator"}
    assert not any("diag" in argv for _space, _name, argv in api.asked)


@pytest.mark.parametrize("how", ["no owner", "set of a user", "of another group"])
def test_nothing_is_run_in_a_pod_that_a_user_labelled_like_the_drivers(api: Api, tmp_path: Path, how: str) -> None:
    api.pod("gpu01")
    api.sets["users"] = {"kind": "Deployment", "uid": "x", "controller": True}
    if how == "of another group":
        api.sets["users"] = POLICY | {"apiVersion": "example.org/v1"}
    for node in ("gpu01", "gpu02"):
        api.pod(node, owner="" if how == "no owner" else "users", space="default")
    found = read(tmp_path)
    assert {space for space, _name, _argv in api.asked} == {"gpu-operator"}
    assert found["gpu01"].reached and not found["gpu02"].reached
    assert "no running pod of the operator's nvidia-driver-daemonset on node gpu02" in found["gpu02"].reason


def test_a_pod_that_does_not_run_or_does_not_answer_leaves_nothing_that_could_pass(api: Api, tmp_path: Path) -> None:
    api.pod("gpu01")
    api.pod("gpu02", phase="Pending")
    api.pod("gpu03")
    api.silent = {"drivers-gpu03"}
    found = read(tmp_path)
    assert (found["gpu01"].reached, found["gpu02"].reached) == (True, False)
    assert {run.rc for run in found["gpu03"].tools.values()} == {None}
    assert all("did not answer" in run.stderr for run in found["gpu03"].tools.values())
