# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Assign the series to hosts, and find what is missing, stale, duplicate or unknown. Pure."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property

from .model import ExpectedGpu, ExpectedHost, Exporter, FleetMetrics, Series

# DCGM writes numbers like 9223372036854775794 for a value that a GPU does not have.
_LARGEST = 1e9


@dataclass(frozen=True, slots=True)
class Stranger:
    """A GPU or host that is not in the inventory, or a GPU at another host.

    Attributes:
        cause: slug.
        host: the host of the inventory where it was found; empty: none.
        text: what was found.
    """

    cause: str
    host: str
    text: str


class Fleet:
    """The series, by the hosts and GPUs that they belong to."""

    def __init__(self, metrics: FleetMetrics) -> None:
        self.metrics = metrics
        self.expected = {host.name: host for host in metrics.hosts}
        self.owners = {gpu.uuid: host.name for host in metrics.hosts for gpu in host.gpus}
        self._by_host: dict[str, list[Series]] = defaultdict(list)
        for series in metrics.series:
            owner = self.owner(series)
            if owner:
                self._by_host[owner].append(series)
        self._exporters: dict[str, list[Exporter]] = defaultdict(list)
        for exporter in metrics.exporters:
            self._exporters[exporter.host].append(exporter)

    def owner(self, series: Series) -> str:
        """Return the host of a series: the one that has the GPU, else the one in its labels."""
        return self.owners.get(series.uuid) or series.host

    @property
    def blind(self) -> bool:
        """Whether there is not a single series."""
        return not self.metrics.series

    def exporters(self, host: ExpectedHost) -> tuple[Exporter, ...]:
        return tuple(self._exporters[host.name])

    def relevant(self, host: ExpectedHost) -> tuple[Series, ...]:
        """Return the series that prove a host's GPUs: of the expected field, with a plausible value."""
        mig = {gpu.uuid for gpu in host.gpus if gpu.mig}
        settings = self.metrics.settings.metrics
        if not host.gpus:
            # It is not known which GPUs are in MIG mode, but the series of a slice has an instance id.
            mig = {s.uuid for s in self._by_host[host.name] if s.field == settings.mig_field and s.instance}
        return tuple(
            series
            for series in self._by_host[host.name]
            if _usable(series)
            and series.uuid
            and series.field == (settings.mig_field if series.uuid in mig else settings.field)
            and (series.uuid not in mig or bool(series.instance))
        )

    def missing(self, host: ExpectedHost) -> tuple[ExpectedGpu, ...]:
        """Return the known GPUs of a host that lack a series, or lack one for some of their slices."""
        observed: dict[str, set[str]] = defaultdict(set)
        for series in self.relevant(host):
            observed[series.uuid].add(series.instance)
        return tuple(
            gpu for gpu in host.gpus if gpu.uuid not in observed or not set(gpu.instances) <= observed[gpu.uuid]
        )

    def lacking(self, host: ExpectedHost) -> int:
        """Return how many GPUs of a host lack a series: counted by UUID if the UUIDs are known, else by number."""
        by_number = 0 if host.gpus else host.count - len(self.seen_uuids(host))
        return len(self.missing(host)) or max(by_number, 0)

    def seen_uuids(self, host: ExpectedHost) -> frozenset[str]:
        """Return the UUIDs of a host's GPUs that have a series."""
        return frozenset(series.uuid for series in self.relevant(host))

    def is_silent(self, host: ExpectedHost) -> bool:
        """Whether a host has no series."""
        return not self._by_host[host.name]

    def stale(self, host: ExpectedHost) -> tuple[tuple[Series, float], ...]:
        """Return the series whose last sample is too old, with its age in seconds.

        Only the newest series of a GPU or slice counts.
        """
        newest: dict[tuple[str, str], Series] = {}
        for series in self.relevant(host):
            key = (series.uuid, series.instance)
            if key not in newest or series.at > newest[key].at:
                newest[key] = series
        aged = [(series, self.metrics.at - series.at) for series in newest.values()]
        # A sample far in the future is as useless as an old one.
        return tuple((series, age) for series, age in aged if abs(age) > self.limit_s(series))

    def limit_s(self, series: Series) -> float:
        """Return the largest age of a sample, in seconds."""
        return self.metrics.settings.metrics.fresh_intervals * series.interval_s

    def doubles(self, host: ExpectedHost) -> dict[str, tuple[str, ...]]:
        """Return the UUIDs of a host that more than one target exports, with these targets.

        Several series from one target are no duplicates: pods that share a GPU have one each.
        """
        targets: dict[tuple[str, str], set[str]] = defaultdict(set)
        for series in self.relevant(host):
            targets[series.uuid, series.instance].add(series.target)
        return {uuid: tuple(sorted(names)) for (uuid, _part), names in sorted(targets.items()) if len(names) > 1}

    @cached_property
    def strangers(self) -> tuple[Stranger, ...]:
        """What has metrics and is not in the inventory, each once."""
        return tuple(dict.fromkeys(self._strangers()))

    def _strangers(self) -> Iterable[Stranger]:
        hosts = {host.name: host for host in self.metrics.hosts}
        crowds: dict[str, set[str]] = defaultdict(set)
        for series in self.metrics.series:
            known = self.owners.get(series.uuid)
            if known is not None:
                if series.host and series.host != known:
                    text = f"{series.uuid} of {known} is reported by {series.host}"
                    yield Stranger("wrong-host", series.host, text)
            elif not series.host:
                if not self._allowed(series.claims) and not self._is_neighbour(series):
                    where = (
                        f"host {series.claims!r}" if series.claims else f"target {series.target or 'without a name'}"
                    )
                    yield Stranger("stranger-host", "", f"{where} is not in the inventory")
            elif hosts[series.host].in_scope:
                if hosts[series.host].gpus:
                    yield Stranger(
                        "stranger-gpu", series.host, f"{series.uuid or 'a GPU without UUID'} at {series.host}"
                    )
                else:
                    crowds[series.host].add(series.uuid)
        for name, uuids in crowds.items():
            if len(uuids) > hosts[name].count:
                text = f"{len(uuids)} GPUs at {name}, which has {hosts[name].count}"
                yield Stranger("stranger-gpu", name, text)

    def _allowed(self, word: str) -> bool:
        return bool(word) and any(fnmatchcase(word, pattern) for pattern in self.metrics.settings.metrics.allowed_hosts)

    def _is_neighbour(self, series: Series) -> bool:
        return bool({series.claims, series.node} & set(self.metrics.neighbours))

    def settled(self) -> bool:
        """Whether waiting longer would change nothing."""
        if self.blind or self.strangers:
            return False
        return not any(
            self.lacking(host) or self.stale(host) or self.doubles(host) for host in self.metrics.hosts if host.in_scope
        )


def _usable(series: Series) -> bool:
    return math.isfinite(series.value) and 0 <= series.value < _LARGEST
