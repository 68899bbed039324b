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
    """One test of one node by itself, all of whose GPUs are free.

    It says what it saw of that node alone; comparing nodes with each other is left to the classification of a cycle.
    A file of this package that has one says `TEST = <its class>`; its defaults are in `recipes/thresholds/<id>.yaml`.
    `common` are the settings that every test has; a test with more of them reads its own class in the same way.
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
        """Look once, before the first job of a cycle, at what jobs need of the cluster; most need nothing.

        Args:
            cluster: None where Slurm gives the nodes their work: jobs see the node as it is then.

        Raises:
            BringupError: the API server does not answer.
        """
        del cluster

    def unfit(self, host: BenchmarkHost) -> str:
        """Return why this test has nothing to say about such hosts, which are skipped; empty if it has."""
        del host
        return ""

    def unready(self, host: BenchmarkHost) -> str:
        """Return why this host cannot be tested although it should be, which is `other`; empty if it can."""
        del host
        return ""

    def permissions(self) -> tuple[Permission, ...]:
        """Return what its jobs need beside BASIC of workload.permission."""
        return job_permissions("plain-job")

    def blamed(self, host: BenchmarkHost, result: JobResult) -> tuple[str, ...]:
        """Return the parts of the node (`gpu1`) that this job shows to be bad; none where only the node is known."""
        del host, result
        return ()

    @abstractmethod
    def job(self, name: str, host: BenchmarkHost) -> JobSpec:
        """Return the job with this name that tests the node."""

    @abstractmethod
    def read(self, cycle_id: str, host: BenchmarkHost, result: JobResult, started_s: float) -> NodeResult:
        """Return what the job said. `other` unless everything that the test promises was seen; `pending` if a pod of
        a user took its place."""
