# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Components that somebody else installed: refused without a choice, judged where the site uses them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack.cluster_state import ClusterState
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.promised import Promised
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Outcome, Rating, Status

from .conftest import changed_component, context, healthy, judged, workload

SCHEDULER = "Deployment batch/volcano-scheduler"


def _used(*titles: str, release: str = "") -> ClusterState:
    """Volcano as somebody else installed it, in place of the recipe's."""
    view = healthy()
    own = tuple(entry for entry in view.workloads or () if not entry.release.endswith("/volcano"))
    promised = tuple(Promised(kind="Deployment", namespace="batch", name=title.rpartition("/")[2]) for title in titles)
    return changed_component(
        replace(view, workloads=own), "volcano", release=release, version="2.9.0", ours=False, promised=promised,
        owner="Flux HelmRelease ops/batch", used=titles,
    )  # fmt: skip


def _about_volcano(view: ClusterState) -> Outcome:
    (found,) = (o for o in judged(view, context()) if o.check == "component-health" and o.subjects[0].name == "volcano")
    return found


@pytest.mark.parametrize("release", ["", "batch/volcano"])
def test_what_is_used_as_its_owner_has_it_passes_with_its_version_told(release: str) -> None:
    view = _used(SCHEDULER, release=release)
    mine = workload("volcano-scheduler", release, namespace="batch")
    view = replace(view, workloads=(*(view.workloads or ()), mine))
    assert {outcome.status for outcome in judged(view, context())} == {Status.PASSED}
    assert _about_volcano(view).summary == (
        f"{release or 'volcano'} 2.9.0 (the recipe has 3.0.0) deployed, installed by Flux HelmRelease ops/batch, "
        "1 of 1 workloads ready"
    )


def test_what_is_used_and_does_not_work_fails() -> None:
    gone = _about_volcano(_used(SCHEDULER))
    assert (gone.status, gone.cause) == (Status.FAILED, "workload-missing")
    view = _used(SCHEDULER)
    sick = workload("volcano-scheduler", "", namespace="batch", ready=0, state="pending", reason="0 of 1 ready")
    waits = _about_volcano(replace(view, workloads=(*(view.workloads or ()), sick)))
    assert (waits.status, waits.cause) == (Status.FAILED, "workload-not-ready")
    none = _about_volcano(_used())
    assert (none.status, none.cause) == (Status.FAILED, "component-missing")


@pytest.mark.parametrize("release", ["", "batch/volcano"])
def test_what_the_api_server_refused_to_answer_is_other_and_not_missing(release: str) -> None:
    """Four untouched components were `component-missing` because a load balancer had no time for helm."""
    view = changed_component(
        healthy(), "volcano", release=release, installing="failed", installing_cause="api-not-answered",
        installing_reason="helm upgrade volcano: Error: query: failed to query with labels: busy",
        installing_hint="",
    )  # fmt: skip
    said = _about_volcano(view)
    assert (said.status, said.rating, said.cause) == (Status.OTHER, Rating.UNKNOWN, "api-not-answered")
    assert not [o.check for o in judged(view, context()) if o.status is Status.FAILED]


def test_a_release_that_could_not_be_changed_is_not_the_one_that_the_recipe_wants() -> None:
    """The release of before stays in force, at the same version and with the values of then."""
    view = changed_component(
        healthy(), "volcano", installing="failed", installing_cause="release-not-deployed",
        installing_reason="helm upgrade volcano: Error: UPGRADE FAILED: denied the request",
    )  # fmt: skip
    said = _about_volcano(view)
    assert (said.status, said.cause) == (Status.FAILED, "release-not-deployed")
    assert "was not changed to what the recipe wants" in said.summary


@pytest.mark.parametrize("release", ["", "batch/volcano"])
def test_what_is_not_ours_fails_until_somebody_chooses(release: str) -> None:
    view = changed_component(
        healthy(), "volcano", release=release, ours=False, installing="refused", installing_cause="component-foreign",
        installing_reason="volcano is already installed by Flux",
        installing_hint="gpufleet_gpu_stack_foreign: {volcano: use}",
    )  # fmt: skip
    said = _about_volcano(view)
    assert (said.status, said.cause, said.summary) == (
        Status.FAILED, "component-foreign", "volcano is already installed by Flux",
    )  # fmt: skip
    assert [o.check for o in judged(view, context()) if o.status is Status.FAILED] == ["component-health"]
