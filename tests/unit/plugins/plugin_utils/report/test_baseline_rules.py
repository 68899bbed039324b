# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Alerts on baselines ask for metrics and labels that a run writes, for checks that there are."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from archives import unpack

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.comparison.specs import COMPARISONS
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.run import Run
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.files import RECIPES
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.strict import read_yaml

MONITORING = RECIPES / "monitoring"
ARCHIVE = Path(__file__).resolve().parents[4] / "data" / "saved_runs" / "0.1.0_healthy.tar.xz"


def rules() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = read_yaml(MONITORING / "baseline-rules.yaml")["groups"][0]["rules"]
    return found


def test_what_the_rules_ask_for_is_written(tmp_path: Path) -> None:
    unpack(ARCHIVE, tmp_path / "run")
    run = Run(tmp_path / "run")
    run.write_report(run.record)
    lines = (tmp_path / "run" / "metrics.prom").read_text(encoding="utf-8").splitlines()
    sample = next(line for line in lines if line.startswith("gpufleet_bringup_check_results{"))
    for rule in rules():
        name, labels = re.search(r"(gpufleet_\w+)\{([^}]*)\}", rule["expr"]).groups()  # type: ignore[union-attr]
        assert sample.startswith(f"{name}{{")
        assert all(f"{label}=" in sample for label in re.findall(r"(\w+)=", labels))
        assert 'rehearsal="false"' in rule["expr"] and rule["annotations"]["description"]


@pytest.mark.parametrize("number", range(len(COMPARISONS)))
def test_every_comparison_has_an_alert(number: int) -> None:
    spec = COMPARISONS[number].spec
    patterns = [re.search(r'check=~"([^"]+)"', rule["expr"]).group(1) for rule in rules()]  # type: ignore[union-attr]
    assert sum(re.fullmatch(pattern, spec.id) is not None for pattern in patterns) == 1


def test_the_resource_of_the_operator_has_the_same_rules() -> None:
    resource = read_yaml(MONITORING / "baseline-prometheus-rule.yaml")
    assert resource["kind"] == "PrometheusRule"
    assert resource["spec"]["groups"] == read_yaml(MONITORING / "baseline-rules.yaml")["groups"]
