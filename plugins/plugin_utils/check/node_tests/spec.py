# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a test of one idle node is: the job that it needs there, and how the end of that job is read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from ...store.service_model import NodeResult
from ...workload.model import JobResult, JobSpec
from ..benchmark.plan import BenchmarkHost


class NodeTest(ABC):
    """One test of one node by itself, all of whose GPUs are free.

    It says what it saw of that node alone; comparing nodes with each other is left to the classification of a cycle.
    """

    id: ClassVar[str]
    title: ClassVar[str]

    @abstractmethod
    def job(self, name: str, host: BenchmarkHost) -> JobSpec:
        """Return the job with this name that tests the node."""

    @abstractmethod
    def read(self, cycle_id: str, host: BenchmarkHost, result: JobResult, started_s: float) -> NodeResult:
        """Return what the job said. `other` unless everything that the test promises was seen; `pending` if a pod of
        a user took its place."""
