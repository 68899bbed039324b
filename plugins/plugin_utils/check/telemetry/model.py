# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the gate saw, as values that are saved with the run."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...outcome.errors import InputError
from .settings import TelemetrySettings

Source = str
EVIDENCE, SLICES, SKU = "nvidia-smi on the host", "ResourceSlice of the DRA driver", "hardware facts of the SKU"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedGpu:
    """One GPU that must have metrics. `instances` are its slices in MIG mode, as far as they are known."""

    uuid: str
    mig: bool = False
    instances: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedHost:
    """What a host must have metrics of. Without `gpus` their UUIDs are not known, and only their number counts.

    `in_scope` is false for a host that is set aside: its metrics are no strangers, and nobody waits for them.
    """

    name: str
    node: str
    count: int
    source: Source
    gpus: tuple[ExpectedGpu, ...] = ()
    in_scope: bool = True

    def __post_init__(self) -> None:
        if self.gpus and len(self.gpus) != self.count:
            reason = f"has {len(self.gpus)} GPUs that are known, and is to have metrics of {self.count}."
            raise InputError(f"host {self.name}", reason, "run the gate again")


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One series of a GPU or a slice. `at` is the time of its last sample and `value` what that says.

    `host` is the inventory's name of the host that it names, empty if it is none of these; `claims` is the word that it
    names it by, `node` what its scrape target says.
    """

    field: str
    uuid: str
    claims: str
    host: str
    instance: str
    target: str
    interval_s: float
    at: float
    value: float
    gpu: str = ""
    node: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exporter:
    """One scrape target that belongs to a host of the inventory: its health and last error."""

    host: str
    target: str
    health: str
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldSeen:
    """The hosts of the inventory that have a series of a field, for each of their GPUs that has metrics at all."""

    field: str
    hosts: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Why something could not be looked at."""

    cause: str
    subject: str
    reason: str
    hint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetMetrics:
    """The metrics of the fleet at one moment; `at` and the times of samples are of Prometheus' clock.

    `neighbours` are nodes of the same cluster that are not in the inventory: an island that is added to a live cluster
    has some. `alert_fields` says of which hosts the series are there that alerts need, None where nobody looked.
    """

    hosts: tuple[ExpectedHost, ...]
    settings: TelemetrySettings
    where: str = ""
    at: float = 0.0
    series: tuple[Series, ...] = ()
    neighbours: tuple[str, ...] = ()
    alert_fields: tuple[FieldSeen, ...] | None = None
    exporters: tuple[Exporter, ...] = ()
    problem: Problem | None = None
    schema_version: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleSeen:
    """One rule of the recipe's groups as Prometheus has it: `health` is ok, unknown or err, with `error`."""

    group: str
    name: str
    health: str
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertDelivery:
    """The way of one test alert: seconds after its rule was made, None for what never happened.

    Args:
        name: value of its label `gpufleet_test`.
        loaded_s: Prometheus has the rule.
        firing_s: Prometheus says that it fires.
        received_s: its receiver has it.
        rule_error: what Prometheus says against the rule.
        alertmanagers: where Prometheus sends alerts.
        routed: receivers that Alertmanager sends it to; None: it does not have the alert, or could not be asked.
        asked: whether Alertmanager could be asked.
        evidence: file with what the receiver wrote.
        leftovers: what could not be removed.
        problem: why it was not tested.
        recipe_rules: what Prometheus has of the groups that the recipe states; None where nobody asked.
    """

    settings: TelemetrySettings
    where: str = ""
    name: str = ""
    loaded_s: float | None = None
    firing_s: float | None = None
    received_s: float | None = None
    rule_error: str = ""
    alertmanagers: tuple[str, ...] = ()
    routed: tuple[str, ...] | None = None
    asked: bool = False
    evidence: str = ""
    leftovers: tuple[str, ...] = field(default=())
    problem: Problem | None = None
    recipe_rules: tuple[RuleSeen, ...] | None = None
    schema_version: int = 1
