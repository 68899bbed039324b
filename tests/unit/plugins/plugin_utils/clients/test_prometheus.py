# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Answers of Prometheus: whole ones become values, anything else an error; nothing is guessed."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.http.model import Answer, Request
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.http.session import HttpSession
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.prometheus import prometheus as answers
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.prometheus.prometheus import (
    Alert,
    Alertmanager,
    BadAnswerError,
    Prometheus,
    Rule,
    Sample,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import BringupError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.clock import Deadline

VECTOR = {
    "resultType": "vector",
    "result": [
        {"metric": {"__name__": "up", "job": "a"}, "value": [1700000000.25, "1"]},
        {"metric": {"job": "b"}, "value": [1700000000.25, "NaN"]},
    ],
}
TARGET = {
    "discoveredLabels": {"__address__": "10.0.0.1:9400"},
    "labels": {"job": "a", "instance": "10.0.0.1:9400"},
    "scrapePool": "pool",
    "scrapeUrl": "http://10.0.0.1:9400/metrics",
    "lastError": "",
    "health": "up",
    "scrapeInterval": "1m30s",
    "scrapeTimeout": "10s",
}
RULE = {"type": "alerting", "name": "A", "state": "firing", "health": "ok", "labels": {"x": "y"}}


class Said:
    """A route that answers with what it is given."""

    text = "prometheus"

    def __init__(self, document: Any, status: int = 200) -> None:
        self.document, self.status, self.asked = document, status, list[str]()

    def send(self, request: Request, _deadline: Deadline) -> Answer:
        self.asked.append(request.path)
        return Answer(self.status, json.dumps(self.document).encode())


def prometheus(data: Any, **more: Any) -> Prometheus:
    return Prometheus(HttpSession(Said({"status": "success", "data": data, **more})))


def test_a_vector_is_read_with_its_time() -> None:
    vector = prometheus(VECTOR).query("up")
    assert vector.at == 1700000000.25
    assert vector.samples[0] == Sample({"job": "a"}, 1.0)
    assert vector.samples[1].value != vector.samples[1].value


def test_an_empty_vector_has_no_time() -> None:
    assert prometheus({"resultType": "vector", "result": []}).query("up").at == 0.0


@pytest.mark.parametrize(
    "change",
    [
        {"resultType": "matrix"},
        {"resultType": None},
        {"result": None},
        {"result": [{"metric": {}, "value": [1.0]}]},
        {"result": [{"metric": {}, "value": [1.0, 2.0]}]},
        {"result": [{"metric": {}, "value": ["now", "1"]}]},
        {"result": [{"metric": {"a": 1}, "value": [1.0, "1"]}]},
        {"result": [{"metric": {}, "value": [1.0, "one"]}]},
        {"result": [{"metric": {}, "histogram": [1.0, {}]}]},
        {"result": [{"metric": {}, "value": [1.0, "1"]}, {"metric": {}, "value": [2.0, "1"]}]},
    ],
)
def test_what_is_no_vector_is_an_error(change: dict[str, Any]) -> None:
    with pytest.raises(BadAnswerError):
        prometheus({**VECTOR, **change}).query("up")


@pytest.mark.parametrize(
    "answer",
    [
        {"status": "success", "data": VECTOR, "warnings": ["one store is missing"]},
        # VictoriaMetrics with one of its storages away (docs.victoriametrics.com, "Cluster version": availability).
        {"status": "success", "isPartial": True, "data": VECTOR},
        {"status": "error", "errorType": "bad_data", "error": "parse error"},
        {"status": "fine", "data": VECTOR},
        {"status": "success"},
        [],
        "ok",
    ],
)
def test_half_an_answer_is_none(answer: Any) -> None:
    with pytest.raises(BadAnswerError):
        Prometheus(HttpSession(Said(answer))).query("up")


def test_an_answer_that_calls_itself_whole_is_one() -> None:
    assert prometheus(VECTOR, isPartial=False).query("up").samples[0].value == 1.0


def test_a_refused_query_says_why() -> None:
    route = Said({"status": "error", "error": "invalid parameter"}, status=400)
    with pytest.raises(BringupError, match="invalid parameter"):
        Prometheus(HttpSession(route)).query("up(")


def test_targets_are_read_with_their_interval() -> None:
    (target,) = prometheus({"activeTargets": [TARGET], "droppedTargets": []}).targets()
    assert (target.interval_s, target.health, target.labels["job"]) == (90.0, "up", "a")


@pytest.mark.parametrize("name", ["scrapeInterval", "health", "labels", "discoveredLabels", "scrapePool"])
def test_a_target_without_a_field_is_an_error(name: str) -> None:
    broken = deepcopy(TARGET)
    del broken[name]
    with pytest.raises(BadAnswerError):
        prometheus({"activeTargets": [broken]}).targets()


def test_only_alerting_rules_are_read() -> None:
    group = {"name": "g", "rules": [RULE, {"type": "recording", "name": "r", "query": "1"}]}
    assert prometheus({"groups": [group]}).alert_rules() == (Rule("g", "A", "firing", "ok", "", {"x": "y"}),)
    with pytest.raises(BadAnswerError):
        prometheus({"groups": [{"name": "g", "rules": [{"type": "alerting", "name": "A"}]}]}).alert_rules()


def test_recording_rules_are_read_where_all_are_asked_for() -> None:
    recording = {"type": "recording", "name": "r", "query": "1", "health": "err", "lastError": "many-to-many"}
    found = prometheus({"groups": [{"name": "g", "rules": [RULE, recording]}]}).rules()
    assert [(rule.name, rule.state, rule.health, rule.last_error) for rule in found] == [
        ("A", "firing", "ok", ""),
        ("r", "", "err", "many-to-many"),
    ]
    with pytest.raises(BadAnswerError):
        prometheus({"groups": [{"name": "g", "rules": [{"type": "recording", "name": "r"}]}]}).rules()


def test_alertmanagers_and_their_alerts_are_read() -> None:
    data = {"activeAlertmanagers": [{"url": "http://a/api/v2/alerts"}], "droppedAlertmanagers": []}
    assert prometheus(data).alertmanagers() == ("http://a/api/v2/alerts",)
    route = Said([{"labels": {"t": "1"}, "status": {"state": "active"}, "receivers": [{"name": "r"}]}])
    assert Alertmanager(HttpSession(route)).alerts("t", "1") == (Alert({"t": "1"}, "active", ("r",)),)
    assert route.asked == ["/api/v2/alerts?filter=t%3D%221%22"]
    with pytest.raises(BadAnswerError):
        Alertmanager(HttpSession(Said({"alerts": []}))).alerts("t", "1")


@pytest.mark.parametrize(("text", "seconds"), [("15s", 15), ("1m30s", 90), ("500ms", 0.5), ("1h", 3600)])
def test_durations(text: str, seconds: float) -> None:
    assert answers.parse_duration_s(text, "x") == seconds


@given(st.lists(st.tuples(st.integers(0, 999), st.sampled_from(["ms", "s", "m", "h", "d"])), min_size=1, max_size=4))
def test_a_duration_is_the_sum_of_its_parts(parts: list[tuple[int, str]]) -> None:
    text = "".join(f"{number}{unit}" for number, unit in parts)
    seconds = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
    assert answers.parse_duration_s(text, "x") == pytest.approx(sum(number * seconds[unit] for number, unit in parts))


@pytest.mark.parametrize("text", ["", "15", "s", "0hh", "1m 30s", "-1s", "1.5s", "1x", "s15", "15s,", "1m30"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(BadAnswerError, match="no duration"):
        answers.parse_duration_s(text, "x")
