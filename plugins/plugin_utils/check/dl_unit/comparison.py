# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Compares what the GPUs of all hosts computed: finds those whose bits differ from most GPUs of the same kind. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from ...probe.dl_unit import GpuTest
from ...verdict.majority import LEAST, Majority, majority
from .model import Gpu, Kind, Results
from .reading import GpuProblem, blamed, differing, names_of, unlike_most


@dataclass(frozen=True, kw_only=True)
class DigestCohort:
    """GPUs that must give the same bits, and how their digests compare."""

    tests: Mapping[Gpu, GpuTest]
    found: Majority[Gpu, str]

    @property
    def hosts(self) -> tuple[str, ...]:
        """Their hosts."""
        return tuple(dict.fromkeys(host for host, _slot in self.tests))

    @cached_property
    def usual(self) -> GpuTest:
        """The test of one GPU with the digest of the majority."""
        return next(test for test in self.tests.values() if test.digest == self.found.usual)

    @cached_property
    def alike(self) -> frozenset[str]:
        """Minority digests that several GPUs share. No two broken GPUs err in the same way, so the cause lies
        elsewhere."""
        counts = Counter(self.tests[gpu].digest for gpu in self.found.minority)
        return frozenset(digest for digest, count in counts.items() if count > 1)

    def problem(self, host: str) -> GpuProblem | None:
        """Return which GPUs of a host computed other bits than most. It is not called where no majority exists."""
        mine = {slot: self.tests[name, slot] for name, slot in self.found.minority if name == host}
        reported = {slot: unlike_most(test, self.usual, self.found) for slot, test in mine.items()}
        alone = blamed(
            "digest-differs", {slot: text for slot, text in reported.items() if mine[slot].digest not in self.alike}
        )
        if alone is not None or not reported:
            return alone
        slot, text = next(iter(reported.items()))
        same = sum(test.digest == mine[slot].digest for test in self.tests.values())
        return GpuProblem(
            "digests-unlike", f"gpu{slot} {text}, and {same} GPUs gave just these bits", slots=tuple(reported)
        )

    @property
    def text(self) -> str:
        """The text of how many GPUs a GPU was compared with."""
        if self.found.total < LEAST:
            return "too few GPUs of its kind to compare; known results and the CPU's are right"
        return f"the bits of {self.found.agreeing} of {self.found.total} GPUs of its kind"


@dataclass(frozen=True)
class Comparison:
    """All cohorts of a site."""

    results: Results

    @cached_property
    def cohorts(self) -> dict[Kind, DigestCohort]:
        """The cohorts by what their GPUs have in common."""
        tests: dict[Kind, dict[Gpu, GpuTest]] = {}
        for host in self.results.plan.hosts:
            for kind, test in self.results.tests(host.name):
                tests.setdefault(kind, {})[host.name, test.slot] = test
        made = {kind: majority({gpu: test.digest for gpu, test in of.items()}) for kind, of in tests.items()}
        return {kind: DigestCohort(tests=tests[kind], found=found) for kind, found in made.items() if found is not None}

    @cached_property
    def _kinds(self) -> dict[str, tuple[Kind, ...]]:
        found: dict[str, tuple[Kind, ...]] = {}
        for kind, cohort in self.cohorts.items():
            for host in cohort.hosts:
                found[host] = (*found.get(host, ()), kind)
        return found

    def of(self, host: str) -> tuple[DigestCohort, ...]:
        """Return the cohorts of a host's GPUs."""
        return tuple(self.cohorts[kind] for kind in self._kinds.get(host, ()))

    def changed(self, host: str) -> GpuProblem | None:
        """Return which GPUs of a host gave other bits in a later run than in its first one."""
        first, reported = dict[int, GpuTest](), dict[int, str]()
        for log in self.results.whole(host):
            for test in log.tests:
                before = first.setdefault(test.slot, test)
                if test.digest != before.digest:
                    reported[test.slot] = f"gave other bits of {names_of(differing(test, before))} in a second run"
        return blamed("digest-changes", reported)
