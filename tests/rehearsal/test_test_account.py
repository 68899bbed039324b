# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a thief of an account that tests can do, on a real API server: with its roles alone, and under our policy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from cluster_bench import cluster_bench
from sites import make_site
from waiting import eventually
from workload_bench import CHARTS, Bench

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.rights import every_choice
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import ObserveContext
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.validators.catalog import ValidatorImage
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.validators.contract import judge_run
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.validators.observe import Inputs, run_validators
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube import objects
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.cluster import Cluster, ask_all
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.connection import Connection
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.errors import ForbiddenError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.permission import Permission
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.rbac.app import (
    continuous_role,
    role_objects,
    snapshot_role,
    validator_roles,
    wave_role,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import BringupError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import Host
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.workloads.validator_pods import (
    IMAGE as STAND_IN,
)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    capacity = {"cpu": "224", "memory": "2Ti", "pods": "250", "nvidia.com/gpu": "8"}
    with cluster_bench(Bench, tmp_path_factory.mktemp("rehearsal"), 2, CHARTS, capacity) as made:
        yield made


# A thief's questions, and who of these accounts may; docs/rbac.md says the same in words.
QUESTIONS = {
    "read every Secret": Permission("list", "secrets"),
    "make pods anywhere": Permission("create", "pods"),
    "open a shell anywhere": Permission("create", "pods", subresource="exec"),
    "delete namespaces": Permission("delete", "namespaces"),
    "give roles": Permission("create", "clusterrolebindings", "rbac.authorization.k8s.io"),
    "change nodes": Permission("update", "nodes"),
}


@pytest.mark.parametrize(
    ("name", "roles", "may"),
    [
        ("telemetry-observe", role_objects(["telemetry"], ["observe"], every_choice()), set()),
        ("fabric-observe", role_objects(["fabric_validation"], ["observe"], every_choice()), set()),
        ("training-observe", role_objects(["training_acceptance"], ["observe"], every_choice()), set()),
        ("inference-observe", role_objects(["inference_acceptance"], ["observe"], every_choice()), set()),
        ("idle-observe", [continuous_role()], set()),
        ("stack-observe", role_objects(["gpu_stack"], ["observe"], every_choice()), {"read every Secret"}),
        ("snapshot-observe", [snapshot_role()], {"read every Secret"}),
        (
            "stack-test",
            role_objects(["gpu_stack"], ["test"], every_choice()),
            {"read every Secret", "make pods anywhere", "open a shell anywhere", "delete namespaces"},
        ),
        ("validators", validator_roles(), {"make pods anywhere", "delete namespaces"}),
        ("waves", [wave_role()], {"change nodes"}),
    ],
)
def test_a_thief_can_do_what_the_page_says_and_no_more(
    bench: Bench, name: str, roles: list[dict[str, Any]], may: set[str]
) -> None:
    user = bench.given(name, roles)
    with Cluster(Connection(kubeconfig=str(bench.kubeconfig), impersonate_user=user)) as cluster:

        def allowed() -> set[str]:
            answers = ask_all(cluster, tuple(QUESTIONS.values()))
            return {text for text, asked in zip(QUESTIONS, answers, strict=True) if asked.allowed}

        # Roles count some moments after they were made.
        eventually(lambda: allowed() == may, what=lambda: (allowed(), may))


@contextmanager
def held_to_test_namespaces(bench: Bench, repository: Path, user: str) -> Iterator[None]:
    """The shipped policy, about that user."""
    text = (
        (repository / "docs" / "rbac" / "test-namespaces.yaml").read_text("utf-8").replace("'acceptance'", f"'{user}'")
    )
    documents = yaml.safe_load(text)["items"]
    api = "/apis/admissionregistration.k8s.io/v1"
    places = {"ValidatingAdmissionPolicy": "validatingadmissionpolicies"}
    paths = [f"{api}/{places.get(entry['kind'], 'validatingadmissionpolicybindings')}" for entry in documents]
    for path, entry in zip(paths, documents, strict=True):
        bench.cluster.transport.json("POST", path, body=entry)
    try:
        yield
    finally:
        for path, entry in zip(paths, documents, strict=True):
            bench.cluster.transport.json("DELETE", f"{path}/{entry['metadata']['name']}")


def test_the_shipped_policy_holds_who_tests_to_namespaces_of_ours(
    bench: Bench, tmp_path: Path, repository: Path
) -> None:
    """By its roles the account may write in every namespace; with the policy a thief of it may not in kube-system."""
    user = bench.given("held", validator_roles())
    asked = Connection(kubeconfig=str(bench.kubeconfig), impersonate_user=user)
    container = {"name": "c", "image": "x.example/c:1"}

    def pod(place: str) -> dict[str, Any]:
        return {"metadata": {"name": "thief", "namespace": place}, "spec": {"containers": [container]}}

    with Cluster(asked) as cluster:
        cluster.create(objects.PODS, pod("kube-system"), "kube-system", dry_run=True)
        with held_to_test_namespaces(bench, repository, user):
            write = partial(cluster.create, objects.PODS, dry_run=True)
            eventually(lambda: _is_refused(lambda: write(pod("kube-system"), "kube-system")))
            for place in ("kube-system", "default"):
                with pytest.raises(ForbiddenError, match="gpufleet-\\* alone, not in"):
                    write(pod(place), place)
            bench.cluster.create(objects.NAMESPACES, {"metadata": {"name": "theirs"}})
            with pytest.raises(ForbiddenError, match="not in theirs"):
                cluster.delete(objects.NAMESPACES, "theirs")
            hosts = [Host(name="gpu01", sku="dgx-h100", node_name="gpu01")]
            context = ObserveContext(
                site=make_site(hosts), run_dir=tmp_path, today=datetime.now(UTC).date(), emit=print,
                connections={"kubeconfig": str(bench.kubeconfig), "impersonate_user": user},
            )  # fmt: skip
            image = ValidatorImage(
                name="sound", phase="conformance", image=f"{STAND_IN}:v1", args=("looking", "run_s=1"), rules=None,
                timeout_s=60.0, resources={"cpu": "100m", "memory": "64Mi"},
            )  # fmt: skip
            inputs = Inputs(snapshot="{}", recipe="{}", run_id="r1", node_selector={})
            runs = run_validators([image], "conformance", inputs, context)
            assert judge_run(image, runs["sound"], "lab", "gpu_stack", "").status is Status.PASSED
    bench.nothing_left()


def _is_refused(ask: Callable[[], Any]) -> bool:
    try:
        ask()
    except ForbiddenError:
        return True
    except BringupError:
        return False
    return False
