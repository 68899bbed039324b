# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A workload that the site's registry entry names and its chart does not render is found, with what it renders (U126 of
the usability trial: DaemonSet acme-tuner was stated, Deployment acme-tuner installed, and the gate passed)."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Outcome, Status

from .conftest import changed_component, context, healthy, judged, recipe


def _judged(stated: Any, **changed: Any) -> list[Outcome]:
    asked = recipe()
    entry = next(ref for ref in asked["componentRefs"] if ref["name"] == "gpu-operator")
    entry["workloads"] = stated
    view = changed_component(healthy(), "gpu-operator", **changed)
    return [o for o in judged(view, context(recipe=asked)) if o.status is not Status.PASSED]


@pytest.mark.parametrize(
    "stated",
    [{"kind": "DaemonSet", "name": "gpu-operator-main"}, {"kind": "Deployment", "name": "gpu-operator-other"}],
)
def test_a_name_that_the_chart_does_not_render_fails_the_component(stated: dict[str, str]) -> None:
    (told,) = _judged([stated])
    assert (told.check, told.status, told.cause) == ("component-health", Status.FAILED, "workload-not-rendered")
    named = f"{stated['kind']} {stated['name']}"
    assert f"names {named}, and release gpu-operator/gpu-operator has Deployment gpu-operator-main" in told.summary
    assert "registry.yaml" in told.hint and "gpufleet_recipe_data" in told.hint


@pytest.mark.parametrize("stated", [[], [{"kind": "Deployment", "name": "gpu-operator-main"}]])
def test_a_right_entry_passes(stated: list[dict[str, str]]) -> None:
    assert _judged(stated) == []


def test_what_is_broken_as_well_says_what_is_broken() -> None:
    (told,) = (o for o in _judged([{"kind": "DaemonSet", "name": "x"}], status="failed") if o.status is Status.FAILED)
    assert told.cause == "release-not-deployed"


def test_of_what_somebody_else_installed_the_entry_says_nothing() -> None:
    assert _judged([{"kind": "DaemonSet", "name": "x"}], owner="the cloud", ours=False) == []
