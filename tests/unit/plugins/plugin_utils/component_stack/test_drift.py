# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What was changed by hand in a release is told from what controllers, webhooks and autoscalers write."""

from __future__ import annotations

from typing import Any, cast

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.helm.helm import Helm, Release
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.cluster import Cluster
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.errors import (
    ForbiddenError,
    UnreachableError,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import CONFIG_MAPS, Kind
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.drift import (
    changed_fields,
    different_values,
    edited_fields,
    with_drift,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.install import (
    Done,
    apply_crds,
    preview_crds,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.installation import Installed
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.manifest import Manifest
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.model import (
    DIGEST_LABEL,
    MANAGED_BY,
    MANAGED_BY_LABEL,
    Action,
    Component,
    Plan,
    Step,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.plan import make_plan
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.read import installed
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.tell import (
    changed,
    preview_lines,
    put_back,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import BringupError

WANTED = {
    "kind": "Deployment",
    "metadata": {"name": "op", "labels": {"app": "op"}},
    "spec": {
        "replicas": 1,
        "template": {"spec": {"containers": [{"name": "op", "image": "op:1", "args": ["--a"]}]}},
    },
}
BODY = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "op"}, "data": {"a": "1"}}
# As the API server records it (Kubernetes documentation, Server-Side Apply, field management).
IMAGE = {"f:template": {"f:spec": {"f:containers": {'k:{"name":"op"}': {"f:image": {}}}}}}


def live(manager: str, fields: dict[str, Any], *, subresource: str = "", **spec: Any) -> dict[str, Any]:
    """The object on the cluster, with fields that somebody wrote last."""
    entry = {"manager": manager, "operation": "Update", "fieldsV1": {"f:spec": fields}, "subresource": subresource}
    return {
        "metadata": {"name": "op", "labels": {"app": "op"}, "managedFields": [{"manager": "helm"}, entry]},
        "spec": {**cast(dict[str, Any], WANTED["spec"]), **spec},
    }


def containers(image: str) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "op", "image": image, "args": ["--a"]}]}}


@pytest.mark.parametrize(
    ("there", "fields"),
    [
        (live("kubectl-edit", {"f:replicas": {}}, replicas=7), ["spec.replicas"]),
        (live("kubectl", {"f:replicas": {}}, subresource="scale", replicas=7), ["spec.replicas"]),
        (live("kubectl-set", IMAGE, template=containers("op:2")), ["spec.template.spec.containers[op].image"]),
        # Written by hand, and what the chart says all the same.
        (live("kubectl-edit", {"f:replicas": {}}), []),
        # Beside what the chart states.
        (live("kubectl-edit", {"f:paused": {}}, paused=True), []),
        # An autoscaler, an operator, a status.
        (live("kube-controller-manager", {"f:replicas": {}}, replicas=7), []),
        (live("gpu-operator", IMAGE, template=containers("op:2")), []),
        (live("kubectl", {"f:replicas": {}}, subresource="status", replicas=7), []),
    ],
)
def test_fields_that_were_edited(there: dict[str, Any], fields: list[str]) -> None:
    assert edited_fields(WANTED, there) == fields


def applied(manager: str, owned: dict[str, Any], **data: str) -> dict[str, Any]:
    """A ConfigMap of a manifest on the cluster, with the data that this manager wrote last."""
    entries = [{"manager": "gpufleet-bringup", "fieldsV1": {"f:data": {"f:a": {}}}}]
    entries += [{"manager": manager, "fieldsV1": {"f:data": owned}}] if manager else []
    return {"metadata": {"labels": {"x": "y"}, "managedFields": entries, "generation": 3}, "data": data}


@pytest.mark.parametrize(
    ("there", "fields"),
    [
        (applied("", {}, a="1", b="2"), []),
        (applied("kubectl-edit", {"f:a": {}}, a="7", b="2"), ["data.a"]),
        # Taken away: nobody is its writer.
        (applied("kubectl-edit", {"f:b": {}}, b="2"), ["data.a"]),
        (applied("", {}, b="2"), ["data.a"]),
        (applied("", {}), ["data.a"]),
        (applied("some-operator", {"f:a": {}}, a="7", b="2"), []),
        (applied("some-operator", {"f:b": {}}, b="2"), ["data.a"]),
        # What the manifest does not state, applying it would not change.
        (applied("kubectl-edit", {"f:c": {}}, a="1", b="2", c="3"), []),
    ],
)
def test_fields_of_a_manifest_that_applying_it_again_would_change(there: dict[str, Any], fields: list[str]) -> None:
    metadata = {**there["metadata"], "generation": 4, "annotations": {"server/generation": "2"}}
    again = {**there, "metadata": metadata, "data": {**there["data"], "a": "1"}}
    there["data"] = there["data"] or None
    assert changed_fields({"kind": "ConfigMap", "data": {"a": "1"}}, there, again) == fields


@pytest.mark.parametrize(
    ("error", "fields"),
    [
        (ForbiddenError("apply", "forbidden."), ("ConfigMap op data.a",)),
        (BringupError("apply", "admission webhook does not support dry run."), ("ConfigMap op data.a",)),
        (UnreachableError("apply", "cannot be reached."), None),
    ],
)
def test_where_the_server_does_not_say_what_kubectl_wrote_counts(
    error: BringupError, fields: tuple[str, ...] | None
) -> None:
    manifest = Manifest(file="a.yaml", before=False, body=BODY)
    component = Component(
        name="op", namespace="ns", chart="", version="", source="", manifests=(manifest,), has_chart=False
    )
    there = applied("kubectl-edit", {"f:a": {}}, a="7", b="2")
    there["metadata"]["labels"] = {MANAGED_BY_LABEL: MANAGED_BY, DIGEST_LABEL: manifest.digest}

    class Refusing:
        """A cluster that has the object and computes nothing."""

        def kind(self, _api: str, _kind: str) -> Kind:
            return CONFIG_MAPS

        def find(self, *_args: str) -> dict[str, Any]:
            return there

        def apply(self, *_args: object, **_more: object) -> dict[str, Any]:
            raise error

    release = Release("op", "ns", 1, "deployed", "", "")
    found = Installed(releases={"ns/op": release}, labels={"ns/op": {MANAGED_BY_LABEL: MANAGED_BY}})
    helm, cluster = cast(Helm, None), cast(Cluster, Refusing())
    if fields is None:
        with pytest.raises(UnreachableError):
            with_drift(helm, cluster, [component], found)
    else:
        assert with_drift(helm, cluster, [component], found).drift == {"ns/op": fields}


class OneRelease:
    """A helm with one release, whose manifest is a text."""

    def __init__(self, manifest: str) -> None:
        self.text = manifest

    def values(self, _name: str, _namespace: str) -> dict[str, Any]:
        return {}

    def manifest(self, _name: str, _namespace: str) -> str:
        return self.text


class OneObject:
    """A cluster with one ConfigMap, edited by hand."""

    def kind(self, _api: str, _kind: str) -> Kind:
        return CONFIG_MAPS

    def find(self, *_args: str) -> dict[str, Any]:
        return applied("kubectl-edit", {"f:a": {}}, a="7")


@pytest.mark.parametrize("looks_only", [False, True])
@pytest.mark.parametrize(
    ("data", "fields", "why"),
    [
        ("{a: =}", ("ConfigMap op data.a",), ""),
        ("{a: 2026-01-02}", ("ConfigMap op data.a",), ""),
        ("{a: [}", (), "manifest of release ns/op is not YAML: line "),
        ("{a: .inf}", (), "manifest of release ns/op is not YAML: line 1: .inf is a number that JSON cannot hold"),
    ],
)
def test_a_release_is_compared_or_said_to_be_unreadable(
    looks_only: bool, data: str, fields: tuple[str, ...], why: str
) -> None:
    component = Component(name="op", namespace="ns", chart="op", version="1", source="")
    ours = {"ns/op": {MANAGED_BY_LABEL: MANAGED_BY, DIGEST_LABEL: component.digest}}
    found = Installed(releases={"ns/op": Release("op", "ns", 1, "deployed", "op", "1")}, labels=ours)
    # What Helm would not have installed has no kind or no name.
    text = f"{{apiVersion: v1, kind: ConfigMap, metadata: {{name: op}}, data: {data}}}\n---\nmetadata: {{}}\n--- 1\n"
    helm, cluster = cast(Helm, OneRelease(text)), cast(Cluster, OneObject())
    looked = with_drift(helm, cluster, [component], found, looks_only=looks_only)
    assert looked.drift == {"ns/op": fields}
    assert looked.unread.get("ns/op", "").startswith(why) and bool(looked.unread) is bool(why)
    if why:
        (line,) = preview_lines(make_plan([component], looked), {})[1:]
        assert line.startswith("op: whether it was changed by hand is not known: manifest of release ns/op is not")


def test_who_only_looks_is_told_what_may_not_be_read() -> None:
    class Closed:
        """A cluster whose objects this user may not read."""

        def kind(self, _api: str, _kind: str) -> Kind:
            return CONFIG_MAPS

        def find(self, *_args: str) -> dict[str, Any]:
            raise ForbiddenError("get configmaps", "forbidden.")

        def list_metadata(self, *_args: object, **_more: object) -> list[dict[str, Any]]:
            return []

    class NoReleases:
        """A helm that has installed nothing."""

        def releases(self) -> dict[str, Release]:
            return {}

    component = Component(
        name="op", namespace="ns", chart="", version="", source="", has_chart=False,
        manifests=(Manifest(file="a.yaml", before=False, body=BODY),),
    )  # fmt: skip
    ours = {"ns/op": {MANAGED_BY_LABEL: MANAGED_BY, DIGEST_LABEL: component.digest}}
    found = Installed(releases={"ns/op": Release("op", "ns", 1, "deployed", "", "")}, labels=ours)
    helm, cluster = cast(Helm, NoReleases()), cast(Cluster, Closed())
    with pytest.raises(ForbiddenError):
        with_drift(helm, cluster, [component], found)
    looked = with_drift(helm, cluster, [component], found, looks_only=True)
    assert looked.drift == {"ns/op": ()} and looked.unread == {"ns/op": "get configmaps: forbidden"}
    plan = make_plan([component], looked)
    assert preview_lines(plan, {}) == [
        "no component would change",
        "op: whether it was changed by hand is not known: get configmaps: forbidden",
    ]
    with pytest.raises(ForbiddenError):
        installed(helm, cluster, [component])
    looked = installed(helm, cluster, [component], looks_only=True)
    assert with_drift(helm, cluster, [component], looked, looks_only=True).unread == looked.unread
    assert preview_lines(make_plan([component], looked), {}) == [
        "no component would change",
        "op: whether it is there is not known: get configmaps: forbidden",
    ]


@pytest.mark.parametrize(
    ("wanted", "given", "paths"),
    [
        ({"a": {"b": 1}}, {"a": {"b": 1}}, []),
        ({"a": None, "b": {}}, {}, []),
        ({"a": 5.0}, {"a": 5}, []),
        ({"a": {"b": 1}}, {"a": {"b": 2, "c": 3}}, ["a.b", "a.c"]),
        ({"a": [1, 2]}, {"a": [2, 1]}, ["a"]),
        ({"a": {"password": "x"}}, {"a": {"password": "y"}}, ["a.password"]),
        ({"a": 0}, {}, ["a"]),
    ],
)
def test_values_that_differ_are_named_without_what_they_are(wanted: Any, given: Any, paths: list[str]) -> None:
    assert different_values(wanted, given) == paths


class Definitions:
    """The definitions of a cluster."""

    def __init__(self, **live: dict[str, Any]) -> None:
        self.live, self.applied, self.asked = live, list[str](), list[str]()
        self.refusal: BringupError | None = None

    def find(self, _kind: object, name: str) -> dict[str, Any] | None:
        return self.live.get(name)

    def apply(self, _kind: object, body: dict[str, Any], *, force: bool, dry_run: bool = False) -> dict[str, Any]:
        assert force
        if dry_run:
            if self.refusal:
                raise self.refusal
            self.asked.append(body["metadata"]["name"])
            return {"metadata": {"generation": 1}}
        self.applied.append(body["metadata"]["name"])
        established = {"status": {"conditions": [{"type": "Established", "status": "True"}]}}
        self.live.setdefault(body["metadata"]["name"], {**established, "spec": None})
        generation = 2 if body["spec"] != self.live.get(body["metadata"]["name"], {}).get("spec") else 1
        return {"metadata": {"generation": generation}}


def definition(*versions: str) -> dict[str, Any]:
    return {"metadata": {"generation": 1}, "spec": {"versions": [{"name": version} for version in versions]}}


CHART = "# none\n---\nkind: CustomResourceDefinition\nmetadata: {name: x}\nspec: {versions: [{name: v1}]}\n---\n"


@pytest.mark.parametrize(
    ("there", "told"),
    [({}, ("x",)), ({"x": definition("v1")}, ()), ({"x": definition("v1beta1")}, ("x",))],
    ids=["absent", "the same", "older"],
)
def test_definitions_of_a_chart_are_brought_to_its_version(there: dict[str, Any], told: tuple[str, ...]) -> None:
    cluster = Definitions(**there)
    assert apply_crds(cast(Cluster, cluster), CHART, "op", lambda line: None, installs=False) == told
    assert cluster.applied == ["x"]


def test_a_definition_is_read_as_kubernetes_reads_it() -> None:
    """A bare `=` and a date are texts, as in the definitions of the Prometheus operator."""
    text = f"{CHART}kind: CustomResourceDefinition\nmetadata: {{name: z, annotations: {{since: 2026-01-02}}}}\n"
    text += "spec:\n  enum:\n  - '!='\n  - =\n  - =~\n"
    cluster = Definitions()
    assert apply_crds(cast(Cluster, cluster), text, "op", lambda line: None, installs=False) == ("x", "z")
    for name in ("{}", "{name: y}", "[]"):
        unnamed = f"kind: CustomResourceDefinition\nmetadata: {name}"
        with pytest.raises(BringupError, match="a definition without a name"):
            apply_crds(cast(Cluster, cluster), unnamed, "op", lambda line: None, installs=False)
    with pytest.raises(BringupError, match=r"component op: its crds/ is not YAML: line 2: .*Fix: take another chart"):
        apply_crds(cast(Cluster, cluster), "a: [", "op", lambda line: None, installs=False)


def test_a_preview_meets_what_applying_definitions_meets() -> None:
    cluster = Definitions(x=definition("v1beta1"))
    assert preview_crds(cast(Cluster, cluster), CHART, "op", installs=False)
    assert (cluster.applied, cluster.asked) == ([], ["x"])
    cluster.refusal = ForbiddenError("apply crd x", "forbidden.")
    assert not preview_crds(cast(Cluster, cluster), CHART, "op", installs=False)
    cluster.refusal = BringupError("apply crd x", "invalid.")
    with pytest.raises(BringupError, match="invalid"):
        preview_crds(cast(Cluster, cluster), CHART, "op", installs=False)
    cluster.live["x"]["status"] = {"storedVersions": ["v1beta1"]}
    with pytest.raises(BringupError, match="stored as v1beta1"):
        preview_crds(cast(Cluster, cluster), CHART, "op", installs=True)
    assert preview_crds(cast(Cluster, Definitions()), CHART, "op", installs=True)


def test_what_is_not_there_is_left_to_helm_when_it_installs() -> None:
    cluster = Definitions()
    assert apply_crds(cast(Cluster, cluster), CHART, "op", lambda line: None, installs=True) == ()
    assert cluster.applied == []


def test_a_definition_without_a_stored_version_is_refused() -> None:
    cluster = Definitions(x={**definition("v1alpha1", "v1"), "status": {"storedVersions": ["v1alpha1", "v1"]}})
    with pytest.raises(BringupError, match="stored as v1alpha1"):
        apply_crds(cast(Cluster, cluster), CHART, "op", lambda line: None, installs=False)
    assert cluster.applied == []


@pytest.mark.parametrize(
    ("action", "state", "expected"),
    [
        (Action.UPGRADE, "ready", True),
        (Action.INSTALL, "failed", True),
        (Action.INSTALL, "waiting", False),
        (Action.PENDING, "refused", False),
        (Action.UNCHANGED, "ready", False),
    ],
)
def test_only_what_was_touched_counts_as_changed(action: Action, state: str, expected: bool) -> None:
    assert changed([Done(component="op", action=action, state=state)]) is expected


def test_a_preview_says_what_would_be_done_and_who_computed_it() -> None:
    steps = (
        Step(component="a", namespace="n", action=Action.INSTALL, wanted_version="1"),
        Step(component="b", namespace="n", action=Action.UPGRADE, wanted_version="2", reason="another version"),
        Step(component="c", namespace="n", action=Action.UNCHANGED, wanted_version="3"),
    )
    assert preview_lines(Plan(steps=steps), {"b": "server"}) == [
        "would install a 1 (predicted)",
        "would upgrade b 2 (server): another version",
    ]
    assert preview_lines(Plan(steps=steps[2:]), {}) == ["no component would change"]


def test_what_was_changed_by_hand_and_is_put_back_is_a_note_and_what_was_not_applied_is_none() -> None:
    by_hand = ("Deployment op spec.template.spec.containers[op].image", "value byHand")
    step = Step(component="op", namespace="ns", action=Action.UPGRADE, wanted_version="1.0.0", by_hand=by_hand)
    other = Step(component="other", namespace="ns", action=Action.UPGRADE, wanted_version="1.0.0")
    plan = Plan(steps=(step, other))

    def noted(state: str) -> tuple[str, ...]:
        return put_back(plan, [Done(component=c, action=Action.UPGRADE, state=state) for c in ("op", "other")])

    for state in ("ready", "not-ready", "degraded"):
        assert noted(state) == (
            "op was changed by hand and is put back as the recipe has it: Deployment op "
            "spec.template.spec.containers[op].image, value byHand",
        )
    for state in ("failed", "foreign", "refused", "waiting"):
        assert noted(state) == ()
