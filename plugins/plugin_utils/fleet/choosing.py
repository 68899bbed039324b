# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which test each node of a batch begins with, and with whom those tests that need two nodes are run. Pure.

A partner need not be in the batch: any idle node that fits will do, as long as the limits of the batch have room.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ..check.node_tests.pair_spec import PairTest
from ..check.node_tests.spec import NodeTest
from .cycle_model import Choice, Stock
from .pairs import Mate, PairBook, order_of_mates
from .queue import Room
from .queue_model import Position, QueueNode


@dataclass(slots=True)
class Chosen:
    """What a batch begins; `alone` are nodes that found no partner in this cycle (node, test, why), `done` those all of
    whose tests this cycle has."""

    choices: list[Choice] = field(default_factory=list)
    alone: list[tuple[str, str, str]] = field(default_factory=list)
    done: list[str] = field(default_factory=list)

    @property
    def taken(self) -> set[str]:
        """Nodes that have something to do."""
        return {name for choice in self.choices for name in choice.nodes}


@dataclass(frozen=True, slots=True, kw_only=True)
class Choosing:
    """What a choice goes by: `free` has the nodes on which something may run now, by name; `closed` what this cycle
    does no more, by node and test; `books` the runs of tests of pairs, by test."""

    tests: Mapping[str, NodeTest]
    stock: Stock
    free: Mapping[str, QueueNode]
    closed: Collection[tuple[str, str]]
    books: Mapping[str, PairBook]
    room: Room

    def choose(self, batch: Iterable[Position]) -> Chosen:
        """Return what the nodes of a batch begin with."""
        found, waiting = Chosen(), list[tuple[str, list[str]]]()
        for position in batch:
            due = [due.test for due in position.tests if (position.node, due.test) not in self.closed]
            if not due:
                found.done.append(position.node)
            elif self._pairs(due[0], position.node):
                waiting.append((position.node, due))
            else:
                self._begin(found, due[0], position.node)
        # Who is not in doubt first: what comes of that tells of those who are.
        waiting.sort(key=lambda entry: self.books[entry[1][0]].slow_runs(entry[0]))
        deferred = [left for node, due in waiting if (left := self._pair(found, node, due, waiting)) is not None]
        if not found.choices:
            # Nothing runs after which there would be more room.
            found.alone += deferred
        return found

    def _pair(
        self, found: Chosen, node: str, due: Sequence[str], waiting: Iterable[tuple[str, list[str]]]
    ) -> tuple[str, str, str] | None:
        """Let a node begin with a partner, else with a test of its own; return it with the reason if it has to wait."""
        if node in found.taken:
            return None
        owing = {other for other, tests in waiting if tests[0] == due[0]}
        mates = self._mates(due[0], node, owing)
        there = [mate for mate in mates if mate.node.name not in found.taken]
        partner = next((mate for mate in there if not self.room.full(self.free[node], mate.node)), None)
        if partner is not None:
            self._begin(found, due[0], node, partner.node.name)
            return None
        own = next((test for test in due[1:] if not self._pairs(test, node)), "")
        if own and not self.room.full(self.free[node]):
            self._begin(found, own, node)
            return None
        book = self.books[due[0]]
        if not mates:
            met = book.partners(node)
            beside = f" beside {', '.join(met)}" if met else ""
            alone = (node, due[0], f"no other {self.stock.hosts[node].sku} is idle{beside}, and this test needs two")
            if book.is_open(node):
                # Runs of those that it met may tell yet.
                return alone
            found.alone.append(alone)
            return None
        full = self.room.full(self.free[node], mates[0].node)
        return node, due[0], f"no room for two nodes: {full or 'partners are under test'}"

    def _begin(self, found: Chosen, test: str, *nodes: str) -> None:
        found.choices.append(Choice(test, nodes))
        for name in nodes:
            self.room.take(self.free[name])

    def _pairs(self, test: str, node: str) -> bool:
        """Tell whether that test of that node needs a partner; one that does not fit it needs none to say so."""
        kind, host = self.tests[test], self.stock.hosts[node]
        return isinstance(kind, PairTest) and not kind.unfit(host) and not kind.unready(host)

    def _mates(self, test: str, node: str, owing: Collection[str]) -> list[Mate]:
        kind, host = self.tests[test], self.stock.hosts[node]
        mates = [
            Mate(node=other, owes=name in owing)
            for name, other in self.free.items()
            if name != node and isinstance(kind, PairTest) and name in self.stock.hosts
            and not kind.misfit(host, self.stock.hosts[name]) and self._pairs(test, name)
        ]  # fmt: skip
        places = {entry.name: entry for entry in self.stock.nodes}
        return order_of_mates(self.free[node], mates, self.books[test], places)
