# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What every report of a run is made of: the record, the files with results, and other data in the run directory."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from ..check.declare import PlannedCheck
from ..fingerprint.dependencies import digest
from ..outcome.codec import dumps, load, load_json, to_plain
from ..outcome.errors import InputError
from ..outcome.gates import GATE_IDS, GATES, PHASE_GATES
from ..outcome.model import Outcome, Rating, Status, Subject, SubjectKind
from ..runtime.clock import moment_of, now_utc
from ..runtime.files import RECIPE, SITE, file_mode, make_dirs, write_atomic
from ..runtime.redaction import redact
from ..runtime.strict import read_yaml
from ..site.model import Site
from ..verdict.run import RunRecord
from .ctrf import document_of, read_foreign_suite, read_suite, times_of, with_subjects, write_suite
from .junit import write_junit
from .words import compressed

# Third parties' CTRF files: the run's copy, and whether it is of this run, recent enough and unchanged since it was
# copied.

# A suite that ended longer before the run began says nothing about the current cluster.
MAX_AGE = timedelta(hours=24)
# How far the clock of its writer may be ahead.
_CLOCKS_DIFFER = timedelta(minutes=10)
_AGAIN = "run that suite again, then the gate"


@dataclass(frozen=True, slots=True, kw_only=True)
class Adoption:
    """Data beside a copy: its SHA-256, when it was copied, and the run that copied it (times are RFC 3339)."""

    sha256: str
    adopted: str
    run_id: str
    run_started: str
    schema_version: int = 1


def adopt(source: Path, copy: Path, record: RunRecord) -> None:
    """Copy a suite into the run directory, together with its digest and time. Without a source an older copy is
    removed."""
    beside = _beside(copy)
    if source.is_file():
        shutil.copyfile(source, copy)
        made = Adoption(sha256=_digest(copy), adopted=now_utc(), run_id=record.run_id, run_started=record.started)
        write_atomic(beside, dumps(made))
    else:
        copy.unlink(missing_ok=True)
        beside.unlink(missing_ok=True)


def read_adopted(path: Path, gate: str, check: str, site: str) -> tuple[Outcome, ...]:
    """Return a third party's tests as outcomes of one declared check; one `other` where they are not of this run.

    Args:
        path: the run's copy.
        gate: the gate that declares it.
        check: the name of the suite.
        site: the name of the site.

    Raises:
        InputError: the copy is not CTRF or has no test, or it was changed since it was copied.
    """
    outcomes = read_foreign_suite(path, gate, check, site)
    if not _beside(path).is_file():
        raise InputError(str(path), "was adopted without its digest, so nobody knows whether it is unchanged.", _AGAIN)
    adoption = load(Adoption, _beside(path))
    if adoption.sha256 != _digest(path):
        raise InputError(str(path), "was changed after it was adopted (its digest differs).", _AGAIN)
    document = load_json(path)
    for cause, problem in _PROBLEMS:
        text = problem(document, adoption)
        if text:
            return (_on_hold(cause, text, gate, check, site),)
    return outcomes


def _on_hold(cause: str, text: str, gate: str, check: str, site: str) -> Outcome:
    return Outcome(
        check=check,
        gate=gate,
        status=Status.OTHER,
        rating=Rating.UNKNOWN,
        subjects=(Subject(SubjectKind.SITE, site),),
        summary=text,
        cause=cause,
        hint=_AGAIN,
    )


def _undated(document: dict[str, Any], _adoption: Adoption) -> str:
    if _ended(document) is not None:
        return ""
    return "its summary has no time at which it stopped (results.summary.stop, milliseconds), so its age is not known"


def _too_old(document: dict[str, Any], adoption: Adoption) -> str:
    ended, begun = _ended(document), moment_of(adoption.run_started)
    if ended is None or begun - ended <= MAX_AGE:
        return ""
    hours = (begun - ended).total_seconds() / 3600
    return f"it stopped at {ended:%Y-%m-%dT%H:%M:%SZ}, {hours:.0f} hours before the run; at most 24 count"


def _too_new(document: dict[str, Any], adoption: Adoption) -> str:
    ended, last = _ended(document), moment_of(adoption.adopted)
    if ended is None or ended - last <= _CLOCKS_DIFFER:
        return ""
    return f"it stopped at {ended:%Y-%m-%dT%H:%M:%SZ}, after it was adopted: a clock is wrong"


def _of_another_run(document: dict[str, Any], adoption: Adoption) -> str:
    found = (document.get("extra") or {}).get("gpufleet_run_id")
    if found in (None, adoption.run_id):
        return ""
    return f"it says that it belongs to run {found}, this is run {adoption.run_id}"


_PROBLEMS: tuple[tuple[str, Callable[[dict[str, Any], Adoption], str]], ...] = (
    ("third-party-undated", _undated),
    ("third-party-too-old", _too_old),
    ("third-party-from-the-future", _too_new),
    ("third-party-of-another-run", _of_another_run),
)


def _ended(document: dict[str, Any]) -> datetime | None:
    stop = document["results"]["summary"].get("stop")
    if isinstance(stop, bool) or not isinstance(stop, (int, float)) or not 0 < stop < 1e14:
        return None
    return datetime.fromtimestamp(stop / 1000, tz=UTC)


def _digest(path: Path) -> str:
    # Few runs have files of third parties.
    import hashlib

    return hashlib.sha256(path.read_bytes()).hexdigest()


def _beside(copy: Path) -> Path:
    return copy.with_name(f"{copy.stem}.adopted.json")


# The files with a gate's results: where they are, what is in them, and those of gates that were not reached yet.

LOOKS = "looks"


def ctrf_path(run_dir: Path, gate: str) -> Path:
    """Return the path of the CTRF suite of that gate."""
    return run_dir / "ctrf" / f"{gate}.json"


def look_path(run_dir: Path, gate: str) -> Path:
    """Return the path of what the run read of a gate that it did not reach (run/looking_on.py)."""
    return run_dir / LOOKS / f"{gate}.json"


def junit_path(run_dir: Path, gate: str) -> Path:
    """Return the path of the JUnit suite of that gate."""
    return run_dir / "junit" / f"{gate}.xml"


def foreign_path(run_dir: Path, gate: str, name: str) -> Path:
    """Return the path of the run's copy of a third party's suite."""
    return run_dir / "ctrf" / f"{gate}.{name}.json"


def foreign_suites(site: Site, gate: str) -> dict[str, str]:
    """Return the third-party suites declared for a gate: gpufleet_settings.<gate>.ctrf, name to path.

    Raises:
        InputError: the setting is not such a mapping.
    """
    declared: Any = site.settings.get(gate, {}).get("ctrf", {})
    if not isinstance(declared, dict):
        raise InputError(f"gpufleet_settings.{gate}.ctrf", "expected suite names with the paths of their CTRF files.")
    return {str(name): str(path) for name, path in declared.items()}


def read_own_outcomes(run_dir: Path, gate: str) -> tuple[Outcome, ...]:
    """Return the outcomes of this collection's checks from the gate's CTRF file.

    Raises:
        InputError: the file cannot be read.
    """
    return read_suite(ctrf_path(run_dir, gate), gate)


def read_phase_outcomes(run_dir: Path, phase: str, gates: tuple[str, ...]) -> tuple[Outcome, ...]:
    """Return the outcomes of a phase of a validation, of checks of these gates, from its CTRF file.

    Raises:
        InputError: the file cannot be read.
    """
    return read_suite(ctrf_path(run_dir, phase), phase, gates)


def read_foreign_outcomes(run_dir: Path, gate: str, site: Site) -> tuple[Outcome, ...]:
    """Return the outcomes of third parties' suites from the run's copies.

    Raises:
        InputError: a file cannot be read.
    """
    return tuple(
        outcome
        for name in foreign_suites(site, gate)
        for outcome in read_adopted(foreign_path(run_dir, gate, name), gate, name, site.name)
    )


def write_suites(run_dir: Path, gate: str, outcomes: tuple[Outcome, ...], record: RunRecord, version: str) -> None:
    """Write a gate's outcomes as CTRF and as JUnit, each whole or not at all.

    Raises:
        OSError: the directory cannot be written.
    """
    path = ctrf_path(run_dir, gate)
    write_suite(path, gate, outcomes, run_id=record.run_id, rehearsal=record.rehearsal, version=version)
    write_junit(junit_path(run_dir, gate), gate, outcomes, rehearsal=record.rehearsal)


def pending_outcomes(gate: str, checks: Iterable[PlannedCheck], site: str) -> tuple[Outcome, ...]:
    """Return one pending outcome for each declared check of a gate without a result."""
    return tuple(_pending(gate, check, site) for check in checks)


def _pending(gate: str, check: PlannedCheck, site: str) -> Outcome:
    count = len(check.subjects)
    expected = f"; to be answered for {count} subject{'s' if count != 1 else ''}" if count else ""
    return Outcome(
        check=check.id,
        gate=gate,
        status=Status.PENDING,
        rating=Rating.UNKNOWN,
        subjects=(Subject(SubjectKind.SITE, site),),
        summary=f"not reached: {check.spec.title}{expected}",
    )


# One CTRF report of a whole run, for pipelines that take one: the suites of its gates or phases in their order.

WHOLE = "all"


def write_whole(run_dir: Path, record: RunRecord, version: str) -> Path | None:
    """Write the report from the existing suites, and a copy where one was requested.

    Args:
        run_dir: the run directory.
        record: names the gates and phases, and where the copy goes.
        version: of this collection.

    Returns:
        Its path; None where the run has no suite.

    Raises:
        BringupError: a suite cannot be read, or the copy cannot be written.
    """
    tests = [test for path in _suites(run_dir, record) for test in load_json(path)["results"]["tests"]]
    if not tests:
        return None
    text = json.dumps(_whole(tests, record, version), indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    path = ctrf_path(run_dir, WHOLE)
    write_atomic(path, text)
    if record.ctrf_dest:
        copy = Path(record.ctrf_dest).expanduser()
        make_dirs(copy.parent)
        write_atomic(copy, text, file_mode(run_dir))
    return path


def _suites(run_dir: Path, record: RunRecord) -> list[Path]:
    """Return the files in the order of gates and phases, each with those of third parties after it."""
    names = [gate for gate in GATE_IDS if gate in record.scope] + [verdict.gate for verdict in record.phases]
    found = []
    for name in dict.fromkeys(names):
        found += suites_of(run_dir, name)
    return found


def suites_of(run_dir: Path, gate: str) -> list[Path]:
    """Return the CTRF suites of a gate or phase: its own, then those of third parties."""
    own = ctrf_path(run_dir, gate)
    return [*([own] if own.is_file() else []), *sorted(own.parent.glob(f"{gate}.*.json"))]


def _whole(tests: list[dict[str, Any]], record: RunRecord, version: str) -> dict[str, Any]:
    counts = Counter(str(test["status"]) for test in tests)
    summary = {status.value: counts[status.value] for status in Status} | {"tests": len(tests)} | times_of(tests)
    name = " ".join(("REHEARSAL",) * record.rehearsal + (f"{record.site} {record.run_id}",))
    about = {"rehearsal": record.rehearsal, "run": record.run_id, "site": record.site}
    return document_of(name, tests, summary, record.run_id, version, about)


# What was read of the gates behind one that did not pass: observed, not proven (run/looking_on.py writes it).

Looks = Mapping[str, tuple[Outcome, ...]]
_MOST_LINES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One observed cause, on every subject that has it; `found` and `hint` are of the first."""

    gate: str
    check: str
    cause: str
    about: str
    found: str
    hint: str


def read_looks(run_dir: Path, unreadable: list[str]) -> dict[str, tuple[Outcome, ...]]:
    """Return by gate the observed problems; a file that cannot be read is named in `unreadable`."""
    found: dict[str, tuple[Outcome, ...]] = {}
    for gate in (gate for gate in GATE_IDS if look_path(run_dir, gate).is_file()):
        try:
            found[gate] = read_suite(look_path(run_dir, gate), gate)
        except InputError as error:
            unreadable.append(str(error))
    return found


def look_groups(looks: Looks) -> tuple[Look, ...]:
    """Return the observed problems, with equal causes of a check merged."""
    groups: dict[tuple[str, str, str], list[Outcome]] = {}
    for gate, outcomes in looks.items():
        for outcome in outcomes:
            groups.setdefault((gate, outcome.check, outcome.cause), []).append(outcome)
    return tuple(
        Look(
            gate=gate,
            check=check,
            cause=cause,
            about=compressed((outcome.about for outcome in outcomes), 8),
            found=redact(outcomes[0].summary),
            hint=redact(outcomes[0].hint),
        )
        for (gate, check, cause), outcomes in groups.items()
    )


def behind_lines(unseen: Sequence[str], looks: Looks) -> list[str]:
    """Return the lines about gates behind one that did not pass: not observed, or read without tests."""
    read = [gate for gate in unseen if gate in looks]
    rest = [gate for gate in unseen if gate not in looks]
    lines = [f"not looked at: {', '.join(rest)}"] if rest else []
    return [*([f"read, not tested: {', '.join(read)}"] if read else []), *lines]


def look_lines(looks: Looks) -> list[str]:
    """Return the observed problems for a terminal, empty where no gate was read."""
    if not looks:
        return []
    groups = look_groups(looks)
    were = "were" if len(looks) > 1 else "was"
    lines = [f"observed, not proven: gate{'s' if len(looks) > 1 else ''} {', '.join(looks)} {were} read without tests"]
    for look in groups[:_MOST_LINES]:
        lines += [f"observed {look.check} on {look.about}: {look.cause}", f"         {look.found}"]
        lines += [f"         do: {look.hint}"] if look.hint else []
    lines += [f"         and {len(groups) - _MOST_LINES} more in the report"] if len(groups) > _MOST_LINES else []
    lines += [] if groups else ["         nothing is wrong there, as far as it can be read without a test"]
    return [*lines, ""]


# What every report of a run is made of: the record, the results, and other data in the run directory.


# Text for a file with another digest than the one that the run kept of it.
CHANGED = "was changed since the last verdict"
# Digests are no signature, so only a copy that no one else could write proves what the run was.
RESTORE = "restore the run from the copy that was kept where others cannot write, and judge it again; or run again"


@dataclass(frozen=True, slots=True, kw_only=True)
class AlreadyRead:
    """What the caller has read from the run directory already, so that it is not read again; None: not read."""

    site: Site | None = None
    recipe: Mapping[str, Any] | None = None
    own_outcomes: Mapping[str, tuple[Outcome, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """A run as reports show it.

    `outcomes` has by gate id the content of its CTRF files, `phase_outcomes` the same for phases of a validation.
    `looks` has by gate the observed problems of gates that the run did not reach. `site` and `recipe` are None before
    they were checked. `differences` are between the record and a later judgement. `unreadable` are files whose content
    is not used, and why.
    """

    record: RunRecord
    outcomes: Mapping[str, tuple[Outcome, ...]]
    site: Site | None = None
    recipe: Mapping[str, Any] | None = None
    recipe_digest: str = ""
    differences: tuple[str, ...] = ()
    unreadable: tuple[str, ...] = ()
    phase_outcomes: Mapping[str, tuple[Outcome, ...]] = field(default_factory=dict)
    looks: Mapping[str, tuple[Outcome, ...]] = field(default_factory=dict)

    @property
    def changed(self) -> tuple[str, ...]:
        """Those of `unreadable` that were changed since the last verdict."""
        names = [text.removesuffix(f": {CHANGED}") for text in self.differences if text.endswith(f": {CHANGED}")]
        return tuple(text for text in self.unreadable if any(f"/{name}: " in text for name in names))

    @property
    def settings_digest(self) -> str:
        """SHA-256 over the site's settings; the settings themselves may contain what does not belong into a report."""
        return digest(self.site.settings) if self.site else ""

    @property
    def site_digest(self) -> str:
        """SHA-256 over the whole checked inventory."""
        return digest(to_plain(self.site)) if self.site else ""


def load_facts(
    run_dir: Path, record: RunRecord, differences: tuple[str, ...] = (), read: AlreadyRead | None = None
) -> RunFacts:
    """Return the facts in a run directory. Unreadable files are named, and a report is written all the same."""
    read = read or AlreadyRead()
    unreadable: list[str] = []
    site = read.site or _site(run_dir / SITE, unreadable)
    if read.recipe is not None:
        recipe: Mapping[str, Any] | None = read.recipe
        recipe_digest = digest(recipe)
    else:
        recipe, recipe_digest = _recipe(run_dir / RECIPE, unreadable)
    phases = {verdict.gate: _phase_outcomes(run_dir, verdict.gate, unreadable) for verdict in record.phases}
    outcomes = {gate.id: _outcomes(run_dir, gate.id, site, read.own_outcomes, unreadable) for gate in GATES}
    return RunFacts(
        record=with_subjects(record, outcomes),
        outcomes=outcomes,
        site=site,
        recipe=recipe,
        recipe_digest=recipe_digest,
        differences=differences,
        unreadable=tuple(unreadable),
        phase_outcomes=phases,
        looks=read_looks(run_dir, unreadable),
    )


def _site(path: Path, unreadable: list[str]) -> Site | None:
    if not path.is_file():
        return None
    try:
        return load(Site, path)
    except InputError as error:
        unreadable.append(str(error))
        return None


def _outcomes(
    run_dir: Path, gate: str, site: Site | None, own: Mapping[str, tuple[Outcome, ...]], unreadable: list[str]
) -> tuple[Outcome, ...]:
    if gate not in own and not ctrf_path(run_dir, gate).is_file():
        return ()
    try:
        mine = own[gate] if gate in own else read_own_outcomes(run_dir, gate)
        return (*mine, *read_foreign_outcomes(run_dir, gate, site)) if site else mine
    except InputError as error:
        # The gate's verdict reports that as well, and is not a pass.
        unreadable.append(str(error))
        return ()


def _phase_outcomes(run_dir: Path, phase: str, unreadable: list[str]) -> tuple[Outcome, ...]:
    if not ctrf_path(run_dir, phase).is_file():
        return ()
    try:
        return read_phase_outcomes(run_dir, phase, (*GATE_IDS, *PHASE_GATES.get(phase, ())))
    except InputError as error:
        # The phase's verdict reports that as well, and is not a pass.
        unreadable.append(str(error))
        return ()


def _recipe(path: Path, unreadable: list[str]) -> tuple[Mapping[str, Any] | None, str]:
    if not path.is_file():
        return None, ""
    try:
        found = load_json(path)
    except InputError as error:
        unreadable.append(str(error))
        return None, ""
    return (found if isinstance(found, dict) else None), digest(found)


# The key figure of a gate, from the data in recipes/key_figures.yaml.

_AGGREGATES: dict[str, Callable[[list[float]], float]] = {"sum": sum, "min": min, "max": max, "count": len}


def load_key_figures(path: Path) -> dict[str, dict[str, Any]]:
    """Return gate id to `check`, `measure`, `aggregate` (sum, min, max, count) and `text` with `{value}`.

    A second figure, `{other}` in the text, has check, measure and aggregate of its own below `other`. `instead` is the
    rule for a site without a measurement for this one.

    Raises:
        InputError: the file is not such a mapping.
    """
    plain = read_yaml(path)
    if not isinstance(plain, dict) or not all(isinstance(entry, dict) for entry in plain.values()):
        raise InputError(str(path), "expected gate ids with check, measure, aggregate and text.")
    return plain


def key_figure(rule: Mapping[str, Any] | None, outcomes: Sequence[Outcome]) -> str:
    """Return the text of the key figure, empty where there is no rule or no measurement."""
    if rule is None:
        return ""
    figures = {"value": _figure(rule, outcomes)}
    if "other" in rule:
        figures["other"] = _figure(rule["other"], outcomes)
    if None in figures.values():
        return key_figure(rule.get("instead"), outcomes)
    return str(rule["text"]).format(**figures)


def _figure(rule: Mapping[str, Any], outcomes: Sequence[Outcome]) -> float | None:
    values = [
        measure.value
        for outcome in outcomes
        if outcome.check == rule["check"] and outcome.status is Status.PASSED
        for measure in outcome.measured
        if measure.name == rule["measure"] and isinstance(measure.value, (int, float))
    ]
    return _AGGREGATES[rule["aggregate"]](values) if values else None
