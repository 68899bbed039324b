# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Prometheus and Alertmanager as verbs. Warnings, partial and unknown results are errors, never results."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import Any

from ...outcome.errors import BringupError, UnavailableError
from ...runtime.redaction import excerpt
from ..http.model import HttpStatusError
from ..http.session import HttpSession

# Responses of Prometheus and Alertmanager as values.


@dataclass(frozen=True, slots=True)
class Sample:
    """One element of an instant vector: its labels without `__name__`, and its value."""

    labels: dict[str, str]
    value: float


@dataclass(frozen=True, slots=True)
class Vector:
    """An instant vector. `at` is its evaluation time in seconds, by the clock of Prometheus.

    `at` is 0 if the vector is empty, because only samples carry the time.
    """

    at: float
    samples: tuple[Sample, ...] = ()


@dataclass(frozen=True, slots=True)
class Target:
    """One active scrape target. `discovered` are its labels before relabelling."""

    pool: str
    url: str
    health: str
    last_error: str
    interval_s: float
    labels: dict[str, str] = field(default_factory=dict)
    discovered: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule as Prometheus has it.

    `state` is inactive, pending or firing, empty for a recording rule. `health` is ok, unknown (never evaluated yet)
    or err.
    """

    group: str
    name: str
    state: str
    health: str
    last_error: str = ""
    labels: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Alert:
    """An alert of Alertmanager: its labels, its state, and its receivers."""

    labels: dict[str, str]
    state: str
    receivers: tuple[str, ...]


# From responses of Prometheus to values. Pure. Anything but a complete response in the documented form is an error.

_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0, "y": 31536000.0}
_DURATION = re.compile(r"(\d+)(ms|[smhdwy])")


class BadAnswerError(UnavailableError):
    """The response of Prometheus is not complete, or has an unknown form."""


def parse_duration_s(text: str, where: str) -> float:
    """Return the seconds of a duration such as `1m30s`.

    Raises:
        BadAnswerError: it is not of that form.
    """
    parts = _DURATION.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise _bad(where, f"{text!r} is no duration")
    return sum(int(number) * _UNITS_S[unit] for number, unit in parts)


def data_of(answer: Any, where: str) -> Any:
    """Return the data of an API response. A response that may be incomplete is an error.

    Prometheus and Thanos report that in warnings, a cluster of VictoriaMetrics by `isPartial` (its documentation,
    "Cluster version": cluster availability).

    Raises:
        BadAnswerError: it is an error, is partial, or has another form.
    """
    if not isinstance(answer, dict) or answer.get("status") not in ("success", "error"):
        raise _bad(where, "the answer has no known status")
    if answer["status"] == "error":
        raise _bad(where, f"{answer.get('errorType', 'error')}: {excerpt(str(answer.get('error', '')), 300)}")
    warnings = answer.get("warnings")
    if warnings:
        raise _bad(where, f"the answer may be partial: {excerpt('; '.join(map(str, warnings)), 300)}")
    if answer.get("isPartial"):
        raise _bad(where, "the answer is partial: one of its storages did not answer")
    if "data" not in answer:
        raise _bad(where, "the answer has no data")
    return answer["data"]


def parse_vector(data: Any, where: str) -> Vector:
    """Return an instant vector.

    Raises:
        BadAnswerError: it is another type of result, or a sample has not the expected form.
    """
    kind = data.get("resultType") if isinstance(data, dict) else None
    if kind != "vector" or not isinstance(data.get("result"), list):
        raise _bad(where, f"expected a vector, got {kind!r}")
    samples, moments = [], set()
    for entry in data["result"]:
        labels, moment, value = _sample(entry, where)
        labels.pop("__name__", None)
        samples.append(Sample(labels, value))
        moments.add(moment)
    if len(moments) > 1:
        raise _bad(where, "samples of one instant vector have different times")
    return Vector(moments.pop() if moments else 0.0, tuple(samples))


def _sample(entry: Any, where: str) -> tuple[dict[str, str], float, float]:
    metric = entry.get("metric") if isinstance(entry, dict) else None
    pair = entry.get("value") if isinstance(entry, dict) else None
    if not isinstance(metric, dict) or not isinstance(pair, list) or len(pair) != 2 or not isinstance(pair[1], str):
        raise _bad(where, f"not a sample: {excerpt(str(entry), 200)}")
    moment, text = pair
    if isinstance(moment, bool) or not isinstance(moment, (int, float)) or not math.isfinite(moment):
        raise _bad(where, f"not a time: {moment!r}")
    return _labels(metric, where), float(moment), _number(text, where)


def _number(text: str, where: str) -> float:
    """Return a value. NaN and the infinities are values that Prometheus writes."""
    try:
        return float(text)
    except ValueError:
        raise _bad(where, f"not a value: {text!r}") from None


def _labels(found: Any, where: str) -> dict[str, str]:
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise _bad(where, f"not labels: {excerpt(str(found), 200)}")
    return dict(found)


def parse_targets(data: Any, where: str) -> tuple[Target, ...]:
    """Return the active targets.

    Raises:
        BadAnswerError: a field is missing or of another type.
    """
    found = data.get("activeTargets") if isinstance(data, dict) else None
    if not isinstance(found, list):
        raise _bad(where, "no activeTargets")
    return tuple(
        Target(
            pool=_text(entry, "scrapePool", where),
            url=_text(entry, "scrapeUrl", where),
            health=_text(entry, "health", where),
            last_error=_text(entry, "lastError", where),
            interval_s=parse_duration_s(_text(entry, "scrapeInterval", where), where),
            labels=_labels(entry.get("labels"), where),
            discovered=_labels(entry.get("discoveredLabels"), where),
        )
        for entry in found
    )


def parse_rules(data: Any, where: str, *, recording: bool = False) -> tuple[Rule, ...]:
    """Return the alerting rules, and with `recording` also the recording rules, which have no state.

    Raises:
        BadAnswerError: a field is missing or of another type.
    """
    groups = data.get("groups") if isinstance(data, dict) else None
    if not isinstance(groups, list):
        raise _bad(where, "no groups")
    rules = []
    for group in groups:
        for entry in _list(group, "rules", where):
            alerting = _text(entry, "type", where) == "alerting"
            if alerting or recording:
                rules.append(
                    Rule(
                        group=_text(group, "name", where),
                        name=_text(entry, "name", where),
                        state=_text(entry, "state", where) if alerting else "",
                        health=_text(entry, "health", where),
                        last_error=str(entry.get("lastError") or ""),
                        labels=_labels(entry.get("labels") or {}, where),
                    )
                )
    return tuple(rules)


def parse_alertmanagers(data: Any, where: str) -> tuple[str, ...]:
    """Return the addresses of the Alertmanagers that alerts are sent to.

    Raises:
        BadAnswerError: it has another form.
    """
    return tuple(_text(entry, "url", where) for entry in _list(data, "activeAlertmanagers", where))


def parse_alerts(answer: Any, where: str) -> tuple[Alert, ...]:
    """Return the alerts of Alertmanager's API v2.

    Raises:
        BadAnswerError: it has another form.
    """
    if not isinstance(answer, list):
        raise _bad(where, "not a list of alerts")
    return tuple(
        Alert(
            labels=_labels(entry.get("labels") if isinstance(entry, dict) else None, where),
            state=_text(entry.get("status"), "state", where),
            receivers=tuple(_text(receiver, "name", where) for receiver in _list(entry, "receivers", where)),
        )
        for entry in answer
    )


def _text(entry: Any, name: str, where: str) -> str:
    value = entry.get(name) if isinstance(entry, dict) else None
    if not isinstance(value, str):
        raise _bad(where, f"no {name}: {excerpt(str(entry), 200)}")
    return value


def _list(entry: Any, name: str, where: str) -> list[Any]:
    value = entry.get(name) if isinstance(entry, dict) else None
    if not isinstance(value, list):
        raise _bad(where, f"no list {name}: {excerpt(str(entry), 200)}")
    return value


def _bad(where: str, reason: str) -> BadAnswerError:
    return BadAnswerError(where, f"{reason}.", "is it really Prometheus, and healthy? look at its log")


class Prometheus:
    """One Prometheus. Every method raises errors of clients.http, or BadAnswerError."""

    def __init__(self, session: HttpSession) -> None:
        """Store the session. No request is sent yet."""
        self._session = session

    @property
    def where(self) -> str:
        """Its address, for messages."""
        return self._session.where

    def query(self, expression: str) -> Vector:
        """Return an instant vector, evaluated now by the clock of Prometheus."""
        where = f"{self.where}: query {expression}"
        return parse_vector(self._get("/api/v1/query", {"query": expression}, where), where)

    def targets(self) -> tuple[Target, ...]:
        """Return the active scrape targets."""
        where = f"{self.where}: targets"
        return parse_targets(self._get("/api/v1/targets", {"state": "active"}, where), where)

    def alert_rules(self) -> tuple[Rule, ...]:
        """Return the alerting rules and their states."""
        where = f"{self.where}: rules"
        return parse_rules(self._get("/api/v1/rules", {"type": "alert"}, where), where)

    def rules(self) -> tuple[Rule, ...]:
        """Return every rule, also recording rules."""
        where = f"{self.where}: rules"
        return parse_rules(self._get("/api/v1/rules", {}, where), where, recording=True)

    def alertmanagers(self) -> tuple[str, ...]:
        """Return the addresses of the Alertmanagers that it sends alerts to."""
        where = f"{self.where}: alertmanagers"
        return parse_alertmanagers(self._get("/api/v1/alertmanagers", {}, where), where)

    def _get(self, path: str, query: dict[str, str], where: str) -> Any:
        try:
            answer = self._session.get_json(path, query)
        except HttpStatusError as error:
            # The body of a refused query has the reason, which is part of the error's text.
            raise BringupError(where, error.reason, error.hint, error.evidence) from None
        return data_of(answer, where)


class Alertmanager:
    """One Alertmanager, read only: an alert that is posted to it proves nothing about rules."""

    def __init__(self, session: HttpSession) -> None:
        """Store the session. No request is sent yet."""
        self._session = session

    def alerts(self, label: str, value: str) -> tuple[Alert, ...]:
        """Return the alerts with this label."""
        where = f"{self._session.where}: alerts"
        answer = self._session.get_json("/api/v2/alerts", {"filter": f'{label}="{value}"'})
        return parse_alerts(answer, where)
