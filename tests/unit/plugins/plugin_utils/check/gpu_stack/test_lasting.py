# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is ready counts when it stays so: flapping fails by name, too short a time is no verdict."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack.cluster_state import ClusterState
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Outcome, Status

from .conftest import NAMES, changed_node, changed_operand, context, judged, site

VOLCANO = "volcano-main"
EXPORTER = "nvidia-dcgm-exporter"


def _changed(view: ClusterState, name: str, **more: Any) -> ClusterState:
    workloads = tuple(replace(w, **more) if w.name == name else w for w in view.workloads or ())
    return changed_operand(replace(view, workloads=workloads), name, **more)


def _open(outcomes: list[Outcome]) -> list[tuple[str, str, str]]:
    return [(o.check, o.status.value, o.cause) for o in outcomes if o.status is not Status.PASSED]


@pytest.mark.parametrize(("name", "check"), [(VOLCANO, "component-health"), (EXPORTER, "cluster-policy-ready")])
def test_what_loses_its_readiness_again_and_again_fails(view: ClusterState, name: str, check: str) -> None:
    lost = {NAMES[0]: 3}
    for state in ({"ready_for_s": 20.0}, {"ready_for_s": 0.0, "state": "pending", "ready": 0, "nodes": (NAMES[0],)}):
        outcomes = judged(_changed(view, name, losses=lost, **state), context())
        if state.get("state") and name == EXPORTER:
            # At the moment of the verdict it is not ready, which is said as of any operand.
            assert _open(outcomes) == [(check, "failed", "operand-not-ready")]
            continue
        assert _open(outcomes) == [(check, "failed", "workload-flapping")]
        (outcome,) = [o for o in outcomes if o.status is Status.FAILED]
        assert f"on {NAMES[0]} lost its readiness 3 times" in outcome.summary


@pytest.mark.parametrize(("name", "check"), [(VOLCANO, "component-health"), (EXPORTER, "cluster-policy-ready")])
@pytest.mark.parametrize(
    ("short", "cause"),
    [
        ({"ready_for_s": 59.9}, "not-ready-for-long"),
        ({"ready_for_s": 12.0, "losses": {NAMES[0]: 1}}, "not-ready-for-long"),
        ({"ready_for_s": None}, "readiness-not-timed"),
    ],
)
def test_too_short_a_time_is_no_verdict(
    view: ClusterState, name: str, check: str, short: dict[str, Any], cause: str
) -> None:
    assert _open(judged(_changed(view, name, **short), context())) == [(check, "other", cause)]


@pytest.mark.parametrize("name", [VOLCANO, EXPORTER])
def test_what_came_back_for_long_enough_passes(view: ClusterState, name: str) -> None:
    """A toolkit that restarts the container runtime takes everything on its node down once or twice."""
    again = _changed(view, name, losses={NAMES[0]: 4}, ready_for_s=60.0)
    assert _open(judged(again, context())) == []


def test_a_site_says_how_long_is_long_enough(view: ClusterState) -> None:
    short = context(site=site(settings={"gpu_stack": {"stays_ready_s": 5.0}}))
    assert _open(judged(_changed(view, VOLCANO, ready_for_s=6.0), short)) == []


def test_a_node_that_does_not_work_explains_what_happens_on_it(view: ClusterState) -> None:
    down = changed_node(view, NAMES[0], ready="False")
    down = _changed(down, EXPORTER, losses={NAMES[0]: 5}, ready=3, state="pending", nodes=(NAMES[0],), ready_for_s=0.0)
    found = _open(judged(down, context()))
    assert [entry for entry in found if entry[1] == "failed"] == [("node-ready", "failed", "node-not-ready")]


@pytest.mark.parametrize(("name", "check"), [(VOLCANO, "component-health"), (EXPORTER, "cluster-policy-ready")])
def test_nodes_that_did_not_count_are_named(view: ClusterState, name: str, check: str) -> None:
    outcomes = judged(_changed(view, name, left_out=("spot7", "spot8")), context())
    assert _open(outcomes) == []
    assert [o.check for o in outcomes if "on spot7, spot8, not of this site" in o.summary] == [check]
