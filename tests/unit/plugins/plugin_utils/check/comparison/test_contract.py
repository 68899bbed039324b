# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Figures against a contract: kept, not kept, not measured, and measured otherwise than it says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from figure_rows import GATE, SITE, busbw, context, fleet

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.comparison.against_baseline import ContractSettings
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.comparison.gate import compare_gate
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.kit.settings_layers import (
    SITE as STATED,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.kit.settings_layers import (
    Layer,
    load_settings,
    shipped_layers,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.registry import all_settings
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Basis, Outcome, Status

CHECK = "fabric-contract"
SIZE = {"all-nodes-busbw": {"size": str(8 << 30)}}


def judged(outcomes: tuple[Outcome, ...], **stated: Any) -> Outcome:
    site = replace(SITE, settings={CHECK: {"reference": "SoW 12, 4.2"} | stated})
    (found,) = compare_gate(GATE, outcomes, context(None, site=site)).outcomes
    assert found.check == CHECK
    return found


def test_a_contract_that_is_kept_passes_on_its_own_basis() -> None:
    found = judged(fleet(), bounds={"all-nodes-busbw": 380, "intra-node-busbw": 460}, at=SIZE)
    assert found.status is Status.PASSED and "390 GB/s, at least 380 GB/s is agreed" in found.summary
    assert {entry.basis for entry in found.expected} == {Basis.CONTRACT}
    assert "SoW 12" in found.expected[0].arithmetic


def test_every_host_that_misses_it_is_named() -> None:
    found = judged(fleet({"gpu03": 0.9, "gpu04": 0.8}), bounds={"intra-node-busbw": 460})
    assert (found.status, found.cause) == (Status.FAILED, "contract-not-kept")
    assert [subject.name for subject in found.subjects] == [SITE.name, "gpu03", "gpu04"]
    assert "2 of 16" in found.summary


def test_a_figure_that_was_not_measured_keeps_no_contract() -> None:
    found = judged(fleet()[:-1], bounds={"all-nodes-busbw": 380})
    assert (found.status, found.cause) == (Status.OTHER, "contract-unmeasured")


def test_a_host_without_a_figure_is_told_by_its_own_check() -> None:
    silent = replace(busbw("gpu03", 470.0, Status.FAILED), measured=())
    outcomes = (*(o for o in fleet() if o.subjects[0].name != "gpu03"), silent)
    assert judged(outcomes, bounds={"intra-node-busbw": 400}).blocked_by == "nccl-intra-node-bw"


def test_a_failed_check_may_keep_the_contract() -> None:
    """They are two questions: a contract may demand less than the ceiling allows."""
    outcomes = (*(o for o in fleet() if o.subjects[0].name != "gpu03"), busbw("gpu03", 420.0, Status.FAILED))
    assert judged(outcomes, bounds={"intra-node-busbw": 400}).status is Status.PASSED


def test_measured_under_other_conditions_it_is_not_known() -> None:
    found = judged(fleet(), bounds={"all-nodes-busbw": 380}, at={"all-nodes-busbw": {"size": "1024"}})
    assert (found.status, found.cause) == (Status.OTHER, "contract-unmeasured") and str(8 << 30) in found.summary


def test_without_a_contract_it_is_not_declared_and_the_reason_is_said() -> None:
    found = compare_gate(GATE, fleet(), context(None))
    reasons = {entry.id: entry.reason for entry in found.not_declared}
    assert not found.outcomes and "gpufleet_settings.fabric-contract.bounds" in reasons[CHECK]


@pytest.mark.parametrize(
    ("stated", "word"),
    [
        ({"bounds": {"busbw-of-all": 380}}, "no kind of figure"),
        ({"at": {"mfu": {"colour": "blue"}}}, "no condition"),
        ({"bounds": {"mfu": -1}}, "more than 0"),
    ],
)
def test_preflight_refuses_what_would_never_be_judged(stated: dict[str, Any], word: str) -> None:
    layers = [*shipped_layers(all_settings()), Layer(STATED, {"training-contract": stated})]
    problems = load_settings(all_settings(), layers)[1]
    assert any(word in str(problem) for problem in problems)


def test_a_class_of_settings_refuses_an_unknown_figure() -> None:
    with pytest.raises(InputError, match="no kind of figure"):
        ContractSettings(reference="", bounds={"x": 1.0}, at={})
