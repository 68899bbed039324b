# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Evictions: a budget that refuses is an answer at once, a server without time is asked again."""

from __future__ import annotations

from typing import Any

import pytest
from spoiled_api import LOST, Api, status

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.cluster import Cluster
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.eviction import evict
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import BringupError

PATH = "/api/v1/namespaces/a/pods/web-0/eviction"


def refused(code: int, message: str, cause: str = "", said: str = "") -> tuple[int, Any, dict[str, str]]:
    causes = [{"reason": cause, "message": said}] if cause else []
    body = {**status("TooManyRequests"), "message": message, "code": code, "details": {"causes": causes}}
    return code, body, {}


BY_BUDGET = refused(
    429, "Cannot evict pod as it would violate the pod's disruption budget.", "DisruptionBudget",
    "The disruption budget web-pdb needs 3 healthy pods and has 3 currently",
)  # fmt: skip


def test_a_budget_is_named_and_not_waited_for(api: Api, cluster: Cluster, pauses: list[float]) -> None:
    api.faults = [BY_BUDGET]
    found = evict(cluster, "web-0", "a", uid="u", grace_s=5)
    assert (found.accepted, found.budget, found.for_good) == (False, "a/web-pdb", False)
    assert found.refused == "disruption budget a/web-pdb needs 3 healthy pods and has 3 currently"
    assert api.asked == [("POST", f"{PATH}?fieldManager=gpufleet-bringup")] and pauses == []


def test_a_server_without_time_is_asked_again(api: Api, cluster: Cluster, pauses: list[float]) -> None:
    api.faults = [refused(429, "the server has received too many requests"), BY_BUDGET]
    assert evict(cluster, "web-0", "a").budget == "a/web-pdb" and len(api.asked) == 2 and len(pauses) == 1
    api.faults = [refused(429, "the server has received too many requests")]
    assert evict(cluster, "web-0", "a").accepted


def test_a_lost_answer_is_asked_for_again(api: Api, cluster: Cluster) -> None:
    api.faults = [LOST]
    assert evict(cluster, "web-0", "a").accepted and len(api.asked) == 2


def test_two_budgets_on_a_pod_refuse_for_good(api: Api, cluster: Cluster) -> None:
    api.faults = [
        refused(500, "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.")
    ]
    found = evict(cluster, "web-0", "a")
    assert found.for_good and "more than one PodDisruptionBudget" in found.refused and len(api.asked) == 1


@pytest.mark.parametrize("answer", [refused(404, "gone"), refused(403, "being deleted", "NamespaceTerminating", "x")])
def test_a_pod_that_goes_anyway_is_accepted(api: Api, cluster: Cluster, answer: Any) -> None:
    api.faults = [answer]
    assert evict(cluster, "web-0", "a").accepted


def test_a_missing_right_is_an_error_and_no_refusal(api: Api, cluster: Cluster) -> None:
    api.faults = [refused(403, 'User "jo" cannot create resource "pods/eviction"')]
    with pytest.raises(BringupError, match="grant jo that verb"):
        evict(cluster, "web-0", "a")


def test_check_mode_asks_the_server_and_evicts_nothing(api: Api, cluster: Cluster) -> None:
    assert evict(cluster, "web-0", "a", dry_run=True).accepted
    assert "dryRun=All" in api.asked[0][1]
