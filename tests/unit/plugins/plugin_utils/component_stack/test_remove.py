# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A removal keeps its order, goes on only behind what is gone, and touches no namespace that others use."""

from __future__ import annotations

from typing import Any, cast

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.helm.helm import Helm, HelmError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.cluster import Cluster
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import Kind
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.removal import Ref, Removal
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.remove import Gone, Remover
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import NotFoundError

POLICY = Ref(api_version="nvidia.com/v1", kind="ClusterPolicy", name="policy")
MAP = Ref(api_version="v1", kind="ConfigMap", name="settings", namespace="gpu")


class Api:
    """A cluster with objects by title, and helm beside it: what is done to them is written down in order."""

    def __init__(
        self,
        held: str = "",
        pods: dict[str, list[dict[str, Any]]] | None = None,
        broken: bool = False,
        remade: str = "",
        by_operator: bool = True,
    ) -> None:
        self._remade, self._by_operator, self._number, self._operates = remade, by_operator, 0, True
        self.done: list[str] = []
        self.there = {"ClusterPolicy policy", "ConfigMap settings", "Namespace gpu", "CustomResourceDefinition c.io"}
        self._held, self._pods, self._broken = held, pods or {}, broken

    def kind(self, api_version: str, kind: str) -> Kind:
        if kind == "Unknown":
            raise NotFoundError(kind, "not served.")
        return Kind(api_version, kind, f"{kind.lower()}s", namespaced=kind == "ConfigMap")

    def find(self, kind: Kind, name: str, _namespace: str = "") -> dict[str, Any] | None:
        finalizers = {"finalizers": ["x/held"]} if self._held == name else {}
        made = {"uid": f"{name}-{self._number if name == self._remade else 0}", "managedFields": [{"manager": "sync"}]}
        return {"metadata": {"name": name, **made, **finalizers}} if f"{kind.kind} {name}" in self.there else None

    def delete(self, kind: Kind, name: str, _namespace: str = "", *, uid: str = "") -> bool:
        self.done.append(f"{kind.kind} {name}")
        if name == self._remade and (self._operates or not self._by_operator):
            self._number += 1
        elif name != self._held:
            self.there.discard(f"{kind.kind} {name}")
        return True

    def list_objects(self, _kind: Kind) -> list[dict[str, Any]]:
        return []

    def list_metadata(self, kind: Kind, namespace: str = "") -> list[dict[str, Any]]:
        return self._pods.get(namespace, []) if kind.kind == "Pod" else []

    def manifest(self, _name: str, _namespace: str) -> str:
        return ""

    def uninstall(self, name: str, _namespace: str, *, wait: bool) -> bool:
        if self._broken:
            raise HelmError(f"helm uninstall {name}", "a hook failed.")
        self.done.append(f"release {name} {wait}")
        self._operates = False
        return True


def _removal(name: str, *refs: Ref, **more: Any) -> Removal:
    return Removal(component=name, namespace="gpu", action="remove", release=f"gpu/{name}", custom=refs, **more)


def _run(api: Api, *removals: Removal, namespaces: tuple[str, ...] = ()) -> dict[str, Gone]:
    remover = Remover(cast(Helm, api), cast(Cluster, api), drain_s=0.0)
    return {entry.component: entry for entry in remover.run(removals, namespaces)}


def test_custom_resources_go_before_their_operator_and_definitions_after_it() -> None:
    api = Api()
    gone = _run(api, _removal("operator", POLICY, before=(MAP,), crds=("c.io",)), namespaces=("gpu",))
    assert {entry.state for entry in gone.values()} == {"removed"}
    assert api.done[:4] == [
        "ClusterPolicy policy", "release operator True", "ConfigMap settings", "CustomResourceDefinition c.io",
    ]  # fmt: skip
    assert "Namespace gpu" in api.done


def test_what_is_held_is_named_and_neither_its_operator_nor_what_that_needs_is_touched() -> None:
    api = Api(held="policy")
    gone = _run(api, _removal("operator", POLICY), _removal("certs", depends_on_it=("operator",)), namespaces=("gpu",))
    assert {name: entry.state for name, entry in gone.items()} == {"operator": "blocked", "certs": "waiting"}
    assert "x/held" in gone["operator"].reason and "kubectl patch" in gone["operator"].hint
    assert api.done == ["ClusterPolicy policy"]


def test_helm_that_fails_stops_what_the_component_needs_and_nothing_else() -> None:
    gone = _run(Api(broken=True), _removal("operator"), _removal("certs", depends_on_it=("operator",)))
    assert (gone["operator"].state, gone["certs"].state) == ("failed", "waiting")
    assert "a hook failed" in gone["operator"].reason


@pytest.mark.parametrize("action", ["absent", "foreign", "refuse"])
def test_what_is_not_to_be_removed_is_not_touched(action: str) -> None:
    api = Api()
    gone = _run(api, Removal(component="operator", namespace="gpu", action=action, reason="why"))
    assert gone["operator"].state == {"refuse": "refused"}.get(action, action)
    assert api.done == []


def test_a_kind_that_is_not_served_any_more_is_gone() -> None:
    unknown = Ref(api_version="x/v1", kind="Unknown", name="one")
    assert _run(Api(), _removal("operator", unknown))["operator"].state == "removed"


@pytest.mark.parametrize(
    ("pod", "state"),
    [
        ({"name": "mine"}, "kept"),
        ({"name": "going", "deletionTimestamp": "2026-11-22T10:00:00Z"}, "removed"),
        ({"name": "of-a-set", "ownerReferences": [{"kind": "DaemonSet", "controller": True}]}, "removed"),
    ],
)
def test_a_namespace_that_others_use_is_kept(pod: dict[str, Any], state: str) -> None:
    gone = _run(Api(pods={"gpu": [pod]}), _removal("operator"), namespaces=("gpu",))
    assert gone["namespace gpu"].state == state
    assert ("Pod mine" in gone["namespace gpu"].reason) is (state == "kept")


def test_what_its_operator_makes_again_goes_once_the_operator_is_gone() -> None:
    api = Api(remade="policy")
    gone = _run(api, _removal("operator", POLICY, before=(MAP,)))
    assert gone["operator"].state == "removed"
    assert api.done == ["ClusterPolicy policy", "release operator True", "ClusterPolicy policy", "ConfigMap settings"]
    assert "ClusterPolicy policy" not in api.there


def test_what_somebody_else_makes_again_is_named_and_waited_for_no_longer() -> None:
    gone = _run(Api(remade="policy", by_operator=False), _removal("operator", POLICY))
    assert gone["operator"].state == "failed"
    assert "ClusterPolicy policy: was made again by sync" in gone["operator"].reason
    assert "Argo CD" in gone["operator"].hint


def test_a_namespace_that_somebody_makes_again_is_kept_and_said() -> None:
    gone = _run(Api(remade="gpu", by_operator=False), _removal("operator"), namespaces=("gpu",))
    assert (gone["namespace gpu"].state, "by sync" in gone["namespace gpu"].reason) == ("kept", True)
