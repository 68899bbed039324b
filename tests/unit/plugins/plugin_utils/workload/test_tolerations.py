# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Taints: what platforms put on GPU nodes is tolerated, and what a site states; nothing else."""

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import taint_of, taint_text
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.nodes import (
    known_tolerations,
    repelling,
    tolerations_with,
)


@pytest.mark.parametrize(
    ("taint", "repels"),
    [
        ("nvidia.com/gpu=present:NoSchedule", False),
        ("nvidia.com/gpu:NoExecute", False),
        ("sku=gpu:NoSchedule", False),
        ("sku=cpu:NoSchedule", True),
        ("kubernetes.io/arch=arm64:NoSchedule", False),
        ("kubernetes.io/arch=amd64:NoSchedule", True),
        ("ebs.csi.aws.com/agent-not-ready:NoExecute", True),
        ("anything:PreferNoSchedule", False),
    ],
)
def test_taints_of_platforms(taint: str, repels: bool) -> None:
    assert taint_text(taint_of(taint)) == taint
    assert repelling([taint_of(taint)], known_tolerations()) == ((taint,) if repels else ())


def test_what_a_site_states() -> None:
    stated = tolerations_with(["dedicated=training", "mine", "x=:NoExecute"])
    assert [entry.body for entry in stated[-3:]] == [
        {"key": "dedicated", "operator": "Equal", "value": "training"},
        {"key": "mine", "operator": "Exists"},
        {"key": "x", "operator": "Equal", "value": "", "effect": "NoExecute"},
    ]
    assert repelling([taint_of("dedicated=training:NoSchedule"), taint_of("mine=1:NoExecute")], stated) == ()
    assert repelling([taint_of("dedicated=other:NoSchedule"), taint_of("x:NoSchedule")], stated) == (
        "dedicated=other:NoSchedule",
        "x:NoSchedule",
    )
    with pytest.raises(InputError, match="is not key"):
        tolerations_with(["a b"])
