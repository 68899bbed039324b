# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""How the nodes and pods of a rehearsal behave on its control plane."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from cluster_bench import ClusterBench, cluster_bench
from waiting import always, eventually

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.rehearsal.control_plane.prime import LocalApi, open_api
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.rehearsal.lifecycle.starter import read_state

PREFIX = "rehearsal.gpufleet.invalid"


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalApi]:
    """The API of a cluster of four nodes."""
    with cluster_bench(ClusterBench, tmp_path_factory.mktemp("kept"), 4, {}) as bench:
        state = read_state(bench.directory)
        assert state is not None
        yield open_api(bench.directory / "cluster", state.ports["kube-apiserver"])


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
    eventually(lambda: api.call("POST", path, body)[0] in (201, 409), what=body["metadata"]["name"])


def remove(api: LocalApi, *names: str) -> None:
    for name in names:
        api.call("DELETE", f"/api/v1/namespaces/default/pods/{name}")
    eventually(lambda: all(api.call("GET", f"/api/v1/namespaces/default/pods/{n}")[0] == 404 for n in names))


@pytest.mark.parametrize(
    ("annotations", "phase"), [({}, "Running"), ({"exit-code": "0"}, "Succeeded"), ({"exit-code": "3"}, "Failed")]
)
def test_a_pod_ends_only_as_its_annotation_says(kept: LocalApi, annotations: dict[str, str], phase: str) -> None:
    name = f"end-{phase.lower()}"
    make(kept, pod(name, annotations))
    eventually(lambda: phase_of(kept, name) == phase, what=lambda: (name, phase_of(kept, name)))
    status = kept.call("GET", f"/api/v1/namespaces/default/pods/{name}")[1]["status"]
    ended = status["containerStatuses"][0]["state"].get("terminated")
    assert (ended["exitCode"] if ended else None) == (int(annotations["exit-code"]) if annotations else None)
    remove(kept, name)


def test_a_faulty_pod_runs_and_is_never_ready(kept: LocalApi) -> None:
    make(kept, pod("faulty", {"fault": "CrashLoopBackOff"}))
    eventually(lambda: phase_of(kept, "faulty") == "Running")
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

    eventually(lambda: len(running()) >= 3, what=running)

    def one_gang() -> bool:
        return len(running()) == 3 and len({name.split("-")[0] for name in running()}) == 1

    always(one_gang, 3)
    winner = running()[0].split("-")[0]
    remove(kept, *[name for name in names if name.startswith(winner)])
    eventually(lambda: len(running()) == 3, what=running)
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
        eventually(lambda: marked_with(message))

    def ready() -> str:
        conditions = kept.call("GET", "/api/v1/nodes/gpu02")[1]["status"]["conditions"]
        return next(str(entry["status"]) for entry in conditions if entry["type"] == "Ready")

    mark("kubelet stopped posting node status")
    eventually(lambda: ready() == "False")
    mark(None)
    eventually(lambda: ready() == "True")


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
