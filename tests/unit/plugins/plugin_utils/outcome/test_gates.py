# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A gate says of itself what sets it apart: what follows from it is there in playbooks, modules and comparisons."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.gpufleet.bringup.plugins.modules import host_probe
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.comparison.specs import COMPARISONS
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.gates import (
    BURN_IN,
    COMPARED_GATES,
    GATES,
    LOADING_GATES,
    PERFORMANCE,
)


def _tasks(playbook: Path) -> Iterator[dict[str, Any]]:
    for play in yaml.safe_load(playbook.read_text(encoding="utf-8")):
        yield from play.get("tasks", [])


@pytest.mark.parametrize("playbook", ["site.yml", "validate.yml"])
def test_hosts_are_read_before_and_after_every_gate_that_loads_them(repository: Path, playbook: str) -> None:
    read = [
        (task["vars"]["nodes_around_gate"], task["vars"]["nodes_moment"])
        for task in _tasks(repository / "playbooks" / playbook)
        if "nodes_around_gate" in (task.get("vars") or {})
    ]
    assert read == [(gate, moment) for gate in LOADING_GATES for moment in ("before", "after")]


def test_the_module_that_reads_hosts_knows_every_gate_that_loads_them() -> None:
    (choices,) = (
        option["choices"]
        for name, option in yaml.safe_load(host_probe.DOCUMENTATION)["options"].items()
        if name == "around_gate"
    )
    assert choices == [*LOADING_GATES, BURN_IN]


def test_every_gate_that_is_compared_has_a_baseline_and_a_contract() -> None:
    compared = {(comparison.spec.gate, comparison.spec.id) for comparison in COMPARISONS}
    for gate, word in COMPARED_GATES.items():
        assert {(gate, f"{word}-baseline"), (gate, f"{word}-contract")} <= compared


def test_a_gate_with_figures_loads_hosts_and_belongs_to_the_phase_performance() -> None:
    assert [gate.id for gate in GATES if gate.phase == PERFORMANCE] == list(LOADING_GATES) == list(COMPARED_GATES)
