# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Test of one idle node: sequential and random reads and writes on the shared volume, and data read back as written."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace

from ...outcome.errors import InputError
from ...outcome.model import Rating, Status
from ...store.records import Figure, NodeResult
from ...workload.job import JobResult, JobSpec
from ...workload.manifests import data_directory
from ..benchmark.plan import BenchmarkHost
from ..kit.settings import setting, with_default
from ..shared_storage.run import StorageReading, read_result, storage_job
from ..shared_storage.settings import KEY, StorageSettings
from ..spec import ObserveContext
from .reading import result_of, without_result
from .settings import NodeTestSettings
from .spec import NodeTest

_PART = "shared-volume"


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageIoSettings(NodeTestSettings):
    """How an idle node uses a volume on which users work.

    The volume and what is done on it stand in the settings of check storage-integrity; without a volume nothing is
    tested.
    """

    pull_s: float = with_default(NodeTestSettings, "pull_s", 600)
    rate_mib_s: float = setting(
        "Most that the node writes, or reads, in a second while users work on the volume; 0: no limit.",
        default=500,
        unit="MiB/s",
        minimum=0,
        use="run",
    )


class StorageIo(NodeTest):
    """fio in a directory of its own, as before gate training_acceptance; its figures are compared between nodes
    elsewhere."""

    id = "storage_io"
    title = "Storage I/O on the shared volume"
    settings_type = StorageIoSettings

    def __init__(self, context: ObserveContext) -> None:
        super().__init__(context)
        own = context.settings_of(self.id, StorageIoSettings)
        self.settings = replace(
            context.settings_of(KEY, StorageSettings), rate_mib_s=own.rate_mib_s, timeout_s=own.timeout_s,
            pull_s=own.pull_s,
        )  # fmt: skip

    def unfit(self, host: BenchmarkHost) -> str:
        """Return that no volume is configured, so that the test applies to no host; empty if one is."""
        return "" if self.settings.declared else f"gpufleet_settings.{KEY} states neither volume nor claim"

    def unready(self, host: BenchmarkHost) -> str:
        """Return why the host cannot use the volume, empty if it can.

        Jobs of Slurm mount nothing, so there the volume has to be a directory of the nodes.
        """
        del host
        if self.context.site.orchestrator != "slurm":
            return ""
        try:
            data_directory(self.settings.source)
        except InputError as error:
            return f"gpufleet_settings.{KEY}: {error}"
        return ""

    def job(self, name: str, host: BenchmarkHost) -> JobSpec:
        """Return the job that writes and reads in a directory that no other run has."""
        return storage_job(name, host, self.settings, secrets.token_hex(8))

    def read(self, cycle_id: str, host: BenchmarkHost, result: JobResult, started_s: float) -> NodeResult:
        """Return what the volume delivered. It is failed only if data read back differs, or the storage had errors."""
        early = without_result(self.id, cycle_id, host, result, started_s)
        if early is not None:
            return early
        found = read_result(result, self.settings)
        problem = found.problem
        if problem is not None:
            status, rating = (Status.FAILED, Rating.BAD) if problem.bad else (Status.OTHER, Rating.UNKNOWN)
            return result_of(
                self.id, cycle_id, host, result, started_s, status, rating=rating, cause=problem.cause,
                summary=f"{host.name}: {problem.text}", cohort=self._cohort(host, found),
            )  # fmt: skip
        return result_of(
            self.id, cycle_id, host, result, started_s, Status.PASSED, rating=Rating.GOOD,
            summary=f"{host.name}: {_summary(found)}", cohort=self._cohort(host, found), figures=_figures(found),
        )  # fmt: skip

    def _cohort(self, host: BenchmarkHost, found: StorageReading) -> str:
        """Return what two results must have in common to be compared: what fio did, and how, on which SKU."""
        settings = self.settings
        size = f"{settings.threads} x {settings.size_mib} MiB"
        limit = f", at most {settings.rate_mib_s:g} MiB/s" if settings.rate_mib_s else ""
        way = "direct" if found.direct else "through the page cache"
        return f"{host.sku}, {found.version}, {size} {way}{limit}" if found.version else host.sku


def _summary(found: StorageReading) -> str:
    reported = [f"{name} {item.mib_s:,.0f} MiB/s, p99 {item.ms['p99']:.3g} ms" for name, item in found.patterns.items()]
    return f"written, read back and compared; {'; '.join(reported)}"


def _figures(found: StorageReading) -> tuple[Figure, ...]:
    figures = []
    for name, item in found.patterns.items():
        figures.append(Figure(name=name, number=round(item.mib_s, 3), unit="MiB/s", part=_PART))
        figures.append(Figure(name=f"{name} operations", number=round(item.iops, 1), unit="1/s", part=_PART))
        latencies = item.ms.items()
        figures += [Figure(name=f"{name} {at}", number=round(ms, 6), unit="ms", part=_PART) for at, ms in latencies]
    return tuple(figures)


TEST = StorageIo
