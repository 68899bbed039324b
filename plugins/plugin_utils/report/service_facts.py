# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the daily report of a cluster in service tells: coverage, ages, classes, trends, lemons. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ..fleet.class_rules import Word
from ..fleet.classify import Classified
from ..fleet.lemons import Lemon
from ..fleet.series import Record, Series
from ..fleet.standing import DAY_S
from ..outcome.wording import natural
from ..store.service_model import NodeClass

LETTERS = {Word.HEALTHY: "·", Word.UNKNOWN: "u", Word.DRIFTING: "d", Word.SUSPECT: "S", Word.BAD: "B"}
_CYCLES = 14
_ORDER = tuple(Word)


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """How far one test got: `fresh` of `nodes` have a result within `days`, `never` have none at all; the oldest newest
    result is `oldest_s` old and of `oldest_node` (None: nobody has one)."""

    test: str
    days: float
    nodes: int
    fresh: int
    never: int
    oldest_s: float | None = None
    oldest_node: str = ""

    @property
    def share(self) -> float:
        """The part of the nodes that is covered."""
        return self.fresh / self.nodes if self.nodes else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLine:
    """One node: its class, why, what was done, the age of its results by test, its classes of the last cycles as
    letters, and the trend of its slowest figure as a part of its first sample."""

    node: str
    word: Word
    reasons: tuple[str, ...]
    action: str
    ages: tuple[str, ...]
    history: str
    trend_name: str = ""
    trend: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceFacts:
    """Everything that the report shows. `told` is of cohorts and racks, `problems` what could not be done; `lemons` are
    by the days of their window."""

    site: str
    rehearsal: bool
    cycle_id: str
    written: str
    now_s: float
    check_mode: bool
    words: Mapping[Word, int]
    coverage: tuple[Coverage, ...]
    lines: tuple[NodeLine, ...]
    told: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    stopped: str = ""
    out: int = 0
    lemons: Mapping[int, tuple[Lemon, ...]] = field(default_factory=dict)

    @property
    def tests(self) -> tuple[str, ...]:
        """The tests, in their order."""
        return tuple(entry.test for entry in self.coverage)

    @property
    def noted(self) -> tuple[NodeLine, ...]:
        """The nodes that are not healthy."""
        return tuple(line for line in self.lines if line.word is not Word.HEALTHY)


def coverage(
    nodes: Sequence[str], days: Mapping[str, float], records: Mapping[tuple[str, str], Record], now_s: float
) -> tuple[Coverage, ...]:
    """Return how far each test got; `days`: how old a result of each may be."""
    return tuple(_coverage(nodes, test, records, now_s, most) for test, most in days.items())


def node_lines(
    found: Classified, tests: Sequence[str], earlier: Iterable[NodeClass], now_s: float
) -> tuple[NodeLine, ...]:
    """Return a line for every node, the worst first.

    Args:
        found: today's classes.
        tests: the tests, in their order.
        earlier: classes of earlier cycles, in their order.
        now_s: the time now, seconds since the epoch.
    """
    letters: dict[str, str] = {}
    for entry in (*earlier, *found.classes):
        letters[entry.node] = letters.get(entry.node, "") + LETTERS[Word(entry.word)]
    lines = [_line(entry, found.records, tests, letters[entry.node][-_CYCLES:], now_s) for entry in found.classes]
    return tuple(sorted(lines, key=lambda line: (_ORDER.index(line.word), natural(line.node))))


def counted(lines: Iterable[NodeLine]) -> dict[Word, int]:
    """Return how many nodes have each class."""
    counts = Counter(line.word for line in lines)
    return {word: counts[word] for word in Word}


def age_text(seconds: float) -> str:
    """Return an age for people."""
    hours = max(0.0, seconds) / 3600
    return f"{hours / 24:.1f} d" if hours >= 48 else f"{hours:.1f} h"


def _coverage(
    nodes: Sequence[str], test: str, records: Mapping[tuple[str, str], Record], now_s: float, days: float
) -> Coverage:
    nodes = [node for node in nodes if (node, test) not in records or not records[node, test].not_owed]
    ages = {
        node: now_s - record.known[-1].started_s
        for node in nodes
        if (record := records.get((node, test))) is not None and record.known
    }
    oldest = max(ages, key=lambda node: (ages[node], node)) if ages else ""
    return Coverage(
        test=test, days=days, nodes=len(nodes), fresh=sum(age <= days * DAY_S for age in ages.values()),
        never=len(nodes) - len(ages), oldest_s=ages[oldest] if oldest else None, oldest_node=oldest,
    )  # fmt: skip


def _line(
    entry: NodeClass, records: Mapping[tuple[str, str], Record], tests: Sequence[str], history: str, now_s: float
) -> NodeLine:
    own = [record for test in tests if (record := records.get((entry.node, test))) is not None]
    ages = {record.test: age_text(now_s - record.known[-1].started_s) for record in own if record.known}
    worst = min(
        (series for record in own for series in record.series if len(series.speeds) > 1), key=_loss, default=None
    )
    return NodeLine(
        node=entry.node, word=Word(entry.word), reasons=entry.reasons, action=entry.action,
        ages=tuple(ages.get(test, "never") for test in tests), history=history,
        trend_name=worst.name if worst else "",
        trend=tuple(speed / worst.speeds[0] for speed in worst.speeds) if worst and worst.speeds[0] else (),
    )  # fmt: skip


def _loss(series: Series) -> float:
    return series.speeds[-1] / series.speeds[0] if series.speeds[0] else 0.0
