# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check dcgm-health: the health watches of DCGM report no fault.

`dcgmi health -c` loads nothing and reports only what was watched before. Where no watches were set (`dcgmi health -s
a`) it prints that in place of a report. This is usual, and then the diagnostic judges the GPUs.

Parser of `dcgmi health -c -j`: what DCGM's watches have found since they were set.

dcgmi prints every JSON as `body`, in which a row has a `value`, or `children` by name (NVIDIA/DCGM, dcgmi).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ...collect.host_facts import FleetFacts
from ...collect.tool_reading import ProbeFailure
from ...outcome.model import Basis, Expectation, Measure, Outcome, SubjectKind
from ...probe.json_output import an_object, read_json
from ...probe.text import unreadable
from ..kit.finding import Finding, Report
from ..kit.settings import setting
from ..spec import Check, CheckSpec, Disturbance, JudgeContext, needs
from .dcgm_diag_settings import DCGM_DIAG, DcgmDiagSettings
from .node_context import NodeContext, per_host
from .observe_hosts import OBSERVER

_TOOL = "dcgmi health -c -j"
_OVERALL = "Overall Health"
_TITLE = "Health Monitor Report"
_KNOWN = ("Healthy", "Warning", "Failure")
_DEEPEST = 12


@dataclass(frozen=True, slots=True)
class HealthLine:
    """One line of the report below the overall health: `place` such as `GPU / 0 / Errors`."""

    place: str
    text: str


@dataclass(frozen=True, slots=True)
class DcgmHealth:
    """The report; `overall` is Healthy, Warning or Failure."""

    overall: str
    lines: tuple[HealthLine, ...] = ()


def parse(text: str) -> DcgmHealth:
    """Return the report; text before the first brace is ignored.

    Raises:
        InputError: no JSON object, another report, or a health that nobody knows.
    """
    start = max(text.find("{"), 0)
    root = an_object(read_json(text[start:], _TOOL), _TOOL, "the document")
    header = root.get("header")
    if not isinstance(header, list) or _TITLE not in header:
        raise unreadable(_TOOL, f"header {header!r}", f"`{_TITLE}`")
    body = an_object(root.get("body"), _TOOL, "body")
    overall = an_object(body.get(_OVERALL), _TOOL, _OVERALL).get("value")
    if overall not in _KNOWN:
        raise unreadable(_TOOL, f"{_OVERALL} {overall!r}", ", ".join(_KNOWN))
    lines = (line for name, value in body.items() if name != _OVERALL for line in _lines(name, value, 0))
    return DcgmHealth(str(overall), tuple(lines))


def _lines(place: str, value: Any, depth: int) -> Iterator[HealthLine]:
    if depth > _DEEPEST:
        raise unreadable(_TOOL, f"more than {_DEEPEST} levels", "a report of GPUs and switches")
    entry = an_object(value, _TOOL, place)
    reported = entry.get("value")
    if reported is not None and str(reported).strip():
        yield HealthLine(place, str(reported).strip()[:400])
    for name, child in an_object(entry.get("children", {}), _TOOL, f"children of {place}").items():
        yield from _lines(f"{place} / {name}", child, depth + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class DcgmHealthSettings:
    """Settings of check dcgm-health."""

    watches_required: bool = setting("Whether a host whose health DCGM does not watch is held.", default=False)


SPEC = CheckSpec(
    id="dcgm-health",
    gate="nodes",
    title="DCGM's watches saw no fault",
    per=SubjectKind.NODE,
    disturbs=Disturbance.HOST_COMMAND,
    applies=(needs("host_access", "host_driver"),),
    causes=("dcgm-health-failure",),
    settings=DcgmHealthSettings,
)
_FACT = "dcgm_health"
_HEALTHY, _FAILURE = "Healthy", "Failure"
# NVIDIA/DCGM, dcgmi/Health.cpp.
_NO_WATCHES = "health watches not enabled"
_LINES = 3
_WORDS = (_HEALTHY, "Warning", _FAILURE)
_BELOW = " / "
_IMEX = re.compile(r"\bIMEX (?:daemon|domain)\b", re.I)
_NVLINK_DOWN = re.compile(r"\bNvLink link \d+ is currently down\b", re.I)


def judge(observed: FleetFacts, context: JudgeContext) -> tuple[Outcome, ...]:
    """Judge every host: Failure fails, Warning is for a person to decide."""
    return per_host(SPEC, observed, context, _judge)


def _judge(host: NodeContext) -> Report | Outcome:
    health = host.facts.read(_FACT, DcgmHealth)
    if isinstance(health, ProbeFailure):
        return _unread(host, health)
    # A part that the SKU lacks, or that check imex-domain judges, proves nothing about the health of a GPU.
    foreign = [line for line in health.lines if _foreign(host, line.text)]
    mine = [line for line in health.lines if line.text != _HEALTHY and line not in foreign]
    reported = [f"{line.place}: {line.text}" for line in mine]
    ignored = bool(foreign) and all(_sums_up(line, foreign) for line in mine)
    findings: tuple[Finding, ...] = ()
    if health.overall != _HEALTHY and not ignored:
        failed = health.overall == _FAILURE
        more = f" and {len(reported) - _LINES} more" if len(reported) > _LINES else ""
        finding = Finding(
            cause="dcgm-health-failure" if failed else "dcgm-health-warning",
            text=f"{health.overall}: {'; '.join(reported[:_LINES]) or 'no line says of what'}{more}",
            hint="`dcgmi health -c` on the node, then `dcgmi diag -r 3`; `dcgmi health -s a` begins to watch anew",
            marginal=not failed,
        )
        findings = (finding,)
    note = f", beside what {host.sku.name} does not have or imex-domain judges: {foreign[0].text}" if ignored else ""
    return Report(
        summary=f"DCGM's watches report no fault{note}",
        findings=findings,
        measured=(Measure("overall_health", health.overall),),
        expected=(Expectation("overall_health", "==", _HEALTHY, Basis.RULE),),
        evidence=host.evidence(_FACT),
    )


def _sums_up(line: HealthLine, foreign: Sequence[HealthLine]) -> bool:
    """Whether a line only repeats the state above such complaints; one of another subsystem is a fault without a
    text."""
    return line.text in _WORDS and any(each.place.startswith(f"{line.place}{_BELOW}") for each in foreign)


def _foreign(host: NodeContext, text: str) -> bool:
    """Whether a complaint is about IMEX (NVIDIA/NVSentinel#1471, DCGM#308), or about NVLinks that the SKU lacks."""
    return bool(_IMEX.search(text)) or (host.sku.nvlink_links == 0 and bool(_NVLINK_DOWN.search(text)))


def _unread(host: NodeContext, failure: ProbeFailure) -> Report | Outcome:
    requested = host.context.settings_of(DCGM_DIAG, DcgmDiagSettings, host.entry.sku).level > 0
    if _NO_WATCHES in failure.text.lower():
        instead = "; the diagnostic judges its GPUs" if requested else ", and no diagnostic is asked of it"
        text = f"nobody has DCGM watch the health of this host{instead}"
        if host.settings(DcgmHealthSettings).watches_required:
            hint = "`dcgmi health -s a` on the node; its watches need a minute until they know"
            proof = host.evidence(_FACT)
            return host.answer.unknown("dcgm-health-not-watched", "DCGM watches nothing", hint, evidence=proof)
        return Report(summary=text, evidence=host.evidence(_FACT))
    diag = host.facts.diag
    if isinstance(diag, ProbeFailure) and diag.kind == failure.kind:
        # The same program did not run for the diagnostic, and check dcgm-diag reports it.
        return host.answer.blocked(by=DCGM_DIAG, because="`dcgmi` gave nothing usable")
    if failure.kind == "missing" and not requested and not host.settings(DcgmHealthSettings).watches_required:
        return Report(summary="DCGM is not installed, and no diagnostic is asked of it", evidence=host.evidence(_FACT))
    return host.tool_failure(_FACT, failure)


CHECK = Check(SPEC, OBSERVER, judge)
