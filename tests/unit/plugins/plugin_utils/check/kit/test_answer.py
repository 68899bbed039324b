# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""How a judge answers: the outcomes that Answer makes."""

from __future__ import annotations

from datetime import date

from sites import make_site

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.kit.answer import Answer
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import CheckSpec, JudgeContext
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Measure, Rating, Status, SubjectKind

SPEC = CheckSpec(id="nvlink", gate="nodes", title="links", per=SubjectKind.NODE)
SITE = make_site()
CONTEXT = JudgeContext(gate="nodes", site=SITE, today=date(2026, 11, 22))
ANSWER = Answer.about_host(SPEC, CONTEXT, "gpu01")


def test_blocked_names_the_check_in_its_field_and_its_cause() -> None:
    outcome = ANSWER.blocked(by="gpu-census", because="one GPU does not answer", measured=(Measure("GPUs", 7),))
    assert (outcome.status, outcome.rating) == (Status.OTHER, Rating.UNKNOWN)
    assert (outcome.blocked_by, outcome.cause) == ("gpu-census", "blocked-by-gpu-census")
    assert outcome.summary == "not judged: one GPU does not answer"
    assert "gpu-census" in outcome.hint and outcome.measured == (Measure("GPUs", 7),)


def test_a_long_reason_is_cut() -> None:
    assert len(ANSWER.blocked(by="gpu-census", because="x" * 5000).summary) == 400


def test_only_blocked_outcomes_have_a_blocker() -> None:
    outcomes = (
        ANSWER.passed("8 links"),
        ANSWER.failed("link-down", "7 of 8", "reseat it"),
        ANSWER.marginal("link-slow", "slow", "accept it"),
        ANSWER.unknown("nvidia-smi-timeout", "no answer in 30 s"),
    )
    assert {outcome.blocked_by for outcome in outcomes} == {""}
