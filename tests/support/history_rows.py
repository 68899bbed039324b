# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Outcomes of two hosts, and how a gate of them is recorded in a history."""

from __future__ import annotations

import sqlite3
from datetime import date
from typing import Any

from sites import make_site

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import (
    Measure,
    Outcome,
    Rating,
    Status,
    Subject,
    node_subject,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import Host, Site
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.history import Recorded, Store
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.gate import decide
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.run import new_run

GATE_TABLES = ("run", "gate", "outcome", "measurement", "ledger")
HOSTS = ("gpu01", "gpu02")
SITE = make_site(tuple(Host(name=name, sku="h100", node_name=name) for name in HOSTS), name="island")
RATINGS = {Status.PASSED: Rating.GOOD, Status.FAILED: Rating.BAD, Status.OTHER: Rating.MARGINAL}


def outcome(gate: str, check: str, *subjects: Subject, status: Status = Status.PASSED, **measured: Any) -> Outcome:
    bad = status is not Status.PASSED
    return Outcome(
        check=check,
        gate=gate,
        status=status,
        rating=RATINGS[status],
        subjects=subjects,
        summary="as seen",
        cause="seen-bad" if bad else "",
        hint="mend it" if bad else "",
        measured=tuple(Measure(name, value) for name, value in measured.items()),
        started="2026-11-21T10:00:00Z",
    )


def drivers(version: str = "580.95.05") -> list[Outcome]:
    return [outcome("nodes", "driver-uniform", node_subject(name), driver_version=version) for name in HOSTS]


GPU01 = node_subject("gpu01")


def figure(subject: Subject = GPU01, status: Status = Status.PASSED, **changed: Any) -> Outcome:
    facts = {"busbw": 480.5, "size": 8 << 30, "test": "all_reduce_perf", "nodes": 1, "algorithm": "NVLS"}
    facts |= {"nccl": "2.28.3"} | changed
    return outcome("fabric_validation", "nccl-intra-node-bw", subject, status=status, **facts)


def record(
    store: Store, gate: str, outcomes: list[Outcome], site: Site = SITE, run_id: str = "run-1", **more: Any
) -> Recorded:
    run = new_run(run_id, site.name, "2026-11-21T09:00:00Z", ("nodes", "fabric_validation"), rehearsal=site.rehearsal)
    expected: dict[str, tuple[str, ...]] = {}
    for entry in outcomes:
        if entry.subjects[0].node not in site.quarantined:
            expected[entry.check] = (*expected.get(entry.check, ()), entry.subjects[0].name)
    verdict = decide(gate, expected, outcomes, site, date(2026, 11, 21))
    return store.record_gate(run, verdict, outcomes, site, **more)


def counts(store: Store) -> dict[str, int]:
    connection = sqlite3.connect(store.path)
    try:
        return {name: connection.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in GATE_TABLES}
    finally:
        connection.close()
