# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A fleet's metrics as Prometheus would have them, and what the gate says of them, without a Prometheus."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date

from sites import make_site

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.kit.settings_layers import checked_settings
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.registry import all_checks
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import JudgeContext
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.telemetry.model import (
    EVIDENCE,
    SKU,
    ExpectedGpu,
    ExpectedHost,
    FieldSeen,
    FleetMetrics,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.telemetry.observe_metrics import (
    Names,
    exporters_of,
    series_of,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.telemetry.settings import TelemetrySettings
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.prometheus.prometheus import (
    Sample,
    Target,
    Vector,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.decisions import Quarantine
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Outcome
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import Host

NOW, INTERVAL_S = 1_700_000_000.0, 15.0
FIELD, MIG_FIELD = "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_PROF_GR_ENGINE_ACTIVE"


def uuid(host: str, gpu: int) -> str:
    return f"GPU-{host}-{gpu}"


@dataclass
class Row:
    """One series."""

    labels: dict[str, str]
    age_s: float = 5.0
    value: float = 0.0
    field: str = FIELD


@dataclass
class Metrics:
    """Hosts with eight GPUs, each exported once and fresh; a test changes what it wants."""

    hosts: tuple[str, ...] = ("gpu01", "gpu02", "gpu03")
    known: bool = True
    rows: list[Row] = field(default_factory=list)
    mig: dict[str, tuple[str, ...]] = field(default_factory=dict)
    down: dict[str, str] = field(default_factory=dict)
    set_aside: tuple[str, ...] = ()
    settings: dict[str, object] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    interval_s: float = INTERVAL_S
    neighbours: tuple[str, ...] = ()
    without_fields: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.rows = [self.row(host, gpu) for host in self.hosts for gpu in range(8)]

    def row(self, host: str, gpu: int, **labels: str) -> Row:
        """The series of a GPU as dcgm-exporter's operand labels it."""
        said = {"gpu": str(gpu), "UUID": uuid(host, gpu), "Hostname": host, "job": "dcgm", "instance": f"{host}:9400"}
        return Row({**said, **labels})

    def of(self, host: str) -> list[Row]:
        return [row for row in self.rows if row.labels.get("instance", "").startswith(host)]

    def drop(self, host: str, gpu: int | None = None) -> None:
        gone = [row for row in self.of(host) if gpu is None or row.labels["gpu"] == str(gpu)]
        self.rows = [row for row in self.rows if row not in gone]

    def slice(self, host: str, gpu: int, *instances: str, exported: tuple[str, ...] | None = None) -> None:
        """Put a GPU into MIG mode."""
        self.mig[uuid(host, gpu)] = instances
        self.drop(host, gpu)
        for number in instances if exported is None else exported:
            row = self.row(host, gpu, GPU_I_ID=number, GPU_I_PROFILE="1g.10gb")
            row.field = MIG_FIELD
            self.rows.append(row)

    def expected(self) -> tuple[ExpectedHost, ...]:
        return tuple(self._expected(name) for name in self.hosts)

    def _expected(self, name: str) -> ExpectedHost:
        uuids = [uuid(name, gpu) for gpu in range(8)] if self.known else []
        gpus = tuple(ExpectedGpu(uuid=u, mig=u in self.mig, instances=self.mig.get(u, ())) for u in uuids)
        source, node = EVIDENCE if self.known else SKU, self.names.get(name, name)
        return ExpectedHost(
            name=name, node=node, count=8, source=source, gpus=gpus, in_scope=name not in self.set_aside
        )

    def targets(self) -> tuple[Target, ...]:
        found = []
        for host in self.hosts:
            identity = {"job": "dcgm", "instance": f"{host}:9400"}
            error = self.down.get(host, "")
            discovered = {"__meta_kubernetes_pod_node_name": self.names.get(host, host)}
            found.append(Target("dcgm", "", "down" if error else "up", error, self.interval_s, identity, discovered))
        return tuple(found)

    def view(self) -> FleetMetrics:
        hosts, settings = self.expected(), checked_settings(TelemetrySettings, "telemetry", self.settings)
        names, targets, series = Names(hosts), self.targets(), []
        for name in (FIELD, MIG_FIELD):
            rows = [row for row in self.rows if row.field == name]
            values = Vector(NOW, tuple(Sample(row.labels, row.value) for row in rows))
            times = Vector(NOW, tuple(Sample(row.labels, NOW - row.age_s) for row in rows))
            series += series_of(name, values, times, targets, names, settings)
        exporters = exporters_of(targets, series, names)
        present = tuple(
            FieldSeen(field=name, hosts=tuple(h for h in self.hosts if h not in self.without_fields.get(name, ())))
            for name in settings.metrics.alert_fields
        )
        return FleetMetrics(
            hosts=hosts, settings=settings, where="prometheus", at=NOW, series=tuple(series), exporters=exporters,
            neighbours=self.neighbours, alert_fields=present,
        )  # fmt: skip

    def context(self) -> JudgeContext:
        hosts = tuple(Host(name=name, sku="dgx-h100", node_name=self.names.get(name, name)) for name in self.hosts)
        aside = tuple(Quarantine(node=name, reason="r", ticket="t", who="w") for name in self.set_aside)
        site = make_site(hosts, name="here", capabilities=("kubernetes",), quarantine=aside)
        return JudgeContext(gate="telemetry", site=site, today=date(2026, 1, 1))

    def outcomes(self, view: FleetMetrics | None = None) -> tuple[Outcome, ...]:
        """Judge all checks of metrics."""
        seen, context = view or self.view(), self.context()
        checks = [check for check in all_checks() if check.spec.id.startswith("gpu-metrics-")]
        return tuple(outcome for check in checks for outcome in check.judge(seen, context))
