# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check cabling: every cable is where the plan has it."""

from __future__ import annotations

from ...outcome.model import Outcome, SubjectKind, node_subject
from ...outcome.wording import first_of
from ..kit.answer import Answer
from ..kit.finding import Finding, Report
from ..spec import Check, CheckSpec, Disturbance, JudgeContext, needs
from .fabric_facts import FabricFacts
from .links import REQUIRES, evidence_of, judge_links
from .observe_fabric import OBSERVER
from .overlay import CableState, lay_over, link_subjects, misplaced

SPEC = CheckSpec(
    id="cabling",
    gate="fabric",
    title="No cable in another's place",
    per=SubjectKind.SITE,
    disturbs=Disturbance.HOST_COMMAND,
    applies=(needs(*REQUIRES),),
    causes=("miswired",),
)

# How many hosts a text names; all of them are subjects.
_MOST = 8


def judge(observed: FabricFacts, context: JudgeContext) -> tuple[Outcome, ...]:
    """Cables that were swapped with each other are one finding. A generated plan distinguishes rails, not ports."""
    return judge_links(SPEC, observed, context, _judge)


def _judge(answer: Answer, observed: FabricFacts) -> Report | Outcome:
    overlay = lay_over(observed, answer.context.site)
    findings = tuple(_finding(group) for group in misplaced(overlay, observed.plan))
    if not findings and (hosts := overlay.unnamed_hosts):
        return _not_told_apart(answer, hosts, observed)
    what = "every adapter is on its rail" if observed.plan.generated else "every cable is where the plan has it"
    return Report(summary=what, findings=findings, evidence=evidence_of(observed, "iblinkinfo -l"))


def _not_told_apart(answer: Answer, hosts: tuple[str, ...], observed: FabricFacts) -> Outcome:
    """Report hosts whose links are up and judged, but where it is not known whether two of them were swapped."""
    text = (
        f"the adapters of {first_of(hosts, _MOST)} are in the fabric under other names than the plan has, and no host "
        "said which GUID is which: whether each is in its own place is not known"
    )
    hint = "`ibstat` must answer on these hosts (gate nodes says why it does not); then run the gate again"
    return answer.unknown(
        "adapters-not-told-apart", text, hint, more_subjects=tuple(map(node_subject, hosts)),
        evidence=evidence_of(observed, "iblinkinfo -l"),
    )  # fmt: skip


def _finding(group: tuple[CableState, ...]) -> Finding:
    found = "; ".join(f"{entry.link.near} is on {entry.actual}, planned {_planned(entry)}" for entry in group)
    swapped = "swap the cables of " if len(group) > 1 else "move the cable of "
    ends = " and ".join(str(entry.link.near) for entry in group)
    return Finding(
        cause="miswired",
        text=found,
        hint=f"{swapped}{ends}, or correct the plan",
        subjects=tuple(subject for entry in group for subject in link_subjects(entry.link)),
    )


def _planned(entry: CableState) -> str:
    return str(entry.link.far) if entry.link.far is not None else f"rail {entry.link.rail}"


CHECK = Check(SPEC, OBSERVER, judge)
