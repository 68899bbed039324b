# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Runs over two hosts whose gate nodes is in a history, for those that start in the middle."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path

from sites import make_site

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.host_evidence import (
    HostEvidence,
    ToolRun,
    write_evidence,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.codec import dumps
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import (
    Outcome,
    Rating,
    Status,
    node_subject,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.run import Run
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.site_state import collect_state
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.files import HARDWARE, SITE
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import Host, Site, SiteProfile
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.history import open_store
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.gate import decide
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.run import new_run, with_site

NAMES = ("gpu01", "gpu02")
PLACE = make_site(
    tuple(Host(name=name, sku="h100", node_name=name) for name in NAMES),
    name="island",
    profile=SiteProfile.CLOUD,
    gates=("nodes", "gpu_stack"),
    from_gate="gpu_stack",
    capabilities=("host_access", "host_driver", "kubernetes", "multi_node"),
)
OPTIONS = {"stale": "changed", "max_age_days": 7.0}


def make_run(base: Path, name: str, site: Site = PLACE, kernels: str = "6.8", day: int = 20) -> Run:
    """A run whose hosts were looked at; `kernels` is what all of them run, or each one, by comma."""
    path = base / name
    path.mkdir(parents=True)
    (path / SITE).write_text(dumps(site))
    (path / HARDWARE).write_text("{}")
    record = new_run(name, site.name, f"2026-11-{day:02d}T10:00:00Z", site.gates, rehearsal=False)
    Run(path).save_record(with_site(replace(record, from_gate=site.from_gate), site))
    words = kernels.split(",") * (1 if "," in kernels else len(NAMES))
    for host, kernel in zip(NAMES, words, strict=True):
        tool = ToolRun(argv=("uname", "-r"), rc=0, stdout=f"{kernel}\n")
        write_evidence(path, HostEvidence(host=host, reached=True, tools={"uname": tool}))
    return Run(path)


def prove_nodes(
    run: Run, store: Path, day: int = 20, bad: str = "", compared: Outcome | None = None, *, saved: bool = False
) -> list[Outcome]:
    """Record gate nodes of that run as passed, or with one bad host; with `saved`, in its files too."""
    declared = run.declaration("nodes").checks
    outcomes = [
        Outcome(
            check=check.id, gate="nodes", status=Status.FAILED if host == bad else Status.PASSED,
            rating=Rating.BAD if host == bad else Rating.GOOD, subjects=(node_subject(host),), summary="as seen",
            cause="seen-bad" if host == bad else "", hint="mend it" if host == bad else "",
            started=f"2026-11-{day:02d}T10:00:00Z",
        )
        for check in declared
        for host in check.subjects
    ]  # fmt: skip
    expected = {check.id: check.subjects for check in declared}
    if compared is not None:
        outcomes.append(compared)
        expected[compared.check] = (run.site.name,)
    verdict = decide("nodes", expected, outcomes, run.site, date(2026, 11, day))
    state = collect_state(run, ("nodes",), date(2026, 11, day))
    open_store(store).record_gate(run.record, verdict, outcomes, run.site, state)
    if saved:
        run.save_outcomes("nodes", outcomes)
        run.save_record(run.record.with_gate(verdict))
    return outcomes
