# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The test alert: where it got lost is named, what the receiver wrote is believed and nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from crd_schema import crd_schema
from sites import make_site

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.kit.settings_layers import checked_settings
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import JudgeContext
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.telemetry.alert_delivery import SPEC, judge
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.telemetry.model import AlertDelivery, Problem
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.telemetry.observe_alert import (
    Way,
    is_listening,
    labels_for,
    received,
    way_into,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.telemetry.settings import TelemetrySettings
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Outcome, Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import Host
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.manifests import render

NAME = "gpufleet-test-alert-1"
ARRIVED: dict[str, Any] = {
    "name": NAME,
    "loaded_s": 1.0,
    "firing_s": 2.0,
    "received_s": 3.0,
    "alertmanagers": ("http://alertmanager:9093/api/v2/alerts",),
}
NOT_RECEIVED = {**ARRIVED, "received_s": None}
NOTICE = f'{{"receiver": "r", "alerts": [["firing", "{NAME}"]]}}'


def judged(**view: Any) -> Outcome:
    site = make_site((Host(name="gpu01", sku="x", node_name="gpu01"),), name="here")
    context = JudgeContext(gate="telemetry", site=site, today=date(2026, 1, 1))
    (outcome,) = judge(AlertDelivery(settings=checked_settings(TelemetrySettings, "telemetry", {}), **view), context)
    return outcome


def test_an_alert_that_arrived_passes_with_its_times() -> None:
    outcome = judged(**ARRIVED)
    assert outcome.status is Status.PASSED
    assert [measure.value for measure in outcome.measured] == [1.0, 2.0, 3.0]


@pytest.mark.parametrize(
    ("view", "cause"),
    [
        ({"loaded_s": None, "firing_s": None, "received_s": None}, "rule-not-evaluated"),
        ({"rule_error": "query timed out", "firing_s": None, "received_s": None}, "rule-broken"),
        ({"firing_s": None, "received_s": None}, "alert-not-firing"),
        ({"received_s": None, "alertmanagers": ()}, "alertmanager-not-wired"),
        ({"received_s": None, "asked": True, "routed": None}, "alertmanager-not-wired"),
        ({"received_s": None, "asked": True, "routed": ("null",)}, "alert-not-routed"),
        ({"received_s": None, "asked": True, "routed": (f"ns/{NAME}/test",)}, "alert-not-received"),
        ({"received_s": None}, "alert-not-received"),
    ],
)
def test_where_it_got_lost_is_named(view: dict[str, Any], cause: str) -> None:
    outcome = judged(**{**ARRIVED, **view})
    assert (outcome.status, outcome.cause) == (Status.FAILED, cause)
    assert cause in SPEC.causes
    assert outcome.hint


def test_what_was_not_tested_is_not_passed() -> None:
    problem = Problem(cause="not-allowed", subject="alert test", reason="may not create pods.", hint="grant it")
    assert (judged(problem=problem).status, judged(problem=problem).cause) == (Status.OTHER, "not-allowed")
    problem = Problem(cause="prometheus-unreachable", subject="x", reason="no pod is ready.", hint="")
    assert judged(problem=problem).cause == "blocked-by-gpu-metrics-scraped"


def test_what_was_left_behind_is_not_passed() -> None:
    assert judged(**ARRIVED, leftovers=("namespace x: forbidden",)).cause == "cleanup-incomplete"


@pytest.mark.parametrize(
    ("log", "there"),
    [
        (NOTICE, True),
        (f'{{"listening": 1}}\n{NOTICE}\n', True),
        ("", False),
        (NOTICE[:-5], False),
        (NOTICE.replace("firing", "resolved"), False),
        (NOTICE.replace(NAME, "another"), False),
        (f'{{"alerts": "{NAME}"}}\n["firing", "{NAME}"]\n{NAME} firing', False),
    ],
)
def test_only_a_whole_notice_of_this_alert_counts(log: str, there: bool) -> None:
    assert received(log, NAME) is there


def test_the_receiver_says_that_it_listens() -> None:
    assert is_listening('{"listening": 8080}\n')
    assert not is_listening("Traceback: listening")


def owner(**spec: Any) -> dict[str, Any]:
    return {"kind": "Prometheus", "metadata": {"namespace": "monitoring", "name": "p"}, "spec": spec}


@pytest.mark.parametrize(
    ("spec", "way"),
    [
        ({"ruleSelector": {}, "ruleNamespaceSelector": {}}, Way()),
        ({"ruleSelector": {}}, Way(only_namespace="monitoring")),
        (
            {
                "ruleSelector": {"matchLabels": {"release": "kps"}},
                "ruleNamespaceSelector": {"matchLabels": {"watch": "yes"}},
            },
            Way(labels={"release": "kps"}, namespace_labels={"watch": "yes"}),
        ),
    ],
)
def test_the_way_into_an_operator_follows_its_selectors(spec: dict[str, Any], way: Way) -> None:
    assert way_into(owner(**spec), "rule") == way


def test_an_operator_that_selects_nothing_has_no_way_in() -> None:
    with pytest.raises(InputError, match="takes up none"):
        way_into(owner(ruleNamespaceSelector={}), "rule")


@pytest.mark.parametrize(
    ("expressions", "labels"),
    [
        ([{"key": "a", "operator": "In", "values": ["x", "y"]}], {"a": "x"}),
        ([{"key": "a", "operator": "Exists"}], {"a": "gpufleet"}),
        ([{"key": "a", "operator": "DoesNotExist"}], {}),
        ([{"key": "a", "operator": "NotIn", "values": ["x"]}], {}),
    ],
)
def test_expressions_are_met_by_labels(expressions: list[dict[str, Any]], labels: dict[str, str]) -> None:
    assert labels_for({"matchExpressions": expressions}, "x") == labels


def test_a_selector_that_cannot_be_met_is_told() -> None:
    selector = {"matchLabels": {"a": "x"}, "matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["x"]}]}
    with pytest.raises(InputError, match="cannot be met"):
        labels_for(selector, "x")


def test_a_wrong_setting_is_named() -> None:
    with pytest.raises(InputError, match="setle_s"):
        checked_settings(TelemetrySettings, "telemetry", {"setle_s": 1})
    with pytest.raises(InputError, match="both given"):
        checked_settings(TelemetrySettings, "telemetry", {"url": "http://x", "service": "a/b:1"})
    with pytest.raises(InputError):
        checked_settings(TelemetrySettings, "telemetry", {"way": "carrier-pigeon"})


def test_rule_and_route_are_what_the_operators_schemas_want(repository: Path, shared: Path) -> None:
    import jsonschema

    variables = {
        "name": NAME, "namespace": NAME, "rule_namespace": "monitoring", "alert": "A", "labels": {"ours": "yes"},
        "rule_labels": {"release": "kps"}, "config_labels": {}, "interval_s": 5, "url": "http://receiver.n.svc:8080/",
        "holder": "ctl_run", "expires_at": 1900000000,
    }  # fmt: skip
    rule, config = render(repository / "recipes" / "workloads" / "alert-rule.yaml.j2", variables)
    group = "prometheus-operator/{}.monitoring.coreos.com"
    jsonschema.validate(rule, crd_schema(shared, group.format("prometheusrules"), "v1"))
    schema = crd_schema(shared, group.format("alertmanagerconfigs"), "v1alpha1")
    jsonschema.validate(config, schema)
    assert rule["metadata"]["labels"] == {"ours": "yes", "release": "kps"}
    # Whoever is killed removes nothing: the rule ends by itself, and says whose it was.
    (alert,) = rule["spec"]["groups"][0]["rules"]
    assert alert["expr"] == "vector(time()) < 1900000000"
    assert rule["metadata"]["annotations"]["gpufleet.io/holder"] == "ctl_run"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**config, "spec": config["spec"] | {"rout": {}}}, schema)


def test_the_receivers_program_writes_down_what_it_gets(repository: Path) -> None:
    """The program of the template runs for real, as in its pod."""
    variables = {
        "name": "receiver", "namespace": "n", "image": "i", "labels": {}, "priority_class": "p", "port": 8080,
        "deadline_s": 600,
    }  # fmt: skip
    pod, _service = render(repository / "recipes" / "workloads" / "alert-receiver.yaml.j2", variables)
    container = pod["spec"]["containers"][0]
    argv = [sys.executable, *container["command"][1:], *container["args"]]
    environment = {**os.environ, "ADDRESS": "127.0.0.1", "PORT": "0"}
    with subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            first = process.stdout.readline()
            assert is_listening(first)
            address = f"http://127.0.0.1:{json.loads(first)['listening']}/"
            opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
            notice = {"receiver": "r", "alerts": [{"status": "firing", "labels": {"gpufleet_test": NAME}}]}
            assert opener.open(address, json.dumps(notice).encode(), 5).status == 200
            assert received(process.stdout.readline(), NAME)
            with pytest.raises(OSError, match="400"):
                opener.open(address, b"what?", 5)
        finally:
            process.kill()
