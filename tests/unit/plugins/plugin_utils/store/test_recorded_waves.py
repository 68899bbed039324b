# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the proof of a wave leaves in the history: passes of single nodes, and everything that did not pass."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from sites import make_site

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.registry import checks_of
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.waves.proof import start_verification
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import (
    Outcome,
    Rating,
    Status,
    Subject,
    SubjectKind,
    node_subject,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.history import record_history
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.run import Run
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import Host
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.history import Store, open_store
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.gate import GateVerdict
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.run import new_run

SITE = make_site(tuple(Host(name=f"gpu0{n}", sku="h100", node_name=f"gpu0{n}") for n in range(1, 5)), name="island")
LAB = Subject(SubjectKind.CLUSTER, "island")
WAVE = ("gpu01", "gpu02")
# Its pass among the hosts of a wave says nothing of all hosts.
COMPARING = "driver-uniform"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(tmp_path / "history.sqlite")


@pytest.fixture
def run(tmp_path: Path) -> Run:
    found = Run(tmp_path / "run-1")
    found.path.mkdir()
    found.save_site(SITE)
    found.save_hardware({})
    found.save_record(new_run("run-1", "island", "2026-11-21T09:00:00Z", ("nodes",), rehearsal=False))
    return found


def outcome(check: str, *subjects: Subject, gate: str = "nodes", status: Status = Status.PASSED) -> Outcome:
    good = status is Status.PASSED
    return Outcome(
        check=check, gate=gate, status=status, rating=Rating.GOOD if good else Rating.BAD, subjects=subjects,
        summary="as seen", cause="" if good else "seen-bad", hint="" if good else "mend it",
    )  # fmt: skip


def recorded(run: Run, store: Store, *outcomes: Outcome, status: Status = Status.PASSED) -> None:
    gate = outcomes[0].gate
    run.save_outcomes(gate, outcomes)
    verdict = GateVerdict(gate=gate, status=status, message="decided")
    assert record_history(run, verdict, str(store.path), print, print, converged=True) == []


def proven(run: Run, store: Store, *outcomes: Outcome, status: Status = Status.PASSED) -> None:
    """Record the proof of a wave over the gate of these outcomes."""
    recorded(Run(start_verification(run, WAVE, 1, outcomes[0].gate)), store, *outcomes, status=status)


def passes(store: Store) -> dict[tuple[str, str], str]:
    return {(p.check, p.subject): p.run_id for p in store.last_passes("island", rehearsal=False)}


def test_nodes_of_a_wave_passed_in_it_and_the_others_when_they_did_before(run: Run, store: Store) -> None:
    names = [host.name for host in SITE.hosts]
    recorded(run, store, *(outcome("gpu-census", node_subject(name)) for name in names))
    proven(run, store, *(outcome("gpu-census", node_subject(name)) for name in WAVE))
    assert passes(store) == {
        ("gpu-census", name): "run-1-wave-001" if name in WAVE else "run-1" for name in names
    }  # fmt: skip


def test_a_pass_of_the_whole_or_among_some_is_not_replaced_by_that_of_a_wave(run: Run, store: Store) -> None:
    whole = (outcome("gpu-census", LAB), outcome(COMPARING, node_subject("gpu01")))
    recorded(run, store, *whole)
    proven(run, store, *whole)
    fabric = (
        outcome("nccl-all-nodes-bw", LAB, gate="fabric_validation"),
        outcome("nccl-intra-node-bw", node_subject("gpu01"), gate="fabric_validation"),
    )
    recorded(run, store, *fabric)
    proven(run, store, *fabric)
    assert set(passes(store).values()) == {"run-1"} and len(passes(store)) == 4


@pytest.mark.parametrize(
    ("check", "gate"), [("gpu-census", "nodes"), (COMPARING, "nodes"), ("nccl-intra-node-bw", "fabric_validation")]
)
def test_what_did_not_pass_in_a_wave_is_known_later(check: str, gate: str, run: Run, store: Store) -> None:
    recorded(run, store, outcome(check, node_subject("gpu01"), gate=gate))
    bad = outcome(check, node_subject("gpu01"), gate=gate, status=Status.FAILED)
    proven(run, store, bad, status=Status.FAILED)
    (known,) = store.non_passes("island", "", rehearsal=False)
    (passed,) = store.last_passes("island", rehearsal=False)
    assert known.is_after(passed) and known.run_id.startswith("run-1-wave-001")
    assert known.outcome is not None and known.outcome.subjects[0].name == "gpu01"


def test_a_wave_is_no_run_to_go_back_to(run: Run, store: Store) -> None:
    one = outcome("gpu-access", node_subject("gpu01"), gate="gpu_stack")
    proven(run, store, one)
    assert store.good_runs("island", "gpu_stack", rehearsal=False) == ()
    recorded(run, store, one)
    assert store.good_runs("island", "gpu_stack", rehearsal=False) == ("run-1",)


def test_every_check_of_nodes_that_compares_hosts_says_so() -> None:
    """By its name, or because its judge asks what most hosts have."""
    specs = [check.spec for check in checks_of("nodes", replace(SITE, capabilities=("infiniband", "roce")))]
    named = {spec.id for spec in specs if spec.id.endswith("-uniform")}
    by_judge = {
        "roce-setup", "roce-ecn", "cpu-governor", "partition-keys", "unit-limits", "imex-domain", "network-mounts",
        "nvme-health", "clock-source",
    }  # fmt: skip
    assert {spec.id for spec in specs if spec.compares} == named | by_judge
    assert COMPARING in named
