# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What gates must be allowed to do: no more than they do, and each missing right is told by name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from sites import make_site

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.rights import (
    LEVELS,
    Choices,
    choices_of,
    every_choice,
    gate_permissions,
    needed_permissions,
    needed_rights,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.cluster import Cluster
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.permission import (
    AskedPermission,
    Permission,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.facts import stack_facts
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.preflight.contact import denied_rights
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.rbac.app import (
    RbacSubject,
    bindings,
    role_objects,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import load_hardware
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.gates import API_GATES
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import DriverOwner, Host

GATES = ("gpu_stack", "telemetry", "fabric_validation", "training_acceptance", "inference_acceptance")
HOSTS = (Host(name="a", sku="h100", node_name="a"), Host(name="b", sku="h100", node_name="b"))
SKUS = load_hardware([Path(__file__).resolve().parents[6] / "recipes" / "hardware"])
# What the gates of a healthy rehearsal of two hosts asked the API server, recorded at its address.
REQUESTS = yaml.safe_load(
    (Path(__file__).resolve().parents[5] / "data" / "requests_of_gates.yaml").read_text(encoding="utf-8")
)
# Every authenticated user may ask (system:basic-user). The others are not needed: who may not read them is told no
# more, and goes on (rules of dead tests, queues).
NOT_NEEDED = (
    "create selfsubjectaccessreviews.authorization.k8s.io",
    "list prometheusrules.monitoring.coreos.com",
    "list queues.scheduling.volcano.sh",
)


def test_a_role_is_made_for_every_gate_that_asks(repository: Path) -> None:
    assert API_GATES == GATES
    stated = yaml.safe_load((repository / "roles/rbac/defaults/main.yml").read_text("utf-8"))["gpufleet_rbac_gates"]
    assert stated == "{{ rbac_gates | default([]) }}", "the list stands in one place: empty means all of it"


def test_every_kind_of_object_in_the_manifests_of_recipes_may_be_read() -> None:
    found = set()
    for path in (Path(__file__).resolve().parents[6] / "recipes" / "components").glob("*/manifests/*"):
        for body in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            found |= {entry["kind"] for entry in (body.get("items") or [body])} if body else set()
    assert found == set(stack_facts().manifests)
    text = yaml.safe_dump({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}})
    recipe = {"componentRefs": [{"name": "quotas", "manifests": [{"when": "built", "file": "q.yaml", "text": text}]}]}
    choices = choices_of(make_site(HOSTS), recipe)
    assert choices.manifests == ("ResourceQuota",)
    wanted = Permission("get", "resourcequotas")
    assert wanted in gate_permissions("gpu_stack", "observe", choices)
    assert wanted not in gate_permissions("gpu_stack", "observe", replace(choices, manifests=()))


def allowed_by(rules: list[dict[str, Any]], verb: str, resource: str) -> bool:
    name, _dot, group = resource.partition(".")
    return any(
        verb in rule["verbs"] and name in rule["resources"] and group in rule["apiGroups"]
        for rule in rules
        if "resources" in rule
    )


@pytest.mark.parametrize("gate", GATES)
def test_the_role_of_a_gate_allows_what_the_gate_asks_for(gate: str) -> None:
    roles = [role for role in role_objects([gate], ["test"], every_choice()) if "rules" in role]
    rules = [rule for role in roles for rule in role["rules"]]
    refused = [request for request in REQUESTS[gate] if not allowed_by(rules, *request.split(" ", 1))]
    assert set(refused) <= set(NOT_NEEDED)


@pytest.mark.parametrize("gate", GATES)
@pytest.mark.parametrize("level", LEVELS)
def test_each_right_that_is_missing_is_told_by_name(gate: str, level: str) -> None:
    choices = every_choice()
    for missing in gate_permissions(gate, level, choices):
        problems = denied_rights(cast(Cluster, Server(missing)), needed_rights([gate], LEVELS, choices))
        assert [problem.reason for problem in problems] == [f"this user may not {missing.text}."]
        role = f"gpufleet-{gate.replace('_', '-')}-{'install' if gate == 'gpu_stack' else 'test'}"
        binding = f"rolebinding {role} -n" if missing.namespace else f"clusterrolebinding {role} --clusterrole {role} "
        assert f"kubectl create {binding}" in problems[0].hint and "docs/rbac.md" in problems[0].hint
    assert denied_rights(cast(Cluster, Server(None)), needed_rights([gate], LEVELS, choices)) == []


def test_a_user_without_rights_is_told_once() -> None:
    (problem,) = denied_rights(cast(Cluster, Server(None, none=True)), needed_rights(GATES, LEVELS, every_choice()))
    assert problem.reason.startswith("this user may not ") and problem.reason.count(", ") > 50


class Server:
    """An API server that refuses one thing, or everything."""

    def __init__(self, refused: Permission | None, *, none: bool = False) -> None:
        self.refused, self.none = refused, none

    def can_i(self, wanted: Permission) -> AskedPermission:
        fields = {name: getattr(wanted, name) for name in ("verb", "resource", "group", "namespace", "subresource")}
        return AskedPermission(**fields, allowed=not self.none and wanted != self.refused)


def texts(gates: tuple[str, ...], choices: Choices, levels: tuple[str, ...] = LEVELS) -> set[str]:
    return {permission.text for permission in needed_permissions(gates, levels, choices)}


def test_telemetry_alone_asks_for_nothing_of_the_stack() -> None:
    site = make_site(HOSTS, gates=("telemetry",), capabilities=("kubernetes",))
    asked = texts(site.gates, choices_of(site, None))
    assert "list secrets" not in asked and not any("deployments" in text or "jobs" in text for text in asked)
    assert {"get pods/portforward", "create prometheusrules.monitoring.coreos.com"} <= asked


def test_what_a_private_overlay_states_decides_of_rights_as_what_the_site_states() -> None:
    site = make_site(HOSTS, gates=("telemetry",), capabilities=("kubernetes",))
    saved = {"telemetry": {"url": "https://prometheus.example"}}
    assert "get pods/portforward" in texts(site.gates, choices_of(site, None))
    assert "get pods/portforward" not in texts(site.gates, choices_of(site, None, None, saved))


def test_tools_in_the_pods_of_the_operator_need_the_right_to_run_them() -> None:
    """The stream is a GET, and since 1.35 the server wants `create` too (kubernetes/kubernetes#134577)."""
    site = make_site(HOSTS, gates=("gpu_stack",), capabilities=("kubernetes",))
    operators = replace(site, driver_owner=DriverOwner.OPERATOR)
    streams = {"get pods/exec", "create pods/exec"}
    assert not streams & texts(site.gates, choices_of(site, None))
    assert streams <= texts(site.gates, choices_of(operators, None))
    assert not streams & texts(site.gates, choices_of(operators, None), LEVELS[:1])


def test_jobs_over_a_rack_need_compute_domains() -> None:
    site = make_site(HOSTS, gates=("fabric_validation",), capabilities=("kubernetes",))
    domains = {"list computedomains.resource.nvidia.com", "create computedomains.resource.nvidia.com"}
    h100 = SKUS["dgx-h100"]
    assert not domains & texts(site.gates, choices_of(site, None, {"h100": h100}))
    assert domains <= texts(site.gates, choices_of(site, None, {"h100": replace(h100, nvlink_domain="rack")}))
    alone = make_site(HOSTS[:1], gates=("fabric_validation",), capabilities=("kubernetes",))
    assert not domains & texts(alone.gates, choices_of(alone, None, {"h100": replace(h100, nvlink_domain="rack")}))


@pytest.mark.parametrize("gate", GATES)
def test_the_shipped_roles_hold_what_any_choice_of_a_site_needs(gate: str) -> None:
    shipped = {entry.text for level in LEVELS[:2] for entry in gate_permissions(gate, level, every_choice())}
    for gang in ("volcano", "kai-scheduler", "none"):
        site = make_site(HOSTS, gates=GATES, capabilities=("kubernetes", "dra"))
        assert texts((gate,), choices_of(site, {"deploymentOrder": [gang]}), LEVELS[:2]) <= shipped


def test_gates_without_a_cluster_ask_for_nothing() -> None:
    assert needed_permissions(("facility", "fabric", "nodes"), LEVELS, every_choice()) == ()


def test_looking_alone_asks_for_reading_alone() -> None:
    for permission in needed_permissions(GATES, ["observe"], every_choice()):
        assert permission.verb in ("get", "list", "watch")


@pytest.mark.parametrize(
    ("settings", "order", "hosts", "wanted", "unwanted"),
    [
        ({}, ["volcano"], HOSTS, "create podgroups.scheduling.volcano.sh", "create podgroups.scheduling.run.ai"),
        ({}, ["kai-scheduler"], HOSTS, "create podgroups.scheduling.run.ai", "create podgroups.scheduling.volcano.sh"),
        ({}, ["volcano"], HOSTS[:1], "create jobs.batch", "create podgroups.scheduling.volcano.sh"),
        # The ranks of job-networking have names in DNS whatever starts NCCL; gangs are what an MPIJob has none of.
        (
            {"fabric_validation": {"kind": "mpijob"}},
            ["volcano"],
            HOSTS,
            "create mpijobs.kubeflow.org",
            "create podgroups.scheduling.volcano.sh",
        ),
        ({}, [], HOSTS, "create jobs.batch", "create mpijobs.kubeflow.org"),
    ],
)
def test_rights_follow_the_choices_of_a_site(
    settings: dict[str, Any], order: list[str], hosts: tuple[Host, ...], wanted: str, unwanted: str
) -> None:
    site = make_site(hosts, gates=("fabric_validation",), capabilities=("kubernetes",), settings=settings)
    asked = texts(site.gates, choices_of(site, {"deploymentOrder": order}))
    assert wanted in asked and unwanted not in asked


@pytest.mark.parametrize(
    ("telemetry", "wanted"),
    [
        ({}, {"get pods/portforward", "create pods/portforward"}),
        ({"way": "service-proxy"}, {"get services/proxy", "create services/proxy"}),
        ({"url": "https://prometheus.example.org"}, set()),
    ],
)
def test_a_way_to_prometheus_asks_for_its_own_right(telemetry: dict[str, Any], wanted: set[str]) -> None:
    site = make_site(HOSTS, gates=("telemetry",), capabilities=("kubernetes",), settings={"telemetry": telemetry})
    asked = texts(site.gates, choices_of(site, None))
    assert {text for text in asked if "portforward" in text or "proxy" in text} == wanted


def test_a_level_holds_those_before_it_and_only_installing_allows_everything() -> None:
    made = role_objects(GATES, LEVELS, every_choice())
    roles = {role["metadata"]["name"]: role for role in made if role["kind"] == "ClusterRole"}
    look, test = roles["gpufleet-telemetry-observe"], roles["gpufleet-telemetry-test"]
    for rule in look["rules"]:
        assert any(
            (rule["apiGroups"], rule["resources"]) == (other["apiGroups"], other["resources"])
            and set(rule["verbs"]) <= set(other["verbs"])
            for other in test["rules"]
        )
    wild = [name for name, role in roles.items() if any("*" in str(rule) for rule in role.get("rules", ()))]
    assert wild == ["gpufleet-gpu-stack-install"]
    assert {role["metadata"].get("namespace", "") for role in made} == {"", "gpufleet-system"}


def test_bindings_name_each_role_once() -> None:
    roles = role_objects(["telemetry"], ["test"], every_choice())
    made = bindings(roles, RbacSubject(kind="ServiceAccount", name="gpufleet", namespace="gpufleet-system"))
    assert [(body["kind"], body["metadata"].get("namespace", ""), body["roleRef"]["kind"]) for body in made] == [
        ("ClusterRoleBinding", "", "ClusterRole"),
        ("RoleBinding", "gpufleet-system", "Role"),
    ]
    assert {body["metadata"]["name"] for body in made} == {"gpufleet-telemetry-test:gpufleet"}


def test_only_what_asks_helm_for_its_releases_may_read_a_secret(repository: Path) -> None:
    """S103: Helm keeps releases in Secrets; docs/rbac.md says why these roles cannot hold less, and no other does."""
    able: dict[str, set[str]] = {}
    for role in yaml.safe_load((repository / "docs" / "rbac" / "roles.yaml").read_text("utf-8"))["items"]:
        for rule in role.get("rules", ()):
            if {"secrets", "*"} & set(rule.get("resources", ())):
                reading = {"get", "list", "watch", "*"} & set(rule["verbs"])
                able.setdefault(role["metadata"]["name"], set()).update(reading)
    reading = {name: verbs for name, verbs in able.items() if verbs and not name.endswith("-install")}
    helms = {
        "gpufleet-gpu-stack-observe",
        "gpufleet-gpu-stack-test",
        "gpufleet-snapshot-observe",
        "gpufleet-snapshot-pods",
    }
    assert reading == {name: {"list"} for name in helms}
