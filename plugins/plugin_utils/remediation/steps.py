# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What is to be done about the nodes of a site after their classes: who is taken out, who returns, who stays. Pure.

The breaker looks at everything that would be out by us: where that is more than its share of the site or of a cohort,
nobody more is taken out, for so many are no single faults. The budget only spreads over cycles what the breaker allows.

What hit many nodes and is over (an image, a driver) leaves them bad until some good results in a row have cleared each.
They are no reason for the breaker any more, and who is still failing does not wait behind them: a bad node whose newest
result is good is left where it is, and the others are taken out in the order of how often in a row they failed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from ..outcome.wording import first_of
from .policy import Policy

BAD, HEALTHY = "bad", "healthy"
_GOOD_SINCE = "its newest result is good; it is taken out if one more is not, and healthy after some more"


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """What is known of a site: `words` by node, `out` kept out of work by us now, `recorded` so in our history,
    `elsewhere` out by a roll of ours, what each node has in common with others by `cohorts`, and of bad nodes how many
    of their newest results in a row are bad by `in_a_row` (1 where it is not told)."""

    words: Mapping[str, str]
    out: Collection[str] = ()
    recorded: Collection[str] = ()
    elsewhere: Collection[str] = ()
    cohorts: Mapping[str, Collection[str]] = field(default_factory=dict)
    in_a_row: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """What to do: `take` out, `keep` out (their reason is told anew), `give_back`, `record` and `forget` in the history
    only; `left` says by node why nothing is done about a bad one, `stopped` why the breaker holds (empty: it does
    not)."""

    take: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    give_back: tuple[str, ...] = ()
    record: tuple[str, ...] = ()
    forget: tuple[str, ...] = ()
    left: Mapping[str, str] = field(default_factory=dict)
    stopped: str = ""


def steps(site: Site, policy: Policy) -> Steps:
    """Return what to do about the nodes, in the order of their names; `take` with the worst first."""
    out, recorded = set(site.out), set(site.recorded)
    bad = [node for node, word in sorted(site.words.items()) if word == BAD]
    healthy = [node for node, word in sorted(site.words.items()) if word == HEALTHY]
    left = {
        node: "somebody gave it back since; it is not taken out again before it was healthy"
        for node in bad
        if node in recorded - out
    }
    wanted = [node for node in bad if node not in out and node not in left and node not in site.elsewhere]
    left |= {node: _GOOD_SINCE for node in wanted if _row(site, node) == 0}
    wanted = sorted((node for node in wanted if node not in left), key=lambda node: -_row(site, node))
    stopped = _stopped(wanted, out | set(site.elsewhere), site, policy)
    take = () if stopped else tuple(wanted[: policy.budget])
    for node in wanted:
        if node not in take:
            left[node] = stopped or f"the budget of {policy.budget} nodes a cycle is spent; the next cycle takes it out"
    return Steps(
        take=take,
        keep=tuple(node for node in bad if node in out),
        give_back=tuple(node for node in healthy if node in out) if policy.give_back else (),
        record=tuple(node for node in sorted(out - recorded) if site.words.get(node) != HEALTHY),
        forget=tuple(node for node in healthy if node in recorded - out),
        left=left,
        stopped=stopped,
    )


def _row(site: Site, node: str) -> int:
    return site.in_a_row.get(node, 1)


def _stopped(wanted: Sequence[str], out: set[str], site: Site, policy: Policy) -> str:
    if not wanted:
        return ""
    groups: dict[str, set[str]] = {"the site": set(site.words)}
    for node, names in site.cohorts.items():
        for name in names:
            groups.setdefault(f"cohort {name}", set()).add(node)
    for name, members in groups.items():
        most = max(1, int(policy.breaker_percent * len(members) / 100))
        more = sorted(members & set(wanted))
        if more and len(members & out) + len(more) > most:
            return (
                f"the breaker holds: {len(members & out)} nodes of {name} are out by us and {len(more)} more are bad "
                f"({first_of(more, 4)}), which is more than {most} ({policy.breaker_percent:g}% of {len(members)}); "
                "look for what they share, then raise breaker_percent for one cycle or take them out by hand"
            )
    return ""
