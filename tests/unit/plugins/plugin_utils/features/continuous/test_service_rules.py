# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules and dashboard: every metric in them is one that the daily report writes, with the labels that it has."""

from __future__ import annotations

import json
import re
from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.continuous.figures import Word
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.continuous.report import (
    Coverage,
    ServiceFacts,
    render_service_metrics,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.files import RECIPES
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.strict import read_yaml

MONITORING = RECIPES / "monitoring"
_METRIC = re.compile(r"\b(gpufleet_continuous_\w+)(?:\{([^}]*)\})?")
_SAMPLE = re.compile(r"^(\w+)\{(.*)\} \S+$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)\s*=~?\s*"')


def written() -> dict[str, set[str]]:
    """Metrics that are written, each with its labels."""
    facts = ServiceFacts(
        site="a", rehearsal=False, cycle_id="c", written="", now_s=1.0, check_mode=False,
        words=dict.fromkeys(Word, 0), coverage=(Coverage(test="t", days=7, nodes=1, fresh=1, never=0, oldest_s=1.0),),
        lines=(), lemons={30: (), 90: ()},
    )  # fmt: skip
    return {name: set(_LABEL.findall(labels)) for name, labels in _SAMPLE.findall(render_service_metrics(facts))}


def expressions() -> list[str]:
    rules = read_yaml(MONITORING / "continuous-rules.yaml")
    board = json.loads((MONITORING / "continuous-dashboard.json").read_text(encoding="utf-8"))
    found = [rule["expr"] for group in rules["groups"] for rule in group["rules"]]
    return [*found, *(target["expr"] for panel in board["panels"] for target in panel["targets"])]


def test_every_metric_in_rules_and_dashboard_is_written() -> None:
    known = written()
    used = {name: set(_LABEL.findall(labels)) for text in expressions() for name, labels in _METRIC.findall(text)}
    assert used and not used.keys() - known.keys()
    assert not {name: labels - known[name] for name, labels in used.items() if labels - known[name]}
    assert not known.keys() - used.keys(), "written, and nobody looks at it"


def test_the_resource_of_the_operator_has_the_same_rules() -> None:
    resource: dict[str, Any] = read_yaml(MONITORING / "continuous-prometheus-rule.yaml")
    assert resource["kind"] == "PrometheusRule"
    assert resource["spec"]["groups"] == read_yaml(MONITORING / "continuous-rules.yaml")["groups"]


def test_no_alert_is_about_a_rehearsal() -> None:
    rules = read_yaml(MONITORING / "continuous-rules.yaml")["groups"][0]["rules"]
    assert all('rehearsal="false"' in rule["expr"] and rule["annotations"]["description"] for rule in rules)
