# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a test of one idle node is: the job that it needs there, and how the end of that job is read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from ...clients.kube.cluster import Cluster
from ...clients.kube.permission import Permission
from ...store.records import NodeResult
from ...verdict.peers import PeerLimits
from ...workload.job import JobResult, JobSpec
from ...workload.namespace import job_permissions
from ..benchmark.plan import BenchmarkHost
from ..spec import ObserveContext
from .settings import NodeTestSettings


class NodeTest(ABC):
    """One test of one node by itself, with all of its GPUs free.

    It reports what it observed on that node alone; comparing nodes is left to the classification of a cycle. A file of
    this package with a test has `TEST = <its class>`; the defaults are in its settings class. `common` are
    the settings that every test has; a test with more of them reads its own class in the same way.
    """

    id: ClassVar[str]
    title: ClassVar[str]
    settings_type: ClassVar[type[NodeTestSettings]] = NodeTestSettings

    def __init__(self, context: ObserveContext) -> None:
        self.context = context
        self.common: NodeTestSettings = context.settings_of(self.id, self.settings_type)

    @property
    def peers(self) -> PeerLimits | None:
        """The rule by which a gate compares figures of this test; None where no gate judges them."""
        return None

    def look(self, cluster: Cluster | None) -> None:
        """Read from the cluster, once before the first job of a cycle, what jobs need. Most tests need nothing.

        Args:
            cluster: None where Slurm places the jobs: they find the node as it is then.

        Raises:
            BringupError: the API server does not respond.
        """
        del cluster

    def unfit(self, host: BenchmarkHost) -> str:
        """Return why this test does not apply to such hosts, which are skipped; empty if it does."""
        del host
        return ""

    def unready(self, host: BenchmarkHost) -> str:
        """Return why this host cannot be tested although it should be, which is `other`; empty if it can."""
        del host
        return ""

    def permissions(self) -> tuple[Permission, ...]:
        """Return what its jobs need beyond BASIC of workload.permission."""
        return job_permissions("plain-job")

    def blamed(self, host: BenchmarkHost, result: JobResult) -> tuple[str, ...]:
        """Return the parts of the node (`gpu1`) that this job proves to be bad; empty where only the node is known."""
        del host, result
        return ()

    @abstractmethod
    def job(self, name: str, host: BenchmarkHost) -> JobSpec:
        """Return the job with this name that tests the node."""

    @abstractmethod
    def read(self, cycle_id: str, host: BenchmarkHost, result: JobResult, started_s: float) -> NodeResult:
        """Return the result of the job.

        It is `other` unless everything that the test promises was observed, and `pending` if a pod of a user took its
        place.
        """
