# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The rules that the recipe adds to Prometheus (PrometheusRule among its manifests), and which of them it has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from ...clients.kube.objects import PROMETHEUS_RULES
from ...clients.prometheus.prometheus import Prometheus
from ...component_stack.manifest import manifests_of
from ...outcome.errors import BringupError
from ...runtime.clock import Deadline, pause
from ...runtime.progress import Progress
from .model import RuleSeen

# A group is evaluated only at its interval, which is one minute in Prometheus if neither group nor site sets it.
_INTERVAL_S = 60.0
_POLL_S = 1.0


def stated_rules(recipe: Mapping[str, Any] | None) -> Counter[tuple[str, str]]:
    """Return the number of rules in the recipe by group and name. An alert with several windows has several rules."""
    configured: Counter[tuple[str, str]] = Counter()
    for entry in (recipe or {}).get("componentRefs") or ():
        for manifest in manifests_of(entry, "", []):
            if manifest.body.get("kind") == PROMETHEUS_RULES.kind:
                for group in (manifest.body.get("spec") or {}).get("groups") or ():
                    configured.update((str(group["name"]), name_of(rule)) for rule in group.get("rules") or ())
    return configured


def name_of(rule: Mapping[str, Any]) -> str:
    """Return the name of an alerting or a recording rule."""
    return str(rule.get("alert") or rule.get("record") or "")


def lacking(configured: Counter[tuple[str, str]], observed: Iterable[RuleSeen]) -> list[tuple[str, str]]:
    """Return group and name of the rules of which Prometheus has fewer than the recipe."""
    there = Counter((rule.group, rule.name) for rule in observed)
    return sorted(key for key, count in configured.items() if there[key] < count)


def rules_of(
    prometheus: Prometheus, recipe: Mapping[str, Any] | None, progress: Progress
) -> tuple[RuleSeen, ...] | None:
    """Return what Prometheus has of the recipe's groups, once each rule was evaluated.

    It waits for two evaluation intervals at most. None: Prometheus did not return its rules.
    """
    configured = stated_rules(recipe)
    if not configured:
        return ()
    groups = {group for group, _name in configured}
    deadline = Deadline.after(2 * _INTERVAL_S)
    while True:
        try:
            found = prometheus.rules()
        except BringupError:
            found = None
        observed = tuple(
            RuleSeen(group=rule.group, name=rule.name, health=rule.health, error=rule.last_error[:300])
            for rule in found or ()
            if rule.group in groups
        )
        waits = (
            found is None or bool(lacking(configured, observed)) or any(rule.health == "unknown" for rule in observed)
        )
        if not waits or deadline.left_s <= 0:
            return None if found is None else observed
        progress.tick("alert: waiting for Prometheus to evaluate the rules of the recipe")
        pause(min(_POLL_S, max(deadline.left_s, 0.01)))
