# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Evidence for CNCF's AI conformance, from the results of a run: a page for each requirement and an index.

PASS: every check of the requirement has a result, and all passed. FAIL: one of them failed, or is unknown. SKIP: none
of its checks ran, or not all of them; what is not proven is never PASS.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from ..outcome.errors import InputError
from ..outcome.gates import GATE_IDS, PHASE_GATES, PHASES
from ..outcome.model import Outcome, Status
from ..outcome.wording import count
from ..runtime.files import RECIPES, write_atomic
from ..runtime.strict import decode, nearest_hint, read_yaml
from ..verdict.run import RunRecord
from .facts import ctrf_path, read_own_outcomes, read_phase_outcomes
from .markdown import plain

PASS, SKIP, FAIL = "PASS", "SKIP", "FAIL"
_EXCERPT_LINES = 12
_NO_EVIDENCE = "The hardware is simulated: this is no evidence about any platform."


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """One requirement: its title, names for `features`, the checks that prove it together, else what is missing.

    `counts` has by check the measure that counts its items: with none of them a pass proves nothing.
    """

    title: str
    features: tuple[str, ...]
    checks: tuple[str, ...] = ()
    counts: dict[str, str] = field(default_factory=dict)
    lacks: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checklist:
    """One version of CNCF's list: requirements with their level (MUST, SHOULD), and where it is published."""

    source: str
    levels: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Conformance:
    """The content of recipes/ai_conformance.yaml."""

    requirements: dict[str, Requirement]
    lists: dict[str, Checklist]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A requirement with its verdict, why, and the outcomes that it rests on."""

    id: str
    level: str
    requirement: Requirement
    verdict: str
    reason: str
    outcomes: tuple[Outcome, ...] = ()


@cache
def conformance() -> Conformance:
    """Return the requirements and lists.

    Raises:
        InputError: the file does not have the expected form.
    """
    path = RECIPES / "ai_conformance.yaml"
    return decode(Conformance, read_yaml(path), str(path))


def versions() -> tuple[str, ...]:
    """Return the versions of the list, newest last."""
    return tuple(sorted(conformance().lists, key=lambda text: [int(part) for part in text.split(".")]))


def outcomes_of(run_dir: Path, record: RunRecord) -> tuple[Outcome, ...]:
    """Return the outcomes of the gates and phases of a run.

    Gates that are pending in the record were not decided: their results in the directory are of an earlier start.

    Raises:
        InputError: a file of results cannot be read, there is none, or the run is no verdict about the platform.
    """
    _require_verdict(run_dir, record)
    decided = {verdict.gate for verdict in (*record.gates, *record.phases) if verdict.status is not Status.PENDING}
    gates = [gate for gate in GATE_IDS if gate in decided and ctrf_path(run_dir, gate).is_file()]
    phases = [phase for phase in PHASES if phase in decided and ctrf_path(run_dir, phase).is_file()]
    if not gates and not phases:
        raise InputError(str(run_dir), "holds no results yet.", "run site.yml or validate.yml first")
    found = [outcome for gate in gates for outcome in read_own_outcomes(run_dir, gate)]
    found += [o for phase in phases for o in read_phase_outcomes(run_dir, phase, (*GATE_IDS, *PHASE_GATES[phase]))]
    return tuple(found)


def _require_verdict(run_dir: Path, record: RunRecord) -> None:
    part = f"looked at {count(len(record.wave), 'node')} of a roll" if record.wave else ""
    driver = "has of gate gpu_stack only what needs the driver" if record.driver_only else ""
    mode = "was made in check mode, which tests nothing" if record.check_mode else ""
    what_if = f"is a what-if, judged by other settings ({record.what_if})" if record.what_if else ""
    why = what_if or mode or part or driver
    if why:
        raise InputError(str(run_dir), f"{why}.", "name a run of site.yml or validate.yml over the whole cluster")


def not_declared_in(record: RunRecord) -> dict[str, str]:
    """Return by id why checks do not apply at this site."""
    verdicts = (*record.gates, *record.phases)
    return {entry.id: entry.reason for verdict in verdicts for entry in verdict.not_declared}


def judged(
    outcomes: Iterable[Outcome],
    version: str,
    features: Collection[str] = (),
    not_declared: Mapping[str, str] | None = None,
) -> tuple[Judged, ...]:
    """Return the verdict of every requirement of a list, or of those that `features` name.

    `not_declared` has by id why checks do not apply; a requirement that rests on one of them is skipped.

    Raises:
        InputError: an unknown version or feature.
    """
    known, all_lists = conformance().requirements, conformance().lists
    if version not in all_lists:
        raise InputError("list_version", f"there is no list {version!r}.", nearest_hint(version, all_lists))
    levels = all_lists[version].levels
    named = {name: entry for entry in levels for name in (entry, *known[entry].features)}
    for feature in features:
        if feature not in named:
            raise InputError("features", f"{feature!r} is none of list {version}.", nearest_hint(feature, named))
    wanted = {named[feature] for feature in features} or set(levels)
    by_check: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        by_check.setdefault(outcome.check, []).append(outcome)
    why = not_declared or {}
    return tuple(_judged(name, level, known[name], by_check, why) for name, level in levels.items() if name in wanted)


def _judged(
    name: str, level: str, requirement: Requirement, by_check: Mapping[str, list[Outcome]], why: Mapping[str, str]
) -> Judged:
    found = tuple(outcome for check in requirement.checks for outcome in by_check.get(check, ()))
    missing = [check for check in requirement.checks if check not in by_check]
    left_out = next((outcome for outcome in found if outcome.status is Status.SKIPPED), None)
    bad = next((o for o in found if o.status not in (Status.PASSED, Status.SKIPPED)), None)
    if not requirement.checks:
        verdict, reason = SKIP, f"not proven here: {requirement.lacks}"
    elif bad is not None:
        verdict, reason = FAIL, f"{bad.check} on {bad.about}: {bad.cause or bad.status.value}: {bad.summary}"
    elif missing:
        reported = (f"{check} ({why[check]})" if check in why else check for check in missing)
        verdict, reason = SKIP, f"not asked in this run: {', '.join(reported)}"
    elif left_out is not None:
        verdict, reason = SKIP, f"{left_out.check} was left out: {left_out.summary}"
    elif empty := _of_nothing(requirement, found):
        verdict, reason = SKIP, f"not shown: {empty.check} passed with nothing to look at: {empty.summary}"
    else:
        verdict, reason = PASS, f"{count(len(found), 'result')} of {', '.join(requirement.checks)}, all passed"
    return Judged(id=name, level=level, requirement=requirement, verdict=verdict, reason=reason, outcomes=found)


def _of_nothing(requirement: Requirement, found: Collection[Outcome]) -> Outcome | None:
    """Return the first outcome that passed without any item to look at, None if there is none."""

    def counted(outcome: Outcome, name: str) -> bool:
        return any(measure.name == name and bool(measure.value) for measure in outcome.measured)

    return next((o for o in found if (name := requirement.counts.get(o.check)) and not counted(o, name)), None)


def verdict_of(found: Collection[Judged], *, rehearsal: bool) -> str:
    """Return the verdict in one sentence: how many requirements are met, not met, and required but not proven."""
    passed, failed = (sum(entry.verdict == word for entry in found) for word in (PASS, FAIL))
    skipped = [entry for entry in found if entry.verdict == SKIP]
    required = sum(entry.level == "MUST" for entry in skipped)
    text = f"{passed} of {count(len(found), 'requirement')} met, {failed} not met"
    if skipped:
        text += f", {len(skipped)} not proven ({required} of them MUST)"
    return f"REHEARSAL {text}" if rehearsal else text


def pages(found: Collection[Judged], version: str, record: RunRecord) -> dict[str, str]:
    """Return the pages as Markdown, by file name."""
    made = {"index.md": _index(found, version, record)}
    return made | {f"{entry.id}.md": _page(entry, version, record) for entry in found}


def write_pages(dest: Path, made: Mapping[str, str]) -> None:
    """Write the pages, and remove those of other requirements: they are of another run or list."""
    for name, text in made.items():
        write_atomic(dest / name, text)
    for name in {f"{entry}.md" for entry in conformance().requirements} - set(made):
        (dest / name).unlink(missing_ok=True)


def _head(title: str, version: str, record: RunRecord) -> list[str]:
    source = conformance().lists[version].source
    lines = [f"# {title}", "", f"CNCF Kubernetes AI Conformance, list v{version} ({source})", ""]
    lines += [f"Site {plain(record.site)}, run {record.run_id}, {record.updated or record.started}", ""]
    return lines + ([f"**{_NO_EVIDENCE}**", ""] if record.rehearsal else [])


def _index(found: Collection[Judged], version: str, record: RunRecord) -> str:
    counts = ", ".join(f"{sum(entry.verdict == word for entry in found)} {word}" for word in (PASS, SKIP, FAIL))
    lines = [*_head("Evidence for AI conformance", version, record), counts, ""]
    lines += ["| requirement | level | verdict | why |", "| --- | --- | --- | --- |"]
    for entry in found:
        title = plain(entry.requirement.title)
        lines.append(
            f"| [{entry.id}]({entry.id}.md): {title} | {entry.level} | {entry.verdict} | {plain(entry.reason)} |"
        )
    return "\n".join(lines) + "\n"


def _page(entry: Judged, version: str, record: RunRecord) -> str:
    lines = _head(entry.id, version, record)
    lines += [f"{entry.level}: {plain(entry.requirement.title)}", "", f"**{entry.verdict}**: {plain(entry.reason)}", ""]
    if entry.outcomes:
        lines += ["| check | about | status | result |", "| --- | --- | --- | --- |"]
    for o in entry.outcomes:
        lines.append(f"| `{o.check}` | {plain(o.about)} | {o.status.value} | {plain(o.summary)} |")
    for outcome in entry.outcomes:
        for evidence in outcome.evidence:
            excerpt = [line for line in evidence.excerpt.splitlines() if line.strip()][:_EXCERPT_LINES]
            if excerpt:
                where = f" ({plain(evidence.where)})" if evidence.where else ""
                lines += ["", f"`{outcome.check}`: {plain(evidence.source)}{where}", ""]
                lines += [f"    {line}" for line in excerpt]
    return "\n".join(lines) + "\n"
