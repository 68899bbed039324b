# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A removal that is not asked for definitions leaves those that helm would take away with their release.

On a rehearsal the command `remove` of docs/gpu_stack.md, which promises that definitions stay, took those of
prometheus-operator-crds, whose definitions are templates, and with them every monitor and rule of everybody.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Callable
from typing import Any, cast

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.helm.helm import Helm
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.cluster import Cluster
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import SECRETS, Kind
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.kept_definitions import with_kept
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.removal import Removal
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.remove import Remover
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.foreign_yaml import documents

MANIFEST = """---
# Source: crds/templates/c.yaml
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: c.io
  annotations: {a: "1"}
spec:
  description: |
    Text with
    --- a line
---
# Source: crds/templates/role.yaml
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: reads-CustomResourceDefinition}
"""


def _record(manifest: str, revision: int) -> dict[str, Any]:
    text = json.dumps({"name": "op", "version": revision, "manifest": manifest}).encode()
    data = base64.b64encode(base64.b64encode(gzip.compress(text))).decode()
    labels = {"owner": "helm", "name": "op", "version": str(revision)}
    return {"metadata": {"name": f"sh.helm.release.v1.op.v{revision}", "labels": labels}, "data": {"release": data}}


class Stored:
    """Helm and the cluster with its records, as helm reads them: of the newest revision."""

    def __init__(self, *records: dict[str, Any], manifest: str = "") -> None:
        self.records = {record["metadata"]["name"]: record for record in records}
        self._manifest, self.taken = manifest, list[str]()

    def manifest(self, _name: str, _namespace: str) -> str:
        if not self.records:
            return self._manifest
        newest = max(self.records.values(), key=lambda record: int(record["metadata"]["labels"]["version"]))
        packed = base64.b64decode(base64.b64decode(newest["data"]["release"]))
        return str(json.loads(gzip.decompress(packed))["manifest"])

    def uninstall(self, name: str, namespace: str, *, wait: bool) -> bool:
        for body in documents(self.manifest(name, namespace)):
            if (body["metadata"].get("annotations") or {}).get("helm.sh/resource-policy") != "keep":
                self.taken.append(body["metadata"]["name"])
        return True

    def list_metadata(self, kind: Kind, namespace: str, *, labels: str) -> list[dict[str, Any]]:
        assert (kind, namespace, labels) == (SECRETS, "gpu", "owner=helm,name=op")
        return [record["metadata"] for record in self.records.values()]

    def list_objects(self, _kind: Kind) -> list[dict[str, Any]]:
        return []

    def change(self, kind: Kind, name: str, edit: Callable[[dict[str, Any]], dict[str, Any]], namespace: str) -> None:
        assert (kind, namespace) == (SECRETS, "gpu")
        self.records[name] = edit(self.records[name])


def _removed(stored: Stored, *, keeps: bool = True) -> tuple[str, str]:
    entry = Removal(component="op", namespace="gpu", action="remove", release="gpu/op", keeps_crds=keeps)
    gone = Remover(cast(Helm, stored), cast(Cluster, stored), drain_s=0.0).run([entry])[0]
    return gone.state, f"{gone.reason} {gone.hint}"


@pytest.mark.parametrize(("keeps", "taken"), [(True, ["reads-CustomResourceDefinition"]), (False, ["c.io"])])
def test_helm_takes_definitions_only_where_they_are_asked_for(keeps: bool, taken: list[str]) -> None:
    # Revision 10 is newer than 9, whatever the order of their names.
    stored = Stored(_record("", 9), _record(MANIFEST, 10))
    assert _removed(stored, keeps=keeps)[0] == "removed"
    assert stored.taken[: len(taken)] == taken


def test_all_but_the_mark_is_as_it_was() -> None:
    before, after = documents(MANIFEST), documents(with_kept(MANIFEST))
    assert after[0]["metadata"].pop("annotations") == {"a": "1", "helm.sh/resource-policy": "keep"}
    assert before[0]["metadata"].pop("annotations") == {"a": "1"}
    assert after == before
    assert "# Source: crds/templates/role.yaml\napiVersion: rbac" in with_kept(MANIFEST)


@pytest.mark.parametrize(
    "stored",
    [
        # Helm keeps its records elsewhere (HELM_DRIVER).
        Stored(manifest=MANIFEST),
        Stored({"metadata": {"name": "other", "labels": {"version": "2"}}, "data": {"release": "eA=="}}),
    ],
)
def test_a_record_that_cannot_be_marked_stops_the_removal(stored: Stored) -> None:
    if stored.records:
        stored.manifest = lambda _name, _namespace: MANIFEST  # type: ignore[method-assign]
    state, told = _removed(stored)
    assert (state, stored.taken) == ("failed", [])
    assert "gpufleet_remove_crds=true" in told


def test_a_release_without_definitions_is_left_as_it_is() -> None:
    record = _record(MANIFEST[MANIFEST.rindex("---\n") :], 1)
    stored = Stored(json.loads(json.dumps(record)))
    assert _removed(stored)[0] == "removed"
    assert list(stored.records.values()) == [record]
