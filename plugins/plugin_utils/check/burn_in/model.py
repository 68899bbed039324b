# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The rounds of a burn-in as values."""

from __future__ import annotations

from dataclasses import dataclass

from ...outcome.model import Status

ROUNDS = "burn_in.json"
_ANSWERS = (Status.PASSED, Status.FAILED, Status.SKIPPED)


@dataclass(frozen=True, slots=True, kw_only=True)
class SoakResult:
    """The result of one test of one host in one round.

    `seconds` is how long its pods ran. `loaded_s` is how much of that time the GPU with the least load drew most of its
    power limit. `parts` are the parts to blame (`gpu1`).
    """

    host: str
    test: str
    round: int
    status: Status
    seconds: float
    loaded_s: float = 0.0
    cause: str = ""
    summary: str = ""
    log: str = ""
    parts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Soak:
    """The plan of a burn-in and its results.

    Attributes:
        hours: hours of load that each host needs.
        tests: the tests of a round, in their order.
        hosts: the hosts that are tested.
        rounds: how many rounds have ended.
        results: every result.
        load_s: how long a round keeps all GPUs at work; 0: no test does, and the run time of pods counts.
        note: why it ended before its hours were over.
        leftovers: what its namespace left in the cluster.
        directory: that of its run, for commands that name it.
    """

    hours: float
    tests: tuple[str, ...]
    hosts: tuple[str, ...]
    rounds: int = 0
    results: tuple[SoakResult, ...] = ()
    load_s: float = 0.0
    note: str = ""
    leftovers: tuple[str, ...] = ()
    directory: str = ""
    schema_version: int = 1

    def soaked_s(self, host: str) -> float:
        """Return the seconds for which tests that passed have loaded a host.

        Where a test loads the GPUs these are seconds of GPU load, else the run time of pods.
        """
        passed = (entry for entry in self.results if entry.host == host and entry.status is Status.PASSED)
        return sum(entry.loaded_s if self.load_s else entry.seconds for entry in passed)

    def of_host(self, host: str) -> tuple[SoakResult, ...]:
        """Return the results of a host, the oldest first."""
        return tuple(entry for entry in self.results if entry.host == host)

    def lacking(self, host: str) -> tuple[str, ...]:
        """Return the tests without any result for a host."""
        answered = {entry.test for entry in self.of_host(host) if entry.status in _ANSWERS}
        return tuple(test for test in self.tests if test not in answered)

    def missing(self, host: str) -> tuple[float, int]:
        """Return how many seconds of load a host lacks, and how many tests have no result for it."""
        return max(0.0, self.hours * 3600 - self.soaked_s(host)), len(self.lacking(host))

    def still_to_do(self, host: str) -> bool:
        """Whether a host is tested further: nothing failed there, and its hours are not over or a test has no result.

        One long test may complete the hours alone; the others still run once.
        """
        failed = any(entry.status is Status.FAILED for entry in self.of_host(host))
        return not failed and any(self.missing(host))
