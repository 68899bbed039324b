# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The history of runs: what is remembered, what never is, two writers at once, and files that cannot be used."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from history_rows import (
    HOSTS,
    SITE,
    counts,
    drivers,
    figure,
    outcome,
    record,
)

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.decisions import Acceptance, Quarantine, Waiver
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import (
    Status,
    Subject,
    SubjectKind,
    node_subject,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.history import Store, open_store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(tmp_path / "deep" / "history.sqlite")


def test_recorded_again_changes_nothing(store: Store) -> None:
    record(store, "nodes", drivers())
    record(store, "fabric_validation", [figure()])
    before = counts(store), store.last_passes("island", rehearsal=False)
    record(store, "nodes", drivers())
    record(store, "fabric_validation", [figure()])
    assert (counts(store), store.last_passes("island", rehearsal=False)) == before


def test_a_gate_judged_bad_later_takes_its_passes_back(store: Store) -> None:
    record(store, "nodes", drivers())
    record(store, "fabric_validation", [figure()])
    record(store, "fabric_validation", [figure(status=Status.FAILED)])
    assert {p.gate for p in store.last_passes("island", rehearsal=False)} == {"nodes"}


def test_the_newest_pass_counts(store: Store) -> None:
    for number, busbw in enumerate((480.0, 470.0, 460.0)):
        run_id, started = f"run-{number}", f"2026-11-2{number}T10:00:00Z"
        record(store, "nodes", drivers(), run_id=run_id)
        record(store, "fabric_validation", [replace(figure(busbw=busbw), started=started)], run_id=run_id)
    newest = [p for p in store.last_passes("island", rehearsal=False) if p.gate == "fabric_validation"]
    assert [(p.run_id, p.passed) for p in newest] == [("run-2", "2026-11-22T10:00:00Z")]


def test_a_rehearsal_is_never_a_pass_of_the_real_site(store: Store) -> None:
    simulated = replace(SITE, rehearsal=True)
    record(store, "nodes", drivers(), simulated)
    record(store, "fabric_validation", [figure()], simulated)
    assert store.last_passes("island", rehearsal=False) == ()
    record(store, "nodes", drivers(), run_id="run-2")
    assert {p.gate for p in store.last_passes("island", rehearsal=False)} == {"nodes"}
    assert {p.gate for p in store.last_passes("island", rehearsal=True)} == {"nodes", "fabric_validation"}


DECISION = {"check": "nccl-intra-node-bw", "subject": "gpu01", "reason": "r", "who": "w", "until": "2026-12-31"}


@pytest.mark.parametrize(
    ("status", "decisions"),
    [
        (Status.FAILED, {"waivers": (Waiver(**DECISION),)}),
        (Status.OTHER, {"acceptances": (Acceptance(**DECISION),)}),
    ],
)
def test_what_a_person_let_through_is_no_pass(store: Store, status: Status, decisions: dict[str, Any]) -> None:
    record(store, "nodes", drivers())
    good = figure(node_subject("gpu02"))
    said = record(store, "fabric_validation", [figure(status=status), good], replace(SITE, **decisions))
    # The gate passed, and so did the other host.
    assert said.passes == 1
    ledger = [p for p in store.last_passes("island", rehearsal=False) if p.gate == "fabric_validation"]
    assert [(p.subject, p.gate_passed) for p in ledger] == [("gpu02", True)]


def test_passes_of_a_gate_that_is_not_passed_say_so(store: Store) -> None:
    record(store, "nodes", drivers())
    said = record(store, "fabric_validation", [figure(), figure(node_subject("gpu02"), Status.FAILED)])
    assert said.passes == 1
    assert {(p.gate, p.subject, p.gate_passed) for p in store.last_passes("island", rehearsal=False)} == {
        ("nodes", "gpu01", True),
        ("nodes", "gpu02", True),
        ("fabric_validation", "gpu01", False),
    }


def test_a_bad_part_takes_the_pass_of_its_node(store: Store) -> None:
    gpu = Subject(SubjectKind.GPU, "gpu01/gpu3", "gpu01")
    bad = outcome("nodes", "gpu-ecc", gpu, status=Status.FAILED)
    record(store, "nodes", [outcome("nodes", "gpu-ecc", node_subject(name)) for name in HOSTS] + [bad])
    assert [p.subject for p in store.last_passes("island", rehearsal=False)] == ["gpu02"]


def test_a_quarantined_host_is_not_remembered_as_good(store: Store) -> None:
    site = replace(SITE, quarantine=(Quarantine(node="gpu01", reason="r", ticket="t", who="w"),))
    record(store, "nodes", drivers(), site)
    record(store, "fabric_validation", [figure(), figure(node_subject("gpu02"))], site)
    assert {p.subject for p in store.last_passes("island", rehearsal=False)} == {"gpu02"}


def _prints(store: Store, gate: str) -> dict[str, str]:
    return {p.subject: p.fingerprint for p in store.last_passes("island", rehearsal=False) if p.gate == gate}


def test_another_nccl_makes_the_result_stale(store: Store) -> None:
    found = []
    for version in ("2.28.3", "2.28.9"):
        record(store, "fabric_validation", [figure(nccl=version)])
        found.append(_prints(store, "fabric_validation")["gpu01"])
    assert found[0] != found[1]
