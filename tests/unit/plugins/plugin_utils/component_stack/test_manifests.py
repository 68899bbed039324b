# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Manifests before and after a chart, or instead of one: what is read, what is refused, what is to be done."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.helm.helm import Helm, Release
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.cluster import Cluster
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import Kind
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.apply import labelled
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.installation import Installed
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.model import (
    DIGEST_LABEL,
    MANAGED_BY,
    MANAGED_BY_LABEL,
    Action,
    Component,
    components_of,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.plan import make_plan
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.read import installed
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.workloads import release_of
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import ProblemsError

QUOTA = (
    "# {{ a comment }}\n---\napiVersion: v1\nkind: ResourceQuota\nmetadata: {name: pods}\nspec: {hard: {pods: '1'}}\n"
)
LIST = """apiVersion: v1
kind: List
items:
  - {apiVersion: v1, kind: ConfigMap, metadata: {name: one, namespace: elsewhere}}
  - {apiVersion: v1, kind: ConfigMap, metadata: {name: two}}
"""


def component(text: str = QUOTA, key: str = "manifestFiles", when: str = "after", **more: Any) -> Component:
    """Return the component of a recipe with one manifest file."""
    ref = {"name": "tuning", "namespace": "ns", key: ["x.yaml"], "source": "", **more}
    ref["manifests"] = [{"when": when, "file": "x.yaml", "text": text}]
    return components_of({"componentRefs": [ref], "deploymentOrder": ["tuning"]})[0]


def test_documents_and_lists_are_unfolded_in_order() -> None:
    found = component(QUOTA + "---\n" + LIST, version="1.0.0")
    assert found.has_chart
    assert [manifest.title for manifest in found.manifests] == [
        "ResourceQuota pods", "ConfigMap elsewhere/one", "ConfigMap two",
    ]  # fmt: skip
    assert not any(manifest.before for manifest in found.manifests)
    assert found.namespaces == {"ns", "elsewhere"}


def test_a_component_may_be_only_manifests() -> None:
    found = component(key="preManifestFiles", when="before")
    assert not found.has_chart
    assert found.manifests[0].before


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("name: {{ .Values.name }}\n", "has template expressions .* was not rendered"),
        ("a: [", "not plain YAML"),
        ("when: .inf\n", "not plain YAML"),
        ("when: 2026-01-01\n", "no object"),
        ("- 1\n", "no object"),
        ("kind: ConfigMap\nmetadata: {name: x}\n", "no object"),
        ("apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: x}\n", "no object"),
    ],
)
def test_what_cannot_be_applied_is_refused_with_its_file(text: str, says: str) -> None:
    with pytest.raises(ProblemsError, match=rf"component tuning: x\.yaml: .*{says}"):
        component(text)


@pytest.mark.parametrize("key", ["preManifestFiles", "manifestFiles"])
def test_a_file_without_its_content_is_never_passed_over(key: str) -> None:
    ref = {"name": "a", "namespace": "n", "version": "1.0.0", key: ["x.yaml"]}
    with pytest.raises(ProblemsError, match=r"names the manifest file x\.yaml, whose content is not in the recipe"):
        components_of({"componentRefs": [ref], "deploymentOrder": ["a"]})


def test_what_is_applied_says_whose_it_is() -> None:
    made = component()
    body = labelled(made, made.manifests[0])
    assert body["metadata"]["labels"] == {MANAGED_BY_LABEL: MANAGED_BY, DIGEST_LABEL: made.manifests[0].digest}
    assert release_of(body) == "ns/tuning"
    assert "labels" not in made.manifests[0].body["metadata"], "the recipe's own object is not changed"
    assert component(QUOTA.replace("'1'", "'2'")).manifests[0].digest != made.manifests[0].digest


OURS = {MANAGED_BY_LABEL: MANAGED_BY, DIGEST_LABEL: component().digest}
RELEASE = Release("tuning", "ns", 1, "deployed", "tuning", "")


@pytest.mark.parametrize(
    ("release", "labels", "foreign", "adopt", "action"),
    [
        (None, {}, (), (), Action.INSTALL),
        (RELEASE, OURS, (), (), Action.UNCHANGED),
        (replace(RELEASE, status="incomplete"), OURS, (), (), Action.UPGRADE),
        (RELEASE, {}, ("ResourceQuota pods",), (), Action.FOREIGN),
        (RELEASE, {}, ("ResourceQuota pods",), ("tuning",), Action.ADOPT),
        (RELEASE, OURS, ("ConfigMap two",), (), Action.UNCHANGED),
        (RELEASE, OURS, ("ConfigMap two",), ("tuning",), Action.ADOPT),
    ],
)
def test_action(
    release: Release | None,
    labels: dict[str, str],
    foreign: tuple[str, ...],
    adopt: tuple[str, ...],
    action: Action,
) -> None:
    releases = {} if release is None else {"ns/tuning": release}
    found = Installed(releases=releases, labels={"ns/tuning": labels}, foreign={"ns/tuning": foreign})
    (step,) = make_plan([component()], found, policies=dict.fromkeys(adopt, "adopt")).steps
    assert step.action is action
    assert step.take_over is bool(adopt)
    assert step.wanted_version == "manifests"
    if foreign and not adopt:
        assert "somebody else" in step.reason and "gpufleet_gpu_stack_" in step.hint


class Seen:
    """A cluster and a helm that have some objects of somebody else, and no release."""

    def __init__(self, *names: str) -> None:
        self.names = names

    def releases(self) -> dict[str, Release]:
        return {}

    def list_metadata(self, _kind: Kind, labels: str = "") -> list[dict[str, Any]]:
        return []

    def kind(self, api_version: str, kind: str) -> Kind:
        return Kind(api_version, kind, f"{kind.lower()}s", kind != "Namespace")

    def find(self, kind: Kind, name: str, _namespace: str = "") -> dict[str, Any] | None:
        return {"metadata": {"name": name}} if f"{kind.kind} {name}" in self.names else None


OPERATOR = """apiVersion: v1
kind: Namespace
metadata: {name: ns}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: one}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: two}
"""


@pytest.mark.parametrize(
    ("there", "action"),
    [
        ((), Action.INSTALL),
        (("Namespace ns",), Action.INSTALL),
        (("ConfigMap one",), Action.FOREIGN),
        (("Namespace ns", "ConfigMap one"), Action.FOREIGN),
    ],
)
def test_a_namespace_that_was_there_before_keeps_nothing_away(there: tuple[str, ...], action: Action) -> None:
    made, seen = component(OPERATOR), Seen(*there)
    found = installed(cast(Helm, seen), cast(Cluster, seen), [made])
    (step,) = make_plan([made], found).steps
    assert step.action is action
