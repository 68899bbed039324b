# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods that OpenShift's admission refuses: what they break is told, and which constraint has to be given to whom."""

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.benchmark.problem import launch_problem
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.follow import (
    ObservedJob,
    ending_of,
    told_refusal,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.job import JobSpec

SPEC = JobSpec(name="pair", nodes=("a", "b"), gpus_per_node=8, image="i", command=("x",), gang="none")
_NOT_USABLE = "Forbidden: not usable by user or serviceaccount"
# In the form of today's releases, and of those that name no constraint before a field (as users quote them in public).
NEW = (
    'Error creating: pods "pair-0-" is forbidden: unable to validate against any security context constraint: '
    f'[provider "anyuid": {_NOT_USABLE}, provider restricted-v2: .spec.volumes[1]: Invalid value: "hostPath": hostPath '
    "volumes are not allowed to be used, provider restricted-v2: .containers[0].runAsUser: Invalid value: 0: must be "
    "in the ranges: "
    '[1000680000, 1000689999], provider restricted-v2: .containers[0].capabilities.add: Invalid value: "IPC_LOCK": '
    f'capability may not be added, provider "restricted": {_NOT_USABLE}, provider "privileged": {_NOT_USABLE}]'
)
OLD = (
    'pods "pair-0-" is forbidden: unable to validate against any security context constraint: [provider "anyuid": '
    f'{_NOT_USABLE}, spec.volumes[0]: Invalid value: "hostPath": hostPath volumes are not allowed to be used, '
    'spec.containers[0].securityContext.capabilities.add: Invalid value: "IPC_LOCK": capability may not be added, '
    f'provider "restricted": {_NOT_USABLE}, provider "privileged": {_NOT_USABLE}]'
)


@pytest.mark.parametrize("message", [NEW, OLD])
def test_what_a_pod_breaks_is_told_with_the_constraint_that_is_asked_for(message: str) -> None:
    said = told_refusal(message)
    assert '"hostPath": hostPath volumes are not allowed' in said
    assert '"IPC_LOCK": capability may not be added' in said
    assert "not usable by user" not in said
    assert "oc adm policy add-scc-to-group privileged system:serviceaccounts" in said


def test_a_job_that_it_refuses_is_unknown_and_no_hosts_fault() -> None:
    ending = ending_of(SPEC, ObservedJob(pods=(), refusals=(NEW,), age_s=5.0))
    assert ending is not None and ending.state == "refused"
    cause, text = launch_problem(ending.state, ending.reason) or ("", "")
    assert cause == "launch-refused" and "no security context constraint" in text


@pytest.mark.parametrize("message", ["exceeded quota: gpus", "admission webhook denied the request", ""])
def test_other_refusals_are_told_as_they_are(message: str) -> None:
    assert told_refusal(message) == message
