# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the gate observed, as values that are saved with the run."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...outcome.errors import InputError
from .settings import TelemetrySettings

Source = str
EVIDENCE, SLICES, SKU = "nvidia-smi on the host", "ResourceSlice of the DRA driver", "hardware facts of the SKU"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedGpu:
    """One GPU that must have metrics. `instances` are its known MIG slices."""

    uuid: str
    mig: bool = False
    instances: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedHost:
    """What a host must have metrics of.

    Attributes:
        name: the host.
        node: its node.
        count: its number of GPUs.
        source: where this is known from.
        gpus: its GPUs. Empty: their UUIDs are not known, and only their number is checked.
        in_scope: false for a quarantined host. Its metrics are known, but not required.
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
    """One series of a GPU or a slice.

    Attributes:
        field: the metric.
        uuid: the GPU.
        claims: the host name in its labels.
        host: the host of the inventory with that name; empty: none.
        instance: the MIG instance.
        target: job and instance of its scrape target.
        interval_s: scrape interval.
        at: time of its last sample, by the clock of Prometheus.
        value: value of that sample.
        gpu: index of the GPU.
        node: the node of its scrape target.
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
    """One scrape target of a host of the inventory: its health and last error."""

    host: str
    target: str
    health: str
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldSeen:
    """The hosts of the inventory that have a series of a field, for each of their GPUs that has any metrics."""

    field: str
    hosts: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Why something could not be observed."""

    cause: str
    subject: str
    reason: str
    hint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetMetrics:
    """The metrics of the fleet at one moment. `at` and the times of samples are by the clock of Prometheus.

    `neighbours` are nodes of the same cluster that are not in the inventory; there are some if an island is added to a
    live cluster. `alert_fields` lists the hosts that have the series which alerts need. None: it was not recorded.
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
    """One rule of the recipe's groups as Prometheus reports it: `health` is ok, unknown, or err with `error`."""

    group: str
    name: str
    health: str
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertDelivery:
    """How far one test alert came. Times are in seconds after its rule was created; None: it did not happen.

    Args:
        name: value of its label `gpufleet_test`.
        loaded_s: Prometheus has the rule.
        firing_s: Prometheus reports it as firing.
        received_s: its receiver has it.
        rule_error: error of the rule as Prometheus reports it.
        alertmanagers: where Prometheus sends alerts.
        routed: receivers that Alertmanager sends it to. None: it does not have the alert, or could not be queried.
        asked: Alertmanager could be queried.
        evidence: file with what the receiver wrote.
        leftovers: what could not be removed.
        problem: why it was not tested.
        recipe_rules: which rules of the recipe's groups Prometheus has. None: it was not queried.
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
