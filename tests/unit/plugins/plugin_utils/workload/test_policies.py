# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A live policy that takes no privileged pod: what it refuses is known of nothing, and whoever may change it is told
what to do, whichever gate asked."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from nccl_fleet import Fleet
from sites import make_site

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.benchmark.preconditions import of_problem
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.benchmark.problem import Problem, launch_problem
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.fabric_validation import nccl_results
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.kit.answer import Answer
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import JudgeContext
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.errors import (
    ForbiddenError,
    error_of,
    meaning_of,
    mending,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import Sku, load_hardware
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Outcome, Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload import node_pods
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.follow import ObservedJob, ending_of
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.job import JobSpec

SPEC = JobSpec(name="pair", nodes=("gpu01", "gpu02"), gpus_per_node=8, image="nccl", command=("x",), privileged=True)
POD = 'pods "pair-0-x7k2p" is forbidden: '
VIOLATED = (
    'privileged (container "ranks" must not set securityContext.privileged=true), allowPrivilegeEscalation != false '
    '(container "ranks" must set securityContext.allowPrivilegeEscalation=false), unrestricted capabilities (container '
    '"ranks" must set securityContext.capabilities.drop=["ALL"]), runAsNonRoot != true (pod or container "ranks" must '
    'set securityContext.runAsNonRoot=true), seccompProfile (pod or container "ranks" must set it)'
)
# What refuses, as its source writes it (recipes/pod_refusals.yaml), who that is, and the command.
POLICIES = [
    pytest.param(
        f"{POD}ValidatingAdmissionPolicy 'no-privileged' with binding 'no-privileged-all' denied request: not here",
        "no-privileged", "kubectl edit validatingadmissionpolicybinding no-privileged-all", id="binding",
    ),
    pytest.param(
        f"{POD}ValidatingAdmissionPolicy 'no-privileged' denied request: failed to configure policy: no params",
        "no-privileged", "kubectl describe validatingadmissionpolicy no-privileged", id="policy",
    ),
    pytest.param(
        f'{POD}violates PodSecurity "restricted:latest": {VIOLATED}', 'PodSecurity "restricted:latest"',
        "kubectl get ns -l gpufleet.io/purpose=test -L pod-security.kubernetes.io/enforce -w", id="restricted",
    ),
    pytest.param(
        f'{POD}violates PodSecurity "baseline:v1.34": {VIOLATED}', 'PodSecurity "baseline:v1.34"',
        "kubectl get ns -l gpufleet.io/purpose=test -L pod-security.kubernetes.io/enforce -w", id="baseline",
    ),
    pytest.param(
        'admission webhook "validate.kyverno.svc-fail" denied the request: \n\nresource Pod/t/pair-0 was blocked due '
        "to the following policies \n\ndisallow-privileged:\n  privileged: 'validation error: no'\n",
        "disallow-privileged", "kubectl edit clusterpolicy disallow-privileged", id="kyverno",
    ),
    pytest.param(
        'admission webhook "validation.gatekeeper.sh" denied the request: [psp-privileged] Privileged container is not '
        "allowed: ranks", "psp-privileged",
        'kubectl edit "$(kubectl get constraints -o name | grep /psp-privileged$)"`', id="gatekeeper",
    ),
]  # fmt: skip
HOST = make_site((), name="lab")


@pytest.mark.parametrize(("message", "who", "command"), POLICIES)
def test_a_refused_job_is_other_with_the_policy_and_the_command(message: str, who: str, command: str) -> None:
    """Gates 6 to 8 start their pods through controllers, which say so in events, and judge them by one function."""
    ending = ending_of(SPEC, ObservedJob(pods=(), refusals=(f"Error creating: {message}",), age_s=1.0))
    assert ending is not None and ending.state == "refused"
    launch = launch_problem(ending.state, ending.reason)
    assert launch is not None
    context = JudgeContext(gate="fabric_validation", site=HOST, today=date(2026, 1, 1))
    found = of_problem(Answer.about_host(nccl_results.SPEC, context, "gpu01"), Problem(*launch), {})
    assert (found.status, found.cause) == (Status.OTHER, "launch-refused")
    assert who in found.summary and command in found.hint


@pytest.mark.parametrize(("message", "who", "command"), POLICIES)
def test_a_pod_that_a_gate_makes_itself_is_refused_with_the_command(message: str, who: str, command: str) -> None:
    """Gates 3 and 4, snapshots: the API server's own answer."""
    body = json.dumps({"kind": "Status", "apiVersion": "v1", "message": message, "reason": "Forbidden"}).encode()
    error = error_of(403, "POST", "/api/v1/namespaces/t/pods", "create", body)
    assert isinstance(error, ForbiddenError)
    assert who in error.reason and command in (error.hint or "")

    def create(_objects: Any) -> None:
        raise error

    space: Any = SimpleNamespace(name="t", priority_class="p", labels={}, tolerated=[], create=create)
    pods: Any = SimpleNamespace(image="i", runtime_class="", script="x", start_s=1.0, run_s=1.0)
    _title, why = node_pods._made(space, "n0", "gpu01", pods)
    assert who in why and command in why


@pytest.fixture(scope="session")
def hardware(repository: Path) -> dict[str, Sku]:
    return load_hardware([repository / "recipes/hardware"])


@pytest.mark.parametrize(("message", "who", "command"), POLICIES)
def test_no_host_is_blamed_for_a_policy(hardware: dict[str, Sku], message: str, who: str, command: str) -> None:
    """All of gate 6: every run is refused."""
    fleet = Fleet(hosts=("gpu01", "gpu02", "gpu03", "gpu04"), hardware=hardware)
    fleet.state = lambda _want: ("refused", None)
    results = fleet.results()
    said = [replace(run, problem=Problem(*(launch_problem("refused", message) or ("", "")))) for run in results.runs]
    outcomes: tuple[Outcome, ...] = fleet.outcomes(replace(results, runs=tuple(said)))
    assert {o.status for o in outcomes if not o.blocked_by} == {Status.OTHER}
    told = [o for o in outcomes if o.cause == "launch-refused"]
    assert told and all(who in o.summary and command in o.hint for o in told)


@pytest.mark.parametrize(
    "message",
    [
        f"{POD}exceeded quota: gpus, requested: requests.nvidia.com/gpu=8, used: requests.nvidia.com/gpu=8, limited: 8",
        'admission webhook "pods.example.com" denied the request without explanation',
        "dial tcp 10.0.0.1:6443: connect: connection refused", "",
    ],
)  # fmt: skip
def test_who_is_not_named_gets_the_general_word(message: str) -> None:
    assert mending(message) == ""


def test_a_name_that_is_no_name_is_quoted() -> None:
    message = f"{POD}ValidatingAdmissionPolicy 'x' with binding 'a; rm -rf $HOME' denied request: y"
    assert meaning_of(message) == "refused"
    assert "validatingadmissionpolicybinding 'a; rm -rf $HOME'`" in mending(message)
