# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which phases a validation has: `all` (aicr validate --phase all) is every one, in the core and in the playbook."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from jinja2.nativetypes import NativeEnvironment

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.gates import PHASES, asked_phases

LATER = ["deployment", "conformance", "performance"]


@pytest.mark.parametrize(
    ("named", "phases"),
    [([], PHASES), (["all"], PHASES), (["readiness", "all"], PHASES), (["conformance"], ("readiness", "conformance"))],
)
def test_phases_are_those_that_are_named_or_all(named: list[str], phases: tuple[str, ...]) -> None:
    assert asked_phases(named) == phases


def test_a_phase_that_is_none_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(InputError, match=r"'al'.*readiness.*all"):
        asked_phases(["al"])


@pytest.mark.parametrize(
    ("stated", "phases"),
    [([], LATER), ("", LATER), ("all", LATER), (["all"], LATER), ("deployment,all", LATER),
     ("conformance", ["conformance"]), (["performance"], ["performance"])],
)  # fmt: skip
def test_the_playbook_asks_preflight_for_the_same(stated: object, phases: list[str], repository: Path) -> None:
    plays = yaml.safe_load((repository / "playbooks" / "validate.yml").read_text("utf-8"))
    variables = next(play["vars"] for play in plays if "preflight.yml" in str(play))
    known: dict[str, object] = {"gpufleet_phases": stated}
    for name in ("validate_asked", "validate_listed", "validate_every", "validate_phases"):
        known[name] = NativeEnvironment().from_string(variables[name]).render(**known)
    assert known["validate_phases"] == phases
