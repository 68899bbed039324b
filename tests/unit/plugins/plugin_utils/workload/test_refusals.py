# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What controllers say of a pod that they could not make: each word of recipes/pod_refusals.yaml, either way."""

from __future__ import annotations

import re
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.errors import (
    CONTROLLERS_LATE_S,
    known,
    meaning_of,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import Kind
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload import jobs
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.follow import ObservedJob, ending_of
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.job import JobSpec
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.jobs import RunningJob
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.pods import unmade

Json = dict[str, Any]
SPEC = JobSpec(name="pair", nodes=("gpu01", "gpu02"), gpus_per_node=8, image="nccl", command=("all_reduce_perf",))
POD = 'pods "pair-0-x7k2p" is forbidden: '
URL = "https://10.0.0.1:6443/api/v1/namespaces/gpufleet-test-nccl-1/pods"
CONTROLLER = 'User "system:serviceaccount:kube-system:job-controller" cannot create resource "pods" in API group ""'
# As the API server's admission writes them (sources in the file).
REFUSED = [
    f"{POD}exceeded quota: gpus, requested: requests.nvidia.com/gpu=8, used: requests.nvidia.com/gpu=8, limited: 8",
    f"{POD}failed quota: compute: must specify limits.cpu for: ranks; limits.memory for: ranks",
    f"{POD}insufficient quota to consume: requests.nvidia.com/gpu",
    f"{POD}insufficient quota to match these scopes: [{{PriorityClass In [system-node-critical]}}]",
    f'{POD}violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false',
    'admission webhook "validate.kyverno.svc-fail" denied the request: resource Pod/t/pair-0 was blocked',
    'admission webhook "validate.kyverno.svc-fail" denied the request: \n\nresource Pod/t/pair-0 was blocked due to '
    "the following policies \n\nno-root:\n  privileged: 'validation error: no'\n",
    'admission webhook "validation.gatekeeper.sh" denied the request: [no-root] Privileged container is not allowed: x',
    'admission webhook "pods.example.com" denied the request without explanation',
    f"{POD}ValidatingAdmissionPolicy 'images' with binding 'images-all' denied request: only our registry",
    f"{POD}ValidatingAdmissionPolicy 'images' denied request: failed to configure policy: no params",
    f"{POD}unable to validate against any security context constraint: []",
    f"{POD}no PriorityClass with name gpufleet-test was found",
    f'{POD}pod rejected: RuntimeClass "nvidia" not found',
    f"{POD}maximum memory usage per Container is 1Gi, but limit is 64Gi",
    f"{POD}[minimum cpu usage per Pod is 100m, but request is 10m]",
    f"{POD}cpu max limit to request ratio per Container is 4, but provided ratio is 5.000000",
    f"{POD}memory max limit to request ratio per Pod is 2, but no request is specified or request is 0",
    'Pod "pair-0-x7k2p" is invalid: spec.containers[0].image: Required value',
    f"{POD}unable to create new content in namespace t because it is being terminated",
]
PASSING = [
    f'Post "{URL}": dial tcp 10.0.0.1:6443: connect: connection refused',
    f'Post "{URL}": read tcp 10.0.0.2:5000->10.0.0.1:6443: read: connection reset by peer',
    f'Post "{URL}": write: broken pipe',
    f'Post "{URL}": connect: no route to host',
    f'Post "{URL}": net/http: TLS handshake timeout',
    f'Post "{URL}": lookup api.example.com: no such host',
    f'Post "{URL}": context deadline exceeded (Client.Timeout exceeded while awaiting headers)',
    f'Post "{URL}": net/http: request canceled (Client.Timeout exceeded)',
    f'Post "{URL}": EOF',
    f'Post "{URL}": unexpected EOF',
    f'Post "{URL}": http2: client connection lost',
    "the server is currently unable to handle the request (post pods)",
    "the server was unable to return a response in the time allotted, but may still be processing the request",
    "the server has received too many requests and has asked us to try again later (post pods)",
    "Too many requests, please try again later.",
    'an error on the server ("unknown") has prevented the request from succeeding (post pods)',
    "The create operation against pods could not be completed at this time, please try again.",
    "Internal error occurred: resource quota evaluation timed out",
    "The apiserver is shutting down, please try again later.",
    "etcdserver: leader changed",
    "etcdserver: request timed out",
    'Operation cannot be fulfilled on resourcequotas "gpus": the object has been modified; please apply your changes '
    "to the latest version and try again",
    "Unauthorized",
    "the server has asked for the client to provide credentials (post pods)",
    'Internal error occurred: failed calling webhook "mpod.kb.io": failed to call webhook: Post '
    '"https://kueue-webhook-service.kueue-system.svc:443/mutate--v1-pod?timeout=10s": dial tcp 10.96.0.7:443: connect: '
    "connection refused",
    'failed calling webhook "x"; no further details available',
    'no endpoints available for service "kueue-webhook-service"',
    f"{POD}not yet ready to handle request",
    f'pods is forbidden: {CONTROLLER} in the namespace "t": RBAC: clusterrole.rbac.authorization.k8s.io '
    '"system:controller:job-controller" not found',
    f'pods is forbidden: {CONTROLLER} in the namespace "t": RBAC: [clusterrole.rbac.authorization.k8s.io '
    '"system:basic-user" not found, clusterrole.rbac.authorization.k8s.io "system:discovery" not found]',
    f"{POD}status unknown for quota: gpus, resources: requests.nvidia.com/gpu",
    f"{POD}caches not synchronized",
    f'{POD}error looking up service account t/default: serviceaccount "default" not found',
]
# Words of both kinds: whoever denies because it lost its own connection may not deny the next time.
BOTH = [
    'admission webhook "validate.kyverno.svc-fail" denied the request: failed to get the policy: dial tcp '
    "10.96.0.1:443: connect: connection refused",
    'admission webhook "v.example.com" denied the request: context deadline exceeded',
]
UNKNOWN = [
    # Whose right it is may come with roles that the server has not read yet, without a word of them.
    f'pods is forbidden: {CONTROLLER} in the namespace "t"',
    f"{POD}the moon is in the wrong house",
    'namespaces "t" not found',
    "etcdserver: request is too large",
    "",
]


def _said(message: str) -> str:
    return f"Error creating: {message}"


@pytest.mark.parametrize("message", REFUSED)
def test_an_answer_of_admission_is_a_refusal_and_told_at_once(message: str) -> None:
    assert meaning_of(_said(message)) == "refused"
    ending = ending_of(SPEC, ObservedJob(pods=(), refusals=(_said(message),), age_s=1.0))
    assert ending is not None and ending.state == "refused"
    # Of events that are alike the recorder writes one (client-go, tools/record/events_cache.go).
    assert meaning_of(f"(combined from similar events): {_said(message)}") == "refused"


@pytest.mark.parametrize("message", [*PASSING, *BOTH, *UNKNOWN])
def test_what_may_pass_is_waited_for_and_named_at_the_end(message: str) -> None:
    limit_s = SPEC.placing_s + CONTROLLERS_LATE_S
    refusals = (_said(message),)
    assert ending_of(SPEC, ObservedJob(pods=(), refusals=refusals, age_s=limit_s)) is None
    ending = ending_of(SPEC, ObservedJob(pods=(), refusals=refusals, age_s=limit_s + 1))
    assert ending is not None and ending.state == "refused"
    assert f"no pod was made within {limit_s:.0f} s; does the job controller run? ({_said(message)})" in ending.reason
    # As long as the API server was away nobody could make it.
    assert ending_of(SPEC, ObservedJob(pods=(), refusals=refusals, age_s=limit_s + 60, away_s=60)) is None
    assert ending_of(SPEC, ObservedJob(pods=(), refusals=refusals, age_s=limit_s + 61, away_s=60)) is not None


@pytest.mark.parametrize("message", [*PASSING, *BOTH])
def test_an_outage_is_known_as_one(message: str) -> None:
    assert meaning_of(_said(message)) == "passing"


@pytest.mark.parametrize("message", UNKNOWN)
def test_a_word_that_is_not_known_is_neither(message: str) -> None:
    assert meaning_of(_said(message)) == "unknown"


@pytest.mark.parametrize("word", known().words, ids=lambda word: word.pattern)
def test_every_word_of_the_data_is_shown_by_a_message(word: Any) -> None:
    """And by none that means the other."""
    mine, others = (REFUSED, PASSING) if word.meaning == "refused" else ([*PASSING, *BOTH], REFUSED)
    assert any(re.search(word.pattern, message) for message in mine)
    assert not [message for message in others if re.search(word.pattern, message)]


def test_an_outage_is_no_refusal_of_a_job_that_has_some_of_its_pods() -> None:
    pod = {"metadata": {"name": "pair-0-x"}, "spec": {"nodeName": "gpu01"}, "status": {"phase": "Running"}}
    assert ending_of(SPEC, ObservedJob(pods=[pod], refusals=(_said(PASSING[0]),), age_s=200.0)) is None
    refused = ending_of(SPEC, ObservedJob(pods=[pod], refusals=(_said(REFUSED[0]),), age_s=2.0))
    assert refused is not None and (refused.state, "exceeded quota" in refused.reason) == ("refused", True)
    late = ending_of(SPEC, ObservedJob(pods=[pod], refusals=(_said(PASSING[0]),), age_s=1000.0))
    assert late is not None and (late.state, "connection refused" in late.reason) == ("slow-start", True)


def _event(name: str, message: str, when: str, reason: str = "FailedCreate", **more: Any) -> Json:
    about = {"kind": "Job", "name": name}
    return {
        "type": "Warning", "reason": reason, "message": message, "involvedObject": about, "lastTimestamp": when, **more
    }  # fmt: skip


OLD, NEW = "2026-01-01T10:00:05Z", "2026-01-01T10:00:40Z"


def test_what_was_said_last_counts() -> None:
    refusal, outage = _event("pair", _said(REFUSED[0]), OLD), _event("pair", _said(PASSING[0]), NEW)
    assert unmade([outage, refusal], ["pair"]) == {"pair": [refusal["message"], outage["message"]]}
    again = {**refusal, "lastTimestamp": "2026-01-01T10:01:00Z"}
    assert unmade([again, outage], ["pair"])["pair"][-1] == refusal["message"]
    # The events API of today: the time of the series.
    series = {"series": {"lastObservedTime": "2026-01-01T10:02:00.123456Z"}, "lastTimestamp": None, "eventTime": OLD}
    assert unmade([{**refusal, **series}, outage], ["pair"])["pair"][-1] == refusal["message"]
    # In one second nobody knows which came first, and who is refused is refused again.
    assert unmade([{**refusal, "lastTimestamp": NEW}, outage], ["pair"])["pair"][-1] == outage["message"]


def test_only_events_of_pods_that_were_not_made_count() -> None:
    events = [
        _event("pair", "worker pod created failed: exceeded quota: x", OLD, "MPIJobFailed"),
        _event("pair", "launcher pod created failed: exceeded quota: x", NEW, "MPIJobFailed"),
        _event("pair-launcher", _said(REFUSED[1]), "2026-01-01T10:00:50Z"),
        _event("other", _said(REFUSED[0]), NEW),
        _event("pair", "MPIJob t/pair has failed", NEW, "MPIJobFailed"),
        _event("pair", "Failed to create pod sandbox: no network", NEW, "FailedCreatePodSandBox"),
        _event("pair", "Created pod: pair-0", NEW, "SuccessfulCreate", type="Normal"),
    ]
    assert unmade(events, ["pair", "third"]) == {
        "pair": [
            "worker pod created failed: exceeded quota: x", "launcher pod created failed: exceeded quota: x",
            _said(REFUSED[1]),
        ]
    }  # fmt: skip


def test_a_message_without_an_end_is_read_in_no_time() -> None:
    assert meaning_of(unmade([_event("pair", 'RBAC: "' * 1_000_000, OLD)], ["pair"])["pair"][0]) == "unknown"


@pytest.mark.parametrize(("kind", "pods", "asks"), [("mpijob", 2, True), ("mpijob", 3, False), ("gang-job", 2, False)])
def test_events_are_asked_for_while_a_pod_is_missing_that_of_a_launcher_too(kind: Any, pods: int, asks: bool) -> None:
    asked = []

    def list_objects(what: Kind, namespace: str, *, fields: str) -> list[Json]:
        asked.append((what.kind, namespace, fields))
        return [_event("pair-launcher", _said(REFUSED[0]), OLD)]

    cluster: Any = SimpleNamespace(list_objects=list_objects)
    namespace: Any = SimpleNamespace(name="t")
    queue = jobs._JobQueue(cluster, namespace, [], 1)
    queue.running = [RunningJob(replace(SPEC, kind=kind), cluster, namespace)]
    found = queue._refusals({"pair": [{}] * pods})
    assert found == ({"pair": [_said(REFUSED[0])]} if asks else {})
    assert asked == ([("Event", "t", "type=Warning")] if asks else [])
