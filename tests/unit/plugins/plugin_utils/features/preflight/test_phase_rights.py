# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What phases must be allowed to do: no more than their shipped roles hold, and nothing that only installing needs."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from sites import make_site

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.phase_rights import given_away, phase_rights
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.rights import (
    LEVELS,
    choices_of,
    every_choice,
    gate_permissions,
    needed_permissions,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.validators.catalog import Rule, ValidatorImage
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.cluster import Cluster
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.permission import (
    AskedPermission,
    Permission,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.snapshot import RIGHTS_OF, collect_cluster
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.preflight.contact import (
    denied_rights,
    wanted_rights,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.gates import PHASES
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.run import Run
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.strict import read_yaml
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import Host
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.run import new_run

ROLES = read_yaml(Path(__file__).resolve().parents[6] / "docs" / "rbac" / "roles.yaml")["items"]
RULE = Rule(api_groups=("",), resources=("pods", "pods/log"), verbs=("get", "list"))
IMAGE = ValidatorImage(name="burst", phase="conformance", image="registry.example/v:1", rules=(RULE,))
GIVEN = {"get pods", "list pods", "get pods/log", "list pods/log"}


class Server:
    """An API server that refuses some rights."""

    def __init__(self, *refused: Permission) -> None:
        self.refused = refused

    def can_i(self, wanted: Permission) -> AskedPermission:
        fields = {name: getattr(wanted, name) for name in ("verb", "resource", "group", "namespace", "subresource")}
        return AskedPermission(**fields, allowed=wanted not in self.refused)


def rights(*phases: str, levels: tuple[str, ...] = LEVELS, images: tuple[ValidatorImage, ...] = ()) -> dict[str, str]:
    found = phase_rights(phases, levels, every_choice(), collectors=RIGHTS_OF, images=images)
    return {right.text: role for right, role in found.items()}


def holds(role: str, right: Permission) -> bool:
    """Tell whether the shipped role of that name allows it, in its namespace."""
    resource = f"{right.resource}/{right.subresource}" if right.subresource else right.resource
    return any(
        body["metadata"]["name"] == role
        and body["metadata"].get("namespace", "") == right.namespace
        and any(
            right.verb in rule["verbs"] and resource in rule["resources"] and right.group in rule["apiGroups"]
            for rule in body["rules"]
        )
        for body in ROLES
        if "rules" in body
    )


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("levels", [LEVELS[:1], LEVELS])
def test_the_shipped_role_that_is_named_holds_what_a_phase_needs(phase: str, levels: tuple[str, ...]) -> None:
    wanted = phase_rights([phase], levels, every_choice(), collectors=RIGHTS_OF)
    assert wanted and [right.text for right, role in wanted.items() if not holds(role, right)] == []


def test_a_phase_asks_what_its_gates_ask_short_of_installing() -> None:
    assert set(rights("deployment")) == {r.text for r in needed_permissions(["gpu_stack"], LEVELS[:2], every_choice())}
    only_installing = {r.text for r in gate_permissions("gpu_stack", "install", every_choice())} - set(rights(*PHASES))
    assert "create customresourcedefinitions.apiextensions.k8s.io" in only_installing
    assert not any(text.startswith("create ") for text in rights(*PHASES, levels=LEVELS[:1]))


def test_readiness_asks_for_what_its_snapshot_reads_and_no_more() -> None:
    choices = every_choice()
    few = {r.text for r in phase_rights(["readiness"], LEVELS, choices, collectors=("server", "nodes"))}
    assert few == {"get namespaces", "list nodes"}
    assert {"list runtimeclasses.node.k8s.io", "list secrets"} <= set(rights("readiness"))
    assert "list runtimeclasses.node.k8s.io" not in rights("deployment", "conformance", "performance")
    assert set(RIGHTS_OF) >= set(collected())


def collected() -> list[str]:
    """The collectors that ask the API server."""
    names = collect_cluster.__globals__["_COLLECTORS"]
    return list(cast(dict[str, Any], names))


def test_images_need_their_role_and_what_their_rules_give_away() -> None:
    asked = rights("conformance", images=(IMAGE,))
    assert asked["create rolebindings.rbac.authorization.k8s.io"] == "gpufleet-validators-test"
    assert {right.text for right in given_away(IMAGE)} == GIVEN and set(asked) >= GIVEN
    assert asked["list pods/log"] == "", "no role of ours holds it"
    for none in (rights("deployment", images=(IMAGE,)), rights("conformance", levels=LEVELS[:1], images=(IMAGE,))):
        assert "create rolebindings.rbac.authorization.k8s.io" not in none


def test_a_missing_right_is_told_with_the_commands_that_give_it() -> None:
    wanted = phase_rights(PHASES, LEVELS, every_choice(), collectors=RIGHTS_OF, images=(IMAGE,))
    for right, role in wanted.items():
        (problem,) = denied_rights(cast(Cluster, Server(right)), wanted)
        assert problem.reason == f"this user may not {right.text}."
        command = f"--role {role} " if right.namespace else f"--clusterrole {role} "
        assert (command if role else "`rules` of the site's validators") in problem.hint
        assert role == "" or "kubectl apply -f docs/rbac/roles.yaml" in problem.hint
    assert denied_rights(cast(Cluster, Server()), wanted) == []


def test_preflight_of_a_validation_asks_for_its_phases_and_that_of_a_bring_up_for_its_gates(tmp_path: Path) -> None:
    run = Run(tmp_path)
    hosts = (Host(name="gpu01", sku="dgx-h100", node_name="gpu01"),)
    run.save_site(make_site(hosts, gates=("gpu_stack", "telemetry"), capabilities=("kubernetes",)))
    run.save_hardware({})
    run.save_record(new_run("r1", "here", "2026-11-22T10:00:00Z", ("gpu_stack",), rehearsal=False))
    installing = Permission("create", "customresourcedefinitions", "apiextensions.k8s.io")
    assert installing in wanted_rights(run, {})
    asked = wanted_rights(run, {"phases": ["readiness", "conformance"], "recipe_data": [str(_site_data(tmp_path))]})
    choices = choices_of(run.site, None)
    assert installing not in asked
    assert set(needed_permissions(["gpu_stack", "telemetry"], LEVELS[:2], choices)) <= set(asked)
    assert asked[Permission("list", "runtimeclasses", "node.k8s.io")] == "gpufleet-snapshot-observe"
    assert Permission("create", "serviceaccounts") in asked and asked[Permission("patch", "configmaps")] == ""
    alone = wanted_rights(run, {"phases": ["readiness"]})
    assert {right.text for right in alone} == {"get namespaces", "list nodes", "list resourceslices.resource.k8s.io"}


def _site_data(work: Path) -> Path:
    """Recipe data of a site with a validator of its own."""
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["patch"]}]
    entry = {
        "name": "burst",
        "phase": "conformance",
        "description": "d",
        "image": "registry.example/v:1",
        "rules": rules,
    }
    body = {"apiVersion": "gpufleet.bringup/v1", "kind": "ValidatorCatalog", "validators": [entry]}
    (work / "data" / "validators").mkdir(parents=True)
    (work / "data" / "validators" / "catalog.yaml").write_text(yaml.safe_dump(body), encoding="utf-8")
    return work / "data"
