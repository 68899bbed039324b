# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Preflight asks for Helm where somebody reads releases with it, and says who."""

from __future__ import annotations

import pytest
from sites import make_site

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import ProblemsError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.gates import GATE_IDS
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.controller import check_controller
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.run import (
    RunRecord,
    new_run,
    with_phases,
    with_verb,
)

SITE = make_site((), name="here", gates=("gpu_stack", "fabric_validation"), capabilities=("kubernetes",))
RUN = new_run("run", "here", GATE_IDS, "2026-10-04T00:00:00Z", rehearsal=False)


@pytest.mark.parametrize(
    ("record", "who"),
    [
        (RUN, "gate gpu_stack needs it"),
        (with_verb(RUN, "roll"), "gate gpu_stack needs it"),
        (
            with_phases(RUN, ("readiness", "deployment", "conformance", "performance")),
            "the validation reads the releases with it (phase deployment, conformance)",
        ),
    ],
    ids=["bring-up", "roll that proves the gate", "validation"],
)
def test_helm_that_is_missing_is_named_with_who_needs_it(record: RunRecord, who: str) -> None:
    with pytest.raises(ProblemsError) as caught:
        check_controller(SITE, record, "/nowhere/helm", print)
    assert f"program /nowhere/helm: is not on PATH; {who}." in str(caught.value)


@pytest.mark.parametrize(
    "record",
    [with_verb(RUN, "continuous validation"), with_verb(RUN, "burn-in"), with_phases(RUN, ("readiness",))],
    ids=["continuous", "burn-in", "phases without releases"],
)
def test_helm_is_not_asked_for_where_no_release_is_read(record: RunRecord) -> None:
    check_controller(SITE, record, "/nowhere/helm", print)
