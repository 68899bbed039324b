# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Limits that are not the release's, on a terminal: a SKU of the site's own is one line, a changed limit its own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.report.console import closing_lines
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.run import new_run

CHANGED = (
    "nodes.level 2 (release: 3)",
    "hardware dgx-h100.hbm_tb_per_s 3.2 (release: 3.35)",
    "hardware dgx-h100.published_busbw.2 domains 400 (release: none)",
)
OWN = tuple(f"hardware acme-g8.{fact} 1 (release: none)" for fact in ("hca_rate_gbps", "hbm_tb_per_s", "gpus.bf16"))


def told(limits: tuple[str, ...], problem: str = "", *, looked: bool = False) -> list[str]:
    record = replace(new_run("r1", "lab", "2026-11-22T10:00:00Z", ("nodes",), rehearsal=False), own_limits=limits)
    record = replace(record, problem=problem)
    if looked:
        record = record.with_gate(replace(record.gate("nodes"), status=Status.PASSED))
    return [line.removeprefix("limit    ") for line in closing_lines(record, Path("/r")) if line.startswith("limit ")]


def test_the_figures_of_a_sku_of_the_sites_own_are_one_line_and_what_was_changed_is_told_by_itself() -> None:
    assert told((*CHANGED, *OWN)) == [
        *CHANGED, "3 figures of SKU acme-g8 are the site's own; /r/report.json lists them",
    ]  # fmt: skip
    assert told(OWN[:1]) == list(OWN[:1])


def test_a_run_that_was_not_started_has_no_limits_above_its_problem() -> None:
    assert told(CHANGED, "group 'gpu_nodes': matches no host.") == []
    assert told(CHANGED, "the cluster is gone.", looked=True) == list(CHANGED)
