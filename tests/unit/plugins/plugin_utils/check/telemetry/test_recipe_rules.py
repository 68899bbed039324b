# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The recipe's own rules: each must be in Prometheus and evaluated; what is missing or broken is named."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from rehearsal_harness import ROOT
from sites import make_site

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.kit.settings_layers import checked_settings
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import JudgeContext
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.telemetry import observe_alert, recipe_rules
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.telemetry.model import (
    AlertDelivery,
    Problem,
    RuleSeen,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.telemetry.recipe_rules_loaded import SPEC, judge
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.telemetry.settings import TelemetrySettings
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.prometheus.prometheus import Prometheus, Rule
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.codec import to_plain
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import UnavailableError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Outcome, Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.progress import Progress, silent
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import Host

FILE = "components/kube-prometheus-stack/manifests/slo-rules.yaml"
TEXT = (ROOT / "recipes" / FILE).read_text()
RECIPE: dict[str, Any] = {
    "componentRefs": [
        {
            "name": "kube-prometheus-stack",
            "manifestFiles": [FILE],
            "manifests": [{"when": "after", "file": FILE, "text": TEXT}],
        }
    ]
}
(GROUP,) = yaml.safe_load(TEXT)["spec"]["groups"]
LOADED = tuple(RuleSeen(group=GROUP["name"], name=recipe_rules.name_of(rule), health="ok") for rule in GROUP["rules"])
BURN = next(number for number, rule in enumerate(LOADED) if rule.name == "GpusNotSchedulable")


def _judged(rules: tuple[RuleSeen, ...] | None, *, states_rules: bool = True, **view: Any) -> Outcome:
    site = make_site((Host(name="gpu01", sku="x", node_name="gpu01"),), name="here")
    context = JudgeContext(gate="telemetry", site=site, today=date(2026, 1, 1), recipe=RECIPE if states_rules else None)
    settings = checked_settings(TelemetrySettings, "telemetry", {})
    (outcome,) = judge(AlertDelivery(**{"settings": settings, "loaded_s": 1.0, "recipe_rules": rules, **view}), context)
    return outcome


def test_the_catalogues_rules_pass_where_prometheus_evaluates_them() -> None:
    outcome = _judged(LOADED)
    assert (outcome.status, len(LOADED)) == (Status.PASSED, 8)


@pytest.mark.parametrize(
    ("rules", "cause", "said"),
    [
        ((), "recipe-rule-not-loaded", "gpufleet-slo/GpuExportersDown"),
        # One window of an alert that has three.
        ((*LOADED[:BURN], *LOADED[BURN + 1 :]), "recipe-rule-not-loaded", "gpufleet-slo/GpusNotSchedulable"),
        (
            (*LOADED[1:], replace(LOADED[0], health="err", error="many-to-many matching not allowed")),
            "recipe-rule-broken",
            "gpufleet-slo/gpufleet:gpus_not_schedulable:ratio: many-to-many",
        ),
    ],
)
def test_what_is_missing_or_broken_is_named(rules: tuple[RuleSeen, ...], cause: str, said: str) -> None:
    outcome = _judged(rules)
    assert (outcome.status, outcome.cause) == (Status.FAILED, cause)
    assert said in outcome.summary and outcome.hint and cause in SPEC.causes


def test_what_was_not_evaluated_or_not_read_is_no_verdict() -> None:
    young = (*LOADED[1:], replace(LOADED[0], health="unknown"))
    assert (_judged(young).status, _judged(young).cause) == (Status.OTHER, "rules-not-evaluated")
    assert (_judged(None).status, _judged(None).cause) == (Status.OTHER, "rules-not-read")


def test_where_no_rule_is_taken_up_the_test_alert_says_so() -> None:
    assert _judged(None, loaded_s=None).cause == "blocked-by-alert-delivery"
    problem = Problem(cause="prometheus-unreachable", subject="x", reason="no pod is ready.", hint="")
    assert _judged(None, problem=problem).cause == "blocked-by-gpu-metrics-scraped"


def test_what_was_saved_is_judged_as_it_was_seen(tmp_path: Path) -> None:
    settings = checked_settings(TelemetrySettings, "telemetry", {})
    seen = AlertDelivery(settings=settings, loaded_s=1.0, recipe_rules=LOADED)
    site = make_site((Host(name="gpu01", sku="x", node_name="gpu01"),), name="here")
    assert observe_alert.restore(to_plain(seen), tmp_path, site).recipe_rules == LOADED


def test_a_recipe_without_rules_asks_for_none() -> None:
    assert _judged((), states_rules=False).status is Status.PASSED


class Server:
    """A Prometheus that answers one look after the other, the last one again and again."""

    def __init__(self, *looks: Any) -> None:
        self.looks = list(looks)

    def rules(self) -> tuple[Rule, ...]:
        look = self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]
        if look is None:
            raise UnavailableError("Prometheus", "is away.")
        return tuple(Rule(group=r.group, name=r.name, state="", health=r.health, last_error=r.error) for r in look)


def _seen(*looks: Any, states_rules: bool = True) -> tuple[RuleSeen, ...] | None:
    recipe = RECIPE if states_rules else None
    return recipe_rules.rules_of(cast(Prometheus, Server(*looks)), recipe, Progress(silent))


def test_rules_are_waited_for_until_each_was_evaluated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recipe_rules, "_POLL_S", 0.01)
    young = tuple(replace(rule, health="unknown") for rule in LOADED)
    others = RuleSeen(group="others", name="Watchdog", health="ok")
    assert _seen((), None, young, (*LOADED, others)) == LOADED
    assert _seen(None, states_rules=False) == ()


@pytest.mark.parametrize("look", [None, LOADED[1:]])
def test_the_wait_for_rules_has_an_end(monkeypatch: pytest.MonkeyPatch, look: Any) -> None:
    monkeypatch.setattr(recipe_rules, "_INTERVAL_S", 0.05)
    assert _seen(look) == look
