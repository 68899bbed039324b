# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What components report of themselves beyond their workloads: operators that OLM installs, policies."""

from __future__ import annotations

from typing import Any, cast

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.cluster import Cluster
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.wait import Phase
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.facts import stack_facts
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.read import reported_state
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import NotFoundError


class Objects:
    """A cluster with objects of one kind; without any it does not serve the kind."""

    def __init__(self, *phases: tuple[str, str], field: str = "phase") -> None:
        self.items = [{"metadata": {"name": name}, "status": {field: phase}} for name, phase in phases]

    def kind(self, api_version: str, kind: str) -> str:
        if not self.items:
            raise NotFoundError(kind, "is not served.")
        return kind

    def list_objects(self, _kind: str) -> list[dict[str, Any]]:
        return self.items


def _phase(component: str, objects: Objects) -> Phase:
    return reported_state(cast(Cluster, objects), stack_facts().ready_when[component], ()).phase


@pytest.mark.parametrize(
    ("component", "version"),
    [
        ("cert-manager-ocp-olm", "cert-manager-operator.v1.18.0"),
        ("nfd-ocp-olm", "nfd.4.21.0"),
        ("gpu-operator-ocp-olm", "gpu-operator-certified.v26.7.0"),
        ("network-operator-ocp-olm", "nvidia-network-operator.v26.4.1"),
    ],
)
def test_an_operator_of_olm_is_ready_when_its_version_is(component: str, version: str) -> None:
    """A Subscription that was applied is no operator, and another's version says nothing of this one."""
    other = ("another-operator.v1", "Succeeded")
    assert _phase(component, Objects()) is Phase.PENDING
    assert _phase(component, Objects(other)) is Phase.PENDING
    assert _phase(component, Objects(other, (version, "Installing"))) is Phase.PENDING
    assert _phase(component, Objects(("another-operator.v1", "Failed"), (version, "Succeeded"))) is Phase.OK


@pytest.mark.parametrize("component", ["gpu-operator", "gpu-operator-ocp"])
def test_a_policy_is_ready_when_it_says_so(component: str) -> None:
    assert _phase(component, Objects()) is Phase.PENDING
    assert _phase(component, Objects(("gpu-cluster-policy", "notReady"), field="state")) is Phase.PENDING
    assert _phase(component, Objects(("gpu-cluster-policy", "ready"), field="state")) is Phase.OK


def test_a_policy_for_nics_may_be_missing_but_not_unready() -> None:
    assert _phase("network-operator", Objects()) is Phase.OK
    assert _phase("network-operator", Objects(("nic-cluster-policy", "notReady"), field="state")) is Phase.PENDING


@pytest.mark.parametrize(("component", "word"), [("gpu-operator", "ignored"), ("network-operator", "ignore")])
def test_a_policy_that_its_operator_ignores_holds_nobody_up_and_is_none(component: str, word: str) -> None:
    second = ("second", word)
    assert _phase(component, Objects(("first", "ready"), second, field="state")) is Phase.OK
    assert _phase(component, Objects(("first", "notReady"), second, field="state")) is Phase.PENDING
    assert _phase(component, Objects(second, field="state")) is Phase.PENDING
