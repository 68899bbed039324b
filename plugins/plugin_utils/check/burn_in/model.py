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
    """One test of one host in one round. `seconds` is how long its pods ran; `loaded_s` is how long of that each of the
    host's GPUs drew most of its power, that of the GPU with the least; `parts` are those to blame (`gpu1`)."""

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
    """What a burn-in was to do and what it did: the tests of a round, in their order, the hosts, and every result.
    `load_s` is how long a round keeps all GPUs at work; 0: no test does, and the time of pods counts. `note` says why
    it ended before its hours were over; `rounds` counts those that have ended; `leftovers` is what its namespace left
    in the cluster; `directory` is that of its run, for commands that name it.
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
        """Return how long tests that passed have loaded a host, in seconds: its GPUs, where a test loads them."""
        passed = (entry for entry in self.results if entry.host == host and entry.status is Status.PASSED)
        return sum(entry.loaded_s if self.load_s else entry.seconds for entry in passed)

    def of_host(self, host: str) -> tuple[SoakResult, ...]:
        """Return the results of a host, the oldest first."""
        return tuple(entry for entry in self.results if entry.host == host)

    def lacking(self, host: str) -> tuple[str, ...]:
        """Return the tests that never gave an answer about a host."""
        answered = {entry.test for entry in self.of_host(host) if entry.status in _ANSWERS}
        return tuple(test for test in self.tests if test not in answered)

    def missing(self, host: str) -> tuple[float, int]:
        """Return how many seconds of load a host lacks, and how many tests."""
        return max(0.0, self.hours * 3600 - self.soaked_s(host)), len(self.lacking(host))

    def still_to_do(self, host: str) -> bool:
        """Whether a host is tested further: nothing failed there, and its hours are not over or a test never answered.

        One test may load it for longer than it needs: the others are run once all the same.
        """
        failed = any(entry.status is Status.FAILED for entry in self.of_host(host))
        return not failed and any(self.missing(host))
