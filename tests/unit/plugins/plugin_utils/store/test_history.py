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
    CLUSTER,
    HOSTS,
    SITE,
    accepted,
    counts,
    drivers,
    figure,
    outcome,
    record,
)
from nccl_fleet import Fleet

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import load_hardware
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


def test_figures_of_a_passed_gate_come_back_with_their_whole_key(store: Store) -> None:
    record(store, "nodes", drivers())
    said = record(store, "fabric_validation", [figure()])
    assert (said.outcomes, said.passes, said.baselines, said.notes) == (1, 1, 1, ())
    (entry,) = accepted(open_store(store.path), rehearsal=False)
    assert (entry.check, entry.subject, entry.busbw_gb_per_s, entry.run_id) == (
        "nccl-intra-node-bw",
        "gpu01",
        480.5,
        "run-1",
    )
    key = entry.key
    assert (key.sku, key.nodes, key.test, key.size) == ("dgx-h100", 1, "all_reduce_perf", 8 << 30)
    assert (key.algorithm, key.nccl_version, key.driver_version) == ("NVLS", "2.28.3", "580.95.05")
    assert {(p.check, p.subject) for p in store.last_passes("island", rehearsal=False)} == {
        ("driver-uniform", "gpu01"),
        ("driver-uniform", "gpu02"),
        ("nccl-intra-node-bw", "gpu01"),
    }


def test_the_figures_of_gate_fabric_validation_become_baselines(store: Store, repository: Path) -> None:
    fleet = Fleet(hosts=("gpu01", "gpu02", "gpu03", "gpu04"), hardware=load_hardware([repository / "recipes/hardware"]))
    site = fleet.site()
    versions = [outcome("nodes", "driver-uniform", node_subject(name), driver_version="580") for name in fleet.hosts]
    record(store, "nodes", versions, site)
    said = record(store, "fabric_validation", list(fleet.outcomes()), site)
    assert (said.baselines, said.notes) == (9, ())
    found = accepted(store, rehearsal=False)
    assert {(b.check, b.key.nodes) for b in found} == {
        ("nccl-intra-node-bw", 1),
        ("nccl-pair-bw", 2),
        ("nccl-all-nodes-bw", 4),
    }
    assert {(b.key.sku, b.key.test, b.key.size, b.key.driver_version) for b in found} == {
        ("dgx-h100", "all_reduce_perf", 8 << 30, "580")
    }


def test_recorded_again_changes_nothing(store: Store) -> None:
    record(store, "nodes", drivers())
    record(store, "fabric_validation", [figure()])
    before = counts(store), accepted(store, rehearsal=False), store.last_passes("island", rehearsal=False)
    record(store, "nodes", drivers())
    record(store, "fabric_validation", [figure()])
    assert (counts(store), accepted(store, rehearsal=False), store.last_passes("island", rehearsal=False)) == before


def test_a_gate_judged_bad_later_takes_its_passes_and_figures_back(store: Store) -> None:
    record(store, "nodes", drivers())
    record(store, "fabric_validation", [figure()])
    record(store, "fabric_validation", [figure(status=Status.FAILED)])
    assert accepted(store, rehearsal=False) == ()
    assert {p.gate for p in store.last_passes("island", rehearsal=False)} == {"nodes"}


def test_the_oldest_figure_stays_the_baseline_and_the_newest_pass_counts(store: Store) -> None:
    for number, busbw in enumerate((480.0, 470.0, 460.0)):
        run_id, started = f"run-{number}", f"2026-11-2{number}T10:00:00Z"
        record(store, "nodes", drivers(), run_id=run_id)
        record(store, "fabric_validation", [replace(figure(busbw=busbw), started=started)], run_id=run_id)
    assert [b.busbw_gb_per_s for b in accepted(store, rehearsal=False)] == [480.0]
    newest = [p for p in store.last_passes("island", rehearsal=False) if p.gate == "fabric_validation"]
    assert [(p.run_id, p.passed) for p in newest] == [("run-2", "2026-11-22T10:00:00Z")]


def test_a_rehearsal_never_becomes_a_baseline_or_a_pass_of_the_real_site(store: Store) -> None:
    simulated = replace(SITE, rehearsal=True)
    record(store, "nodes", drivers(), simulated)
    record(store, "fabric_validation", [figure()], simulated)
    assert accepted(store, rehearsal=False) == () and store.last_passes("island", rehearsal=False) == ()
    (entry,) = accepted(store, rehearsal=True)
    assert entry.key.rehearsal
    record(store, "nodes", drivers(), run_id="run-2")
    record(store, "fabric_validation", [figure(busbw=470.0)], run_id="run-2")
    assert [b.busbw_gb_per_s for b in accepted(store, rehearsal=False)] == [470.0]
    assert [b.busbw_gb_per_s for b in accepted(store, rehearsal=True)] == [480.5]


DECISION = {"check": "nccl-intra-node-bw", "subject": "gpu01", "reason": "r", "who": "w", "until": "2026-12-31"}


@pytest.mark.parametrize(
    ("status", "decisions"),
    [
        (Status.FAILED, {"waivers": (Waiver(**DECISION),)}),
        (Status.OTHER, {"acceptances": (Acceptance(**DECISION),)}),
    ],
)
def test_what_a_person_let_through_is_no_pass_and_no_baseline(
    store: Store, status: Status, decisions: dict[str, Any]
) -> None:
    record(store, "nodes", drivers())
    good = figure(node_subject("gpu02"))
    said = record(store, "fabric_validation", [figure(status=status), good], replace(SITE, **decisions))
    # The gate passed, and so did the other host.
    assert (said.passes, said.baselines) == (1, 1)
    assert [b.subject for b in accepted(store, rehearsal=False)] == ["gpu02"]
    ledger = [p for p in store.last_passes("island", rehearsal=False) if p.gate == "fabric_validation"]
    assert [(p.subject, p.gate_passed) for p in ledger] == [("gpu02", True)]


def test_a_gate_that_is_not_passed_gives_no_baseline(store: Store) -> None:
    record(store, "nodes", drivers())
    said = record(store, "fabric_validation", [figure(), figure(node_subject("gpu02"), Status.FAILED)])
    assert (said.passes, said.baselines) == (1, 0)
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
    said = record(store, "fabric_validation", [figure(), figure(node_subject("gpu02"))], site)
    assert said.baselines == 1
    assert {p.subject for p in store.last_passes("island", rehearsal=False)} == {"gpu02"}


@pytest.mark.parametrize(
    ("changed", "word"),
    [
        ({"algorithm": "unknown"}, "algorithm"),
        ({"nccl": ""}, "nccl"),
        ({"nodes": None}, "nodes"),
        ({"size": "8G"}, "size"),
        ({"busbw": "fast"}, "busbw"),
        ({"busbw": float("nan")}, "busbw"),
        ({"busbw": 0}, "busbw"),
    ],
)
def test_a_figure_without_its_whole_key_is_no_baseline(store: Store, changed: dict[str, Any], word: str) -> None:
    record(store, "nodes", drivers())
    said = record(store, "fabric_validation", [figure(**changed)])
    assert said.baselines == 0 and len(said.notes) == 1 and word in said.notes[0]


def test_without_one_driver_and_one_sku_there_is_no_baseline(store: Store) -> None:
    whole = figure(CLUSTER, nodes=2)
    assert "one driver version" in record(store, "fabric_validation", [whole]).notes[0]
    record(store, "nodes", [*drivers()[:1], *drivers("570.1")[1:]])
    assert "one driver version" in record(store, "fabric_validation", [whole]).notes[0]
    record(store, "nodes", drivers())
    mixed = replace(SITE, hosts=(SITE.hosts[0], replace(SITE.hosts[1], sku="h200")))
    assert "one SKU" in record(store, "fabric_validation", [whole], mixed).notes[0]
    assert record(store, "fabric_validation", [whole]).baselines == 1


def _prints(store: Store, gate: str) -> dict[str, str]:
    return {p.subject: p.fingerprint for p in store.last_passes("island", rehearsal=False) if p.gate == gate}


def test_another_nccl_makes_the_result_stale(store: Store) -> None:
    found = []
    for version in ("2.28.3", "2.28.9"):
        record(store, "fabric_validation", [figure(nccl=version)])
        found.append(_prints(store, "fabric_validation")["gpu01"])
    assert found[0] != found[1]
