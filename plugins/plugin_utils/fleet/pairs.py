# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of two idle nodes within one cycle: who goes with whom, and which node of slow pairs is to blame. Pure.

A slow pair says nothing of either node. Each gets another partner; a node is named only when it was slow with two, one
of them well with somebody else (verdict.localise). Until then its result is `pending`, so that a cycle that dies
leaves nothing behind that looks like an answer; where no other partner is to be had it ends as `other`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ..check.node_tests.pair_spec import PairRun
from ..outcome.model import Rating, Status
from ..outcome.wording import natural
from ..store.service_model import NodeResult
from ..verdict.localise import Blame, PairVerdict, blame
from .queue_model import QueueNode

UNCONFIRMED, WAY, NO_PARTNER = "pair-unconfirmed", "slow-way-between", "no-partner"
# A node in doubt takes so many partners at most: what they are themselves then tells more than another run.
_MOST_PARTNERS = 4


@dataclass(frozen=True, slots=True)
class _Met:
    """A run: its nodes, and what it said."""

    nodes: tuple[str, str]
    run: PairRun

    def partner(self, node: str) -> str:
        return self.nodes[1] if node == self.nodes[0] else self.nodes[0]

    def result(self, node: str) -> NodeResult:
        return self.run.results[self.nodes.index(node)]

    @property
    def given_back(self) -> bool:
        return all(result.status is Status.PENDING for result in self.run.results)


@dataclass(slots=True)
class PairBook:
    """The runs of one test of pairs in a cycle; `before` has by node its partner in the last cycle that had one."""

    before: Mapping[str, str] = field(default_factory=dict)
    _met: list[_Met] = field(default_factory=list)
    _of: dict[str, list[_Met]] = field(default_factory=dict)

    def add(self, nodes: tuple[str, str], run: PairRun) -> None:
        """Take what a run said."""
        met = _Met(nodes, run)
        self._met.append(met)
        for node in nodes:
            self._of.setdefault(node, []).append(met)

    def partners(self, node: str) -> tuple[str, ...]:
        """Return with whom the node was run in this cycle; what both were given back of counts for nothing."""
        return tuple(met.partner(node) for met in self._of.get(node, ()) if not met.given_back)

    def is_well(self, node: str) -> bool:
        """Whether some run of the node was well, which clears both of its nodes."""
        return any(met.run.word == "well" for met in self._of.get(node, ()))

    def is_open(self, node: str) -> bool:
        """Whether the node was slow, and never well."""
        return bool(self._low(node)) and not self.is_well(node)

    def bad(self) -> set[str]:
        """Return the nodes that a run or all of them together name: they are nobody's partners any more."""
        told = {n for met in self._met for n in met.nodes if met.result(n).status is Status.FAILED}
        return told.union(self._blame().nodes)

    def slow_runs(self, node: str) -> int:
        """Return in how many runs the node was slow."""
        return len(self._low(node))

    def waiting(self, result: NodeResult, partner: str) -> NodeResult:
        """Return a slow run's result as it stands until another partner tells which node it is."""
        summary = f"{result.summary}; which of both it is another partner than {partner} has to tell"
        return replace(result, status=Status.PENDING, rating=Rating.UNKNOWN, cause=UNCONFIRMED, summary=summary)

    def judged(self, node: str) -> NodeResult | None:
        """Return what all runs together say of a node that was slow; None while they do not tell."""
        low = self._low(node)
        if not low:
            return None
        found = self._blame()
        if node in found.nodes:
            return self._named(node, low)
        well = next((met for met in self._of[node] if met.run.word == "well"), None)
        if well is None:
            return None
        slow = [met.partner(node) for met in low]
        ways = [partner for partner in slow if {(node, partner), (partner, node)} & set(found.paths)]
        good = well.result(node)
        if not ways:
            return replace(good, summary=f"{good.summary}; slow with {', '.join(slow)}, who is well with nobody")
        text = f"{good.summary}; but slow with {', '.join(ways)}, which is well with others: look at what lies between"
        # Of the way, not of the node: no measurement of it.
        return replace(good, status=Status.OTHER, rating=Rating.UNKNOWN, cause=WAY, summary=text)

    def unconfirmed(self, node: str) -> NodeResult:
        """Return the result of a slow node of which no other partner told anything."""
        last = self._low(node)[-1].result(node)
        slow = ", ".join(met.partner(node) for met in self._low(node))
        text = f"{last.summary}; slow with {slow}, and no partner that is well was free to tell which of them it is"
        return replace(last, status=Status.OTHER, rating=Rating.UNKNOWN, cause=UNCONFIRMED, summary=text)

    def _named(self, node: str, low: Sequence[_Met]) -> NodeResult:
        """Return the failure of a node; a marginal one where no run with a partner that is well was bad."""
        with_well = [met for met in low if self.is_well(met.partner(node))]
        worst = next((met for met in with_well if met.run.bad), with_well[0])
        last, slow = worst.result(node), ", ".join(met.partner(node) for met in low)
        well = ", ".join(met.partner(node) for met in with_well)
        text = f"{last.summary}; slow with {slow}, of which {well} is well with others"
        status, rating = (Status.FAILED, Rating.BAD) if worst.run.bad else (Status.OTHER, Rating.MARGINAL)
        return replace(last, status=status, rating=rating, cause=worst.run.named or last.cause, summary=text)

    def _low(self, node: str) -> list[_Met]:
        return [met for met in self._of.get(node, ()) if met.run.word == "low"]

    def _blame(self) -> Blame:
        return blame(PairVerdict(met.nodes, met.run.word == "well") for met in self._met if met.run.word != "told")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mate:
    """A free node as a partner: `owes` this test in this batch, too."""

    node: QueueNode
    owes: bool = False


def order_of_mates(
    node: QueueNode, mates: Sequence[Mate], book: PairBook, places: Mapping[str, QueueNode]
) -> list[Mate]:
    """Return partners of a node, the best first; nobody that it met in this cycle, and nobody who is named. None for a
    node that met so many that others have to tell.

    A node in doubt wants one that is known to be well. Any other one wants who owes the test as well and is not in
    doubt; then not the partner of last time, on either side; then another neighbourhood (rack and leaf switches) than
    that one was in; then whoever was used least.

    Args:
        node: who needs one.
        mates: free nodes that fit it.
        book: the runs so far.
        places: all nodes of the site, by name.
    """
    met, doubted, last = set(book.partners(node.name)), book.is_open(node.name), book.before.get(node.name, "")
    was_near = near(node, places[last]) if last in places else None

    def cost(mate: Mate) -> tuple[object, ...]:
        name = mate.node.name
        known = 0 if book.is_well(name) else 1 if not book.is_open(name) else 2
        trust = known if doubted else int(known > 1)
        again = last == name or book.before.get(name) == node.name
        same_way = was_near is not None and near(node, mate.node) == was_near
        used = len(book.partners(name))
        return trust, not mate.owes and not doubted, again, same_way, used, natural(name)

    if doubted and book.slow_runs(node.name) >= _MOST_PARTNERS:
        return []
    left_out = {node.name, *met, *book.bad()}
    return sorted((mate for mate in mates if mate.node.name not in left_out), key=cost)


def near(one: QueueNode, other: QueueNode) -> bool:
    """Whether two nodes hang on the same leaf switches; by their racks where no cabling plan says it."""
    return one.rail == other.rail if one.rail and other.rail else one.rack == other.rack


def partners_before(results: Iterable[NodeResult]) -> dict[str, str]:
    """Return by node with whom it was run last: a run over two nodes has one log, which both results name."""
    by_log: dict[tuple[str, str], list[NodeResult]] = {}
    for result in results:
        if result.log:
            by_log.setdefault((result.cycle_id, result.log), []).append(result)
    found: dict[str, tuple[float, str]] = {}
    for entries in by_log.values():
        names = {entry.node for entry in entries}
        if len(names) == 2:
            for entry in entries:
                (other,) = names - {entry.node}
                found[entry.node] = max(found.get(entry.node, (entry.started_s, "")), (entry.started_s, other))
    return {node: other for node, (_at, other) in found.items()}
