# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""How the gate looks and judges, as data: recipes/thresholds/telemetry.yaml with the site's own values."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from ...outcome.errors import InputError
from ...runtime.recipe_files import RECIPES
from ...runtime.strict import decode, nearest_hint, read_yaml

GATE = "telemetry"
_FILE = RECIPES / "thresholds" / "telemetry.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsSettings:
    """Where Prometheus is and what is asked; see the file."""

    url: str
    service: str
    way: Literal["port-forward", "service-proxy"]
    token_file: str
    ca_file: str
    timeout_s: float
    field: str
    mig_field: str
    fresh_intervals: float
    interval_s: float
    settle_s: float
    allowed_hosts: tuple[str, ...]

    def __post_init__(self) -> None:
        if self.fresh_intervals < 1 or self.timeout_s <= 0:
            reason = "fresh_intervals of 1 or more and a timeout_s above 0 are expected."
            raise InputError(f"settings of {GATE}", reason, "correct gpufleet_settings")
        if self.url and self.service:
            raise InputError(f"settings of {GATE}", "url and service are both given.", "give one of them")


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertSettings:
    """How the alert test runs; see the file."""

    image: str
    rule_interval_s: int
    ready_s: float
    load_s: float
    fire_s: float
    arrive_s: float
    cleanup_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class NeededPermission:
    """What the alert test must be allowed to do."""

    verb: str
    resource: str
    group: str = ""
    subresource: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """All of it; saved with the observation, so that a verdict can be computed again."""

    metrics: MetricsSettings
    alert: AlertSettings
    host_labels: tuple[str, ...]
    permissions: tuple[NeededPermission, ...]


def load_rules(stated: dict[str, Any]) -> Rules:
    """Return the rules with a site's values in place of those that ship.

    Raises:
        InputError: an unknown setting, or a value of the wrong kind.
    """
    shipped = decode(Rules, read_yaml(_FILE), str(_FILE))
    parts = {"metrics": asdict(shipped.metrics), "alert": asdict(shipped.alert)}
    for name, value in stated.items():
        part = next((part for part in parts.values() if name in part), None)
        if part is None:
            known = [*parts["metrics"], *parts["alert"]]
            raise InputError(f"settings of {GATE}", f"there is no setting {name!r}.", nearest_hint(name, known))
        part[name] = value
    source = f"settings of {GATE}"
    return Rules(
        metrics=decode(MetricsSettings, _plain(parts["metrics"]), source),
        alert=decode(AlertSettings, _plain(parts["alert"]), source),
        host_labels=shipped.host_labels,
        permissions=shipped.permissions,
    )


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
