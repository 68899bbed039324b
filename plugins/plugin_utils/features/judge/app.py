# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A saved run judged again at a user's request, and a second time with other settings if there are any."""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

from ...check.comparison.gate import compare_gate
from ...check.declare import GatePlan
from ...check.judge import judge_gate
from ...check.kit.saved_settings import stated_by_thresholds
from ...check.kit.settings import Setting, merged, settings_in
from ...check.kit.settings_layers import SITE, Kinds, Layer, load_settings, resolved, shipped, shipped_layers
from ...check.registry import all_settings
from ...check.selection import PhaseDeclaration
from ...outcome.codec import to_plain
from ...outcome.errors import BringupError, InputError, NotFoundError, ProblemsError
from ...outcome.gates import PHASE_GATES
from ...outcome.model import Outcome, Status, Subject, names_of
from ...outcome.wording import count
from ...report.console import decided_table
from ...report.ctrf import write_suite
from ...report.facts import ctrf_path, foreign_suites, junit_path, read_phase_outcomes
from ...report.junit import write_junit
from ...run.decision import run_day, verdict_from_files, verdict_of
from ...run.digests import NONE_KEPT, changed_files, has_digests
from ...run.own_limits import own_limits
from ...run.rehearsed import signs_of_rehearsal, unknown_cluster
from ...run.run import Run
from ...run.settings_sources import merged_settings
from ...run.version import collection_version
from ...runtime.files import DECLARED, REPORTS, RUN, require_moment
from ...runtime.layers import laid_over
from ...runtime.progress import Emit
from ...site.model import Site
from ...verdict.gate import GateVerdict, NotDeclared
from ...verdict.run import RunRecord, is_decided, nothing_holds, run_summary, with_site
from ..validation.phases import declared_phase, phase_outcomes, phase_verdict
from ..validation.requested import ASKED, requested_of

# What run.json has beside its verdicts, compared with the other files of the run: no digest covers that file.

_FROM_INVENTORY = ("nodes", "quarantined", "site")


def record_differences(run: Run) -> list[str]:
    """Return a line for each statement of the record that the other files of the run do not confirm."""
    try:
        return list(_differences(run))
    except BringupError as error:
        return [str(error)]


def _differences(run: Run) -> Iterator[str]:
    record = run.record
    signs = signs_of_rehearsal(run.path, record)
    if signs and not record.rehearsal:
        yield f"{RUN}: recorded as no rehearsal, and {signs[0]}"
    if not is_decided(record):
        return
    require_moment(run.path / RUN, record.started, record.run_id)
    if not record.rehearsal and not signs:
        unknown = unknown_cluster(run.path, record, kubernetes="kubernetes" in run.site.capabilities)
        yield from [unknown] if unknown else []
    inventory = with_site(record, run.site)
    for name in _FROM_INVENTORY:
        if getattr(record, name) != getattr(inventory, name):
            yield _other(name, getattr(record, name), getattr(inventory, name))
    # A cycle, a roll or a burn-in decides no gate.
    if record.work is not None and any(gate.status is not Status.PENDING for gate in record.gates):
        yield f"{RUN}: has a verdict of {record.work.verb}, and of gates, which that decides none of"
    if not record.validates and record.work is None and record.scope != run.site.gates:
        yield _other("scope", ", ".join(record.scope), ", ".join(run.site.gates))
    if (run.path / ASKED).is_file():
        lost = [phase for phase in requested_of(run).phases if record.phase(phase) is None]
        yield from [f"{RUN}: has no verdict of phase {', '.join(lost)}, and {ASKED} asks for it"] if lost else []


def _other(name: str, recorded: object, found: object) -> str:
    return f"{RUN}: {name}: recorded {recorded}, and the run's inventory has {found}"


# Judging a saved run again: from its observations to outcomes, and from its CTRF files to verdicts.

# The checks of the first release. Releases that did not record what their gates declared (declared.json) had at least
# these, so a run of them has their results. Other checks may be newer than the run; these may not.

FIRST_CHECKS = frozenset((
    "alert-delivery", "api-permissions", "cabling", "clock-sync", "cluster-policy-ready", "component-health",
    "dcgm-diag", "dra-allocation", "dra-slices", "driver-uniform", "fabric-manager", "facility-cooling",
    "facility-evidence", "facility-expiry", "facility-floor-load", "facility-pdus", "facility-power",
    "facility-signature", "gang-admission", "gpu-allocatable", "gpu-census", "gpu-ecc", "gpu-metrics-complete",
    "gpu-metrics-fresh", "gpu-metrics-known", "gpu-metrics-scraped", "gpu-metrics-unique", "gpu-pcie-link",
    "gpu-recovery-action", "gpu-row-remap", "hca-state", "host-reached", "inference-endpoint-ready",
    "inference-errors", "inference-smoke", "inference-throughput", "inference-tpot", "inference-ttft",
    "kernel-uniform", "kernel-xid", "link-errors", "link-present", "link-rate", "mig-mode", "nccl-all-nodes-bw",
    "nccl-intra-node-bw", "nccl-pair-bw", "nccl-results", "nccl-transport", "node-ready", "nvlink",
    "ofed-uniform", "os-uniform", "pci-census", "recipe-constraints", "subnet-manager", "topology",
    "training-completed", "training-gang-start", "training-loss", "training-mfu", "training-step-time",
    "training-stragglers",
))  # fmt: skip


_Key = tuple[str, tuple[Subject, ...]]


def rejudge(run: Run) -> tuple[RunRecord, list[str]]:
    """Return the run's record as computed now, and every difference to what was recorded.

    Raises:
        InputError: the directory has a what-if.
    """
    record = run.record
    if record.what_if:
        raise InputError(
            str(run.path), "is a what-if, nothing that was recorded.", "judge the run that it was made from"
        )
    differences = [*changed_files(run.path, record), *record_differences(run)]
    for recorded in record.gates:
        if recorded.status is Status.PENDING:
            continue
        if recorded.taken_over is not None:
            differences.extend(_not_as_taken_over(run, recorded))
            continue
        try:
            verdict, changed = _again(run, recorded)
        except BringupError as error:
            verdict = replace(
                recorded, status=Status.OTHER, message=f"gate {recorded.gate} is not passed: {_in_run(run, error)}"
            )
            changed = [f"gate {recorded.gate}: {_in_run(run, error)}"]
        differences.extend(changed)
        record = record.with_gate(verdict)
    for recorded in record.phases:
        if recorded.status is not Status.PENDING:
            verdict, changed = _phase_again(run, recorded)
            differences.extend(changed)
            record = record.with_phase(verdict)
    try:
        limits = own_limits(run) if is_decided(record) else record.own_limits
    except BringupError as error:
        limits, differences = record.own_limits, [*differences, str(error)]
    notes = record.notes if has_digests(record) or not is_decided(record) else (*record.notes, NONE_KEPT)
    rehearsal = record.rehearsal or bool(signs_of_rehearsal(run.path, record))
    record = replace(record, rehearsal=rehearsal, notes=notes, unconfirmed=len(differences), own_limits=limits)
    return record, differences


def _in_run(run: Run, error: BringupError) -> str:
    """Return the error with its subject; a file of the run by its path in it."""
    return f"{error.subject}: {error.reason}".replace(f"{run.path}/", "")


def _phase_again(run: Run, recorded: GateVerdict) -> tuple[GateVerdict, list[str]]:
    """Return a phase's verdict as computed now, and every difference to what was recorded."""
    phase = recorded.gate
    try:
        if phase not in PHASE_GATES:
            from ..continuous.cycle_record import cycle_outcomes, cycle_verdict

            written, judged = read_phase_outcomes(run.path, phase, (phase,)), cycle_outcomes(run, phase)
            verdict = cycle_verdict(run, phase, judged, recorded.message)
        else:
            declaration, written = _phase_then(run, recorded)
            judged = phase_outcomes(run, declaration)
            verdict = phase_verdict(run, declaration, judged)
        changed = changed_results(phase, written, judged)
    except BringupError as error:
        text = f"phase {phase} is not passed: {_in_run(run, error)}"
        return replace(recorded, status=Status.OTHER, message=text), [f"phase {phase}: {_in_run(run, error)}"]
    return _as_confirmed("phase", recorded, verdict, changed)


def _phase_then(run: Run, recorded: GateVerdict) -> tuple[PhaseDeclaration, tuple[Outcome, ...]]:
    """Return what a phase declared when it was judged (see declaration_then), and its recorded results."""
    declaration = declared_phase(run, requested_of(run), recorded.gate)
    written = read_phase_outcomes(run.path, recorded.gate, declaration.gates)
    known = {outcome.check for outcome in written}
    if has_digests(run.record):
        known = set(_declared_then(run, recorded.gate))
    elif len({outcome.check for outcome in written if outcome.status is not Status.SKIPPED}) != recorded.checks:
        return declaration, written
    return declaration.without_newer(known), written


def _as_confirmed(
    what: str, recorded: GateVerdict, computed: GateVerdict, changed: list[str]
) -> tuple[GateVerdict, list[str]]:
    """Return the verdict as computed. It opens nothing if its results differ from the recorded ones."""
    name = recorded.gate
    if computed.status is not recorded.status:
        changed = [*changed, f"{what} {name}: recorded {recorded.status.value}, computed {computed.status.value}"]
    if changed and computed.opens_next:
        text = f"{what} {name} is not passed: {count(len(changed), 'difference')} to what was recorded"
        computed = replace(computed, status=Status.OTHER, message=text, key_figure="")
    return replace(computed, started=recorded.started, duration_s=recorded.duration_s), changed


def rewrite_reports(run: Run, record: RunRecord, differences: Sequence[str]) -> bool:
    """Write every report of the run again, as judged now, and return whether one of them changed.

    Observations, CTRF files and run.json stay as they are.

    Raises:
        OSError: the directory cannot be written.
    """
    paths = [run.path / name for name in REPORTS]
    paths += [junit_path(run.path, verdict.gate) for verdict in record.gates]
    before = [path.read_bytes() if path.is_file() else b"" for path in paths]
    for verdict in record.gates:
        if ctrf_path(run.path, verdict.gate).is_file():
            _rewrite_junit(run, verdict.gate, rehearsal=record.rehearsal)
    run.write_report(record, tuple(differences))
    return before != [path.read_bytes() if path.is_file() else b"" for path in paths]


def _rewrite_junit(run: Run, gate: str, *, rehearsal: bool) -> None:
    try:
        outcomes = run.own_outcomes(gate)
    except BringupError:
        # The page reports that the file cannot be read; its JUnit file is left alone.
        return
    write_junit(junit_path(run.path, gate), gate, outcomes, rehearsal=rehearsal)


def _not_as_taken_over(run: Run, recorded: GateVerdict) -> list[str]:
    """Return what the file of a gate that was not run has beside the takeover. The passes are judged in their own
    runs."""
    try:
        written = run.own_outcomes(recorded.gate)
    except InputError as error:
        return [f"gate {recorded.gate}: {error}"]
    wrong = sum(outcome.status is not Status.SKIPPED for outcome in written)
    text = f"gate {recorded.gate}: taken over, and yet {wrong} of {len(written)} results are not skipped"
    return [text] if wrong or len(written) != recorded.counts.get(Status.SKIPPED.value) else []


def _again(run: Run, recorded: GateVerdict) -> tuple[GateVerdict, list[str]]:
    gate = recorded.gate
    declaration, judged = declaration_then(run, gate), judged_again(run, gate)
    changed = [*changed_results(gate, run.own_outcomes(gate), judged), *_failing_without_results(run, gate)]
    return _as_confirmed("gate", recorded, verdict_of(run, declaration, judged), changed)


def declaration_then(run: Run, gate: str) -> GatePlan:
    """Return what the gate declared when it was judged: without the checks that are newer than the run.

    The run recorded it (declared.json). In a run of a release that did not, a check without a result is newer only if
    the run recorded as many checks as there are results. Otherwise the results of a check were removed since.
    """
    declaration, recorded = run.declaration(gate), run.record.gate(gate)
    if has_digests(run.record):
        known = set(_declared_then(run, gate))
    else:
        known = {outcome.check for outcome in run.own_outcomes(gate)}
        if len(known) + len(foreign_suites(run.site, gate)) != recorded.checks:
            return declaration
    newer = tuple(
        NotDeclared(id=check.id, title=check.spec.title, reason="the check is newer than the run")
        for check in declaration.checks
        if check.id not in known
    )
    return replace(declaration.only(known), not_declared=(*declaration.not_declared, *newer))


def _declared_then(run: Run, gate: str) -> list[str]:
    """Return the checks that a gate or phase declared when it was judged.

    Raises:
        InputError: the run has no such entry.
    """
    declared = (run.declared or {}).get(gate)
    if declared is None:
        raise InputError(
            str(run.path / DECLARED), f"does not say what {gate} declared, and its release wrote it.", "run it again"
        )
    return declared


def _failing_without_results(run: Run, gate: str) -> list[str]:
    """Return the checks that fail on the observations and have no result, in a run that did not record what it
    declared.

    The release of the run had these checks, so their results were removed since.
    """
    if has_digests(run.record):
        return []
    kept = {check.id for check in declaration_then(run, gate).checks}
    whole = run.declaration(gate)
    left = whole.only(FIRST_CHECKS - kept)
    if not left.checks:
        return []
    found = judge_gate(left, run.judge_context(gate, run_day(run.record)), run.path)
    return changed_results(gate, (), tuple(outcome for outcome in found if outcome.status is Status.FAILED))


def judged_again(run: Run, gate: str, site: Site | None = None) -> tuple[Outcome, ...]:
    """Return the outcomes of a gate from its saved observations as judged now; `site` if it is not the run's own."""
    context = run.judge_context(gate, run_day(run.record))
    if site is not None:
        context = replace(context, site=site)
    outcomes = judge_gate(declaration_then(run, gate), context, run.path)
    return (*outcomes, *compare_gate(gate, outcomes, context).outcomes)


def changed_results(
    gate: str,
    written: tuple[Outcome, ...],
    judged: tuple[Outcome, ...],
    words: tuple[str, str] = ("recorded", "computed"),
) -> list[str]:
    """Return a line for each check and subject for which the two differ; `words` are their names."""
    then, now = _by_subjects(written), _by_subjects(judged)
    return [
        f"{gate}: {check} on {names_of(subjects)}: {words[0]} {_word(then, key)}, {words[1]} {_word(now, key)}"
        for key in sorted(then.keys() | now.keys())
        if then.get(key) != now.get(key)
        for check, subjects in [key]
    ]


def _by_subjects(outcomes: tuple[Outcome, ...]) -> dict[_Key, list[tuple[str, str]]]:
    found: dict[_Key, list[tuple[str, str]]] = {}
    for outcome in outcomes:
        found.setdefault((outcome.check, outcome.subjects), []).append((outcome.status.value, outcome.cause))
    return found


def _word(found: dict[_Key, list[tuple[str, str]]], key: _Key) -> str:
    return ", ".join(f"{status} {cause}".strip() for status, cause in found.get(key, [])) or "nothing"


# What a saved run would result in with other settings: judged from its observations into a separate directory. The run
# itself is only read. The result is labelled in its record, its sentence and its page, has a separate run id, and is
# neither recorded in the history nor exported as JUnit or metrics.

_LINKED = ("evidence", "observations")
_OWN_DIRECTORY = "name a directory of its own, or none"
_COPIED = ("cabling.json", "hardware.json", "recipe.json", "settings.json", "baseline.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingChange:
    """A setting that differs from that of the run. `applies`: it decides what is good, not how to observe."""

    key: str
    name: str
    before: Any
    now: Any
    applies: bool

    def __str__(self) -> str:
        return f"{self.key}.{self.name}={_typed(self.now)} (was {_typed(self.before)})"


def _typed(value: Any) -> str:
    """Return a value as a person types it: `0.0000001`, never `1e-07`."""
    return f"{Decimal(str(value)):f}" if isinstance(value, float) and math.isfinite(value) else str(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIf:
    """The second judgement: its directory, its verdicts, and the results that differ from those of the run."""

    run_dir: Path
    record: RunRecord
    results: tuple[str, ...]


def changed_settings(run: Run, configured: Mapping[str, Any]) -> tuple[SettingChange, ...]:
    """Return what differs in `configured` from the settings that the run was judged with.

    Args:
        run: the saved run.
        configured: settings by gate or check id and name, as in `gpufleet_settings`.

    Raises:
        ProblemsError: everything that is wrong with them, as in preflight.
    """
    kinds = all_settings(run.site.check_dirs)
    problems = load_settings(kinds, (*shipped_layers(kinds, run.site.check_dirs), Layer(SITE, configured)))[1]
    if problems:
        raise ProblemsError("what-if settings", tuple(problems))
    return _what_if_changes(run, configured, kinds)


def changed_thresholds(run: Run, recipe_data: Sequence[str]) -> tuple[SettingChange, ...]:
    """Return what differs in the current thresholds, and in private ones, from those that were saved with the run.

    Raises:
        InputError: a file of thresholds cannot be read.
        ProblemsError: everything that is wrong in the files.
    """
    kinds = all_settings(run.site.check_dirs)
    layers = shipped_layers(kinds, (*run.site.check_dirs, *recipe_data))
    problems = load_settings(kinds, layers)[1]
    if problems:
        raise ProblemsError("thresholds", tuple(problems))
    configured: dict[str, Any] = {}
    for layer in layers:
        configured = laid_over(configured, layer.stated)
    mine = stated_by_thresholds(run.path, configured)
    return tuple(
        change
        for change in _what_if_changes(run, mine, kinds)
        if change.name not in run.site.settings.get(change.key, {})
    )


def _settings_of(classes: Sequence[type[Any]]) -> dict[str, Setting]:
    return {name: entry for kind in classes for name, entry in settings_in(kind).items()}


def _what_if_changes(run: Run, configured: Mapping[str, Any], kinds: Kinds) -> tuple[SettingChange, ...]:
    found = []
    for key, options in configured.items():
        known = _settings_of(kinds[key])
        before = resolved(shipped(key, *kinds[key]), run.settings.get(key), run.site.settings.get(key, {}))
        now = merged(before, options)
        found += [
            SettingChange(
                key=key, name=name, before=before.get(name), now=now[name], applies=known[name].use == "judge"
            )
            for name in options
            if now[name] != before.get(name)
        ]
    return tuple(found)


def what_if(run: Run, changes: Sequence[SettingChange], directory: Path | None = None) -> WhatIf:
    """Judge the observations of a run by changed settings, and write the reports into a separate directory.

    Args:
        run: the saved run, which stays as it is.
        changes: the settings; those that do not apply to judging are left out.
        directory: where to write; a new one below `what-if/` beside the run if not given.

    Raises:
        InputError: the directory is in use, or is in the run.
    """
    applied = [change for change in changes if change.applies]
    target = _made(run, directory)
    settings = run.site.settings
    for change in applied:
        settings = laid_over(settings, {change.key: {change.name: change.now}})
    other = Run(target)
    other.save_site(replace(run.site, settings=settings))
    record = replace(
        run.record,
        run_id=f"{run.record.run_id}-what-if",
        what_if=", ".join(map(str, applied)),
        command="",
        kept_command="",
        history=False,
    )
    results: list[str] = []
    for recorded in record.gates:
        if _is_judged(recorded):
            record = record.with_gate(_judged(run, other, record, recorded, results))
    other.save_record(record)
    return WhatIf(run_dir=target, record=record, results=tuple(results))


def _is_judged(recorded: GateVerdict) -> bool:
    """Whether the gate was judged in that run: it was reached, not taken over, and its converge step did not fail."""
    converged = all(entry.check != "converge" for entry in recorded.blocking)
    return recorded.status is not Status.PENDING and recorded.taken_over is None and converged


def _judged(run: Run, other: Run, record: RunRecord, recorded: GateVerdict, results: list[str]) -> GateVerdict:
    gate = recorded.gate
    outcomes = judged_again(run, gate, other.site)
    results += changed_results(gate, run.own_outcomes(gate), outcomes, ("recorded", "would be"))
    write_suite(
        ctrf_path(other.path, gate), gate, outcomes,
        run_id=record.run_id, rehearsal=record.rehearsal, version=collection_version(),
    )  # fmt: skip
    other.record = record
    verdict = verdict_from_files(other, declaration_then(run, gate))
    return replace(verdict, started=recorded.started, duration_s=recorded.duration_s)


def _made(run: Run, directory: Path | None) -> Path:
    """Create the directory, with what is the same as in the run."""
    target = _what_if_directory(run, directory)
    try:
        target.mkdir(parents=True, exist_ok=True)
        target.chmod(run.path.stat().st_mode & 0o777)
        for name in _LINKED:
            # So that the links of the page lead to the evidence.
            (target / name).symlink_to(os.path.relpath(run.path / name, target))
        for name in (name for name in _COPIED if (run.path / name).is_file()):
            shutil.copy(run.path / name, target / name)
        if (run.path / "ctrf").is_dir():
            shutil.copytree(run.path / "ctrf", target / "ctrf")
    except OSError as error:
        raise InputError(str(target), f"cannot hold a what-if: {error.strerror}.", _OWN_DIRECTORY) from None
    return target


def _what_if_directory(run: Run, directory: Path | None) -> Path:
    """Return where a what-if is written; a new directory below `what-if/` beside the run if none is named.

    Raises:
        InputError: it is in use, or is in the run.
    """
    target = directory.expanduser().absolute() if directory else _next_free(run.path.parent / "what-if" / run.path.name)
    hint = _OWN_DIRECTORY
    if target.resolve().is_relative_to(run.path.resolve()):
        raise InputError(str(target), "lies in the run, which stays as it is.", hint)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise InputError(str(target), "is there and not empty.", hint)
    return target


def _next_free(base: Path) -> Path:
    number = 1
    while (found := base.with_name(f"{base.name}-{number}")).exists():
        number += 1
    return found


_BY_CURRENT = "-e gpufleet_thresholds=current"


def judge_run(
    run: Run, options: Mapping[str, Any], emit: Emit, *, write: bool, by: str = _BY_CURRENT, table_last: bool = False
) -> dict[str, Any]:
    """Return the verdicts of a saved run as computed now, and print them; `passed`: nothing blocks the run.

    Args:
        run: the saved run.
        options: those of module judge (settings, set, thresholds, recipe_data, what_if_dir).
        emit: takes a line of text.
        write: write the reports again, and a what-if; observations and records stay in any case.
        by: what judges by the current thresholds.
        table_last: the caller prints the table, which is `table` of the result.

    Raises:
        BringupError: the run cannot be read, or settings are wrong.
    """
    if options["settings"] or options["set"] or options["recipe_data"] or options["what_if_dir"]:
        # Errors in the request are reported before anything is computed and written.
        _changes(run, options, by)
        _what_if_directory(run, _stated_directory(options))
    record, differences = rejudge(run)
    changed, warnings = _rewritten(run, record, differences) if write else (False, [])
    notes = [f"note: {text}" for text in record.notes if text not in run.record.notes]
    table = decided_table(record)
    reported = [*(f"differs: {text}" for text in differences), *notes, f"verdict  {run_summary(record)}"]
    for line in reported if table_last else [*table, *reported]:
        emit(line)
    if write:
        emit(f"report: {run.path / 'report.html'}")
    passed = nothing_holds(record)
    result = {
        "changed": changed,
        "verdict": run_summary(record),
        "gates": to_plain(record.gates),
        "phases": to_plain(record.phases),
        "differences": differences,
        "exit_code": 0 if passed else 8,
    }
    if table_last:
        result["table"] = table
    if warnings:
        result["warnings"] = warnings
    changes, remarks = _changes(run, options, by)
    for line in remarks:
        emit(line)
    second = _second(run, changes, _stated_directory(options), emit, write=write)
    if second:
        result["what_if"] = second
    return result | {"passed": passed}


def _stated_directory(options: Mapping[str, Any]) -> Path | None:
    return Path(options["what_if_dir"]) if options["what_if_dir"] else None


def _second(
    run: Run, changes: Sequence[SettingChange], directory: Path | None, emit: Emit, *, write: bool
) -> dict[str, Any]:
    """Judge by other settings, if there are any, and show that as a second verdict; the first one stays."""
    for change in (change for change in changes if not change.applies):
        emit(f"what if: {change} is not applied: it says how to look, and this run has looked already")
    applied = [change for change in changes if change.applies]
    if not applied:
        return {}
    if not write:
        emit("what if: not judged, because it writes a directory and nothing is to be written")
        return {}
    found = what_if(run, applied, directory)
    lines = decided_table(found.record)
    for line in ["", "WHAT IF", *lines, *(f"changes: {text}" for text in found.results), run_summary(found.record)]:
        emit(line)
    emit(f"report: {found.run_dir / 'report.html'}")
    return {
        "verdict": run_summary(found.record),
        "gates": to_plain(found.record.gates),
        "settings": [str(change) for change in applied],
        "results": list(found.results),
        "run_dir": str(found.run_dir),
    }


def _changes(run: Run, options: Mapping[str, Any], by: str) -> tuple[tuple[SettingChange, ...], list[str]]:
    """Return the settings for the second judgement, and notes about thresholds beside them."""
    absent = [text for text in options["recipe_data"] if not Path(text).expanduser().is_dir()]
    if absent:
        raise NotFoundError(f"recipe data {absent[0]}", "is no directory.", "name a directory with thresholds")
    configured = changed_settings(run, merged_settings(options["settings"], options["set"], {}))
    thresholds = changed_thresholds(run, options["recipe_data"])
    if options["thresholds"] == "current":
        mine = {(change.key, change.name) for change in configured}
        return (*(change for change in thresholds if (change.key, change.name) not in mine), *configured), []
    if not thresholds:
        return configured, []
    names = ", ".join(f"{change.key}.{change.name}" for change in thresholds)
    remark = f"thresholds are not those of the run: {names}; judge by them: {by}"
    return configured, [remark]


def _rewritten(run: Run, record: RunRecord, differences: list[str]) -> tuple[bool, list[str]]:
    """Write the reports again. An archive that cannot be written is judged all the same."""
    try:
        return rewrite_reports(run, record, differences), []
    except OSError as error:
        return False, [f"the reports of {run.path} are not written again: {error.strerror}"]
