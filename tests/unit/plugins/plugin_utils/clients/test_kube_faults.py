# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Faults of an API server that a request survives, and those that it must not: against a server that misbehaves."""

from __future__ import annotations

import json
from typing import Any

import pytest
from spoiled_api import CUT_BODY, CUT_HEAD, LOST, POD, RESET, Api, Json, busy, status

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube import errors
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.cluster import Cluster, holds
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.errors import (
    ConflictError,
    ForbiddenError,
    HandshakeError,
    UnreachableError,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import NAMESPACES, NODES, PODS
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import BringupError, UnavailableError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.process import left_out_of

CONFLICT = (409, status("Conflict"), {})
SURVIVED_BY_READS = [
    RESET,
    LOST,
    CUT_BODY,
    CUT_HEAD,
    CONFLICT,
    *(busy(code) for code in (408, 429, 500, 502, 503, 504)),
]


@pytest.mark.parametrize("fault", SURVIVED_BY_READS, ids=str)
def test_a_read_survives_it(api: Api, cluster: Cluster, fault: Any) -> None:
    api.objects["/api/v1/nodes/a"] = {"metadata": {"name": "a"}}
    api.faults = [fault] * 3
    assert cluster.get(NODES, "a") == {"metadata": {"name": "a"}}
    assert len(api.asked) == 4


@pytest.mark.parametrize("fault", [CUT_BODY, CUT_HEAD])
def test_a_log_that_is_cut_is_no_empty_log(api: Api, cluster: Cluster, fault: str) -> None:
    api.objects["/api/v1/namespaces/ns/pods/x/log"] = {"said": "everything"}
    api.faults = [fault]
    assert json.loads(cluster.logs("x", "ns")) == {"said": "everything"}


def test_of_a_long_log_beginning_and_end_are_kept(api: Api, cluster: Cluster) -> None:
    lines = [f"line {number}" for number in range(200_000)]
    api.objects["/api/v1/namespaces/ns/pods/x/log"] = lines
    path = PODS.path("x", "ns", "log")
    whole = cluster.transport.text("GET", path)
    assert not left_out_of(whole)
    assert cluster.transport.text("GET", path, most_bytes=2 * len(whole)) == whole
    api.faults = [CUT_BODY, RESET]
    kept = cluster.transport.text("GET", path, most_bytes=1000)
    assert len(kept) <= 1000
    assert left_out_of(kept + "\n").startswith(f"{len(whole)} bytes")


def test_a_server_that_says_500_for_ever_is_believed_after_ten_tries(api: Api, cluster: Cluster) -> None:
    api.faults = [busy(500)] * 20
    with pytest.raises(UnavailableError, match="HTTP 500"):
        cluster.get(NODES, "a")
    assert len(api.asked) == 10


@pytest.mark.parametrize("code", [400, 403, 404, 422])
def test_an_answer_that_stands_is_not_asked_for_twice(api: Api, cluster: Cluster, code: int) -> None:
    api.faults = [busy(code)]
    with pytest.raises(BringupError):
        cluster.get(NODES, "a")
    assert len(api.asked) == 1


@pytest.mark.parametrize("fault", [LOST, RESET, CUT_BODY, CUT_HEAD, busy(500), busy(504), busy(429), CONFLICT], ids=str)
def test_an_object_with_our_labels_is_created_once(api: Api, cluster: Cluster, fault: Any) -> None:
    api.faults = [fault]
    assert cluster.create(PODS, POD, "ns")["metadata"] == POD["metadata"]
    assert list(api.objects) == ["/api/v1/namespaces/ns/pods/x"]


def test_an_object_of_another_run_is_not_taken_for_ours(api: Api, cluster: Cluster) -> None:
    theirs = {"metadata": {"name": "x", "labels": {"gpufleet.io/test": "run-2"}}}
    api.objects["/api/v1/namespaces/ns/pods/x"] = theirs
    api.faults = [RESET]
    with pytest.raises(ConflictError):
        cluster.create(PODS, POD, "ns")
    assert api.objects["/api/v1/namespaces/ns/pods/x"] == theirs


def test_a_lease_that_another_got_meanwhile_is_not_taken_for_ours(api: Api, cluster: Cluster) -> None:
    ours = {"metadata": {"name": "x", "labels": {"app": "gpufleet"}}, "spec": {"holderIdentity": "run-1"}}
    api.objects["/api/v1/namespaces/ns/pods/x"] = {**ours, "spec": {"holderIdentity": "run-2"}}
    api.faults = [RESET]
    with pytest.raises(ConflictError):
        cluster.create(PODS, ours, "ns")


# kubernetes/kubernetes#66689
NO_ACCOUNT = 'pods "x" is forbidden: error looking up service account ns/default: serviceaccount "default" not found'


def test_a_pod_waits_for_the_account_of_its_namespace(api: Api, cluster: Cluster) -> None:
    api.faults = [(403, {"kind": "Status", "message": NO_ACCOUNT}, {})] * 3
    cluster.create(PODS, POD, "ns")
    assert len(api.asked) == 4


def test_an_account_that_never_comes_is_no_missing_right(
    api: Api, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Time for some requests on a machine that has more to do.
    monkeypatch.setattr(errors, "CONTROLLERS_LATE_S", 2.0)
    api.faults = [(403, {"kind": "Status", "message": NO_ACCOUNT}, {})] * 5000
    with pytest.raises(UnavailableError, match="service account ns/default") as caught:
        cluster.create(PODS, POD, "ns")
    assert not isinstance(caught.value, ForbiddenError) and "kube-controller-manager" in caught.value.hint
    assert len(api.asked) > 2


@pytest.mark.parametrize(
    "said",
    [
        "namespaces \"x\" is forbidden: ValidatingAdmissionPolicy 'levels' with binding 'all' denied request: no",
        'admission webhook "validate.kyverno.svc-fail" denied the request: privileged namespaces are not for tests',
        'pods "x" is forbidden: violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false',
        'pods "x" is forbidden: maximum memory usage per Container is 1Gi, but limit is 64Gi',
    ],
)
def test_what_a_policy_refuses_is_no_missing_right(api: Api, cluster: Cluster, said: str) -> None:
    api.faults = [(403, {"kind": "Status", "message": said}, {})]
    with pytest.raises(ForbiddenError) as caught:
        cluster.create(PODS, POD, "ns")
    assert said in caught.value.reason
    assert "no role" in caught.value.hint and "gpufleet.io/purpose=test" in caught.value.hint
    api.faults = [
        (403, {"kind": "Status", "message": 'pods is forbidden: User "ada" cannot create resource "pods"'}, {})
    ]
    with pytest.raises(ForbiddenError) as caught:
        cluster.create(PODS, POD, "ns")
    assert caught.value.hint == "grant ada that verb on that resource (Role and RoleBinding)"


def test_an_object_that_was_there_before_is_a_conflict_even_with_our_labels(api: Api, cluster: Cluster) -> None:
    api.objects["/api/v1/namespaces/ns/pods/x"] = POD
    with pytest.raises(ConflictError):
        cluster.create(PODS, POD, "ns")


def test_what_cannot_be_read_back_is_not_created_twice(api: Api, cluster: Cluster) -> None:
    api.faults = [LOST]
    with pytest.raises(UnreachableError):
        cluster.create(PODS, {"metadata": {"name": "x"}}, "ns")
    assert len(api.asked) == 1


def test_what_was_surely_not_done_is_sent_again_whatever_it_is(api: Api, cluster: Cluster) -> None:
    api.faults = [busy(429), busy(503, Retry_After="1")]
    cluster.create(PODS, {"metadata": {"name": "x"}}, "ns")
    assert len(api.asked) == 3


@pytest.mark.parametrize("fault", [LOST, RESET, CONFLICT, busy(500)], ids=str)
def test_a_deletion_survives_it_and_says_that_the_object_was_there(api: Api, cluster: Cluster, fault: Any) -> None:
    api.objects["/api/v1/namespaces/ns/pods/x"] = POD
    api.faults = [fault]
    assert cluster.delete(PODS, "x", "ns") is True
    assert api.objects == {}


def test_a_namespace_that_goes_away_already_is_deleted(api: Api, cluster: Cluster) -> None:
    api.objects["/api/v1/namespaces/n"] = {"metadata": {"name": "n", "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    api.faults = [CONFLICT]
    assert cluster.delete(NAMESPACES, "n") is True


def test_what_has_the_name_of_a_deleted_object_by_now_is_left_alone(api: Api, cluster: Cluster) -> None:
    other = {**POD, "metadata": {**POD["metadata"], "uid": "new"}}
    api.objects["/api/v1/namespaces/ns/pods/x"] = other
    api.faults = [CONFLICT]
    assert cluster.delete(PODS, "x", "ns", uid="old") is True
    assert api.objects == {"/api/v1/namespaces/ns/pods/x": other}


def test_a_deletion_that_is_refused_each_time_is_no_deletion(api: Api, cluster: Cluster) -> None:
    api.objects["/api/v1/namespaces/ns/pods/x"] = POD
    api.faults = [CONFLICT, None] * 6
    with pytest.raises(ConflictError):
        cluster.delete(PODS, "x", "ns")


def test_fields_of_another_manager_are_no_passing_conflict(api: Api, cluster: Cluster) -> None:
    api.objects["/api/v1/namespaces/ns/pods/x"] = POD
    api.faults = [(409, status("Conflict", ("FieldManagerConflict",)), {})]
    with pytest.raises(ConflictError):
        cluster.apply(PODS, POD, "ns")
    assert len(api.asked) == 1


def test_a_replacement_whose_answer_is_lost_is_known_as_ours(api: Api, cluster: Cluster) -> None:
    api.objects["/api/v1/namespaces/ns/pods/x"] = {**POD, "metadata": {**POD["metadata"], "resourceVersion": "4"}}
    api.faults = [LOST]
    body = {"metadata": {**POD["metadata"], "resourceVersion": "4"}, "spec": {"a": 2}}
    assert cluster.replace(PODS, body, "ns")["metadata"]["resourceVersion"] == "5"


def test_a_replacement_loses_against_another_writer(api: Api, cluster: Cluster) -> None:
    api.objects["/api/v1/namespaces/ns/pods/x"] = {**POD, "metadata": {**POD["metadata"], "resourceVersion": "5"}}
    body = {"metadata": {**POD["metadata"], "resourceVersion": "4"}, "spec": {"a": 2}}
    with pytest.raises(ConflictError):
        cluster.replace(PODS, body, "ns")
    assert len(api.asked) == 1


def test_a_change_is_made_again_on_what_the_other_wrote(api: Api, cluster: Cluster) -> None:
    path, seen = "/api/v1/namespaces/ns/pods/x", []
    api.objects[path] = {"metadata": {"name": "x", "resourceVersion": "1"}, "spec": {"theirs": 1}}

    def edit(found: Json) -> Json:
        seen.append(found["spec"]["theirs"])
        if len(seen) == 1:
            api.objects[path] = {"metadata": {"name": "x", "resourceVersion": "9"}, "spec": {"theirs": 2}}
        return {**found, "spec": {**found["spec"], "ours": 1}}

    assert cluster.change(PODS, "x", edit, "ns")["spec"] == {"theirs": 2, "ours": 1}
    assert seen == [1, 2]


def test_what_needs_no_change_is_not_written(api: Api, cluster: Cluster) -> None:
    api.objects["/api/v1/nodes/a"] = {"metadata": {"name": "a"}}
    cluster.change(NODES, "a", lambda _found: None)
    assert [method for method, _path in api.asked] == ["GET"]


def test_holding_is_having_all_that_is_wanted() -> None:
    assert holds({"a": {"b": 1, "c": 2}, "d": [1]}, {"a": {"b": 1}})
    assert not holds({"a": {"b": 1}}, {"a": {"b": 2}})
    assert not holds({"d": [1, 2]}, {"d": [1]})


@pytest.mark.parametrize("code", [409, 429, 500, 503])
def test_a_stream_that_was_refused_in_passing_is_opened_again(cluster: Cluster, code: int) -> None:
    faults = [HandshakeError(code, UnavailableError("stream", "is refused."))]

    def connect() -> str:
        if faults:
            raise faults.pop()
        return "open"

    assert cluster.transport.open_stream(connect) == "open"


@pytest.mark.parametrize("code", [403, 404, 409])
def test_a_stream_that_is_refused_each_time_is_refused(cluster: Cluster, code: int) -> None:
    asked = []

    def connect() -> str:
        asked.append(code)
        raise HandshakeError(code, UnavailableError("stream", "is refused."))

    with pytest.raises(UnavailableError, match="is refused"):
        cluster.transport.open_stream(connect)
    assert len(asked) == (4 if code == 409 else 1)
