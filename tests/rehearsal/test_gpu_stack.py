# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Component stack and tests of gate gpu_stack on a real control plane: real Helm, real scheduler, real API server."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from broken_platform import (
    assert_broken_admission_is_found,
    assert_claims_without_a_volume_are_found,
    assert_demands_and_doubles_are_judged_by_the_server,
    assert_what_a_recipe_expects_is_asked_of_the_server,
)
from gang_victim import start_gang_test
from known_hardware import HARDWARE
from kueue_gangs import KUEUE, STATED, assert_one_is_admitted_whole, with_kueue
from ray_gangs import KUBERAY, assert_one_cluster_is_placed_whole, with_kuberay
from ray_gangs import STATED as RAY
from role_bench import assert_looks_around, assert_refused_by_name, role_user
from served_gateways import PARTS, assert_a_gateway_is_held_to_who_serves_it, with_gateway
from sites import make_site
from stack_recipe import RECIPE, ref

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack import (
    api_permissions,
    component_health,
    dra_allocation,
    gang_admission,
    observe_cluster,
    observe_dra,
    observe_gang,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.rights import every_choice
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import JudgeContext, ObserveContext
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.helm.helm import Helm, ReleaseRequest
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.cluster import Cluster
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.connection import Connection
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.errors import UnreachableError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import (
    DEPLOYMENTS,
    NAMESPACES,
    PODS,
    PRIORITY_CLASSES,
    SECRETS,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.wait import until
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.drift import with_drift
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.install import Done, Installer, Limits
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.model import (
    Component,
    Plan,
    components_of,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.plan import make_plan
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.read import installed
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.remove import with_existing
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.tell import save_results
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.rbac.app import (
    RbacSubject,
    bindings,
    put_objects,
    remove_objects,
    role_objects,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.clock import Deadline
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.progress import Progress, silent
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import Host, Site
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.lease import HeldError
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.charts.mirror import build_mirror
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.lifecycle.bring_up import bring_up
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.lifecycle.request import RehearsalRequest
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.lifecycle.starter import stop
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.spec import numbered_nodes
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.toolchain.store import default_cache

NODES = 4
OURS = "gpufleet.io/purpose=test"
SKUS = Path(__file__).resolve().parents[2] / "recipes" / "hardware"


@dataclass
class Bench:
    """A rehearsal cluster and what the product needs to work on it."""

    directory: Path
    kubeconfig: str
    helm: Helm
    helm_program: str
    cluster: Cluster
    mirror: Path

    def plan(self, recipe: dict[str, Any] | None = None, **more: Any) -> tuple[Plan, tuple[Component, ...]]:
        components = components_of(recipe or RECIPE)
        found = with_drift(self.helm, self.cluster, components, installed(self.helm, self.cluster))
        found = with_existing(self.cluster, components, found)
        return make_plan(components, found, **more), components

    def install(self, recipe: dict[str, Any] | None = None, **more: Any) -> tuple[Done, ...]:
        plan, components = self.plan(recipe, **more)
        limits = Limits(ready_s=90, pull_grace_s=5)
        done = Installer(self.helm, self.cluster, str(self.mirror), limits).run(plan, components)
        save_results(self.directory, plan, done, self.helm_program)
        return done

    def observing(self, **settings: Any) -> ObserveContext:
        return ObserveContext(
            site=_site(settings), run_dir=self.directory, today=date.today(), recipe=RECIPE, hardware=HARDWARE,
            connections={"kubeconfig": self.kubeconfig},
        )  # fmt: skip

    def judging(self) -> JudgeContext:
        return JudgeContext(gate="gpu_stack", site=_site({}), today=date.today(), recipe=RECIPE)

    def left_behind(self) -> list[str]:
        """Everything that tests made and that is still there; a namespace that is going away does not count."""
        spaces = [item["metadata"] for item in self.cluster.list_objects(NAMESPACES, labels=OURS)]
        found = [space["name"] for space in spaces if not space.get("deletionTimestamp")]
        for kind in (PRIORITY_CLASSES, PODS):
            found += [item["metadata"]["name"] for item in self.cluster.list_objects(kind, labels=OURS)]
        return found


def _site(settings: dict[str, Any]) -> Site:
    hosts = tuple(Host(name=n.name, sku="dgx-h100", node_name=n.name) for n in numbered_nodes(NODES, "dgx-h100"))
    return make_site(hosts, settings={**settings, "gpu_stack": {"stays_ready_s": 1.0, **settings.get("gpu_stack", {})}})


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory, repository: Path) -> Iterator[Bench]:
    directory = tmp_path_factory.mktemp("stack")
    request = RehearsalRequest(
        directory=directory / "rehearsal", cache=default_cache(os.environ), collection=repository,
        nodes=numbered_nodes(NODES, "dgx-h100"),
    )  # fmt: skip
    mirror = directory / "mirror"
    build_mirror(mirror, [{**ref, "chart": ref["name"]} for ref in (*RECIPE["componentRefs"], KUEUE, KUBERAY, *PARTS)])
    up = bring_up(request, Progress(silent))
    try:
        connection = Connection(kubeconfig=str(up.kubeconfig))
        with Cluster(connection) as cluster:
            helm = Helm(connection, binary=up.programs["helm"])
            yield Bench(directory, str(up.kubeconfig), helm, up.programs["helm"], cluster, mirror)
    finally:
        stop(request.directory)


@pytest.fixture(scope="module")
def stack(bench: Bench) -> Bench:
    """The bench with its components installed, by somebody who has the role for that alone."""
    roles = role_objects(["gpu_stack"], ["install"], every_choice())
    put_objects(bench.cluster, [*roles, *bindings(roles, RbacSubject(kind="User", name="installer"))], dry_run=False)
    connection = Connection(kubeconfig=bench.kubeconfig, impersonate_user="installer")
    with Cluster(connection) as cluster:
        theirs = replace(bench, helm=Helm(connection, binary=bench.helm_program), cluster=cluster)
        assert {entry.state for entry in theirs.install()} == {"ready"}
    return bench


def test_components_are_installed_after_what_they_need_and_only_once(stack: Bench) -> None:
    made = {
        item["labels"]["name"]: item["creationTimestamp"]
        for item in stack.cluster.list_metadata(SECRETS, labels="owner=helm,version=1")
    }
    for entry in RECIPE["componentRefs"]:
        assert all(made[needed] <= made[entry["name"]] for needed in entry["dependencyRefs"])
    plan, _components = stack.plan()
    assert [step.action.value for step in plan.steps] == ["unchanged"] * 4 and not plan.changes


def test_an_installation_that_is_not_ours_is_recognised_and_used(stack: Bench) -> None:
    """KAI as Argo CD renders it: no helm release, another namespace, another name."""
    name, labels = "scheduling-operator", {"app": "scheduling-operator"}
    metadata = {
        "name": name, "namespace": "default", "labels": {"app.kubernetes.io/version": "v0.12.1"},
        "annotations": {"argocd.argoproj.io/tracking-id": f"batch:apps/Deployment:default/{name}"},
    }  # fmt: skip
    containers = [{"name": "operator", "image": "mirror.lab/kai-scheduler/operator:v0.12.1"}]
    template = {"metadata": {"labels": labels}, "spec": {"containers": containers}}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}
    recipe = {**RECIPE, "componentRefs": [ref("kai-scheduler", "v0.13.0")], "deploymentOrder": ["kai-scheduler"]}
    assert stack.plan(recipe)[0].steps[0].action.value == "install"
    stack.cluster.create(DEPLOYMENTS, body, "default")
    (refused,) = stack.install(recipe)
    assert (refused.state, refused.cause) == ("refused", "component-foreign")
    assert f"kai-scheduler v0.12.1 is already installed by Argo CD Application batch (Deployment default/{name})" in (
        refused.reason
    )
    assert "gpufleet_gpu_stack_foreign: {kai-scheduler: use}" in refused.hint
    (used,) = stack.install(recipe, policies={"kai-scheduler": "use"})
    assert used.state == "foreign" and "the recipe wants v0.13.0" in used.reason
    context = replace(stack.observing(gpu_stack={"settle_s": 0}), recipe=recipe)
    judging = replace(stack.judging(), recipe=recipe)
    (outcome,) = component_health.judge(observe_cluster.observe(context), judging)
    assert outcome.status is Status.PASSED and "Argo CD Application batch" in outcome.summary
    stack.cluster.delete(DEPLOYMENTS, name, "default")
    (outcome,) = component_health.judge(observe_cluster.observe(context), judging)
    assert (outcome.status, outcome.cause) == (Status.FAILED, "workload-missing")


def test_a_foreign_release_is_refused_until_it_is_used_or_adopted(stack: Bench) -> None:
    component = next(c for c in components_of(RECIPE) if c.name == "cert-manager")
    request = replace(Installer(stack.helm, stack.cluster, str(stack.mirror)).request(component, 0), labels={})
    stack.helm.uninstall("cert-manager", "cert-manager")
    stack.helm.upgrade(request)
    states = {entry.component: entry.state for entry in stack.install()}
    assert (states["cert-manager"], states["gpu-operator"]) == ("refused", "waiting")
    assert {entry.state for entry in stack.install(policies={"cert-manager": "use"})} == {"ready", "foreign"}
    stack.install(policies={"cert-manager": "adopt"})
    assert stack.plan()[0].step("cert-manager").action.value == "unchanged"


def test_what_was_changed_by_hand_is_found_and_put_back(stack: Bench) -> None:
    release = ["cert-manager", str(next(stack.mirror.glob("cert-manager-*.tgz"))), "--namespace", "cert-manager"]
    argv = [stack.helm_program, "upgrade", *release, "--set", "byHand=1", "--kubeconfig", stack.kubeconfig]
    subprocess.run(argv, check=True, capture_output=True, timeout=60)
    name = next(item["name"] for item in stack.cluster.list_metadata(DEPLOYMENTS, "gpu-operator"))
    stack.cluster.transport.json(
        "PATCH", DEPLOYMENTS.path(name, "gpu-operator"), query={"fieldManager": "kubectl-edit"},
        body={"spec": {"replicas": 7}}, content_type="application/merge-patch+json",
    )  # fmt: skip
    plan, _components = stack.plan()
    assert {step.component: step.reason for step in plan.steps if step.action.changes} == {
        "cert-manager": "changed by hand: value byHand",
        "gpu-operator": f"changed by hand: Deployment {name} spec.replicas",
    }
    stack.install()
    assert not stack.plan()[0].changes


def test_a_release_on_which_our_helm_died_is_recovered_and_one_of_somebody_else_is_not(stack: Bench) -> None:
    component = next(c for c in components_of(RECIPE) if c.name == "cert-manager")
    revision = stack.helm.releases()[component.release].revision
    request = Installer(stack.helm, stack.cluster, str(stack.mirror)).request(component, revision)
    _die_in_upgrade(stack, request)
    assert stack.plan()[0].step("cert-manager").action.value == "recover"
    assert {entry.state for entry in stack.install()} == {"ready"}
    assert not stack.plan()[0].changes
    # Whoever upgrades by hand leaves our labels, and makes a revision that we did not announce.
    _die_in_upgrade(stack, replace(request, labels={}))
    assert stack.plan()[0].step("cert-manager").action.value == "pending"
    stack.helm.recover("cert-manager", "cert-manager")
    stack.install()


# As long as a request of helm takes at most: it makes dozens between the mark of an upgrade and its end.
SLICE_S = 0.01


def _die_in_upgrade(stack: Bench, request: ReleaseRequest) -> None:
    labels = ",".join(f"{key}={value}" for key, value in request.labels.items())
    argv = [stack.helm_program, "upgrade", request.name, request.chart.reference, "--namespace", request.namespace]
    argv += ["--wait", "--kubeconfig", stack.kubeconfig, *(["--labels", labels] if labels else [])]
    selector = f"owner=helm,name={request.name},status=pending-upgrade"
    before = len(stack.cluster.list_metadata(SECRETS, request.namespace, labels=selector))
    victim = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    # helm runs in slices and is looked at between two of them: on a busy machine one look takes as long as an upgrade.
    while len(stack.cluster.list_metadata(SECRETS, request.namespace, labels=selector)) == before:
        victim.send_signal(signal.SIGCONT)
        with suppress(subprocess.TimeoutExpired):
            victim.wait(timeout=SLICE_S)
        victim.send_signal(signal.SIGSTOP)
        assert victim.poll() is None, "helm was done before it could be killed"
    victim.kill()
    victim.wait(timeout=10)


def test_a_component_whose_chart_is_missing_stops_only_what_needs_it(stack: Bench) -> None:
    refs = [*RECIPE["componentRefs"], ref("gone", "1.0.0"), ref("after", "1.0.0", "gone")]
    more = {**RECIPE, "componentRefs": refs, "deploymentOrder": [*RECIPE["deploymentOrder"], "gone", "after"]}
    states = {entry.component: entry.state for entry in stack.install(more)}
    assert (states["gone"], states["after"], states["volcano"]) == ("failed", "waiting", "ready")


@pytest.mark.parametrize("provider", ["volcano", "native"])
def test_of_two_gangs_one_is_placed_and_the_other_has_no_pod_bound(stack: Bench, provider: str) -> None:
    seen = observe_gang.observe(stack.observing(**{"gang-admission": {"provider": provider, "settle_s": 2}}))
    assert seen.provider == provider and sorted(seen.bound.values()) == [0, 3]
    assert [o.status for o in gang_admission.judge(seen, stack.judging())] == [Status.PASSED]
    assert stack.left_behind() == []


def test_of_two_jobs_kueue_admits_one_whole_under_the_role_for_that(stack: Bench) -> None:
    assert stack.install(with_kueue(RECIPE))[-1].state == "ready"
    user = role_user("gpu_stack", stack.kubeconfig, _site(STATED), with_kueue(RECIPE))
    assert_one_is_admitted_whole(stack.cluster, user, stack.observing(**STATED), stack.judging())


@pytest.mark.drawn(1, of="charts and clusters that few recipes have")
def test_of_two_ray_clusters_one_is_placed_whole_under_the_role_for_that(stack: Bench) -> None:
    assert stack.install(with_kuberay(RECIPE))[-1].state == "ready"
    user = role_user("gpu_stack", stack.kubeconfig, _site(RAY), with_kuberay(RECIPE))
    model = stack.directory / "rehearsal" / "model.yaml"
    assert_one_cluster_is_placed_whole(stack.cluster, user, stack.observing(**RAY), stack.judging(), model)


def test_a_gateway_is_held_to_who_serves_it_under_the_role_for_that(stack: Bench) -> None:
    assert stack.install(with_gateway(RECIPE))[-1].state == "ready"
    user = role_user("gpu_stack", stack.kubeconfig, _site({}), with_gateway(RECIPE))
    assert_a_gateway_is_held_to_who_serves_it(stack.cluster, user, stack.observing(), stack.judging())


def test_broken_webhooks_and_volumes_and_what_a_recipe_expects_are_found(stack: Bench) -> None:
    context, judging = stack.observing(), stack.judging()
    assert_broken_admission_is_found(stack.cluster, context, judging)
    assert_claims_without_a_volume_are_found(stack.cluster, context, judging)
    assert_what_a_recipe_expects_is_asked_of_the_server(stack.cluster, context, judging)
    assert_demands_and_doubles_are_judged_by_the_server(context, judging)


def test_two_gpus_are_allocated_through_a_claim(stack: Bench) -> None:
    seen = observe_dra.observe(stack.observing())
    assert len({device.device for device in seen.devices}) == 2
    assert [o.status for o in dra_allocation.judge(seen, stack.judging())] == [Status.PASSED]
    assert stack.left_behind() == []


def _start_gang_test(stack: Bench) -> subprocess.Popen[str]:
    return start_gang_test(stack.cluster, stack.kubeconfig, RECIPE, SKUS, NODES, OURS)


def test_sigterm_in_the_middle_leaves_nothing(stack: Bench) -> None:
    victim = _start_gang_test(stack)
    victim.send_signal(signal.SIGTERM)
    _out, said = victim.communicate(timeout=60)
    assert victim.returncode != 0 and "SIGTERM" in said
    assert stack.left_behind() == []


def test_a_second_run_is_refused_and_what_sigkill_left_is_gone_when_the_next_one_begins(stack: Bench) -> None:
    victim = _start_gang_test(stack)
    with pytest.raises(HeldError, match=r"is held by run test-\w+"):
        observe_dra.observe(stack.observing())
    assert stack.left_behind() != [], "a run that is alive is not disturbed"
    victim.kill()
    victim.communicate(timeout=10)
    observe_dra.observe(stack.observing())
    assert stack.left_behind() == []


def test_somebody_without_rights_is_told_which_are_missing(stack: Bench) -> None:
    context = stack.observing()
    seen = observe_cluster.observe(replace(context, connections={**context.connections, "impersonate_user": "nobody"}))
    (outcome,) = api_permissions.judge(seen, stack.judging())
    assert (outcome.status, outcome.cause) == (Status.FAILED, "permission-denied")
    assert "list nodes" in outcome.summary


def test_the_gate_runs_under_its_role_and_names_a_right_that_it_lacks(stack: Bench) -> None:
    roles = role_objects(["gpu_stack"], ["test"], every_choice())
    objects = [*roles, *bindings(roles, RbacSubject(kind="User", name="acceptance"))]
    assert put_objects(stack.cluster, objects, dry_run=False)[0]
    assert not put_objects(stack.cluster, objects, dry_run=False)[0]  # Nothing is changed twice.
    assert remove_objects(stack.cluster, objects, dry_run=False)[0]
    user = role_user("gpu_stack", stack.kubeconfig, _site({}), RECIPE)
    mine = replace(stack.observing(**{"gang-admission": {"settle_s": 2}}), connections=user.connections)
    seen = observe_cluster.observe(mine)
    assert (seen.denied, bool(seen.workloads), bool(seen.components)) == ((), True, True)
    assert sorted(observe_gang.observe(mine).bound.values()) == [0, 3]
    assert_looks_around(mine, NODES)
    for right in user.drawn():
        with user.without(right):
            found = api_permissions.judge(observe_cluster.observe(mine), stack.judging())
            assert [outcome.cause for outcome in found] == ["permission-denied"]
            assert_refused_by_name(user, right, found)
    assert user.objects_left() == []


def test_check_mode_needs_the_role_for_looking_alone_and_waits_for_nothing(stack: Bench) -> None:
    roles = role_objects(["gpu_stack"], ["observe"], every_choice())
    put_objects(stack.cluster, [*roles, *bindings(roles, RbacSubject(kind="User", name="looker"))], dry_run=False)
    connections = {"kubeconfig": stack.kubeconfig, "impersonate_user": "looker"}
    context = replace(stack.observing(), connections=connections, check_mode=True)
    until(lambda: not observe_cluster.observe(context).denied, Deadline.after(10), "the role to count")
    bare = make_site([Host(name="gone", sku="dgx-h100", node_name="gone")], settings={"gpu_stack": {"settle_s": 600.0}})
    begun = time.monotonic()
    assert observe_cluster.observe(replace(context, site=bare)).denied == ()
    assert time.monotonic() - begun < 60
    assert observe_cluster.observe(replace(context, check_mode=False)).denied


def test_an_api_server_that_is_not_there(stack: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    # How long it is waited for is proven in tests/unit/plugins/plugin_utils/clients.
    monkeypatch.setattr(observe_cluster, "Cluster", partial(Cluster, patience_s=2.0))
    with pytest.raises(UnreachableError, match="cannot be reached"):
        observe_cluster.observe(replace(stack.observing(), connections={"host": "https://127.0.0.1:1"}))
