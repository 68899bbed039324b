# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""From samples of Prometheus to series of GPUs of hosts. Pure.

Exporters and relabelling call things by different names: the host is what a label says that is a name of the inventory,
else the node of the scrape target. A label that our own target took from the exporter is `exported_<label>`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from ...clients.prometheus.model import Sample, Target, Vector
from .model import ExpectedHost, Exporter, FieldSeen, Series
from .settings import TelemetrySettings

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
        """Take names and node names; the first part of a long name is one, too, unless two hosts share it."""
        self._full = {name: host.name for host in hosts for name in (host.name, host.node)}
        short: dict[str, set[str]] = {}
        for name, host in self._full.items():
            short.setdefault(name.partition(".")[0], set()).add(host)
        self._short = {name: next(iter(owners)) for name, owners in short.items() if len(owners) == 1}

    def host(self, word: str) -> str:
        """Return the inventory's name of a host, empty if it is none of them."""
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
        # It came or went between the two queries: the next look has it or has not.
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
    """Return the words by which a sample or its target name a host; what the target says of its node comes last."""
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
    """Return the hosts of the inventory that have a field for all of their GPUs that have `series`.

    A sample that names no GPU is about its host. Other arguments as series_of.
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
    """Return the targets of hosts of the inventory that export GPUs, whether they answer or not.

    One that does not answer has no series; it belongs to a pool that has some, or is called like an exporter.
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
