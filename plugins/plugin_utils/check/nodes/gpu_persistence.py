# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check gpu-persistence: the driver stays loaded as the site configured, and the same on all hosts of a SKU."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Literal

from ...collect.host_facts import FleetFacts
from ...outcome.model import Basis, Expectation, Outcome, SubjectKind
from ...outcome.wording import count
from ...probe.nvidia_smi_xml import Gpu, SmiLog
from ...verdict.majority import more_than_any_other
from ..kit.finding import Finding, Report
from ..kit.settings import setting
from ..spec import Check, CheckSpec, Disturbance, JudgeContext
from .node_context import NodeContext, Unreported, per_gpu, per_host
from .observe_hosts import OBSERVER


@dataclass(frozen=True, slots=True, kw_only=True)
class PersistenceSettings:
    """Settings of check gpu-persistence."""

    expected: Literal["", "Disabled", "Enabled"] = setting(
        "Persistence mode that every GPU must have; empty: the one that most GPUs of the SKU have. Off alone is "
        "healthy: a daemon or the operator may keep the driver loaded.",
        default="",
    )


SPEC = CheckSpec(
    id="gpu-persistence",
    gate="nodes",
    title="Persistence mode as wanted, alike on all GPUs",
    per=SubjectKind.NODE,
    disturbs=Disturbance.HOST_COMMAND,
    needs_driver=True,
    causes=("persistence-mode-wrong",),
    settings=PersistenceSettings,
)


def judge(observed: FleetFacts, context: JudgeContext) -> tuple[Outcome, ...]:
    """Judge the mode of every GPU.

    A mode other than setting `expected` fails. Without that setting the minority is marginal, and a split into halves
    is no finding.
    """
    modes: dict[str, Counter[str]] = {}
    for host in context.site.in_scope:
        smi = observed.hosts[host.name].smi if host.name in observed.hosts else None
        for gpu in smi.gpus if isinstance(smi, SmiLog) else ():
            if gpu.persistence is not None:
                modes.setdefault(host.sku, Counter())[gpu.persistence] += 1
    return per_host(
        SPEC, observed, context, lambda host: _judge(host, modes.get(host.entry.sku, Counter())), needs=("smi",)
    )


def _judge(host: NodeContext, modes: Counter[str]) -> Report | Outcome:
    configured = host.settings(PersistenceSettings).expected
    usual = more_than_any_other(modes) or ""
    need = Unreported("persistence-mode-not-reported", "persistence mode", lambda gpu: gpu.persistence is None)
    return per_gpu(
        host,
        lambda node, gpu: _gpu(node, gpu, configured, usual),
        lambda number: _report(host, number, configured, usual),
        (need,),
    )


def _report(host: NodeContext, number: int, configured: str, usual: str) -> Report:
    modes = sorted({gpu.persistence or "not reported" for gpu in host.live_gpus})
    basis = Basis.RULE if configured else Basis.PEERS
    wanted = configured or usual
    return Report(
        summary=f"persistence mode {' and '.join(modes)} on {count(number, 'GPU')}",
        expected=(Expectation("persistence_mode", "==", wanted, basis),) if wanted else (),
        evidence=host.evidence("smi"),
    )


def _gpu(host: NodeContext, gpu: Gpu, configured: str, usual: str) -> list[Finding]:
    parts, mode = (host.gpu(gpu.bus_id),), gpu.persistence
    if mode is None or mode == (configured or usual or mode):
        return []
    hint = f"`nvidia-smi -i <gpu> -pm {int((configured or usual) == 'Enabled')}` on {host.name}, or nvidia-persistenced"
    text = f"{gpu.bus_id}: persistence mode {mode}, expected {configured or usual}"
    if configured:
        return [Finding(cause="persistence-mode-wrong", text=text, hint=hint, subjects=parts)]
    return [Finding(cause="persistence-mode-differs", text=f"{text} as most", hint=hint, subjects=parts, marginal=True)]


CHECK = Check(SPEC, OBSERVER, judge)
