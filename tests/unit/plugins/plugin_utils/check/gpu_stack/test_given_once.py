# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How nodes give their GPUs out: once, and with the MIG configuration that was asked for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack import dual_advertisement, mig_strategy
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack.cluster_state import ClusterState
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Outcome, Status

from .conftest import NAMES, changed_node, changed_operand, context, healthy, recipe, workload


def _plugin_only() -> ClusterState:
    return replace(healthy(), slices=())


def _of(outcomes: tuple[Outcome, ...], node: str) -> Outcome:
    return next(outcome for outcome in outcomes if outcome.subjects[0].name == node)


def _states(outcomes: tuple[Outcome, ...]) -> list[tuple[str, Status, str]]:
    return [(subject.name, o.status, o.cause) for o in outcomes for subject in o.subjects]


@pytest.mark.parametrize("slices", [(), None])
def test_gpus_of_the_device_plugin_alone_are_given_out_once(slices: Any) -> None:
    found = dual_advertisement.judge(replace(healthy(), slices=slices), context())
    assert {outcome.status for outcome in found} == {Status.PASSED} and len(found) == len(NAMES)
    assert "device plugin alone" in found[0].summary


def test_gpus_in_slices_alone_are_given_out_once() -> None:
    view = healthy()
    for name in NAMES:
        # A kubelet keeps the name of a plugin that went, with none of its devices.
        view = changed_node(view, name, allocatable={"nvidia.com/gpu": 0}, capacity={"nvidia.com/gpu": 0})
    assert {outcome.status for outcome in dual_advertisement.judge(view, context())} == {Status.PASSED}


@pytest.mark.parametrize(
    "offered", [{"nvidia.com/gpu": 8}, {"nvidia.com/gpu.shared": 32}, {"nvidia.com/mig-1g.10gb": 56}]
)
def test_gpus_in_slices_and_by_the_device_plugin_are_given_out_twice(offered: dict[str, int]) -> None:
    view = replace(healthy(), slices=tuple(s for s in healthy().slices or () if s.node == "gpu02"))
    found = dual_advertisement.judge(changed_node(view, "gpu02", allocatable=offered), context())
    bad = _of(found, "gpu02")
    assert (bad.status, bad.cause) == (Status.FAILED, "gpus-advertised-twice")
    assert "devicePlugin.enabled: false" in bad.hint and next(iter(offered)) in bad.summary
    assert {o.status for o in found if o is not bad} == {Status.PASSED}


def test_partitions_in_a_slice_count_as_well() -> None:
    slices = tuple(replace(entry, gpus=0, devices=7) for entry in healthy().slices or ())
    found = dual_advertisement.judge(replace(healthy(), slices=slices), context())
    assert {outcome.cause for outcome in found} == {"gpus-advertised-twice"}


def test_a_device_plugin_that_just_went_is_waited_for_and_one_that_fails_is_told() -> None:
    """The kubelet counts its devices for five minutes more, and gives none of them out."""
    left: dict[str, Any] = {"allocatable": {"nvidia.com/gpu": 0}, "capacity": {"nvidia.com/gpu": 8}}
    own = tuple(entry for entry in healthy().slices or () if entry.node == "gpu02")
    view = changed_node(replace(healthy(), slices=own), "gpu02", **left)
    found = _of(dual_advertisement.judge(view, context()), "gpu02")
    assert (found.status, found.cause) == (Status.FAILED, "gpus-advertised-twice")
    kept = tuple(o for o in view.operands or () if o.workload.app != "nvidia-device-plugin-daemonset")
    found = _of(dual_advertisement.judge(replace(view, operands=kept), context()), "gpu02")
    assert (found.status, found.cause) == (Status.OTHER, "device-plugin-leaves")
    # Of somebody else's device plugin, which still gives them out.
    view = changed_node(replace(view, operands=kept), "gpu02", allocatable={"nvidia.com/gpu": 8})
    assert _of(dual_advertisement.judge(view, context()), "gpu02").status is Status.FAILED


def test_channels_of_compute_domains_are_no_gpus() -> None:
    slices = tuple(replace(entry, driver="compute-domain.nvidia.com") for entry in healthy().slices or ())
    found = dual_advertisement.judge(replace(healthy(), slices=slices), context())
    assert {outcome.status for outcome in found} == {Status.PASSED}


def test_a_node_that_offers_none_is_another_checks_matter() -> None:
    view = changed_node(_plugin_only(), "gpu03", allocatable={}, capacity={})
    assert _of(dual_advertisement.judge(view, context()), "gpu03").cause == "blocked-by-gpu-allocatable"


def _labelled(**labels: str) -> tuple[Outcome, ...]:
    given = {f"nvidia.com/{key}": value for key, value in labels.items()}
    return mig_strategy.judge(changed_node(healthy(), "gpu02", labels=given), context())


@pytest.mark.parametrize(
    ("labels", "status", "cause"),
    [
        ({}, Status.PASSED, ""),
        ({"mig.capable": "true", "mig.strategy": "single"}, Status.PASSED, ""),
        ({"mig.config": "all-disabled", "mig.config.state": "success"}, Status.PASSED, ""),
        ({"mig.config": "all-1g.10gb", "mig.config.state": "success"}, Status.PASSED, ""),
        ({"mig.config": "all-1g.10gb", "mig.config.state": "failed"}, Status.FAILED, "mig-config-failed"),
        ({"mig.config": "all-1g.10gb", "mig.config.state": "pending"}, Status.OTHER, "mig-config-pending"),
        ({"mig.config": "all-1g.10gb", "mig.config.state": "rebooting"}, Status.OTHER, "mig-config-pending"),
        ({"mig.config": "all-1g.10gb"}, Status.OTHER, "mig-config-pending"),
        (
            {"gpu.product": "NVIDIA-A100-SXM4-40GB-MIG-INVALID", "mig.strategy": "single"},
            Status.FAILED,
            "mig-strategy-mismatch",
        ),
    ],
)
def test_what_the_mig_manager_says_of_a_node(labels: dict[str, str], status: Status, cause: str) -> None:
    found = _of(_labelled(**labels), "gpu02")
    assert (found.status, found.cause) == (status, cause)


def test_the_strategy_is_the_one_of_the_recipe_where_that_states_one() -> None:
    stated = recipe()
    stated["componentRefs"][0]["values"] = {"mig": {"strategy": "mixed"}}
    view = changed_node(healthy(), "gpu02", labels={"nvidia.com/mig.strategy": "single"})
    view = changed_node(view, "gpu03", labels={"nvidia.com/mig.strategy": "mixed"})
    found = mig_strategy.judge(view, context(recipe=stated))
    assert _of(found, "gpu02").cause == "mig-strategy-differs"
    assert _of(found, "gpu03").status is Status.PASSED


def test_a_mig_manager_that_crashes_explains_what_is_not_applied() -> None:
    crash = workload("nvidia-mig-manager", "", "DaemonSet", 4, state="failed", ready=3, nodes=("gpu02",))
    view = changed_operand(healthy(), "nvidia-dcgm-exporter")
    operand = replace((view.operands or ())[0], title="MIG manager", workload=crash)
    view = replace(view, operands=(*(view.operands or ()), operand))
    labels = {mig_strategy.CONFIG: "all-1g.10gb", mig_strategy.STATE: "pending"}
    found = mig_strategy.judge(changed_node(view, "gpu02", labels=labels), context())
    assert _of(found, "gpu02").cause == "blocked-by-cluster-policy-ready"


def test_a_host_without_a_node_is_told_by_the_check_of_nodes() -> None:
    view = replace(healthy(), nodes=tuple(node for node in healthy().nodes or () if node.name != "gpu04"))
    for check in (dual_advertisement, mig_strategy):
        assert ("gpu04", Status.OTHER, "blocked-by-node-ready") in _states(check.judge(view, context()))
