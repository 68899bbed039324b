# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Firmware of parts that should be alike on all hosts of a SKU: the part at one place is compared over the fleet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ...collect.host_facts import FleetFacts
from ...outcome.model import Basis, Expectation, Outcome, Subject
from ...site.model import Host
from ..kit.counting import count
from ..kit.finding import Finding, Report
from ..spec import CheckSpec, JudgeContext
from .node_context import NodeContext, per_host
from .uniform import each_once, split_outcome


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a host: `alike` names what it is compared with (kind, place), `version` is empty if not reported."""

    name: str
    alike: tuple[str, ...]
    version: str


Parts = Callable[[Host], tuple[Part, ...]]


def judge_parts(
    spec: CheckSpec,
    seen: FleetFacts,
    context: JudgeContext,
    *,
    parts: Parts,
    subject: Callable[[NodeContext, str], Subject],
    word: str,
    needs: str,
    stated: str = "",
) -> tuple[Outcome, ...]:
    """Return an outcome a host: parts whose version is not that of most like them are marginal.

    Args:
        spec: the check; its causes begin with its id without `-uniform`.
        seen: the fleet.
        context: the context of the judgement.
        parts: the parts of a host that are compared; none of a host whose tool gave nothing usable.
        subject: makes the subject of a part.
        word: what a version is of, such as `VBIOS`.
        needs: the fact that the parts come from.
        stated: the version that all must have; empty: that of most.
    """
    slug = spec.id.removesuffix("-uniform")
    versions: dict[tuple[str, ...], Counter[str]] = {}
    found = {host.name: parts(host) for host in context.site.in_scope}
    for host in context.site.in_scope:
        for part in found[host.name]:
            if part.version:
                versions.setdefault((host.sku, *part.alike), Counter())[part.version] += 1
    usual = {place: _most(counts) for place, counts in versions.items()}
    halves = {
        host.name: ", ".join(sorted({part.version for part in found[host.name]}))
        for host in context.site.in_scope
        if not stated and any(part.version and not usual[(host.sku, *part.alike)] for part in found[host.name])
    }
    shared: list[Outcome] = []

    def judge_host(host: NodeContext) -> Report | Outcome:
        mine = found[host.name]
        if host.name in halves:
            hint = f"state the right one: gpufleet_settings: {{{spec.id}: {{version: ...}}}}"
            shared.append(
                shared[0] if shared else split_outcome(host, halves, f"{slug}-split", word, hint, marginal=True)
            )
            return shared[0]
        blind = [part.name for part in mine if not part.version]
        if blind:
            text = f"no {word} is reported for {', '.join(blind)}"
            return host.answer.unknown(
                f"{slug}-not-reported", text, f"read it on {host.name}", evidence=host.evidence(needs)
            )
        findings = [_finding(host, part) for part in mine if part.version != _expected(host, part)]
        return Report(
            summary=f"{word} {', '.join(sorted({part.version for part in mine})) or 'of no part'} on "
            f"{count(len(mine), 'part')}, as on the other hosts",
            findings=tuple(findings),
            expected=(Expectation(slug, "==", stated, Basis.RULE),) if stated else (),
            evidence=host.evidence(needs),
        )

    def _expected(host: NodeContext, part: Part) -> str:
        return stated or usual.get((host.entry.sku, *part.alike), "") or part.version

    def _finding(host: NodeContext, part: Part) -> Finding:
        text = f"{part.name}: {word} {part.version}, expected {_expected(host, part)}"
        hint = f"bring {host.name} to the {word} of the others, or accept the difference (gpufleet_acceptances)"
        return Finding(
            cause=f"{slug}-mismatch", text=text, hint=hint, subjects=(subject(host, part.name),), marginal=True
        )

    return each_once(per_host(spec, seen, context, judge_host, needs=(needs,)))


def _most(counts: Mapping[str, int]) -> str:
    """Return the version of most, empty if two have equally many: then nobody is to blame."""
    ranked = Counter(counts).most_common(2)
    return "" if len(ranked) == 2 and ranked[0][1] == ranked[1][1] else ranked[0][0]
