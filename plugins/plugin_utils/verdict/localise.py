# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What is to blame when a pair is slow: a node, or the path between two. Two rounds of disjoint pairs find it out.

Round one pairs every node with another one, all pairs at once. Both nodes of a bad pair are suspects; in round two each
gets a partner that is known to be good. A node is named only when it was bad in two placements with different partners,
the second of them known to be good. A pair that was bad although both of its nodes are good elsewhere is a bad path.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

Pair = tuple[str, str]


@dataclass(frozen=True, slots=True)
class PairVerdict:
    """A pair and whether it was good, after repeats; a pair without a result has none."""

    pair: Pair
    good: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Blame:
    """The result: bad nodes, bad paths between good nodes, and nodes of bad pairs that cannot be told apart."""

    nodes: tuple[str, ...] = ()
    paths: tuple[Pair, ...] = ()
    unclear: tuple[Pair, ...] = ()

    @property
    def nobody(self) -> bool:
        return not (self.nodes or self.paths or self.unclear)


def disjoint_pairs(nodes: Sequence[str]) -> tuple[Pair, ...]:
    """Return the pairs of round one; the first node is left over where the number of nodes is odd."""
    paired = nodes[len(nodes) % 2 :]
    half = len(paired) // 2
    return tuple(zip(paired[:half], reversed(paired[half:]), strict=True))


def other_pairings(nodes: Sequence[str]) -> tuple[tuple[Pair, ...], ...]:
    """Return three more ways to pair the nodes, for when every pair of round one was slow.

    Neighbours, next neighbours, and neighbours from the second node on. Together they contain triangles, so that
    whichever half of the nodes is slow, some pair has two of one kind. An odd number leaves another node out each time.
    """
    neighbours = _each_second(nodes[: len(nodes) // 2 * 2])
    blocks = [nodes[at : at + 4] for at in range(0, len(nodes), 4)]
    crossed = [(b[0], b[2]) for b in blocks if len(b) > 2] + [(b[1], b[3]) for b in blocks if len(b) > 3]
    met = {name for pair in crossed for name in pair}
    rest = [name for name in nodes if name not in met]
    shifted = [*nodes[1:], *nodes[:1]]
    ways = (neighbours, (*crossed, *_each_second(rest)), _each_second(shifted[: len(shifted) // 2 * 2]))
    return tuple(dict.fromkeys(way for way in ways if way))


def _each_second(nodes: Sequence[str]) -> tuple[Pair, ...]:
    return tuple(zip(nodes[0::2], nodes[1::2], strict=False))


def second_round(
    suspects: Sequence[str], good: Sequence[str], before: Collection[Pair]
) -> tuple[tuple[Pair, ...], ...]:
    """Return waves of disjoint pairs (suspect, partner): each suspect once, with a partner known to be good.

    A partner that the suspect has met already proves nothing new. A suspect without another one is left out.

    Args:
        suspects: nodes in doubt.
        good: nodes known to be good.
        before: pairs that were run already.
    """
    met = {frozenset(pair) for pair in before}
    waiting, waves = list(suspects), []
    while waiting and good:
        wave: list[Pair] = []
        free = dict.fromkeys(good)
        left: list[str] = []
        for place, suspect in enumerate(waiting):
            if not free:
                left += waiting[place:]
                break
            partner = next((name for name in free if frozenset((suspect, name)) not in met and name != suspect), None)
            if partner is None:
                left.append(suspect)
            else:
                del free[partner]
                wave.append((suspect, partner))
        waiting = left
        if not wave:
            break
        waves.append(tuple(wave))
    return tuple(waves)


def blame(verdicts: Iterable[PairVerdict]) -> Blame:
    """Return what is to blame, from the pairs of both rounds."""
    known = list(verdicts)
    good = {name for verdict in known if verdict.good for name in verdict.pair}
    bad_with: dict[str, set[str]] = {}
    for verdict in known:
        if not verdict.good:
            first, second = verdict.pair
            bad_with.setdefault(first, set()).add(second)
            bad_with.setdefault(second, set()).add(first)
    nodes = {name for name, others in bad_with.items() if name not in good and len(others) >= 2 and others & good}
    paths: list[Pair] = []
    unclear: list[Pair] = []
    for verdict in known:
        first, second = verdict.pair
        if verdict.good or first in nodes or second in nodes:
            continue
        both_good = first in good and second in good
        (paths if both_good else unclear).append(verdict.pair)
    return Blame(nodes=tuple(sorted(nodes)), paths=tuple(dict.fromkeys(paths)), unclear=tuple(dict.fromkeys(unclear)))
