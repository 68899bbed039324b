# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check link-rate: every link runs at the width and speed that the plan rates it at."""

from __future__ import annotations

from ...outcome.model import Basis, Expectation, Measure, Outcome, SubjectKind
from ...outcome.wording import count
from ...probe.iblinkinfo import LinkEnd
from ...site.cabling import LANE_GBPS
from ..kit.answer import Answer
from ..kit.finding import Finding, Report
from ..spec import Check, CheckSpec, Disturbance, JudgeContext, needs
from .fabric_facts import FabricFacts
from .links import CABLE, REQUIRES, evidence_of, judge_links
from .observe_fabric import OBSERVER
from .overlay import CableState, lay_over, link_subjects

SPEC = CheckSpec(
    id="link-rate",
    gate="fabric",
    title="Every link at rated width and speed",
    per=SubjectKind.SITE,
    disturbs=Disturbance.HOST_COMMAND,
    applies=(needs(*REQUIRES),),
    causes=("degraded-width", "degraded-speed"),
)
# The tools print rates with five digits.
_ROUNDING = 0.001


def judge(observed: FabricFacts, context: JudgeContext) -> tuple[Outcome, ...]:
    """Judge the width and speed that the ports report against those of the plan."""
    return judge_links(SPEC, observed, context, _judge)


def _judge(answer: Answer, observed: FabricFacts) -> Report | Outcome:
    overlay = lay_over(observed, answer.context.site)
    running = [(entry, entry.running) for entry in overlay.cables if entry.running]
    if not running:
        return answer.blocked(by="link-present", because=f"none of {len(overlay.cables)} planned links is up")
    reported = [(entry, [end for end in ends if end.width]) for entry, ends in running]
    findings = [finding for entry, ends in reported if ends and (finding := _finding(entry, min(ends, key=_rate)))]
    unread = [entry.link.name for entry, ends in reported if not ends]
    if unread and not findings:
        text = f"`iblinkinfo` prints no width and speed of {count(len(unread), 'link')}: {', '.join(unread[:4])}"
        hint = "run `iblinkinfo -l` there and read the line of that port; newer infiniband-diags know newer speeds"
        return answer.unknown("rate-not-printed", text, hint, evidence=evidence_of(observed, "iblinkinfo -l"))
    rates = sorted({f"{entry.link.width} {entry.link.speed}" for entry, _ends in running})
    return Report(
        summary=f"{count(len(running), 'link')} at {', '.join(rates)}",
        findings=tuple(findings),
        measured=(Measure("links", len(running), "count"),),
        evidence=evidence_of(observed, "iblinkinfo -l"),
    )


def _rate(end: LinkEnd) -> float:
    """Return the signalling rate of the whole link in Gb/s; where its ends disagree the slower one counts."""
    return int(end.width.removesuffix("X")) * end.lane_gbps


def _finding(entry: CableState, end: LinkEnd) -> Finding | None:
    link = entry.link
    lanes, rated = int(end.width.removesuffix("X")), link.lane_gbps
    narrow, slow = lanes < link.lanes, end.lane_gbps < rated * (1 - _ROUNDING)
    if not narrow and not slow:
        return None
    observed = f"{lanes}x {_speed(end.lane_gbps)} ({lanes} x {end.lane_gbps} Gb/s)"
    return Finding(
        cause="degraded-width" if narrow else "degraded-speed",
        text=f"{link.name}: {observed}, rated {link.width} {link.speed} ({link.lanes} x {rated} Gb/s)",
        hint=CABLE,
        subjects=link_subjects(link),
        measured=(Measure("link_lanes", lanes, "count"), Measure("link_lane_rate", end.lane_gbps, "Gb/s")),
        expected=(
            Expectation("link_lanes", ">=", link.lanes, Basis.INVENTORY, "count"),
            Expectation("link_lane_rate", ">=", rated, Basis.INVENTORY, "Gb/s"),
        ),
    )


def _speed(lane_gbps: float) -> str:
    return next((name for name, lane in LANE_GBPS.items() if abs(lane - lane_gbps) <= lane * _ROUNDING), "?")


CHECK = Check(SPEC, OBSERVER, judge)
