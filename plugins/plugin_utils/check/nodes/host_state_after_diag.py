# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check host-state-after-diag: the load of the diagnostic left no error on the host."""

from __future__ import annotations

from ...collect.host_facts import FleetFacts
from ...collect.loads import LoadBrackets
from ...collect.tool_reading import ProbeFailure
from ...outcome.model import Outcome
from ...site.model import DriverOwner
from ..kit.load_growth import LoadedHost, growth_spec, judge_growth, required_facts
from ..spec import Check, JudgeContext
from .dcgm_diag_settings import DCGM_DIAG, DcgmDiagSettings
from .observe_hosts import OBSERVER

SPEC = growth_spec("host-state-after-diag", "nodes", "The diagnostic's load left no error on the host", in_nodes=True)


def judge(observed: FleetFacts, context: JudgeContext) -> tuple[Outcome, ...]:
    """Judge what grew between the readings before and after the diagnostic; without a diagnostic nothing was loaded."""
    brackets = {name: facts.around_diag for name, facts in observed.hosts.items() if facts.around_diag is not None}
    loaded = LoadBrackets(hosts=brackets, xids=observed.xids)
    return judge_growth(SPEC, loaded, context, lambda host: _explained(host, observed))


def _explained(host: LoadedHost, observed: FleetFacts) -> Outcome | None:
    facts = observed.hosts.get(host.name)
    if facts is None or (not facts.reached and host.context.site.driver_owner is DriverOwner.HOST):
        return host.answer.blocked(by="host-reached", because="the host was not reached")
    if host.context.settings_of(DCGM_DIAG, DcgmDiagSettings, host.entry.sku).level == 0:
        return host.answer.passed("no diagnostic is wanted here, so nothing loaded the GPUs")
    if isinstance(facts.diag, ProbeFailure) and facts.around_diag is None:
        return host.answer.blocked(by="dcgm-diag", because="the diagnostic did not run")
    # Facts of hardware that the host does not have are not needed: NVLinks, or ports that ibstat lists.
    needed = [facts.values[fact] for fact in required_facts(host)]
    # Failures of tools that this check owns are reported by itself.
    failed = [v for v in needed if isinstance(v, ProbeFailure) and v.tool.owner != host.spec.id]
    if facts.around_diag is not None and failed and failed[0].kind != "not-collected":
        return host.answer.blocked(by=failed[0].tool.owner, because=f"`{failed[0].tool.shown}` gave nothing usable")
    return None


CHECK = Check(SPEC, OBSERVER, judge)
