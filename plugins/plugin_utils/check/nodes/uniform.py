# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Uniformity over the fleet: which hosts, and which of their parts, differ from the rest or from the site's setting."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ...collect.host_facts import FleetFacts
from ...outcome.model import Basis, Expectation, Outcome, Subject, node_subject
from ...outcome.wording import count
from ...verdict.majority import more_than_any_other
from ..kit.finding import Finding, Report
from ..kit.settings import setting
from ..spec import CheckSpec, JudgeContext
from .node_context import NodeContext, per_host

_NAMES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionSettings:
    """Settings of a check that compares a version over the fleet."""

    version: str = setting("The version that every host must have; empty: the one that most hosts have.", default="")


@dataclass(frozen=True, slots=True)
class Uniformity:
    """The result of a comparison: `expected` is the value that every host should have, empty for a tie."""

    expected: str
    by_host: Mapping[str, str]
    stated: bool

    @property
    def tie(self) -> tuple[str, ...]:
        """The values of all hosts, if no value has most hosts; else empty."""
        return tuple(sorted(set(self.by_host.values()))) if not self.expected else ()

    def text(self) -> str:
        """Return the counts as a text: `580.105.08 on 15 hosts, 570.148.08 on 1 host`."""
        counts = Counter(self.by_host.values())
        parts = [f"{value} on {number} host{'s' if number != 1 else ''}" for value, number in counts.most_common()]
        return ", ".join(parts)


def split_outcome(
    first: NodeContext, by_host: Mapping[str, str], cause: str, word: str, hint: str, *, marginal: bool
) -> Outcome:
    """Return the one outcome about hosts where no value has most: a fact about the fleet and not about any host.

    Args:
        first: the first of these hosts.
        by_host: the value of each of them.
        cause: of the outcome.
        word: what the value is, such as `driver`.
        hint: of the outcome.
        marginal: whether a person decides instead of a failure.
    """
    names: dict[str, list[str]] = {}
    for name, value in by_host.items():
        names.setdefault(value, []).append(name)
    lists = "; ".join(f"{value} on {len(found)}: {_some(found)}" for value, found in sorted(names.items()))
    answer = first.answer.marginal if marginal else first.answer.failed
    others = tuple(node_subject(name) for name in by_host if name != first.name)
    return answer(cause, f"no {word} has most hosts: {lists}", hint, more_subjects=others)


def _some(names: list[str]) -> str:
    shown = ", ".join(names[:_NAMES])
    return shown if len(names) <= _NAMES else f"{shown} and {len(names) - _NAMES} more"


def shared_outcome(make: Callable[[NodeContext], Outcome]) -> Callable[[NodeContext], Outcome]:
    """Return a function that makes an outcome for the first host and returns that same outcome for all others."""
    made: list[Outcome] = []

    def of(host: NodeContext) -> Outcome:
        if not made:
            made.append(make(host))
        return made[0]

    return of


def each_once(outcomes: tuple[Outcome, ...]) -> tuple[Outcome, ...]:
    """Return the outcomes without repetitions of the same object, which several hosts share."""
    return tuple({id(outcome): outcome for outcome in outcomes}.values())


def uniformity(by_host: Mapping[str, str], configured: str = "") -> Uniformity:
    """Return which value is the right one: the configured one, else that of most hosts."""
    expected = configured or more_than_any_other(Counter(by_host.values())) or ""
    return Uniformity(expected, dict(by_host), bool(configured))


# Versions of parts: parts of the same kind and place are compared over the fleet.


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a host: `alike` names what it is compared with (kind, place), `version` is empty if not reported."""

    name: str
    alike: tuple[str, ...]
    version: str


def no_rules(_host: NodeContext) -> Sequence[Finding]:
    """The default: no further rules."""
    return ()


def no_wait(_host: NodeContext) -> Outcome | None:
    """The default: no host is blocked by another check."""
    return None


@dataclass(frozen=True, slots=True)
class PartVersions:
    """Versions of the parts of a fleet, and how they are judged.

    Attributes:
        spec: the check.
        parts: the parts of every host in scope, empty for a host whose tool gave nothing usable.
        subject: makes the subject of a part.
        word: what a version is of, such as `VBIOS`.
        needs: the fact that the parts come from.
        stated: the version that all must have; empty: that of most.
        stated_by_kind: the same by the kind of part (first word of its `alike`).
        rules: returns the findings about a host that breaks another setting of the site.
        waits: returns the outcome of a host that cannot be compared yet, None if it can.
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
        """The prefix of the check's causes."""
        return self.spec.id.removesuffix("-uniform")

    def judge(self, observed: FleetFacts, context: JudgeContext) -> tuple[Outcome, ...]:
        """Return an outcome for every host. A part with another version than most of the same kind is marginal."""
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

        return each_once(per_host(self.spec, observed, context, judge_host, needs=(self.needs,)))

    def _usual(self, context: JudgeContext) -> dict[tuple[str, ...], str]:
        versions: dict[tuple[str, ...], Counter[str]] = {}
        for host in context.site.in_scope:
            for part in self.parts[host.name]:
                if part.version:
                    versions.setdefault((host.sku, *part.alike), Counter())[part.version] += 1
        return {place: more_than_any_other(counts) or "" for place, counts in versions.items()}

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
        observed = ", ".join(sorted({part.version for part in mine})) or "of no part"
        differing = (
            self._finding(host, part, right)
            for part, right in zip(mine, wanted, strict=True)
            # For parts without a version, or with one on each half of the hosts, no host is the odd one.
            if part.version and right and part.version != right
        )
        alike = f"{self.word} {observed} on {count(len(mine), 'part')}, as on the other hosts"
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
