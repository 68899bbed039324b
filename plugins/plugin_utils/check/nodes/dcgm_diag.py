# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check dcgm-diag: the diagnostic of DCGM ran at the required level and found nothing."""

from __future__ import annotations

import re

from ...collect.host_facts import FleetFacts
from ...outcome.model import Basis, Expectation, Measure, Outcome, Subject, SubjectKind
from ...outcome.wording import count
from ...probe.dcgmi_diag import DiagReport, DiagResult, DiagTest
from ...probe.nvidia_smi_xml import SmiLog
from ..kit.finding import Finding, Report
from ..spec import Check, CheckSpec, Disturbance, JudgeContext
from .dcgm_diag_settings import DCGM_DIAG, DURATION_S, DcgmDiagSettings
from .node_context import NodeContext, per_host, value_of
from .observe_hosts import OBSERVER

SPEC = CheckSpec(
    id=DCGM_DIAG,
    gate="nodes",
    title="dcgmi diag without Fail",
    per=SubjectKind.NODE,
    disturbs=Disturbance.HOST_COMMAND,
    duration_s=DURATION_S,
    needs_driver=True,
    causes=("dcgm-diag-failed", "dcgm-diag-thermal", "dcgm-diag-configuration"),
    settings=DcgmDiagSettings,
)
# DCGM's dcgm_errors.h: DCGM_ERROR_CONFIG, DCGM_FR_EC_SOFTWARE_CONFIG, DCGM_FR_EC_HARDWARE_THERMAL.
_CONFIGURATION = 5
_SOFTWARE_CONFIG, _HARDWARE_THERMAL = 3, 9
_PERSISTENCE = re.compile(r"persistence mode .*\bdisabled", re.I)
_HEAT = re.compile(r"\bthermal violations?\b|\btemperature .* exceeded\b", re.I)
# Such a message is about the moment of the test and proves nothing about a GPU (NVIDIA/DCGM#272: another GPU at each
# run).
_DISTURBED = re.compile(r"\bmay affect the results?\b|\bis not idle\b", re.I)
_SETTING = re.compile(r"persistence|permission|environment|library|denylist|nouveau", re.I)
_Pairs = list[tuple[DiagTest, DiagResult]]


def judge(observed: FleetFacts, context: JudgeContext) -> tuple[Outcome, ...]:
    """Judge every host: Fail fails, Warn (and a Pass with warnings) is marginal, a required test that did not run is
    unknown."""
    return per_host(SPEC, observed, context, _judge, needs=("diag",))


def _judge(host: NodeContext) -> Report | Outcome:
    diag, wanted = value_of(host.facts.diag), host.settings(DcgmDiagSettings).level
    observed = {"evidence": host.evidence("diag")}
    if diag.runtime_error:
        hint = "`dcgmi discovery -l`, `systemctl status nvidia-dcgm` on the node"
        return host.answer.unknown("dcgm-diag-not-run", f"did not run: {diag.runtime_error[:300]}", hint, **observed)
    if 0 < host.facts.diag_level < wanted:
        text = f"level {host.facts.diag_level} was run, level {wanted} is required"
        return host.answer.unknown(
            "dcgm-diag-level", text, "set gpufleet_nodes_diag_level to the required level", **observed
        )
    results = [(test, result) for test in diag.tests for result in test.results]
    failed = [pair for pair in results if pair[1].status == "fail"]
    if failed and _only_lost_gpus(host, failed):
        return host.answer.blocked(by="gpu-census", because="it fails only on GPUs that the driver has lost")
    warned = [pair for pair in results if pair[1].status == "warn" or (pair[1].status == "pass" and pair[1].warnings)]
    findings = tuple(_failure(host, test, result) for test, result in failed)
    findings += tuple(_warning(host, test, result) for test, result in warned)
    if findings:
        return _report(host, diag, wanted, findings)
    answer = _open_question(host, diag, wanted)
    read = isinstance(host.facts.smi, SmiLog)
    if (read and not host.live_gpus) or (not read and isinstance(answer, Outcome)):
        return host.answer.blocked(by="gpu-census", because="the driver lists no GPU that could be tested")
    return answer


def _report(host: NodeContext, diag: DiagReport, wanted: int, findings: tuple[Finding, ...] = ()) -> Report:
    skipped = sorted({test.key for test in diag.tests if any(r.status in ("skip", "not run") for r in test.results)})
    note = f"; skipped, not required: {', '.join(skipped)}" if skipped else ""
    return Report(
        summary=f"level {host.facts.diag_level or wanted}, {len(diag.tests)} tests, none failed{note}",
        findings=findings,
        measured=(
            Measure("level", host.facts.diag_level),
            Measure("tests", len(diag.tests), "count"),
            Measure("dcgm_version", diag.version),
        ),
        expected=(Expectation("level", ">=", wanted, Basis.RULE),),
        evidence=host.evidence("diag"),
    )


def _open_question(host: NodeContext, diag: DiagReport, wanted: int) -> Report | Outcome:
    """Return the report if every required test ran, else what is not known."""
    required = host.settings(DcgmDiagSettings).diag_required.get(str(wanted), ())
    absent = [name for name in required if not _named(diag, name)]
    skipped = [
        name
        for name in required
        if any(r.status in ("skip", "not run") for test in _named(diag, name) for r in test.results)
    ]
    observed = {"evidence": host.evidence("diag")}
    if skipped:
        text = f"required tests were skipped: {', '.join(skipped)}"
        hint = f"`dcgmi diag -r {wanted}` on the node says why (MIG mode, busy GPUs, ECC off)"
        return host.answer.unknown("dcgm-diag-skipped", text, hint, **observed)
    again = f"run `dcgmi diag -r {wanted} -j` again; `dcgmi discovery -l` must list all GPUs"
    if absent:
        text = f"required tests are not in the report: {', '.join(absent)}"
        return host.answer.unknown("dcgm-diag-incomplete", text, again, **observed)
    partial = [text for name in required if (text := _uncovered(host, diag, name))]
    if partial:
        return host.answer.unknown(
            "dcgm-diag-incomplete", f"not all GPUs were tested: {'; '.join(partial)}", again, **observed
        )
    status = host.facts.exits.get("diag", 0)
    if not host.facts.diag_level:
        text = "no test failed, and the command of the diagnostic does not say at which level it ran"
        return host.answer.unknown("dcgm-diag-level", text, again, **observed)
    if status:
        text = f"no test failed, and dcgmi ended with {status}"
        return host.answer.unknown("dcgm-diag-exit-status", text, again, **observed)
    return _report(host, diag, wanted)


def _uncovered(host: NodeContext, diag: DiagReport, name: str) -> str:
    """Return which GPUs a test covers, if those are not all; empty if they are.

    The test `software` of DCGM 3 judges the node as a whole, without GPUs by number.
    """
    expected = len(host.live_gpus) if isinstance(host.facts.smi, SmiLog) else host.sku.gpus
    tested = frozenset(number for test in _named(diag, name) for number in test.gpus)
    if len(tested) >= expected or (not tested and _of_the_whole(diag, name, expected)):
        return ""
    numbers = ", ".join(map(str, sorted(tested))) or "no GPU by its number"
    return f"{name} has results of {numbers}, expected {count(expected, 'GPU')}"


def _of_the_whole(diag: DiagReport, name: str, expected: int) -> bool:
    return expected == 1 or (name == "software" and diag.schema == "3")


def _named(diag: DiagReport, name: str) -> list[DiagTest]:
    """Return the tests of that name. Where DCGM 4 has the test `software`, DCGM 3 has a whole category."""
    whole = name == "software"
    return [test for test in diag.tests if test.key == name or (whole and test.category == "Deployment")]


def _only_lost_gpus(host: NodeContext, failed: _Pairs) -> bool:
    if not isinstance(host.facts.smi, SmiLog):
        return False
    lost = {host.gpu(gpu.bus_id) for gpu in host.smi.gpus if gpu.trouble}
    return bool(lost) and all(result.gpus and set(_gpus(host, result)) <= lost for _test, result in failed)


def _failure(host: NodeContext, test: DiagTest, result: DiagResult) -> Finding:
    gpus = _gpus(host, result)
    if result.warnings and all(_DISTURBED.search(warning.text) for warning in result.warnings):
        hint = f"end what uses the GPUs of {host.name}, run `dcgmi diag -r {test.key}` alone, then the gate again"
        return Finding(cause="dcgm-diag-disturbed", text=_text(test, result), hint=hint, marginal=True)
    if _is_setting(test, result):
        cause, hint = "dcgm-diag-configuration", "fix the setting that it names, then run the gate again"
        if any(_PERSISTENCE.search(warning.text) for warning in result.warnings):
            hint = f"`nvidia-smi -pm 1` on {host.name}, or start nvidia-persistenced; then run the gate again"
    elif _is_heat(result):
        cause = "dcgm-diag-thermal"
        hint = f"look at fans, airflow and heat sinks or coolant of {host.name}; then run `dcgmi diag -r 3` again"
    else:
        cause = "dcgm-diag-failed"
        hint = f"drain {host.name}, reset the GPU, run `dcgmi diag -r 3` again; replace the GPU if it fails twice"
    return Finding(cause=cause, text=_text(test, result), hint=hint, subjects=gpus)


def _warning(host: NodeContext, test: DiagTest, result: DiagResult) -> Finding:
    return Finding(
        cause="dcgm-diag-warning",
        text=_text(test, result),
        hint="read the warning, run the gate again; accept it only with a reason",
        subjects=_gpus(host, result),
        marginal=True,
    )


def _gpus(host: NodeContext, result: DiagResult) -> tuple[Subject, ...]:
    """Return the GPUs by their serials: when one is gone, DCGM may number them differently from the driver."""
    serials = dict(value_of(host.facts.diag).serials)
    places: dict[str, list[str]] = {}
    for gpu in host.smi.gpus if isinstance(host.facts.smi, SmiLog) else ():
        places.setdefault(gpu.serial or "", []).append(gpu.bus_id)
    found: list[Subject] = []
    for number in result.gpus:
        same = places.get(serials.get(number, ""), [])
        found.append(host.gpu(same[0]) if len(same) == 1 else host.gpu_at(number))
    return tuple(found)


def _is_setting(test: DiagTest, result: DiagResult) -> bool:
    """Whether it is a wrong setting of the node and not a fault of its hardware."""
    if test.category != "Deployment" and test.key != "software":
        return False
    return bool(result.warnings) and all(
        warning.severity == _CONFIGURATION
        or warning.category == _SOFTWARE_CONFIG
        or _PERSISTENCE.search(warning.text) is not None
        or (warning.severity == 0 and _SETTING.search(f"{test.name} {warning.text}") is not None)
        for warning in result.warnings
    )


def _is_heat(result: DiagResult) -> bool:
    """Whether every message is about heat. The test itself has the name of what it loaded, such as GPU Memory."""
    return bool(result.warnings) and all(
        warning.category == _HARDWARE_THERMAL or _HEAT.search(warning.text) is not None for warning in result.warnings
    )


def _text(test: DiagTest, result: DiagResult) -> str:
    reported = "; ".join(warning.text for warning in result.warnings)[:240]
    gpus = f" on GPU {', '.join(map(str, result.gpus))}" if result.gpus else ""
    return f"{test.name}: {result.status}{gpus}{': ' + reported if reported else ''}"


CHECK = Check(SPEC, OBSERVER, judge)
