# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Prometheus and Alertmanager as verbs. Half an answer is none: warnings, partial and unknown results are errors."""

from __future__ import annotations

from typing import Any

from ...outcome.errors import BringupError
from ..http.errors import HttpStatusError
from ..http.session import HttpSession
from .model import Alert, Rule, Target, Vector
from .parse import data_of, parse_alertmanagers, parse_alerts, parse_rules, parse_targets, parse_vector


class Prometheus:
    """One Prometheus. Every method raises errors of clients.http, or BadAnswerError."""

    def __init__(self, session: HttpSession) -> None:
        """Take the way to it; nothing is asked yet."""
        self._session = session

    @property
    def where(self) -> str:
        """Where it is, for messages."""
        return self._session.where

    def query(self, expression: str) -> Vector:
        """Return an instant vector, computed now by the clock of Prometheus."""
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
        """Return every rule, recording ones as well."""
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
            # A refused query says why in its body, which is part of the error's text.
            raise BringupError(where, error.reason, error.hint, error.evidence) from None
        return data_of(answer, where)


class Alertmanager:
    """One Alertmanager, only looked at: an alert that is posted to it proves nothing about rules."""

    def __init__(self, session: HttpSession) -> None:
        """Take the way to it; nothing is asked yet."""
        self._session = session

    def alerts(self, label: str, value: str) -> tuple[Alert, ...]:
        """Return the alerts with that label."""
        where = f"{self._session.where}: alerts"
        answer = self._session.get_json("/api/v2/alerts", {"filter": f'{label}="{value}"'})
        return parse_alerts(answer, where)
