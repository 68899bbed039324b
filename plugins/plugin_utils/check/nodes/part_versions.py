# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Firmware of parts that should be alike on all hosts of a SKU: parts that are alike are compared over the fleet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ...collect.host_facts import FleetFacts
from ...outcome.model import Basis, Expectation, Outcome, Subject
from ...outcome.wording import count
from ..kit.finding import Finding, Report
from ..spec import CheckSpec, JudgeContext
from .node_context import NodeContext, per_host
from .uniform import each_once, shared_outcome, split_outcome


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a host: `alike` names what it is compared with (kind, place), `version` is empty if not reported."""

    name: str
    alike: tuple[str, ...]
    version: str


def no_rules(_host: NodeContext) -> Sequence[Finding]:
    """The site states nothing else."""
    return ()


def no_wait(_host: NodeContext) -> Outcome | None:
    """No host waits for another check."""
    return None


@dataclass(frozen=True, slots=True)
class PartVersions:
    """Versions of the parts of a fleet, and what is judged of them.

    `parts` are those of every host in scope, none of a host whose tool gave nothing usable; `subject` makes the
    subject of a part; `word` is what a version is of, such as `VBIOS`; `needs` the fact that the parts come from;
    `stated` the version that all must have, empty: that of most; `stated_by_kind` gives it by the kind of part (first
    word of its `alike`). `waits` gives what a host waits for that cannot be compared yet, `rules` what else of a host
    is against what the site states.
    """

    spec: CheckSpec
    parts: Mapping[str, tuple[Part, ...]]
    subject: Callable[[NodeContext, str], Subject]
    word: str
    needs: str
    stated: str = ""
    stated_by_kind: Mapping[str, str] = field(default_factory=dict)
    rules: Callable[[NodeContext], Sequence[Finding]] = no_rules
    waits: Callable[[NodeContext], Outcome | None] = no_wait

    @property
    def slug(self) -> str:
        """How the causes of the check begin."""
        return self.spec.id.removesuffix("-uniform")

    def judge(self, seen: FleetFacts, context: JudgeContext) -> tuple[Outcome, ...]:
        """Return an outcome a host: parts whose version is not that of most like them are marginal."""
        usual = self._usual(context)
        halves = {
            host.name: ", ".join(sorted({part.version for part in self.parts[host.name]}))
            for host in context.site.in_scope
            if any(
                part.version and not self._stated(part) and not usual[(host.sku, *part.alike)]
                for part in self.parts[host.name]
            )
        }
        hint = f"bring one half to the {self.word} of the other; accept it only with a reason (gpufleet_acceptances)"
        split = shared_outcome(
            lambda first: split_outcome(first, halves, f"{self.slug}-split", self.word, hint, marginal=True)
        )

        def judge_host(host: NodeContext) -> Report | Outcome:
            if (waiting := self.waits(host)) is not None:
                return waiting
            ruled = self.rules(host)
            if host.name not in halves or ruled:
                return self._host(host, usual, ruled)
            return split(host)

        return each_once(per_host(self.spec, seen, context, judge_host, needs=(self.needs,)))

    def _usual(self, context: JudgeContext) -> dict[tuple[str, ...], str]:
        versions: dict[tuple[str, ...], Counter[str]] = {}
        for host in context.site.in_scope:
            for part in self.parts[host.name]:
                if part.version:
                    versions.setdefault((host.sku, *part.alike), Counter())[part.version] += 1
        return {place: _most(counts) for place, counts in versions.items()}

    def _stated(self, part: Part) -> str:
        return self.stated or self.stated_by_kind.get(part.alike[0], "")

    def _host(
        self, host: NodeContext, usual: Mapping[tuple[str, ...], str], ruled: Sequence[Finding]
    ) -> Report | Outcome:
        mine, proof = self.parts[host.name], host.evidence(self.needs)
        blind = [part.name for part in mine if not part.version]
        if blind and not ruled:
            text = f"no {self.word} is reported for {', '.join(blind)}"
            return host.answer.unknown(f"{self.slug}-not-reported", text, f"read it on {host.name}", evidence=proof)
        wanted = [self._stated(part) or usual.get((host.entry.sku, *part.alike), "") for part in mine]
        seen = ", ".join(sorted({part.version for part in mine})) or "of no part"
        differing = (
            self._finding(host, part, right)
            for part, right in zip(mine, wanted, strict=True)
            # Of parts that nobody reported, or that two halves have differently, no host is the odd one.
            if part.version and right and part.version != right
        )
        alike = f"{self.word} {seen} on {count(len(mine), 'part')}, as on the other hosts"
        return Report(
            summary=alike if mine else f"no {self.word} to compare with other hosts; what the site states holds",
            findings=(*ruled, *differing),
            expected=(Expectation(self.slug, "==", self.stated, Basis.RULE),) if self.stated else (),
            evidence=proof,
        )

    def _finding(self, host: NodeContext, part: Part, right: str) -> Finding:
        text = f"{part.name}: {self.word} {part.version}, expected {right}"
        hint = f"bring {host.name} to the {self.word} of the others, or accept the difference (gpufleet_acceptances)"
        parts = (self.subject(host, part.name),)
        return Finding(cause=f"{self.slug}-mismatch", text=text, hint=hint, subjects=parts, marginal=True)


def _most(counts: Mapping[str, int]) -> str:
    """Return the version of most, empty if two have equally many: then nobody is to blame."""
    ranked = Counter(counts).most_common(2)
    return "" if len(ranked) == 2 and ranked[0][1] == ranked[1][1] else ranked[0][0]
