# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A tool that gave nothing usable is reported once, by the check that owns it."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
from sites import make_site

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.kit.answer import Answer
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import CheckSpec, JudgeContext
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.tool_reading import ProbeFailure
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Outcome, Status, SubjectKind
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.host_tools import load_host_tools

CONTEXT = JudgeContext(gate="nodes", site=make_site(), today=date(2026, 11, 22))
TOOLS = load_host_tools().tools
KINDS = ("missing", "timeout", "empty", "garbage", "failed", "not-collected")


def reported_by(check: str, failure: ProbeFailure) -> Outcome:
    spec = CheckSpec(id=check, gate="nodes", title="t", per=SubjectKind.NODE)
    return Answer.about_host(spec, CONTEXT, "gpu01").tool_failure(failure, "gpu01", "evidence/hosts/gpu01.json")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("tool", [tool for tool in TOOLS if tool.owner], ids=lambda tool: tool.name)
def test_the_owner_says_why_and_what_to_do(tool: Any, kind: Any) -> None:
    outcome = reported_by(tool.owner, ProbeFailure(tool, kind, "x" * 900))
    assert (outcome.status, outcome.cause) == (Status.OTHER, f"{tool.cause}-{kind}")
    assert tool.shown in outcome.hint and "gpu01" in outcome.hint and len(outcome.summary) == 400
    assert (outcome.evidence[0].source, outcome.evidence[0].path) == (tool.shown, "evidence/hosts/gpu01.json")


def test_others_wait_for_the_owner() -> None:
    tool = next(tool for tool in TOOLS if tool.owner == "gpu-census")
    outcome = reported_by("gpu-ecc", ProbeFailure(tool, "timeout", "no answer in 60 s"))
    assert outcome.blocked_by == "gpu-census" and tool.shown in outcome.summary
