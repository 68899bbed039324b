# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Observes the GPU metrics that Prometheus has; a fleet that was just installed gets some time to appear."""

from __future__ import annotations

import time
from contextlib import ExitStack

from ...clients.kube.cluster import Cluster
from ...clients.kube.connection import connection_from
from ...clients.kube.kinds import NODES, RESOURCE_SLICES
from ...clients.prometheus.model import Target
from ...clients.prometheus.prometheus import Prometheus
from ...outcome.errors import BringupError
from ...runtime.clock import Deadline
from ...runtime.progress import Progress
from ..kit.saved_settings import observer_with_settings
from ..spec import ObserveContext
from .expected import expected_hosts
from .find import prometheus_session
from .fleet import Fleet
from .model import ExpectedHost, FleetMetrics, Problem, Series
from .parse_series import Names, exporters_of, field_seen, series_of
from .settings import GATE, TelemetrySettings

_POLL_S = 1.0


def observe(context: ObserveContext) -> FleetMetrics:
    """Look until everything is there and fresh, at most `settle_s` seconds; the last look counts.

    Raises:
        InputError: a setting is wrong.
    """
    settings = context.settings_of(GATE, TelemetrySettings)
    deadline, progress = Deadline.after(settings.metrics.settle_s), Progress(context.emit)
    with ExitStack() as stack:
        cluster = _cluster(context, stack)
        hosts = _expected(context, cluster)
        neighbours = _neighbours(context, cluster)
        while True:
            metrics = _look(cluster, settings, hosts, neighbours)
            if deadline.left_s <= 0 or (metrics.problem is None and Fleet(metrics).settled()):
                return metrics
            progress.tick(f"metrics: {_standing(metrics)}")
            time.sleep(min(_POLL_S, deadline.left_s))


def unreachable(error: BringupError) -> Problem:
    """Return what a check says when Prometheus cannot be asked."""
    return Problem(cause="prometheus-unreachable", subject=error.subject, reason=error.reason, hint=error.hint)


def _cluster(context: ObserveContext, stack: ExitStack) -> Cluster | None:
    if "kubernetes" not in context.site.capabilities:
        return None
    return stack.enter_context(Cluster(connection_from(context.connections)))


def _expected(context: ObserveContext, cluster: Cluster | None) -> tuple[ExpectedHost, ...]:
    slices = None
    if cluster is not None:
        try:
            slices = cluster.find_all(RESOURCE_SLICES)
        except BringupError as error:
            # They only add what nvidia-smi may have said already.
            context.emit(f"no ResourceSlices: {error}")
    return expected_hosts(context.site, context.run_dir, context.hardware, slices or [])


def _neighbours(context: ObserveContext, cluster: Cluster | None) -> tuple[str, ...]:
    """Return the nodes of the cluster that the inventory does not have; none where they may not be listed."""
    ours = {host.node_name or host.name for host in context.site.hosts}
    if cluster is None:
        return ()
    try:
        nodes = cluster.list_objects(NODES)
    except BringupError as error:
        context.emit(f"no nodes: {error}")
        return ()
    return tuple(sorted(node["metadata"]["name"] for node in nodes if node["metadata"]["name"] not in ours))


def _look(
    cluster: Cluster | None,
    settings: TelemetrySettings,
    hosts: tuple[ExpectedHost, ...],
    neighbours: tuple[str, ...],
) -> FleetMetrics:
    try:
        prometheus = Prometheus(prometheus_session(cluster, settings.metrics))
        targets = _targets(prometheus, settings)
        names, moments = Names(hosts), list[float]()
        series: list[Series] = []
        for field in (settings.metrics.field, settings.metrics.mig_field):
            values, times = prometheus.query(field), prometheus.query(f"timestamp({field})")
            series += series_of(field, values, times, targets, names, settings)
            moments += [vector.at for vector in (values, times)]
        alert_fields = tuple(
            field_seen(field, prometheus.query(field), targets, names, settings, series)
            for field in settings.metrics.alert_fields
        )
    except BringupError as error:
        return FleetMetrics(hosts=hosts, settings=settings, problem=unreachable(error))
    return FleetMetrics(
        hosts=hosts,
        settings=settings,
        where=prometheus.where,
        at=max(moments),
        series=tuple(series),
        neighbours=neighbours,
        alert_fields=alert_fields,
        exporters=exporters_of(targets, series, names),
    )


def _targets(prometheus: Prometheus, settings: TelemetrySettings) -> tuple[Target, ...]:
    """Return the scrape targets; what only stores metrics has none, and then the site states the interval."""
    try:
        return prometheus.targets()
    except BringupError:
        if settings.metrics.interval_s <= 0:
            raise
        return ()


def _standing(metrics: FleetMetrics) -> str:
    if metrics.problem is not None:
        return f"{metrics.problem.subject}: {metrics.problem.reason}"
    fleet = Fleet(metrics)
    expected = sum(host.count for host in metrics.hosts if host.in_scope)
    seen = sum(len(fleet.seen_uuids(host)) for host in metrics.hosts if host.in_scope)
    stale = sum(len(fleet.stale(host)) for host in metrics.hosts if host.in_scope)
    return f"{seen} of {expected} GPUs, {stale} not fresh"


OBSERVER = observer_with_settings("metrics", FleetMetrics, observe, TelemetrySettings, GATE)
