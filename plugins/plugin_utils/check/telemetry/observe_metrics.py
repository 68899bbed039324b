# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Observe the GPU metrics in Prometheus. A newly installed fleet is given some time to appear."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from ...clients.kube.cluster import Cluster
from ...clients.kube.connection import connection_from
from ...clients.kube.objects import NODES, RESOURCE_SLICES
from ...clients.prometheus.prometheus import Prometheus, Sample, Target, Vector
from ...collect.host_facts import load_hosts
from ...hardware.sku import Sku
from ...outcome.errors import BringupError
from ...probe.nvidia_smi_xml import Gpu, SmiLog
from ...runtime.clock import Deadline
from ...runtime.progress import Progress
from ...site.model import Host, Site
from ..kit.saved_settings import observer_with_settings
from ..spec import ObserveContext
from .find import prometheus_session
from .fleet import Fleet
from .model import EVIDENCE, SKU, SLICES, ExpectedGpu, ExpectedHost, Exporter, FieldSeen, FleetMetrics, Problem, Series
from .settings import GATE, TelemetrySettings

# Which GPUs must have metrics, from the best source available: first nvidia-smi on the host in this run, then the DRA
# driver's list if it has as many GPUs as the SKU. Otherwise only the number of GPUs is expected, with any UUIDs.

DRA_DRIVER = "gpu.nvidia.com"


def expected_hosts(
    site: Site, run_dir: Path, hardware: Mapping[str, Sku], slices: Sequence[dict[str, Any]]
) -> tuple[ExpectedHost, ...]:
    """Return what every host of the inventory must have metrics of.

    Args:
        site: the site.
        run_dir: the run, whose evidence has the output of nvidia-smi.
        hardware: SKU facts.
        slices: the cluster's ResourceSlices; empty without a cluster.
    """
    facts = load_hosts(run_dir, site, only=("smi",))
    listed = uuids_by_node(slices)
    found = []
    for host in site.hosts:
        smi, sku = facts[host.name].smi, hardware.get(host.sku)
        log = smi if isinstance(smi, SmiLog) else None
        found.append(
            _expected_expected(host, log, listed.get(host.node_name, ()), sku, host.name not in site.quarantined)
        )
    return tuple(found)


def _expected_expected(
    host: Host, smi: SmiLog | None, listed: Sequence[str], sku: Sku | None, in_scope: bool
) -> ExpectedHost:
    gpus: tuple[ExpectedGpu, ...] = ()
    source, count = SKU, sku.gpus if sku is not None else 0
    if smi is not None:
        gpus, source = tuple(map(_gpu, smi.gpus)), EVIDENCE
    elif listed and len(listed) == count:
        gpus, source = tuple(ExpectedGpu(uuid=uuid) for uuid in listed), SLICES
    node = host.node
    return ExpectedHost(
        name=host.name, node=node, count=len(gpus) or count, source=source, gpus=gpus, in_scope=in_scope
    )


def _gpu(gpu: Gpu) -> ExpectedGpu:
    instances = {device.instance for device in gpu.mig_devices if device.instance is not None}
    return ExpectedGpu(uuid=gpu.uuid, mig=gpu.mig_current == "Enabled", instances=tuple(sorted(instances)))


def uuids_by_node(slices: Sequence[dict[str, Any]]) -> dict[str, tuple[str, ...]]:
    """Return the UUIDs of whole GPUs that the DRA driver lists, by node."""
    found: dict[str, list[str]] = {}
    for item in slices:
        spec = item.get("spec") or {}
        if spec.get("driver") != DRA_DRIVER or not spec.get("nodeName"):
            continue
        for device in spec.get("devices") or []:
            # Until v1beta1 the attributes were one level deeper.
            attributes = (device.get("basic") or device).get("attributes") or {}
            uuid = (attributes.get("uuid") or {}).get("string", "")
            if uuid.startswith("GPU-"):
                found.setdefault(spec["nodeName"], []).append(uuid)
    return {node: tuple(sorted(set(uuids))) for node, uuids in found.items()}


# From samples of Prometheus to series of the GPUs of hosts. Pure. Exporters and relabelling name things differently:
# the host is the label value that is a name of the inventory, else the node of the scrape target. A label that clashes
# with one of the target is `exported_<label>`.

_NODE_OF_TARGET = (
    "__meta_kubernetes_pod_node_name",
    "__meta_kubernetes_node_name",
    "__meta_kubernetes_endpoint_node_name",
)
_IDENTITY = ("job", "instance")
Identity = tuple[str, str]


class Names:
    """The names by which hosts of the inventory are known."""

    def __init__(self, hosts: Sequence[ExpectedHost]) -> None:
        """Take host and node names. The first part of a long name counts too, unless two hosts share it."""
        self._full = {name: host.name for host in hosts for name in (host.name, host.node)}
        short: dict[str, set[str]] = {}
        for name, host in self._full.items():
            short.setdefault(name.partition(".")[0], set()).add(host)
        self._short = {name: next(iter(owners)) for name, owners in short.items() if len(owners) == 1}

    def host(self, word: str) -> str:
        """Return the inventory's name of a host. Empty: it is not in the inventory."""
        return self._full.get(word) or self._short.get(word.partition(".")[0], "") if word else ""


def series_of(
    field: str, values: Vector, times: Vector, targets: Sequence[Target], names: Names, settings: TelemetrySettings
) -> tuple[Series, ...]:
    """Return the series of one metric.

    Args:
        field: its name.
        values: the metric.
        times: when its samples were taken (`timestamp()` of it).
        targets: the scrape targets, for intervals and nodes.
        names: the inventory.
        settings: which labels name a host.
    """
    at = {_key(sample): sample.value for sample in times.samples}
    by_identity = {_identity(target.labels): target for target in targets}
    found = []
    for sample in values.samples:
        moment = at.get(_key(sample))
        # The series came or went between the two queries. The next poll decides.
        if moment is None:
            continue
        found.append(_series(field, sample, moment, by_identity.get(_identity(sample.labels)), names, settings))
    return tuple(found)


def _series(
    field: str, sample: Sample, at: float, target: Target | None, names: Names, settings: TelemetrySettings
) -> Series:
    labels = sample.labels
    words = _host_words(sample, target, settings)
    host = next((found for word in words if (found := names.host(word))), "")
    interval = settings.metrics.interval_s or (target.interval_s if target is not None else 0.0)
    return Series(
        field=field,
        uuid=_uuid(labels),
        claims=words[0] if words else "",
        node=words[-1] if words else "",
        host=host,
        instance=labels.get("GPU_I_ID", ""),
        target=" ".join(labels[name] for name in _IDENTITY if labels.get(name)),
        interval_s=interval,
        at=at,
        value=sample.value,
        gpu=labels.get("gpu", ""),
    )


def _uuid(labels: Mapping[str, str]) -> str:
    return labels.get("UUID") or labels.get("exported_UUID") or labels.get("uuid") or ""


def _host_words(sample: Sample, target: Target | None, settings: TelemetrySettings) -> list[str]:
    """Return the host names in the labels of a sample, followed by the node names of its target."""
    words = [sample.labels[name] for name in settings.host_labels if sample.labels.get(name)]
    if target is not None:
        words += [target.discovered[name] for name in _NODE_OF_TARGET if target.discovered.get(name)]
    return words


def field_seen(
    field: str,
    values: Vector,
    targets: Sequence[Target],
    names: Names,
    settings: TelemetrySettings,
    series: Sequence[Series],
) -> FieldSeen:
    """Return the hosts of the inventory that have a field for every GPU that has any of `series`.

    A sample without a GPU counts for its whole host. Other arguments as series_of.
    """
    by_identity = {_identity(target.labels): target for target in targets}
    speaking, having = defaultdict[str, set[str]](set), defaultdict[str, set[str]](set)
    for entry in series:
        speaking[entry.host].add(entry.uuid)
    for sample in values.samples:
        words = _host_words(sample, by_identity.get(_identity(sample.labels)), settings)
        for host in {host for word in words if (host := names.host(word))}:
            having[host].add(_uuid(sample.labels))
    whole = (host for host, uuids in having.items() if "" in uuids or speaking[host] <= uuids)
    return FieldSeen(field=field, hosts=tuple(sorted(whole)))


def exporters_of(targets: Sequence[Target], series: Sequence[Series], names: Names) -> tuple[Exporter, ...]:
    """Return the targets that export GPU metrics of hosts of the inventory, whether they respond or not.

    A target that does not respond has no series. It is recognised by its pool, if others of that pool have series, or
    by `dcgm` in its name.
    """
    speaking = {entry.target for entry in series}
    pools = {target.pool for target in targets if " ".join(_words(target.labels)) in speaking}
    found = []
    for target in targets:
        job = f"{target.pool} {target.labels.get('job', '')}".lower()
        if target.pool not in pools and "dcgm" not in job:
            continue
        words = [target.discovered.get(name, "") for name in _NODE_OF_TARGET]
        words += [target.labels.get(name, "") for name in ("node", "instance")]
        host = next((name for word in words if (name := names.host(word.partition(":")[0]))), "")
        if host:
            name = " ".join(_words(target.labels))
            found.append(Exporter(host=host, target=name, health=target.health, error=target.last_error))
    return tuple(found)


def _words(labels: Mapping[str, str]) -> list[str]:
    return [labels[name] for name in _IDENTITY if labels.get(name)]


def _identity(labels: Mapping[str, str]) -> Identity:
    return labels.get("job", ""), labels.get("instance", "")


def _key(sample: Sample) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(sample.labels.items()))


_POLL_S = 1.0


def observe(context: ObserveContext) -> FleetMetrics:
    """Poll until everything is there and fresh, for `settle_s` seconds at most. The last state counts.

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
    """Return the problem that checks report if Prometheus cannot be queried."""
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
            # They are only the second source, after nvidia-smi.
            context.emit(f"no ResourceSlices: {error}")
    return expected_hosts(context.site, context.run_dir, context.hardware, slices or [])


def _neighbours(context: ObserveContext, cluster: Cluster | None) -> tuple[str, ...]:
    """Return the nodes of the cluster that are not in the inventory.

    Empty: there are none, or they may not be listed.
    """
    ours = {host.node for host in context.site.hosts}
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
    """Return the scrape targets. A store without targets needs the setting of the scrape interval."""
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
    observed = sum(len(fleet.seen_uuids(host)) for host in metrics.hosts if host.in_scope)
    stale = sum(len(fleet.stale(host)) for host in metrics.hosts if host.in_scope)
    return f"{observed} of {expected} GPUs, {stale} not fresh"


OBSERVER = observer_with_settings("metrics", FleetMetrics, observe, TelemetrySettings, GATE)
