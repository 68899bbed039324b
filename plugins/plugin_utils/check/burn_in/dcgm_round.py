# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""DCGM in a round of a burn-in: run in the operator's pods, and judged by check dcgm-diag as at a gate.

During that round the burn-in has no test pod on the hosts. A host with GPUs in use by a user's pod is left out.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ...collect.host_evidence import DRIVERS, ToolRun, evidence_file, read_evidence
from ...outcome.codec import to_plain
from ...outcome.decisions import Quarantine
from ...outcome.errors import InputError
from ...outcome.model import Outcome, Status
from ...runtime.files import make_dirs
from ...site.model import DriverOwner, Site
from ..gpu_stack.observe_hosts_in_pods import observe_at_level
from ..nodes import dcgm_diag, observe_hosts
from ..nodes.dcgm_diag_settings import DCGM_DIAG
from ..spec import JudgeContext, ObserveContext
from .model import SoakResult

DCGM = "dcgm"
_TOOL = "dcgmi_diag"
# A burn-in runs it on all hosts at once; each costs the controller a waiting thread.
_MOST = 512


def refuse_without_operator(site: Site, level: int) -> None:
    """Refuse rounds of DCGM where the GPU operator does not own the driver: then none of its pods can run DCGM.

    Raises:
        InputError: the hosts own the driver.
    """
    if level and site.driver_owner is not DriverOwner.OPERATOR:
        text = (
            f"is {level}, and gpufleet_driver_owner is {site.driver_owner.value}: DCGM is asked in the operator's pods."
        )
        hint = "state 0, and run gate nodes with gpufleet_set=dcgm-diag.level=4 before and after the burn-in"
        raise InputError("gpufleet_settings burn-in-soak.dcgm_level", text, hint)


def diagnose(context: ObserveContext, level: int, number: int, hosts: Sequence[str]) -> tuple[SoakResult, ...]:
    """Run the diagnostic on these hosts and return a result for each.

    The output of the tools is saved in `burn_in/dcgm` of the run directory until the next round.

    Raises:
        BringupError: the API server does not respond.
    """
    directory = context.run_dir / "burn_in" / DCGM
    make_dirs(directory)
    site = context.site
    own = {**site.settings.get(DCGM_DIAG, {}), "level": level, "at_once": min(len(hosts), _MOST)}
    # The other hosts stay in the site, quarantined for this round: its cabling plan names them.
    aside = tuple(
        Quarantine(node=host.name, reason="not in this round", ticket=f"round {number}", who="playbook burn_in")
        for host in site.in_scope
        if host.name not in hosts
    )
    site = replace(
        site, quarantine=(*site.quarantine, *aside), minimum_nodes=0, settings={**site.settings, DCGM_DIAG: own}
    )
    for name in hosts:
        # Output of an earlier round must not be read as that of this one.
        (directory / evidence_file(name, DRIVERS)).unlink(missing_ok=True)
    saved = observe_at_level(replace(context, site=site, run_dir=directory), level)
    facts = observe_hosts.restore(json.loads(json.dumps(to_plain(saved))), directory, site)
    around = JudgeContext(gate="gpu_stack", site=site, today=context.today, hardware=context.hardware)
    reported: dict[str, list[Outcome]] = {name: [] for name in hosts}
    for outcome in dcgm_diag.judge(facts, around):
        for name in {subject.node or subject.name for subject in outcome.subjects} & set(reported):
            reported[name].append(outcome)
    return tuple(_result(directory, number, name, outcomes) for name, outcomes in reported.items())


def _result(directory: Path, number: int, host: str, outcomes: Sequence[Outcome]) -> SoakResult:
    run = _run_of(directory, host)
    worst = next((one for one in outcomes if one.status is Status.FAILED), None)
    worst = worst or next((one for one in outcomes if one.status is not Status.PASSED), None)
    if run is not None and run.withheld:
        status, cause, text = Status.PENDING, "in-use", run.stderr or "its GPUs are in use"
    elif not outcomes or run is None:
        status, cause, text = Status.OTHER, "dcgm-not-run", "nothing is known of its diagnostic"
    elif worst is None:
        status, cause, text = Status.PASSED, "", outcomes[0].summary
    else:
        status, cause, text = worst.status, worst.cause, worst.summary
    seconds = run.duration_s if run is not None and status is Status.PASSED else 0.0
    named = worst.subjects if worst is not None and status is Status.FAILED else ()
    return SoakResult(
        host=host, test=DCGM, round=number, status=status, seconds=seconds, cause=cause, summary=text,
        parts=tuple(s.name.partition("/")[2] for s in named if s.node == host and "/" in s.name),
    )  # fmt: skip


def _run_of(directory: Path, host: str) -> ToolRun | None:
    path = directory / evidence_file(host, DRIVERS)
    return read_evidence(path).tools.get(_TOOL) if path.is_file() else None
