# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The daily report of a cluster in service: its facts, as a page, in Markdown and for Prometheus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from ...outcome.wording import natural
from ...report.html import TEMPLATES, environment
from ...report.markdown import plain
from ...report.metrics import Families
from ...runtime.redaction import redact
from ...runtime.text import visible
from ...store.records import NodeClass
from .classify import Classified
from .figures import NodeRecord, Series, Word
from .node_history import DAY_S, RepeatOffender

# The facts of the daily report of a cluster in service: coverage, ages, classes, trends, repeat offenders. Pure.

LETTERS = {Word.HEALTHY: "·", Word.UNKNOWN: "u", Word.DRIFTING: "d", Word.SUSPECT: "S", Word.BAD: "B"}
_CYCLES = 14
_ORDER = tuple(Word)


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """The coverage of one test: `fresh` of `nodes` have a result within `days`, `never` have none at all.

    `oldest_s` and `oldest_node`: of the nodes' newest results the oldest one, its age and node (None: no node has one).
    """

    test: str
    days: float
    nodes: int
    fresh: int
    never: int
    oldest_s: float | None = None
    oldest_node: str = ""

    @property
    def share(self) -> float:
        """The fraction of the nodes that is covered."""
        return self.fresh / self.nodes if self.nodes else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLine:
    """One node: its class, why, what was done, the age of its results by test, its classes in the last cycles as
    letters, and the trend of its slowest figure as a fraction of its first sample."""

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
    """Everything that the report shows.

    `told` has sentences about cohorts and racks, `problems` what could not be done. `lemons` are the repeat offenders
    by the days of their window.
    """

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
    lemons: Mapping[int, tuple[RepeatOffender, ...]] = field(default_factory=dict)

    @property
    def tests(self) -> tuple[str, ...]:
        """The tests, in their order."""
        return tuple(entry.test for entry in self.coverage)

    @property
    def noted(self) -> tuple[NodeLine, ...]:
        """The nodes that are not healthy."""
        return tuple(line for line in self.lines if line.word is not Word.HEALTHY)


def coverage(
    nodes: Sequence[str], days: Mapping[str, float], records: Mapping[tuple[str, str], NodeRecord], now_s: float
) -> tuple[Coverage, ...]:
    """Return the coverage of each test; `days`: how old a result of each may be."""
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
    """Return an age as text."""
    hours = max(0.0, seconds) / 3600
    return f"{hours / 24:.1f} d" if hours >= 48 else f"{hours:.1f} h"


def _coverage(
    nodes: Sequence[str], test: str, records: Mapping[tuple[str, str], NodeRecord], now_s: float, days: float
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
    entry: NodeClass, records: Mapping[tuple[str, str], NodeRecord], tests: Sequence[str], history: str, now_s: float
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


# The daily report of a cluster in service as a page: a single file that needs no other.

# A page with more rows is not read; the rest is in the history.
MOST_ROWS = 3000
_MOST_NOTED = 200
_WIDTH, _HEIGHT = 160, 24


@cache
def _template() -> Any:
    made = environment(TEMPLATES)
    made.filters |= {"age": age_text, "redacted": redact, "points": points}
    return made.get_template("service.html.j2")


def points(trend: tuple[float, ...]) -> str:
    """Return the points of a trend line in SVG coordinates; the highest value is at the top."""
    if len(trend) < 2:
        return ""
    low, high = min(trend), max(trend)
    span = max(high - low, 0.02)
    step = _WIDTH / (len(trend) - 1)
    return " ".join(
        f"{index * step:.1f},{2 + (high - value) / span * (_HEIGHT - 4):.1f}" for index, value in enumerate(trend)
    )


def render_service_page(facts: ServiceFacts) -> str:
    """Return the page."""
    page: str = _template().render(
        facts=facts, record=facts, Word=Word, letters=LETTERS, noted=facts.noted[:_MOST_NOTED],
        more_noted=max(0, len(facts.noted) - _MOST_NOTED), rows=facts.lines[:MOST_ROWS],
        more_rows=max(0, len(facts.lines) - MOST_ROWS), width=_WIDTH, height=_HEIGHT,
    )  # fmt: skip
    return visible(page)


# The daily report of a cluster in service in Markdown, short enough for a chat. Pure.

_MOST_NODES = 40
_MOST_TOLD = 20


def render_service_markdown(facts: ServiceFacts) -> str:
    """Return the report."""
    label = ("CHECK MODE: " if facts.check_mode else "") + ("REHEARSAL: " if facts.rehearsal else "")
    counts = ", ".join(f"{facts.words[word]} {word.value}" for word in Word)
    lines = [f"## {label}daily report of {plain(facts.site)}", ""]
    if facts.rehearsal:
        lines += ["**REHEARSAL: the hardware is simulated.**", ""]
    lines += [
        f"{len(facts.lines)} nodes: {counts}. {facts.out} out of service by us. Cycle {plain(facts.cycle_id)}.",
        "",
    ]
    if facts.stopped:
        lines += [f"**Breaker:** {plain(redact(facts.stopped), 600)}", ""]
    lines += [f"- {plain(redact(text), 600)}" for text in (*facts.problems, *facts.told)[:_MOST_TOLD]]
    lines += ["", *_service_markdown_coverage(facts), *_nodes(facts), *_lemons(facts)]
    return visible("\n".join(lines).rstrip() + "\n")


def _service_markdown_coverage(facts: ServiceFacts) -> list[str]:
    rows = [
        "| test | fresh for | nodes with a fresh result | never tested | oldest |",
        "| --- | ---: | ---: | ---: | --- |",
    ]
    for entry in facts.coverage:
        oldest = f"{age_text(entry.oldest_s)} ({plain(entry.oldest_node)})" if entry.oldest_s is not None else "none"
        fresh = f"{entry.fresh} of {entry.nodes} ({entry.share:.1%})"
        rows.append(f"| {plain(entry.test)} | {entry.days:g} d | {fresh} | {entry.never} | {oldest} |")
    return [*rows, ""]


def _nodes(facts: ServiceFacts) -> list[str]:
    if not facts.noted:
        return []
    rows = ["| node | class | why | done |", "| --- | --- | --- | --- |"]
    for line in facts.noted[:_MOST_NODES]:
        why = plain(redact(line.reasons[0]), 300) if line.reasons else ""
        rows.append(f"| {plain(line.node)} | {line.word.value} | {why} | {plain(redact(line.action), 160)} |")
    more = len(facts.noted) - _MOST_NODES
    return [*rows, "", *([f"And {more} more, in the page.", ""] if more > 0 else [])]


def _lemons(facts: ServiceFacts) -> list[str]:
    lines = [
        f"- last {days} days: {plain(lemon.text)}" for days, entries in facts.lemons.items() for lemon in entries[:5]
    ]
    return ["Lemons:", "", *lines, ""] if lines else []


# The daily report of a cluster in service in Prometheus' text format. Pure. No label has a value for each node: a site
# has thousands, and they come and go. The nodes are named in the page.

PREFIX = "gpufleet_continuous"


def render_service_metrics(facts: ServiceFacts) -> str:
    """Return the file's text."""
    found = Families(PREFIX, (("site", facts.site), ("rehearsal", "true" if facts.rehearsal else "false")))
    found.add("last_cycle_timestamp_seconds", "When the last cycle was classified.", facts.now_s)
    for word in Word:
        found.add("nodes", "Nodes by what they are taken for.", facts.words[word], **{"class": word.value})
    found.add("out_of_service_nodes", "Nodes that we keep from work.", facts.out)
    found.add("breaker_holds", "Whether the breaker kept bad nodes in service.", bool(facts.stopped))
    found.add("cohort_findings", "Findings about whole cohorts or racks instead of single nodes.", len(facts.told))
    found.add("policy_problems", "What the policy asks for and could not be done.", len(facts.problems))
    for entry in facts.coverage:
        found.add("stale_after_seconds", "How old a result may be to count.", entry.days * DAY_S, test=entry.test)
        found.add("coverage_ratio", "Part of the nodes with a result young enough.", entry.share, test=entry.test)
        found.add("never_tested_nodes", "Nodes without any result of the test.", entry.never, test=entry.test)
        if entry.oldest_s is not None:
            text = "Age of the oldest of the newest results of all nodes."
            found.add("oldest_result_age_seconds", text, round(entry.oldest_s, 3), test=entry.test)
    for days, entries in facts.lemons.items():
        share = sum(lemon.share for lemon in entries[:3])
        text = "Part of all failures and exclusions of a window that the worst three nodes made."
        found.add("lemon_share_ratio", text, round(share, 6), window_days=str(days))
    return "\n".join(found.lines()) + "\n"
