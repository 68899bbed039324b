# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The metrics of a run in Prometheus' text format, as node_exporter's textfile collector reads it. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from ..outcome.model import Measure, Outcome, Status, SubjectKind
from ..runtime.clock import moment_of
from ..verdict.gate import GateVerdict
from ..verdict.run import all_passed, nothing_holds
from .facts import RunFacts

# Samples in Prometheus' text format. Pure.

Labels = tuple[tuple[str, str], ...]


@dataclass(slots=True)
class _Family:
    help: str
    samples: dict[Labels, float] = field(default_factory=dict)


class Families:
    """Collects samples by the name of their family; a sample that is given twice counts once."""

    def __init__(self, prefix: str, common: Labels) -> None:
        """Begin with no family: all names begin with `prefix`, all samples have the labels `common`."""
        self._prefix, self._common = prefix, common
        self._families: dict[str, _Family] = {}

    def add(self, name: str, text: str, value: float, **labels: str) -> None:
        """Add one sample; `text` explains the family, and the first one counts."""
        family = self._families.setdefault(f"{self._prefix}_{name}", _Family(text))
        family.samples[(*self._common, *labels.items())] = value

    def lines(self) -> Iterator[str]:
        """Return the lines of all families, in the order in which they were added."""
        for name, family in self._families.items():
            yield f"# HELP {name} {family.help}"
            yield f"# TYPE {name} gauge"
            for labels, value in family.samples.items():
                pairs = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels)
                yield f"{name}{{{pairs}}} {_value(value)}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _value(value: float) -> str:
    number = float(value)
    return str(int(number)) if math.isfinite(number) and number == int(number) else repr(number)


# The metrics of a run in Prometheus' text format, for node_exporter's textfile collector. Pure. Every sample has its
# site and whether it was a rehearsal. A run that validates decides no gate: it has phases where a bring-up has gates,
# in the names of its samples and in their labels.

_PREFIX = "gpufleet_bringup"
# Unit of a measure to the base unit that Prometheus requires in the name, and the factor to it.
_UNITS: dict[str, tuple[str, float]] = {
    "B": ("bytes", 1.0),
    "GB/s": ("bytes_per_second", 1e9),
    "Gb/s": ("bits_per_second", 1e9),
    "TFLOP/s": ("flops", 1e12),
    "W": ("watts", 1.0),
    "kW": ("watts", 1e3),
    "ms": ("seconds", 1e-3),
    "s": ("seconds", 1.0),
    "us": ("seconds", 1e-6),
    "%": ("ratio", 1e-2),
    "tokens/s": ("tokens_per_second", 1.0),
    "requests/s": ("requests_per_second", 1.0),
    "count": ("count", 1.0),
}
_WHOLE = (SubjectKind.SITE, SubjectKind.CLUSTER)


def render_metrics(facts: RunFacts) -> str:
    """Return the file's text."""
    record = facts.record
    found = Families(_PREFIX, (("site", record.site), ("rehearsal", "true" if record.rehearsal else "false")))
    versions = {_label(name): value for name, value in record.versions.items()}
    found.add("run_info", "Which run this is and what it was made with.", 1, run=record.run_id, **versions)
    text = "Whether every gate in scope, every phase of a validation, or all work of a roll or a cycle, was passed."
    # Work that neither passed nor failed, such as a cycle that found no idle node, has no such sample.
    if all_passed(record) or not nothing_holds(record) or record.work is None:
        found.add("run_passed", text, all_passed(record) and not record.problem)
    for name, moment in (("started", record.started), ("updated", record.updated)):
        seconds = _seconds(moment)
        if seconds is not None:
            found.add(f"run_{name}_timestamp_seconds", f"When the run was {name}.", seconds)
    found.add(
        "nodes",
        "Nodes by whether they are in the scope of the run.",
        record.nodes - record.quarantined,
        state="in_scope",
    )
    found.add("nodes", "", record.quarantined, state="quarantined")
    if record.work is not None:
        text = "What a run without gates worked on, by how that ended."
        for end, number in record.work.counts.items():
            found.add("work", text, number, verb=record.work.verb, end=end)
    if record.validates or record.work is not None:
        _add_parts(found, "phase", record.phases, facts.phase_outcomes)
    else:
        for verdict in record.gates:
            _add_scope(found, verdict, in_scope=verdict.gate in record.scope)
        _add_parts(found, "gate", record.gates, facts.outcomes)
    return "\n".join(found.lines()) + "\n"


def _add_parts(
    found: Families, part: str, verdicts: Iterable[GateVerdict], outcomes: Mapping[str, tuple[Outcome, ...]]
) -> None:
    """Add the verdicts of gates or of phases (`part`), and their results."""
    for verdict in verdicts:
        _add_verdict(found, part, verdict)
    for name, entries in outcomes.items():
        _add_results(found, {part: name}, entries)
        _add_measures(found, {part: name}, entries)


def _add_scope(found: Families, verdict: GateVerdict, *, in_scope: bool) -> None:
    gate, taken = verdict.gate, verdict.taken_over is not None
    found.add("gate_in_scope", "Whether the gate is in the scope of the run.", in_scope, gate=gate)
    found.add("gate_taken_over", "Whether passes of earlier runs were taken over for the gate.", taken, gate=gate)


def _add_verdict(found: Families, part: str, verdict: GateVerdict) -> None:
    about = {part: verdict.gate}
    for status in Status:
        text = f"The {part}'s status: 1 for the one that it has."
        found.add(f"{part}_status", text, verdict.status is status, **about, status=status.value)
    if verdict.status is Status.PENDING:
        return
    found.add(f"{part}_duration_seconds", f"How long the {part} took.", verdict.duration_s, **about)
    began = _seconds(verdict.started)
    if began is not None:
        found.add(f"{part}_started_timestamp_seconds", f"When the {part} began.", began, **about)
    for status in Status:
        text = f"Results of the {part} by CTRF status; a waived failure stays a failure."
        found.add(f"{part}_results", text, verdict.counts.get(status.value, 0), **about, status=status.value)
    decided = (("waived", verdict.waived), ("accepted", verdict.accepted), ("expired", verdict.expired))
    for word, entries in decided:
        text = f"Results of the {part} that a person's decision is about."
        found.add(f"{part}_decisions", text, len(entries), **about, decision=word)


def _add_results(found: Families, part: Mapping[str, str], outcomes: Iterable[Outcome]) -> None:
    checks: Counter[tuple[str, str]] = Counter()
    nodes: Counter[tuple[str, str]] = Counter()
    for outcome in outcomes:
        checks[outcome.check, outcome.status.value] += 1
        for node in sorted({subject.node for subject in outcome.subjects if subject.node}):
            nodes[node, outcome.status.value] += 1
    for (check, status), count in checks.items():
        found.add("check_results", "Results of a check by CTRF status.", count, **part, check=check, status=status)
    for (node, status), count in nodes.items():
        found.add("node_results", "Results about a node by CTRF status.", count, **part, node=node, status=status)


def _add_measures(found: Families, part: Mapping[str, str], outcomes: Iterable[Outcome]) -> None:
    """Add the figures of the whole site or cluster; those of single nodes stay in the CTRF files."""
    for outcome in outcomes:
        if outcome.subjects[0].kind not in _WHOLE:
            continue
        for measure in outcome.measured:
            value, unit = _based(measure)
            if value is None:
                continue
            text = f"Figures of the whole site that checks measured, in {unit.replace('_', ' ')}."
            about = {**part, "check": outcome.check, "measure": measure.name}
            found.add(f"measured_{unit}", text, value, **about, subject=outcome.subjects[0].name)


def _based(measure: Measure) -> tuple[float | None, str]:
    value = measure.value
    if isinstance(value, bool) or not isinstance(value, (int, float)) or measure.unit not in _UNITS:
        return None, ""
    unit, factor = _UNITS[measure.unit]
    return float(value) * factor, unit


def _label(name: str) -> str:
    return "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in name.lower())


def _seconds(moment: str) -> float | None:
    try:
        return moment_of(moment).timestamp()
    except ValueError:
        return None
