# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What looks at a simulated cluster with its GPU stack, by somebody who has the shipped roles alone or lacks one right:
the phases of a validation, snapshot and drift, check mode; and two validations at once, of which one is killed."""

from __future__ import annotations

import json
import re
import shutil
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from accounts import kubeconfig_of_account
from live_site import LiveSite, Playbook
from rehearsal_harness import ROOT, Rehearsed, rehearse
from role_bench import role_without
from seeds import drawing
from shared_site import SharedSite
from waiting import eventually

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.phase_rights import phase_rights
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.rights import LEVELS, choices_of, needed_rights
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.cluster import Cluster
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.connection import Connection
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import NAMESPACES
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.permission import Permission
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.snapshot import RIGHTS
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.rbac.app import (
    RbacSubject,
    bindings,
    put_objects,
    subject_objects,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.gates import GATE_IDS
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.run import Run
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.snapshot.measure import collectors_needed
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.namespace import HOLDER

Json = dict[str, Any]
ROLES = yaml.safe_load((ROOT / "docs" / "rbac" / "roles.yaml").read_text(encoding="utf-8"))["items"]
PLACE = "gpufleet-system"
SNAPSHOT = "gpufleet-snapshot-observe"
# What docs/rbac.md names for each phase.
OF_PHASE = {
    "readiness": (SNAPSHOT,),
    "deployment": (SNAPSHOT, "gpufleet-gpu-stack-test"),
    "conformance": (SNAPSHOT, "gpufleet-gpu-stack-test", "gpufleet-telemetry-test"),
    "performance": (
        SNAPSHOT, "gpufleet-fabric-validation-test", "gpufleet-training-acceptance-test",
        "gpufleet-inference-acceptance-test",
    ),
}  # fmt: skip
GATES = GATE_IDS[GATE_IDS.index("gpu_stack") :]
OF_CHECK_MODE = tuple(f"gpufleet-{gate.replace('_', '-')}-observe" for gate in GATES)
# What a whole phase conformance of this site is evidence of; the others take components that its recipe does not have,
# phase performance, a site that says that nodes are added to it, or what no check proves (docs/validate.md).
PROVEN = frozenset(
    {
        "accelerator_metrics", "ai_service_metrics", "driver_runtime_management", "gang_scheduling", "pod_autoscaling",
        "robust_controller", "secure_accelerator_access",
    }
)  # fmt: skip
KILL = "SIGKILL to its workers and its keeper too"


@dataclass(frozen=True)
class Bench:
    """The site, the run that installed its stack, and where those who look run their playbooks."""

    site: LiveSite
    installed: Run
    directory: Path

    def account(self, name: str, *roles: str, without: Permission | None = None) -> str:
        """Make a service account that has these shipped roles, or a copy of them without one right; return its
        kubeconfig."""
        who = RbacSubject(kind="ServiceAccount", name=name, namespace=PLACE)
        given = [deepcopy(role) for role in ROLES if role["metadata"]["name"] in roles]
        assert {role["metadata"]["name"] for role in given} == set(roles)
        if without is not None:
            given = [role_without(role, without) for role in given]
            for role in given:
                role["metadata"]["name"] += f"-of-{name}"
        with Cluster(Connection(kubeconfig=str(self.site.kubeconfig))) as admin:
            put_objects(admin, [*subject_objects(who), *given, *bindings(given, who)], dry_run=False)
        path = self.directory / f"{name}.kubeconfig"
        return str(kubeconfig_of_account(self.site.kubeconfig, name, PLACE, path))

    def of_phase(self, phase: str) -> str:
        """Return the kubeconfig of an account with the roles of a phase."""
        return self.account(f"validator-{phase}", *OF_PHASE[phase])

    def play(self, playbook: str, kubeconfig: str, **more: Any) -> Rehearsed:
        """Run a playbook as that account."""
        inventory = self.site.inventory
        done = rehearse(self.directory, playbook=playbook, inventory=inventory, kubeconfig=kubeconfig, **more)
        return replace(done, run_dir=done.run_dir.resolve())

    def rights_of(self, phase: str) -> list[Permission]:
        """Return what a validation of that phase needs here."""
        run = self.installed
        choices = choices_of(replace(run.site, gates=GATES), run.recipe, run.hardware)
        return [*phase_rights(["readiness", phase], LEVELS, choices, collectors=collectors_needed(run.recipe))]

    def namespaces(self) -> dict[str, str]:
        """Return the namespaces of tests that nobody removes yet, each with the run that made it."""
        with Cluster(Connection(kubeconfig=str(self.site.kubeconfig))) as admin:
            found = [o["metadata"] for o in admin.list_objects(NAMESPACES, labels="gpufleet.io/purpose=test")]
        return {o["name"]: o["annotations"][HOLDER] for o in found if not o.get("deletionTimestamp")}


@pytest.fixture(scope="module")
def bench(site: SharedSite, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    assert site.first.rc == 0, site.first.output[-3000:]
    return Bench(site.live, Run(site.first.run_dir), tmp_path_factory.mktemp("validate"))


@pytest.fixture(scope="module")
def conformance(bench: Bench) -> Rehearsed:
    """Phase conformance, with nobody else on the cluster."""
    return bench.play("validate.yml", bench.of_phase("conformance"), phases=["conformance"])


def phases_of(record: Json) -> dict[str, str]:
    """Return the status of each phase."""
    return {verdict["gate"]: verdict["status"] for verdict in record.get("phases", ())}


def results_of(run_dir: Path) -> set[tuple[str, str, tuple[str, ...], str]]:
    """Return each result of a validation: phase, check, subjects, status."""
    found = set()
    for path in (path for path in (run_dir / "ctrf").glob("*.json") if path.stem != "all"):
        for test in json.loads(path.read_text(encoding="utf-8"))["results"]["tests"]:
            outcome = test["extra"]["outcome"]
            subjects = tuple(subject["name"] for subject in outcome["subjects"])
            found.add((path.stem, outcome["check"], subjects, test["status"]))
    return found


def assert_passed(bench: Bench, done: Rehearsed, phase: str) -> None:
    """Readiness and a phase passed, and nothing is told or written of gates; nothing of a test is left."""
    expected = {"readiness": "passed", phase: "passed"}
    assert done.rc == 0 and phases_of(done.record) == expected, done.output[-4000:]
    results = results_of(done.run_dir)
    assert {result[0] for result in results} == set(expected) and {result[3] for result in results} == {"passed"}
    assert "REHEARSAL validated: " in done.output
    metrics = (done.run_dir / "metrics.prom").read_text(encoding="utf-8")
    assert f'phase="{phase}",status="passed"}} 1' in metrics and "bringup_gate_" not in metrics
    table = done.output.rpartition("\nphase ")[2].splitlines()
    assert [tuple(line.split()[:2]) for line in table[2 : 2 + len(expected)]] == [*expected.items()]
    assert not re.search(rf"^\d +({'|'.join(GATE_IDS)}) ", done.output, re.MULTILINE)
    assert "gpufleet_gates_by_status" in done.stats and done.stats["gpufleet_gates_by_status"] == {}
    # The API server takes a moment to empty the last namespace.
    eventually(lambda: not bench.site.tests(), what=bench.site.tests)


def assert_named(done: Rehearsed, right: Permission) -> None:
    """The run ended badly, and its output names the right that is missing."""
    assert done.rc != 0 and f"this user may not {right.text}." in done.output, (right.text, done.output[-3000:])


@pytest.mark.drawn(2, of="looking under the shipped roles")
def test_readiness_works_with_exactly_the_shipped_rights(bench: Bench) -> None:
    done = bench.play("validate.yml", bench.of_phase("readiness"), phases=["readiness"])
    assert_passed(bench, done, "readiness")
    page = (done.run_dir / "report.html").read_text(encoding="utf-8")
    assert "Phases of the validation" in page and "not asked in this run" in page


@pytest.mark.drawn(2, of="looking under the shipped roles")
def test_deployment_works_with_the_shipped_rights_and_says_what_they_do_not_show(bench: Bench) -> None:
    done = bench.play("validate.yml", bench.of_phase("deployment"), phases=["deployment"])
    assert_passed(bench, done, "deployment")
    assert "whether it was changed by hand is not known" in done.output, done.output[-4000:]


def with_a_failed_gang(run_dir: Path, directory: Path) -> Path:
    """Return a copy of a run in which the check of gangs failed."""
    copy = directory / run_dir.name
    shutil.copytree(run_dir, copy)
    path = copy / "ctrf" / "conformance.json"
    report = json.loads(path.read_text(encoding="utf-8"))
    (gang,) = (t for t in report["results"]["tests"] if t["extra"]["outcome"]["check"] == "gang-admission")
    gang["status"] = "failed"
    gang["extra"]["outcome"] |= {"status": "failed", "rating": "bad", "cause": "gang-partial", "hint": "look"}
    summary = report["results"]["summary"]
    summary |= {"passed": summary["passed"] - 1, "failed": 1}
    path.write_text(json.dumps(report), encoding="utf-8")
    return copy


@pytest.mark.drawn(2, of="looking under the shipped roles")
def test_conformance_works_with_the_shipped_rights_and_is_evidence(
    bench: Bench, conformance: Rehearsed, tmp_path: Path
) -> None:
    assert_passed(bench, conformance, "conformance")
    evidence = bench.play("ai_conformance.yml", "", run=str(conformance.run_dir))
    assert evidence.rc == 0, evidence.output[-3000:]
    pages = {path.stem: path.read_text(encoding="utf-8") for path in (conformance.run_dir / "ai_conformance").iterdir()}
    index = dict(re.findall(r"^\| \[(\w+)\]\(\w+\.md\).* \| \w+ \| (\w+) \|", pages.pop("index"), re.MULTILINE))
    assert index.keys() == pages.keys() and {name for name, word in index.items() if word == "PASS"} == PROVEN, index
    assert set(index.values()) == {"PASS", "SKIP"}
    failed = bench.play("ai_conformance.yml", "", run=str(with_a_failed_gang(conformance.run_dir, tmp_path)))
    assert failed.rc != 0 and "not met: gang_scheduling" in failed.output, failed.output[-3000:]


@pytest.mark.drawn(2, of="looking under the shipped roles")
def test_performance_works_with_exactly_the_shipped_rights(bench: Bench) -> None:
    done = bench.play("validate.yml", bench.of_phase("performance"), phases=["performance"])
    assert_passed(bench, done, "performance")


@pytest.mark.drawn(1, of="rights that are missing")
@pytest.mark.parametrize("phase", OF_PHASE)
def test_a_right_that_is_missing_is_named_with_the_command_that_gives_it(bench: Bench, phase: str) -> None:
    right = drawing(f"rights of {phase}").choice(bench.rights_of(phase))
    kubeconfig = bench.account(f"less-{phase}", *OF_PHASE[phase], without=right)
    done = bench.play("validate.yml", kubeconfig, phases=[phase])
    assert_named(done, right)
    assert "passed" not in phases_of(done.record).values() and "verdict  not started: " in done.output
    assert "binding gpufleet-" in done.output and "kubectl apply -f docs/rbac/roles.yaml" in done.output
    assert bench.site.tests() == []


@pytest.mark.drawn(2, of="looking under the shipped roles")
def test_snapshot_and_drift_work_with_exactly_the_shipped_rights(bench: Bench, tmp_path: Path) -> None:
    kubeconfig = bench.account("observer", SNAPSHOT)
    before = tmp_path / "before.json"
    taken = bench.play("snapshot.yml", kubeconfig, snapshot=str(before))
    assert taken.rc == 0, taken.output[-3000:]
    collectors = json.loads(before.read_text(encoding="utf-8"))["collectors"]
    states = {name: found["state"] for name, found in collectors.items()}
    assert {name for name, state in states.items() if state != "whole"} == {"hosts"}, states
    told = {"drift_before": str(before), "drift_report": str(tmp_path / "drift")}
    same = bench.play("drift.yml", kubeconfig, **told)
    assert same.rc == 0, same.output[-3000:]
    right = drawing("rights of a snapshot").choice(RIGHTS)
    less = bench.play("drift.yml", bench.account("observer-less", SNAPSHOT, without=right), **told)
    assert less.rc != 0 and "not everything could be compared" in less.output, (right.text, less.output[-3000:])
    assert right.verb in less.output and right.resource in less.output, (right.text, less.output[-3000:])


@pytest.mark.drawn(1, of="runs under the roles of one gate")
@pytest.mark.parametrize("gate", GATES[1:])
def test_a_run_passes_a_gate_by_an_account_that_has_the_roles_of_that_gate_alone(bench: Bench, gate: str) -> None:
    """The whole playbook: preflight, the hold of the cluster, the gate, what it removes, the report."""
    word = gate.replace("_", "-")
    done = bench.play("site.yml", bench.account(f"tester-of-{word}", f"gpufleet-{word}-test"), gates=[gate])
    assert done.rc == 0, done.output[-3000:]
    assert done.status(gate) == "passed"
    eventually(lambda: not bench.namespaces(), what="nothing of its tests is left")


@pytest.mark.drawn(2, of="looking under the shipped roles")
def test_check_mode_goes_through_the_gates_with_the_observing_roles_alone(bench: Bench) -> None:
    kubeconfig = bench.account("looker", *OF_CHECK_MODE)
    done = bench.play("site.yml", kubeconfig, cmdline="--check", gates=list(GATES))
    assert "check mode: no gate was decided, so nothing is passed" in done.output, done.output[-4000:]
    for gate in GATES:
        assert f"check mode: {gate}: " in done.output, gate
    # Of releases it may not read each object, and through a stream nothing is asked (docs/rbac.md).
    refused = [line for line in done.output.splitlines() if re.search("may not|forbidden", line)]
    assert refused and all(re.search("changed by hand is not known: |/portforward: ", line) for line in refused), (
        refused
    )
    assert bench.site.tests() == [] and bench.site.holder() == ""


@pytest.mark.drawn(1, of="rights that are missing")
def test_check_mode_names_the_right_that_is_missing(bench: Bench) -> None:
    run = bench.installed
    choices = choices_of(replace(run.site, gates=GATES), run.recipe, run.hardware)
    right = drawing("rights of check mode").choice([*needed_rights(GATES, LEVELS[:1], choices)])
    kubeconfig = bench.account("looker-less", *OF_CHECK_MODE, without=right)
    assert_named(bench.play("site.yml", kubeconfig, cmdline="--check", gates=list(GATES)), right)


@pytest.mark.long("chains of kills; in test_workloads.py a validation that was killed gives way to the next")
def test_of_two_validations_at_once_the_one_that_is_killed_changes_nothing_for_the_other(
    bench: Bench, conformance: Rehearsed
) -> None:
    """One makes its tests and is killed there with its keeper; one waits for the cluster, and one is refused."""
    kubeconfig = bench.of_phase("conformance")

    def start(number: int, **variables: str) -> Playbook:
        return bench.site.controller(
            f"{number}-ctl{number}", f"ctl{number}", (), playbook="validate.yml", phases=["conformance"],
            kubeconfig=kubeconfig, **variables,
        )  # fmt: skip

    killed = start(1)
    eventually(lambda: bench.namespaces() or killed.process.poll() is not None, 240, killed.said)
    killed.stand_still()
    left = bench.namespaces()
    run_id = killed.record["run_id"]
    assert left and {holder.endswith(run_id) for holder in left.values()} == {True}, killed.said()[-4000:]
    refused, waiting = start(2), start(3, when_held="wait")
    assert refused.ended() != 0 and f"run {run_id}" in refused.said() and "on controller ctl1" in refused.said()
    assert phases_of(refused.record) == {"readiness": "passed", "conformance": "pending"}, refused.said()[-4000:]
    assert waiting.await_text(f"the cluster is held by run {run_id}"), waiting.said()[-4000:]
    assert bench.namespaces() == left, "who waits or is refused makes nothing, and takes nothing away"
    killed.end_by(KILL)
    bench.site.let_lease_expire()
    made: dict[str, str] = {}

    def ended() -> bool:
        made.update(bench.namespaces())
        return waiting.process.poll() is not None

    eventually(ended, 400, waiting.said)
    own = {name for name, holder in made.items() if name not in left}
    assert own and {made[name].endswith(waiting.record["run_id"]) for name in own} == {True}, made
    assert waiting.process.returncode == 0, waiting.said()[-4000:]
    assert all(f"removing what a dead run left: {name}" in waiting.said() for name in left), waiting.said()[-4000:]
    assert results_of(waiting.directory / ".run" / "latest") == results_of(conformance.run_dir)
    assert phases_of(waiting.record) == phases_of(conformance.record)
    assert phases_of(killed.record) == {"readiness": "passed", "conformance": "pending"}
    for look in (bench.site.tests, bench.site.holder, *(run.living for run in (killed, refused, waiting))):
        eventually(lambda look=look: not look(), what=look)
