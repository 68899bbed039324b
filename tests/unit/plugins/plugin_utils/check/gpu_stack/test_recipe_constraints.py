# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The recipe's constraints on the operating system of the nodes, with their quantifiers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack import recipe_constraints
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack.cluster_state import ClusterState
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status

from .conftest import changed_node, context, recipe

ID, VERSION = "OS.release.ID", "OS.release.VERSION_ID"
MIXED = "SUSE Linux Enterprise Server 15 SP6"


@pytest.mark.parametrize(
    ("constraint", "image", "status"),
    [
        ({"name": ID, "value": "ubuntu"}, "Ubuntu 24.04.3 LTS", Status.PASSED),
        ({"name": ID, "value": "ubuntu"}, MIXED, Status.FAILED),
        ({"name": ID, "value": "sles", "nodes": "any"}, MIXED, Status.PASSED),
        ({"name": ID, "value": "sles", "nodes": "any"}, "Ubuntu 24.04.3 LTS", Status.FAILED),
        ({"name": ID, "value": "sles", "nodes": "none"}, "Ubuntu 24.04.3 LTS", Status.PASSED),
        ({"name": ID, "value": "sles", "nodes": "none"}, MIXED, Status.FAILED),
        ({"name": ID, "value": "in [ubuntu, rhcos]"}, "Red Hat Enterprise Linux CoreOS 418.94.1-0", Status.PASSED),
        ({"name": VERSION, "value": ">= 15.6"}, MIXED, Status.PASSED),
        # The line does not tell the version, or is of a system that nobody knows: never a pass.
        ({"name": VERSION, "value": ">= 1"}, "Container-Optimized OS from Google", Status.OTHER),
        ({"name": ID, "value": "!= windows"}, "Windows Server 2022 Datacenter", Status.OTHER),
    ],
)
def test_operating_systems(constraint: dict[str, Any], image: str, status: Status, view: ClusterState) -> None:
    given = context(recipe=recipe(constraints=[constraint]))
    (outcome,) = recipe_constraints.judge(changed_node(view, "gpu02", os_image=image), given)
    assert outcome.status is status
    if status is Status.FAILED and constraint.get("nodes") != "any":
        assert "gpu02" in outcome.summary


@pytest.mark.parametrize(
    ("hosts", "status"),
    [({"hosts": ["gpu01"]}, Status.PASSED), ({"hosts": ["gpu02"]}, Status.FAILED), ({}, Status.FAILED)],
)
def test_a_pools_constraint_is_about_its_hosts_alone(hosts: Any, status: Status, view: ClusterState) -> None:
    pool = {"name": "big", "constraints": [{"name": ID, "value": "ubuntu"}], **hosts}
    given = context(recipe={**recipe(constraints=[]), "pools": [pool]})
    (outcome,) = recipe_constraints.judge(changed_node(view, "gpu02", os_image=MIXED), given)
    assert outcome.status is status


@pytest.mark.parametrize(
    ("constraint", "status"),
    [
        ({"name": ID, "value": "ubuntu"}, Status.OTHER),
        ({"name": "K8s.server.version", "value": ">= 1.32"}, Status.PASSED),
    ],
)
def test_a_host_that_the_cluster_lost_satisfies_nothing(
    constraint: dict[str, Any], status: Status, view: ClusterState
) -> None:
    """It left between two looks: what the others say is not said of it. What no node says has nothing to do with it."""
    without = replace(view, nodes=tuple(node for node in view.nodes or () if node.name != "gpu02"))
    for given in (
        recipe(constraints=[constraint]),
        {**recipe(constraints=[]), "pools": [{"constraints": [constraint]}]},
    ):
        (outcome,) = recipe_constraints.judge(without, context(recipe=given))
        assert outcome.status is status
        if status is Status.OTHER:
            assert outcome.blocked_by == "node-ready" and "gpu02" in outcome.summary
    broken = recipe(constraints=[{"name": ID, "value": "rhel"}])
    (outcome,) = recipe_constraints.judge(without, context(recipe=broken))
    assert outcome.status is Status.FAILED, "what the others break is broken"
