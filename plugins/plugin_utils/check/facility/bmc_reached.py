# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check bmc-reached: the BMC of every host with an address was reached, with a valid certificate, and read
completely."""

from __future__ import annotations

from ...outcome.model import Basis, Expectation, Measure, Outcome, SubjectKind
from ..kit.answer import Answer
from ..spec import Bmc, Check, CheckSpec, JudgeContext, needs
from .bmc_access import BMC_REACHED, BmcAccess
from .observe_bmcs import OBSERVER, SeenBmc, SeenBmcs

SPEC = CheckSpec(
    id=BMC_REACHED,
    gate="facility",
    title="Management controllers answer",
    per=SubjectKind.NODE,
    applies=(needs("bmc", "bmc_address"), Bmc()),
    duration_s=20.0,
    settings=BmcAccess,
)


def judge(observed: SeenBmcs, context: JudgeContext) -> tuple[Outcome, ...]:
    """Judge every declared BMC. One that does not respond is unknown, not bad: the network to it may be at fault."""
    return tuple(
        _judge(Answer.about_host(SPEC, context, host.name), observed.of(host.name))
        for host in context.site.in_scope
        if host.bmc
    )


def _judge(answer: Answer, bmc: SeenBmc | None) -> Outcome:
    if bmc is None:
        return answer.unknown("bmc-not-asked", "its BMC was not asked", "run the gate again")
    expected = (Expectation("Redfish service", "answers at", bmc.url, Basis.INVENTORY),)
    if bmc.facts is None:
        return answer.unknown(bmc.cause or "bmc-not-readable", bmc.reason, bmc.hint, expected=expected)
    checked = "certificate checked" if bmc.checked else "certificate NOT checked (validate_certs is off)"
    text = f"{bmc.url}: Redfish {bmc.facts.redfish or 'of no stated version'}, {bmc.reads} resources read, {checked}"
    return answer.passed(text, measured=(Measure("resources read", bmc.reads, "count"),), expected=expected)


CHECK = Check(SPEC, OBSERVER, judge)
