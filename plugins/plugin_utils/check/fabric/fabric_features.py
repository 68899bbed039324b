# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check fabric-features: switches use adaptive routing and in-network reduction (SHARP) as the site configured.

Declared where the site configures it. For SHARP the gate checks that every switch has its aggregation node and that the
vendor's diagnosis has no error about them. Where the site wants it, SHARP's own test shows that a job can be created:
without aggregation manager or reservation NCCL falls back to rings without any message. Whether jobs use SHARP, only
the log of NCCL shows.
"""

from __future__ import annotations

from ...collect.tool_reading import ProbeFailure
from ...outcome.model import Measure, Outcome, SubjectKind
from ...outcome.wording import count
from ...probe.fabric_summary import FabricSummary
from ...probe.sharp_hello import SharpJob
from ...runtime.host_tools import load_host_tools
from ..kit.answer import Answer
from ..kit.finding import Finding, Report
from ..spec import Check, CheckSpec, Disturbance, JudgeContext, needs
from .fabric_facts import FabricFacts
from .features_settings import FABRIC_FEATURES, FabricFeaturesSettings
from .links import REQUIRES, evidence_of, judge_links, unusable
from .observe_fabric import OBSERVER

SPEC = CheckSpec(
    id=FABRIC_FEATURES,
    gate="fabric",
    title="Adaptive routing and SHARP as stated",
    per=SubjectKind.SITE,
    disturbs=Disturbance.HOST_COMMAND,
    duration_s=120.0,
    applies=(needs(*REQUIRES, "fabric_features"),),
    causes=(
        "adaptive-routing-off",
        "adaptive-routing-on",
        "sharp-nodes-missing",
        "sharp-errors",
        "sharp-job-refused",
    ),
    settings=FabricFeaturesSettings,
)
_TOOL, _STAGE, _JOB_TOOL = "ibdiagnet_features", "SHARP", "sharp_hello"
_ENGINE = (
    "`routing_engine` in the subnet manager's opensm.conf (ar_updn and the like route adaptively), "
    "then `pkill -HUP opensm`"
)


def judge(observed: FabricFacts, context: JudgeContext) -> tuple[Outcome, ...]:
    """Judge each subnet by what is configured; what is not configured is not judged."""
    settings = context.settings_of(SPEC.id, FabricFeaturesSettings)
    return judge_links(SPEC, observed, context, lambda answer, facts: _judge(answer, facts, settings))


def _judge(answer: Answer, observed: FabricFacts, settings: FabricFeaturesSettings) -> Report | Outcome:
    tool = load_host_tools().named(_TOOL)
    proof = evidence_of(observed, tool.shown)
    of_switches = settings.adaptive_routing is not None or settings.sharp
    if not of_switches and not settings.sharp_job:
        hint = "state gpufleet_settings: {fabric-features: {adaptive_routing: true, sharp: true}}, or leave it out"
        return answer.unknown("nothing-stated", "neither adaptive routing nor SHARP is stated", hint, evidence=proof)
    findings: list[Finding] = []
    reported = []
    for subnet in observed.subnets:
        if settings.sharp_job:
            requested = load_host_tools().named(_JOB_TOOL)
            job = subnet.sharp_job or ProbeFailure(requested, "not-collected", f"{requested.shown} was not run")
            # Its errors go to stderr. That it exited with a status other than 0 is a valid result.
            if isinstance(job, ProbeFailure) and job.kind != "failed":
                return unusable(answer, observed, job)
            findings += _job(job, subnet.port)
            reported.append("a job of SHARP ran")
        if not of_switches:
            continue
        summary = subnet.features or ProbeFailure(tool, "not-collected", f"{tool.shown} was not run")
        if isinstance(summary, ProbeFailure):
            return unusable(answer, observed, summary)
        stage = next((stage for stage in summary.stages if stage.name == _STAGE), None)
        if settings.sharp and stage is None:
            text = "the diagnosis has no stage SHARP, so nothing is known of the aggregation nodes"
            return answer.unknown("sharp-not-reported", text, f"`{tool.shown}` on {observed.host}", evidence=proof)
        findings += _routing(summary, settings.adaptive_routing)
        findings += _sharp(summary, stage.errors if stage else 0) if settings.sharp else []
        reported.append(_reported(summary))
    return Report(summary="; ".join(reported), findings=tuple(findings), evidence=proof)


def _job(job: SharpJob | ProbeFailure, port: str) -> list[Finding]:
    if isinstance(job, SharpJob) and job.passed:
        return []
    reported = job.text if isinstance(job, ProbeFailure) else "; ".join(job.problems)
    text = f"no job of SHARP can be made{f' through {port}' if port else ''}: {reported}"
    hint = (
        "see that sharp_am runs beside the subnet manager (`systemctl status sharp_am`, or SHARP in UFM); "
        "`No reservation`: reserve SHARP for these hosts in UFM"
    )
    return [Finding(cause="sharp-job-refused", text=text, hint=hint)]


def _reported(summary: FabricSummary) -> str:
    return (
        f"{summary.adaptive} of {summary.switches} switches route adaptively, "
        f"{count(summary.aggregation_nodes, 'aggregation node')}"
    )


def _routing(summary: FabricSummary, wanted: bool | None) -> list[Finding]:
    measured = (Measure("switches_adaptive", summary.adaptive, "count"), Measure("switches", summary.switches, "count"))
    if wanted and summary.adaptive < summary.switches:
        text = f"{summary.adaptive} of {summary.switches} switches route adaptively, and the site states that all do"
        return [Finding(cause="adaptive-routing-off", text=text, hint=_ENGINE, measured=measured)]
    if wanted is False and summary.adaptive:
        text = f"{summary.adaptive} of {summary.switches} switches route adaptively, and the site states that none does"
        return [Finding(cause="adaptive-routing-on", text=text, hint=_ENGINE, measured=measured)]
    return []


def _sharp(summary: FabricSummary, errors: int) -> list[Finding]:
    found: list[Finding] = []
    nodes = summary.aggregation_nodes
    if nodes < summary.switches:
        text = f"{count(nodes, 'aggregation node')} for {summary.switches} switches"
        hint = "update the firmware of switches without one, and let sharp_am run beside the subnet manager"
        measured = (Measure("aggregation_nodes", nodes, "count"), Measure("switches", summary.switches, "count"))
        found.append(Finding(cause="sharp-nodes-missing", text=text, hint=hint, measured=measured))
    if errors:
        text = f"{count(errors, 'error')} in stage SHARP"
        hint = "read /var/tmp/ibdiagnet2/ibdiagnet2.sharp there, and the log of sharp_am"
        counted = (Measure("errors", errors, "count"),)
        found.append(Finding(cause="sharp-errors", text=text, hint=hint, measured=counted))
    return found


CHECK = Check(SPEC, OBSERVER, judge)
