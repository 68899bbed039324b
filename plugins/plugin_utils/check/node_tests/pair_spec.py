# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a test of two idle nodes is: the job that both need, and what its end proves about each.

A slow run over two nodes does not show which of the two is slow. That is decided over the runs of a whole cycle
(features/continuous/cycle.py), and never by the test.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from ...outcome.errors import BringupError, InputError
from ...store.records import NodeResult
from ...workload.job import JobResult, JobSpec
from ..benchmark.plan import BenchmarkHost
from .reading import unreadable
from .spec import NodeTest

# What a run proves. `well`: both nodes are good. `low`: one of them, or the path between them, is not. `told`: the
# results are final as they are.
PairWord = Literal["well", "low", "told"]
Hosts = tuple[BenchmarkHost, BenchmarkHost]


@dataclass(frozen=True, slots=True, kw_only=True)
class PairRun:
    """What one run over two nodes proves, with a result for each of them from that run alone.

    For a `low` run, `bad` is whether a node fails once the cycle confirms it, with cause `named`; else it is marginal.
    """

    word: PairWord
    results: tuple[NodeResult, NodeResult]
    bad: bool = False
    named: str = ""


class PairTest(NodeTest):
    """One test of two nodes at once, both with all GPUs free."""

    def misfit(self, host: BenchmarkHost, other: BenchmarkHost) -> str:
        """Return why these two cannot be tested together; empty if they can."""
        return "" if host.sku == other.sku else f"{other.name} is a {other.sku}, not a {host.sku}"

    @abstractmethod
    def pair_job(self, name: str, hosts: Hosts) -> JobSpec:
        """Return the job with this name that tests both nodes."""

    @abstractmethod
    def read_pair(self, cycle_id: str, hosts: Hosts, result: JobResult, started_s: float) -> PairRun:
        """Return what the job proves about both; what was not observed is never `well`."""

    def job(self, name: str, host: BenchmarkHost) -> JobSpec:
        """Refuse: one node is no pair.

        Raises:
            BringupError: always.
        """
        raise BringupError(f"test {self.id}", f"needs two nodes; {name} was asked of {host.name} alone.")

    def read(self, cycle_id: str, host: BenchmarkHost, result: JobResult, started_s: float) -> NodeResult:
        """Refuse: one node is no pair.

        Raises:
            BringupError: always.
        """
        del started_s
        text = f"needs two nodes; {result.name} of {cycle_id} is of {host.name} alone."
        raise BringupError(f"test {self.id}", text)


def read_pair_job(test: PairTest, cycle_id: str, hosts: Hosts, job: JobResult, started_s: float) -> PairRun:
    """Return what a test reads from the end of its job. Where its reader fails, both results are `other`."""
    try:
        return test.read_pair(cycle_id, hosts, job, started_s)
    except Exception as error:  # noqa: BLE001  # a failed reader proves nothing about the nodes
        first, second = (unreadable(test, cycle_id, host, job, started_s, error) for host in hosts)
        return PairRun(word="told", results=(first, second))


def refuse_pairs(tests: Iterable[NodeTest], who: str) -> None:
    """Refuse tests of two nodes where each test gets one node.

    Raises:
        InputError: one of the tests needs two nodes.
    """
    pairs = [test.id for test in tests if isinstance(test, PairTest)]
    if pairs:
        text = f"{', '.join(pairs)} needs two nodes, and {who} has one node for each test."
        raise InputError("tests", text, f"leave it out: gpufleet_set={pairs[0]}.enabled=false")
