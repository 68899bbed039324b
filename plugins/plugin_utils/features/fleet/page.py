# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The report about a fleet: one HTML page without any other file, and the same in brief as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ...outcome.gates import GATES
from ...outcome.model import Status
from ...outcome.wording import count, first_of
from ...report.html import TEMPLATES, environment
from ...report.markdown import plain
from ...report.matrix import FAILED, PASSED, SKIPPED, TAKEN_OVER, UNKNOWN, WAIVED, Mark
from ...runtime.redaction import redact
from .clusters import ClusterState, fleet_sentence

_SHOWN = 5
_DRIVER = "GPU driver"
_UNDECIDED = Mark("-", "decided by no run", 0)
_MARKS = {"passed": PASSED, "failed": FAILED, "other": UNKNOWN, "skipped": SKIPPED, "-": _UNDECIDED}


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionRow:
    """One component (or the GPU driver) and the clusters that have each of its versions, most frequent first."""

    name: str
    versions: tuple[tuple[str, tuple[str, ...]], ...]

    @property
    def cells(self) -> tuple[tuple[str, str, str], ...]:
        """Version, number of clusters and some of their names."""
        return tuple(
            (version, count(len(names), "cluster"), first_of(names, _SHOWN)) for version, names in self.versions
        )


def version_rows(states: Iterable[ClusterState]) -> tuple[VersionRow, ...]:
    """Return the versions side by side: components in which clusters differ come first, then by name."""
    found: dict[str, dict[str, list[str]]] = {}
    for state in states:
        for name, version in state.versions.items():
            found.setdefault(name, {}).setdefault(version, []).append(state.name)
        for version in sorted(set(state.bring_up.drivers.values())):
            found.setdefault(_DRIVER, {}).setdefault(version, []).append(state.name)
    rows = []
    for name, versions in found.items():
        ordered = sorted(versions.items(), key=lambda entry: (-len(entry[1]), entry[0]))
        rows.append(VersionRow(name=name, versions=tuple((version, tuple(names)) for version, names in ordered)))
    return tuple(sorted(rows, key=lambda row: (len(row.versions) == 1, row.name != _DRIVER, row.name)))


def render_fleet_page(states: Sequence[ClusterState]) -> str:
    """Return the HTML page: the fleet in a sentence, clusters by gates, what holds them, versions side by side."""
    simulated = sum(_is_rehearsal(state) for state in states)
    page: str = (
        environment(TEMPLATES)
        .get_template("fleet.html.j2")
        .render(
            statement=fleet_sentence(states),
            rehearsals=simulated,
            # Of the page of a run, whose print style names a rehearsal on each sheet.
            record={"rehearsal": simulated},
            gates=GATES,
            legend=(*_MARKS.values(), WAIVED, TAKEN_OVER),
            rows=[(state, [_mark(state, gate.id) for gate in GATES]) for state in states],
            held=[(state, [redact(text) for text in (*state.sentences, *state.now)]) for state in states],
            versions=version_rows(states),
        )
    )
    return page


def render_fleet_markdown(states: Sequence[ClusterState]) -> str:
    """Return the report in brief."""
    return "".join(f"{line}\n" for line in _markdown(states))


def _markdown(states: Sequence[ClusterState]) -> Iterator[str]:
    yield from ("# Fleet", "", f"**{plain(fleet_sentence(states))}**", "")
    if simulated := sum(_is_rehearsal(state) for state in states):
        yield from (f"REHEARSAL: the hardware of {count(simulated, 'cluster')} is simulated.", "")
    yield f"| cluster | state | {' | '.join(str(gate.number) for gate in GATES)} | hosts | driver | oldest proof |"
    yield f"|{' --- |' * (len(GATES) + 5)}"
    for state in states:
        cells = " | ".join(_cell(state, gate.id) for gate in GATES)
        about = (str(state.hosts), plain(state.driver or "-"), state.oldest_proof[:10] or "-")
        yield f"| {plain(state.name)} | {state.word} | {cells} | {' | '.join(about)} |"
    yield from ("", f"Gates: {', '.join(f'{gate.number} {gate.id}' for gate in GATES)}.", "")
    for state in states:
        if lines := (*state.sentences, *state.now):
            yield from (f"## {plain(state.name)}", "", *(f"- {plain(redact(text), 600)}" for text in lines), "")
    differing = [row for row in version_rows(states) if len(row.versions) > 1]
    if differing:
        yield from ("## Versions that differ", "")
        for row in differing:
            found = "; ".join(f"{plain(version)}: {number} ({plain(names)})" for version, number, names in row.cells)
            yield f"- {plain(row.name)}: {found}"


def _cell(state: ClusterState, gate: str) -> str:
    """Return the newest status of a gate of a cluster, in one word; `-` where no run decided it."""
    verdict = state.gates.get(gate)
    return "-" if verdict is None or verdict.status is Status.PENDING else verdict.status.value


def _mark(state: ClusterState, gate: str) -> Mark:
    verdict = state.gates.get(gate)
    if verdict is not None and verdict.opens_next and (verdict.waived or verdict.taken_over is not None):
        return WAIVED if verdict.waived else TAKEN_OVER
    return _MARKS[_cell(state, gate)]


def _is_rehearsal(state: ClusterState) -> bool:
    return state.bring_up.record is not None and state.bring_up.record.rehearsal
