# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""One report of changes in a cluster and in its performance: snapshot and baseline; page and metrics. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from ...outcome.wording import count
from ...report.metrics import Families
from .difference import Importance

PREFIX = "gpufleet_drift"
HOSTS = "hosts"
_OF_HOSTS = re.compile(r"not compared: .* of \d+ hosts? \(")
_SAME = "nothing that matters changed"
_NOT_COMPARED = "not one figure could be compared with an accepted one"


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotDrift:
    """The result of module drift_info: the importance of every change, whether one is important or may be, whether both
    sides were complete, all of it in lines, and the parts (`hosts`) that only one side has."""

    importances: tuple[Importance, ...]
    important: bool
    complete: bool
    lines: tuple[str, ...]
    one_sided: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureDrift:
    """The result of module baseline_info: how many figures of each kind were compared, the kinds with a loss, and all
    of it in lines."""

    compared: Counter[str]
    worse: tuple[str, ...]
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftFacts:
    """Both results, at one moment. Without a named run there are no `figures`. `hosts_run` is the run that read the
    hosts, if any."""

    site: str
    rehearsal: bool
    now_s: float
    written: str
    snapshot: SnapshotDrift
    figures: FigureDrift | None = None
    hosts_run: str = ""

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why a person has to look at it, a sentence each; empty where nothing changed."""
        found, observed = list[str](), self.snapshot
        # With fail_on: never, what could not be compared is no failure either.
        if observed.important and not observed.complete:
            changed = (
                f"; {count(len(observed.importances), 'change')}, the most important {self._worst}"
                if observed.importances
                else ""
            )
            found.append(f"snapshot: not everything could be compared{changed}")
        elif observed.important:
            found.append(f"snapshot: {count(len(observed.importances), 'change')}, the first: {observed.lines[0]}")
        if self.figures is not None:
            found += [f"figures: {name} is worse than accepted" for name in self.figures.worse]
            found += [] if self.figures.compared else [f"figures: {_NOT_COMPARED}"]
        return tuple(found)

    @property
    def passed(self) -> bool:
        """Whether everything was compared on both sides, and nothing important changed."""
        return not self.reasons and not self.snapshot.one_sided

    @property
    def hosts_missed(self) -> bool:
        """Whether the run that should have read the hosts did not read all of it: a validation reads nothing on
        hosts."""
        return bool(self.hosts_run) and any(_OF_HOSTS.match(line) for line in self.snapshot.lines)

    @property
    def found(self) -> tuple[str, ...]:
        """The verdict in parts: the reasons, or that there are none, and what was not compared."""
        left_out = self.snapshot.one_sided
        if not left_out:
            return self.reasons or (_SAME,)
        not_compared = f"not compared, as one of the two snapshots does not have them: {', '.join(left_out)}"
        return (*(self.reasons or (f"{_SAME} in what was compared",)), not_compared)

    @property
    def _worst(self) -> str:
        return min(self.snapshot.importances, key=lambda level: level.rank).value


def drift_verdict(facts: DriftFacts) -> str:
    """Return the verdict in one sentence."""
    head = f"{'REHEARSAL ' if facts.rehearsal else ''}drift of {facts.site}"
    return f"{head}: {'; '.join(facts.found)}"


def next_step(facts: DriftFacts) -> str:
    """Return what a person does about the first of the reasons, or to compare the rest; empty if nothing is left."""
    again = f"; then let gate nodes read the hosts again, for {facts.hosts_run} is as it was" if facts.hosts_run else ""
    if facts.snapshot.important and not facts.snapshot.complete:
        run = (
            f"; {facts.hosts_run} did not read all of the hosts: name a run whose gate nodes did (gpufleet list)"
            if facts.hosts_missed
            else ""
        )
        return f"let it look at what it could not (named above), and compare again{run}"
    if facts.snapshot.important:
        return (
            "undo what was not planned; after a planned change prove the cluster again (playbook "
            "gpufleet.bringup.site) and take a new snapshot (playbook gpufleet.bringup.snapshot) to compare with"
            f"{again}"
        )
    if facts.reasons and facts.figures is not None and facts.figures.compared:
        return (
            "run the gate that measures the figure again (-e gpufleet_from_gate=GATE); its report names the slow hosts"
        )
    if facts.reasons:
        return "name a run in gpufleet_drift_figures that measured what was accepted"
    if HOSTS in facts.snapshot.one_sided and not facts.hosts_run:
        return "compare hosts too: -e gpufleet_run=.run/latest (a run of gate nodes), or -e gpufleet_snapshot_pods=gpu"
    return ""


def report_lines(facts: DriftFacts) -> list[str]:
    """Return the report for a terminal."""
    lines = [*facts.found, *_indented("snapshot", facts.snapshot.lines)]
    return lines + (_indented("figures", facts.figures.lines) if facts.figures is not None else [])


def _indented(part: str, lines: Sequence[str]) -> list[str]:
    return [f"{part}: {line}" for line in lines]


def render_drift_markdown(facts: DriftFacts) -> str:
    """Return the report as a page."""
    rehearsed = ["**This is a rehearsal: its hardware is simulated.**", ""] if facts.rehearsal else []
    found = _items(facts.found) if facts.reasons or facts.snapshot.one_sided else [f"{_SAME.capitalize()}."]
    figures = ["No run was named to compare."] if facts.figures is None else _items(facts.figures.lines)
    lines = [
        f"# Drift of {facts.site}", "", f"Written {facts.written}.", "", *rehearsed, *found, "",
        "## Snapshot", "", *_items(facts.snapshot.lines), "", "## Figures", "", *figures, "",
    ]  # fmt: skip
    return "\n".join(lines)


def _items(lines: Sequence[str]) -> list[str]:
    return [f"- {line}" for line in lines]


def render_drift_metrics(facts: DriftFacts) -> str:
    """Return the file for Prometheus' textfile collector."""
    found = Families(PREFIX, (("site", facts.site), ("rehearsal", "true" if facts.rehearsal else "false")))
    found.add("timestamp_seconds", "When the cluster was compared with what it was.", facts.now_s)
    found.add("complete", "Whether both snapshots could look at everything.", facts.snapshot.complete)
    text = "Whether a change is as important as the schedule asks for, or may be."
    found.add("important", text, facts.snapshot.important)
    counts = Counter(facts.snapshot.importances)
    for level in Importance:
        text = "Facts that differ from the accepted snapshot or recipe, by importance."
        found.add("changes", text, counts[level], importance=level.value)
    if facts.figures is not None:
        text = "Figures of the run that could be compared with accepted ones."
        found.add("figures_compared", text, sum(facts.figures.compared.values()))
        for name in sorted({*facts.figures.compared, *facts.figures.worse}):
            text = "Whether anything of a kind of figure was lost since it was accepted."
            found.add("figure_worse", text, name in facts.figures.worse, figure=name)
    return "\n".join(found.lines()) + "\n"
