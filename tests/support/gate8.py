# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""All judges of gate inference_acceptance over the servers and loads of a fleet."""

from __future__ import annotations

from datetime import date

from sites import make_site

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.inference_acceptance import (
    inference_endpoint_ready,
    inference_errors,
    inference_smoke,
    inference_throughput,
    inference_tpot,
    inference_ttft,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.inference_acceptance.model import Results
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import JudgeContext
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Outcome, Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import Host

CHECKS = (
    inference_endpoint_ready, inference_smoke, inference_errors, inference_throughput, inference_ttft, inference_tpot,
)  # fmt: skip


def judged(found: Results, shared: dict[str, dict[str, str]] | None = None) -> list[Outcome]:
    """The outcomes of all checks; `shared` is by host what it shares with others."""
    hosts = tuple(Host(name=host.name, sku=host.sku, node_name=host.node) for host in found.plan.hosts)
    site = make_site(hosts, name="site", capabilities=("kubernetes",))
    context = JudgeContext(gate="inference_acceptance", site=site, today=date(2026, 1, 1), shared=shared or {})
    return [outcome for check in CHECKS for outcome in check.judge(found, context)]


def bad(outcomes: list[Outcome]) -> set[tuple[str, str, str, str]]:
    """What is not passed: check, cause, status, subject; without what waits for another check."""
    return {
        (o.check, o.cause, o.status.value, o.subjects[0].name)
        for o in outcomes
        if o.status is not Status.PASSED and not o.blocked_by
    }
