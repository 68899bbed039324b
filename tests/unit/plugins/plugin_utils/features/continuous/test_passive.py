# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Passive checks of a cycle: one result for each node, and never a pass for what was not read."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from sites import make_site

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.declare import GatePlan, PlannedCheck
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.registry import all_checks
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import JudgeContext
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.host_evidence import (
    DRIVERS,
    HostEvidence,
    unreached,
    write_evidence,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.continuous import passive
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.continuous.cycle_record import NodeLogs
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.decisions import Waiver
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import (
    Outcome,
    Rating,
    Status,
    node_subject,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import DriverOwner, Host, Site
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.records import NodeResult

NAMES, RUN_ID, NOW = ("gpu01", "gpu02"), "20261121T101500Z-3fa2", 1795000000.0
ECC = "gpu-ecc"


class Bench:
    """A run whose hosts were read, and what the judges say of them."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.path = path
        hosts = tuple(Host(name=name, sku="h100", node_name=name) for name in NAMES)
        self.site: Site = make_site(hosts, capabilities=("host_access",))
        self.said = {name: outcome(name) for name in NAMES}
        self.asked = [ECC, "driver-uniform"]
        (path / "run.json").write_text(json.dumps({"run_id": RUN_ID}))
        for name in NAMES:
            self.read(name)
        monkeypatch.setattr(passive, "observe", lambda *_arguments: None)
        monkeypatch.setattr(passive, "judge_gate", self._judge)
        monkeypatch.setattr(passive, "parts_of", lambda _path, _site, host, _sku: {"gpu0": f"GPU-{host.name}"})

    def read(self, name: str, started: str = "2026-11-21T10:20:00.000Z") -> None:
        write_evidence(self.path, HostEvidence(host=name, reached=True, started=started))

    def _judge(self, part: GatePlan, context: JudgeContext, *_rest: Any) -> tuple[Outcome, ...]:
        # An XID 94 is a note on a node that works (domain.md T222); at acceptance a person decides.
        assert context.in_service
        assert [check.id for check in part.checks] == [name for name in self.asked if name == ECC]
        return tuple(self.said.values())

    def results(self, before: tuple[NodeResult, ...] = ()) -> dict[str, NodeResult]:
        checks = tuple(
            PlannedCheck(check=check, observer=check.observer, subjects=NAMES)
            for check in all_checks()
            if check.spec.id in self.asked
        )
        run = SimpleNamespace(
            path=self.path,
            site=self.site,
            record=SimpleNamespace(run_id=RUN_ID, started="2026-11-21T10:15:00Z"),
            declaration=lambda gate: GatePlan(gate=gate, checks=checks),
            judge_context=lambda gate, today: JudgeContext(gate=gate, site=self.site, today=today),
        )
        found = passive.passive_results(
            cast(Any, run), cast(Any, SimpleNamespace(hardware={})), f"{RUN_ID}-cycle-002",
            {(result.node, result.test): result for result in before}, NodeLogs(self.path / "logs"), NOW,
        )  # fmt: skip
        return {result.node: result for result in found}


def outcome(node: str, status: Status = Status.PASSED, **more: Any) -> Outcome:
    rating = more.pop("rating", Rating.GOOD if status is Status.PASSED else Rating.BAD)
    return Outcome(
        check=ECC, gate="nodes", status=status, rating=rating, subjects=(node_subject(node),),
        summary=more.pop("summary", "seen"), **more,
    )  # fmt: skip


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(tmp_path, monkeypatch)


def test_a_node_that_was_read_and_is_well_passes_at_the_time_of_its_reading(bench: Bench) -> None:
    found = bench.results()
    assert {node: result.status for node, result in found.items()} == dict.fromkeys(NAMES, Status.PASSED)
    assert found["gpu01"].started_s == 1795256400.0 and found["gpu01"].summary == "1 passive check passed"
    assert found["gpu01"].cohort == "h100" and not found["gpu01"].log


def test_every_reading_names_the_parts_that_were_seen_and_what_was_not_read_names_none(bench: Bench) -> None:
    bench.said["gpu02"] = outcome("gpu02", Status.FAILED, cause="ecc-uncorrectable", hint="reset it")
    assert {node: dict(result.parts) for node, result in bench.results().items()} == {
        "gpu01": {"gpu0": "GPU-gpu01"}, "gpu02": {"gpu0": "GPU-gpu02"}
    }  # fmt: skip
    write_evidence(bench.path, unreached("gpu02", "no route to host"))
    assert bench.results()["gpu02"].parts == {}


def test_a_driver_in_pods_is_asked_anew_and_what_its_pods_do_not_say_is_other(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask(_observer: Any, gate: str, _context: Any) -> None:
        if gate == "gpu_stack":
            write_evidence(
                bench.path, HostEvidence(host="gpu01", reached=True, started="2026-11-21T10:21:00Z"), DRIVERS
            )

    bench.site = replace(bench.site, driver_owner=DriverOwner.OPERATOR, capabilities=("host_access", "kubernetes"))
    # Of an earlier cycle: it must not stand for this one.
    write_evidence(bench.path, HostEvidence(host="gpu02", reached=True, started="2026-11-21T09:00:00Z"), DRIVERS)
    monkeypatch.setattr(passive, "observe", ask)
    found = bench.results()
    assert found["gpu01"].status is Status.PASSED
    assert (found["gpu02"].status, found["gpu02"].cause) == (Status.OTHER, "evidence-missing")
    write_evidence(bench.path, unreached("gpu01", "no route to host"))
    assert bench.results()["gpu01"].cause == "host-unreachable"
    # A site that reaches its nodes by the cluster alone.
    bench.site = replace(bench.site, capabilities=("kubernetes",))
    assert {node: result.status for node, result in bench.results().items()} == {
        "gpu01": Status.PASSED, "gpu02": Status.OTHER
    }  # fmt: skip


@pytest.mark.parametrize("unread", ["hosts", "pods"])
def test_a_fault_that_was_seen_is_told_whatever_was_not_seen_beside_it(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, unread: str
) -> None:
    """SSH is down, or the operator's pod is away: the other of both saw the fault."""

    def ask(_observer: Any, gate: str, _context: Any) -> None:
        for name in ("gpu01", *(("gpu02",) if unread == "hosts" else ())):
            if gate == "gpu_stack":
                read = HostEvidence(host=name, reached=True, started="2026-11-21T10:21:00Z")
                write_evidence(bench.path, read, DRIVERS)

    def judge(part: GatePlan, *rest: Any) -> tuple[Outcome, ...]:
        seen_by = "gpu_stack" if unread == "hosts" else "nodes"
        return bench._judge(part, *rest) if part.gate == seen_by else tuple(outcome(name) for name in NAMES)

    bench.site = replace(bench.site, driver_owner=DriverOwner.OPERATOR, capabilities=("host_access", "kubernetes"))
    monkeypatch.setattr(passive, "observe", ask)
    monkeypatch.setattr(passive, "judge_gate", judge)
    if unread == "hosts":
        write_evidence(bench.path, unreached("gpu02", "no route to host"))
    words = {"hosts": "the host was not reached: no route to host", "pods": "the operator's pod on it was not read"}
    assert bench.results()["gpu02"].status is Status.OTHER, "without a fault what was not seen decides"
    bench.said["gpu02"] = outcome("gpu02", Status.FAILED, cause="ecc-uncorrectable", hint="reset it")
    found = bench.results()
    told = found["gpu02"]
    assert (told.status, told.rating, told.cause) == (Status.FAILED, Rating.BAD, "ecc-uncorrectable")
    assert words[unread] in told.summary and told.parts == {} and found["gpu01"].status is Status.PASSED
    seen = outcome("gpu02", Status.OTHER, cause="ecc-many-corrected", rating=Rating.MARGINAL)
    bench.said["gpu02"] = seen
    assert bench.results()["gpu02"].status is Status.OTHER


def test_a_fault_that_stands_only_in_old_evidence_is_not_told_again(bench: Bench) -> None:
    bench.said["gpu02"] = outcome("gpu02", Status.FAILED, cause="ecc-uncorrectable", hint="reset it")
    before = replace(bench.results()["gpu02"], cycle_id=f"{RUN_ID}-cycle-001")
    found = bench.results((before,))["gpu02"]
    assert (found.status, found.cause) == (Status.OTHER, "not-read-anew")


def test_a_fault_fails_its_node_alone_and_its_log_says_what_to_do(bench: Bench) -> None:
    bench.said["gpu02"] = outcome("gpu02", Status.FAILED, cause="ecc-uncorrectable", hint="reset it")
    found = bench.results()
    assert (found["gpu02"].status, found["gpu02"].cause) == (Status.FAILED, "ecc-uncorrectable")
    assert found["gpu01"].status is Status.PASSED
    assert "ecc-uncorrectable: seen [reset it]" in NodeLogs(bench.path / "logs").read(found["gpu02"].log)


def test_what_waits_for_a_person_is_other_and_marginal_until_somebody_decides(bench: Bench) -> None:
    bench.said["gpu02"] = outcome("gpu02", Status.OTHER, cause="ecc-many-corrected", rating=Rating.MARGINAL)
    found = bench.results()["gpu02"]
    assert (found.status, found.rating, found.cause) == (Status.OTHER, Rating.MARGINAL, "ecc-many-corrected")
    waiver = Waiver(check=ECC, subject="gpu02", who="A. Person", reason="watched", until="2027-01-01")
    bench.site = replace(bench.site, waivers=(waiver,))
    found = bench.results()["gpu02"]
    assert found.status is Status.PASSED and "ecc-many-corrected decided by A. Person" in found.summary


@pytest.mark.parametrize("how", ["unreachable", "missing", "unreadable", "unanswered", "not anew"])
def test_what_was_not_read_is_other_by_name_whatever_a_judge_says(bench: Bench, how: str) -> None:
    file, before = bench.path / "evidence" / "hosts" / "gpu02.json", ()
    if how == "unreachable":
        write_evidence(bench.path, unreached("gpu02", "no route to host"))
    elif how == "missing":
        file.unlink()
    elif how == "unreadable":
        file.write_text("{")
    elif how == "unanswered":
        bench.said["gpu02"] = bench.said["gpu01"]
    else:
        read = bench.results()["gpu02"]
        before = (replace(read, cycle_id=f"{RUN_ID}-cycle-001"),)
    found = bench.results(before)
    causes = {
        "unreachable": "host-unreachable", "missing": "evidence-missing", "unreadable": "evidence-missing",
        "unanswered": "no-outcome", "not anew": "not-read-anew",
    }  # fmt: skip
    assert (found["gpu02"].status, found["gpu02"].cause) == (Status.OTHER, causes[how])
    assert "gpu02" in found["gpu02"].summary and found["gpu01"].status is Status.PASSED


def test_a_reading_that_another_run_judged_later_still_counts(bench: Bench) -> None:
    other = replace(bench.results()["gpu02"], cycle_id="20261121T101600Z-aaaa-cycle-001")
    assert bench.results((other,))["gpu02"].status is Status.PASSED


def test_a_site_that_nobody_can_ask_has_no_result_and_one_that_asks_nothing_no_pass(bench: Bench) -> None:
    bench.asked = ["driver-uniform"]
    assert {result.cause for result in bench.results().values()} == {"nothing-asked"}
    bench.site = replace(bench.site, capabilities=())
    assert bench.results() == {}
