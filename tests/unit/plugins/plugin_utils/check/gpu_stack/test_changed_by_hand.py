# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A release that was changed by hand is not what the recipe has: marginal until accepted or changed back."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack.observe_cluster import _by_hand
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.install import Done
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.model import Action, Plan, Step
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.tell import save_results
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Rating, Status

from .conftest import changed_component, context, healthy, judged

IMAGE = "Deployment gpu-operator spec.template.spec.containers[gpu-operator].image"


def test_what_was_changed_by_hand_is_named_and_holds_the_gate() -> None:
    view = changed_component(healthy(), "gpu-operator", by_hand=(IMAGE,))
    (told,) = [outcome for outcome in judged(view, context()) if outcome.status is not Status.PASSED]
    assert (told.check, told.status, told.rating, told.cause) == (
        "component-health", Status.OTHER, Rating.MARGINAL, "changed-by-hand",
    )  # fmt: skip
    assert f"changed by hand: {IMAGE}" in told.summary and "gpufleet_acceptances" in told.hint


def test_what_is_broken_as_well_says_what_is_broken() -> None:
    view = changed_component(healthy(), "gpu-operator", by_hand=(IMAGE,), status="failed")
    (told,) = (o for o in judged(view, context()) if o.check == "component-health" and o.status is Status.FAILED)
    assert told.cause == "release-not-deployed"


@pytest.mark.parametrize("installed", [False, True])
def test_a_run_that_installs_has_changed_it_back(tmp_path: Path, installed: bool) -> None:
    step = Step(
        component="gpu-operator", namespace="gpu-operator", action=Action.UPGRADE, wanted_version="v26.7.0",
        by_hand=(IMAGE,),
    )  # fmt: skip
    done = (Done(component="gpu-operator", action=Action.UPGRADE, state="ready"),) if installed else ()
    save_results(tmp_path, Plan(steps=(step,)), done, "helm")
    seen = type("Seen", (), {"run_dir": tmp_path})()
    assert _by_hand(seen) == ({} if installed else {"gpu-operator": (IMAGE,)})
