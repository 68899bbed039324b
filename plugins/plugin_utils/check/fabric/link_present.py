# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check link-present: every cable of the plan carries a signal."""

from __future__ import annotations

from ...outcome.model import Basis, Expectation, Measure, Outcome, Subject, SubjectKind, node_subject
from ..kit.answer import Answer
from ..kit.finding import Finding, Report
from ..spec import Check, CheckSpec, Disturbance, JudgeContext, needs
from .fabric_facts import FabricFacts
from .links import CABLE, REQUIRES, evidence_of, judge_links
from .observe_fabric import OBSERVER
from .overlay import CableState, Overlay, lay_over, link_subjects

SPEC = CheckSpec(
    id="link-present",
    gate="fabric",
    title="Every planned link present",
    per=SubjectKind.SITE,
    disturbs=Disturbance.HOST_COMMAND,
    applies=(needs(*REQUIRES),),
    causes=("link-missing", "switch-dead", "host-absent"),
)


def judge(observed: FabricFacts, context: JudgeContext) -> tuple[Outcome, ...]:
    """A missing switch is one finding, not one for each of its cables; so is a missing host."""
    return judge_links(SPEC, observed, context, _judge)


def _judge(answer: Answer, observed: FabricFacts) -> Report:
    overlay = lay_over(observed, answer.context.site)
    findings = [*_switches(overlay), *_hosts(overlay)]
    gone = [entry for entry in overlay.cables if entry.missing and entry.link.name not in overlay.explained]
    findings += [_link(overlay, entry) for entry in gone]
    summary = f"all {len(overlay.cables)} planned links of {observed.plan.source} are there"
    return Report(summary=summary, findings=tuple(findings), evidence=evidence_of(observed, "iblinkinfo -l"))


def _switches(overlay: Overlay) -> list[Finding]:
    return [
        Finding(
            cause="switch-dead",
            text=f"{name} is not in the fabric, nor is any of its {len(cables)} planned links",
            hint=f"look at power and management port of {name}; `ibnetdiscover` must list it",
            subjects=(Subject(SubjectKind.SWITCH, name),),
            measured=(Measure("links_missing", len(cables), "count"),),
            expected=(Expectation("links_missing", "==", 0, Basis.INVENTORY, "count"),),
        )
        for name, cables in overlay.dead_switches.items()
    ]


def _hosts(overlay: Overlay) -> list[Finding]:
    return [
        Finding(
            cause="host-absent",
            text=f"{host} is not in the fabric: none of its {len(cables)} planned links has a signal",
            hint=f"see that {host} is powered on and its adapters' driver is loaded (`lspci -d 15b3:`, `ibstat`)",
            subjects=(node_subject(host),),
            measured=(Measure("links_missing", len(cables), "count"),),
            expected=(Expectation("links_missing", "==", 0, Basis.INVENTORY, "count"),),
        )
        for host, cables in overlay.absent_hosts.items()
    ]


def _link(overlay: Overlay, entry: CableState) -> Finding:
    found = []
    for end, observed in ((entry.link.near, entry.near), (entry.link.far, entry.far)):
        if end is None:
            continue
        if observed is None:
            found.append(f"{end} is not seen")
        elif (peer := overlay.view.peer_end(observed)) is not None:
            found.append(f"{end} is connected to {peer}")
        else:
            found.append(f"{end} is {observed.state}, {observed.physical}")
    text = f"{entry.link.name}: no signal ({'; '.join(found)})"
    return Finding(cause="link-missing", text=text, hint=CABLE, subjects=link_subjects(entry.link))


CHECK = Check(SPEC, OBSERVER, judge)
