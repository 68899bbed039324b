# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The end of a run that is not passed: what nobody looked at, and how to start again."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.command_line import command_line
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.gates import GATE_IDS
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.report.console import closing_lines
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.start_ansible import TYPED
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.gate import GateVerdict
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.restart import (
    VARIABLE,
    inventories_of,
    not_looked_at,
    restart,
    way_on,
    without_mistakes,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.run import (
    RunRecord,
    Work,
    as_interrupted,
    new_run,
    run_summary,
)

COMMAND = "ansible-playbook gpufleet.bringup.site -i hosts.yml"


def record(scope: tuple[str, ...] = GATE_IDS, **status: Status) -> RunRecord:
    made = new_run("r1", "lab", "2026-11-22T10:00:00Z", scope, rehearsal=False)
    for gate, word in status.items():
        made = made.with_gate(GateVerdict(gate=gate, status=word, message="m"))
    return replace(made, command=COMMAND, history=True)


def test_a_start_again_begins_at_the_gate_that_is_not_passed() -> None:
    made = record(facility=Status.PASSED, fabric=Status.FAILED)
    assert restart(made) == f"{COMMAND} -e gpufleet_from_gate=fabric"
    assert not_looked_at(made) == GATE_IDS[2:]
    assert closing_lines(made, Path("/r"))[-3:] == [
        f"not looked at: {', '.join(GATE_IDS[2:])}",
        "         do: -e gpufleet_look_on=true reads on without tests, so that one visit mends all of it",
        f"again: {COMMAND} -e gpufleet_from_gate=fabric",
    ]


def test_the_first_gate_and_a_run_without_history_start_from_the_beginning() -> None:
    assert restart(record(facility=Status.OTHER)) == COMMAND
    assert restart(replace(record(facility=Status.PASSED, fabric=Status.FAILED), history=False)) == COMMAND


def test_a_run_that_was_refused_starts_again_where_it_wanted_to() -> None:
    refused = replace(record(), problem="inventory: wrong", from_gate="nodes")
    assert restart(refused) == f"{COMMAND} -e gpufleet_from_gate=nodes"


def test_without_a_command_the_variable_is_named() -> None:
    made = replace(record(facility=Status.PASSED, fabric=Status.OTHER), command="")
    assert restart(made) == "launch it with gpufleet_from_gate=fabric"


def test_a_passed_run_and_one_that_goes_on_say_nothing() -> None:
    passed = record(("facility",), facility=Status.PASSED)
    assert (restart(passed), not_looked_at(passed)) == ("", ())
    going_on = record(facility=Status.PASSED)
    assert (restart(going_on), not_looked_at(going_on)) == ("", ())


def test_gate_8_is_looked_at_after_gate_7() -> None:
    before = dict.fromkeys(GATE_IDS[:6], Status.PASSED)
    assert not_looked_at(record(**before, training_acceptance=Status.FAILED)) == ()


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["site.yml", "-i", "h.yml", "--tags", "nodes"], "site.yml -i h.yml --tags nodes"),
        (["site.yml", "-e", "gpufleet_from_gate=nodes gpufleet_gates=nodes"], "site.yml -e gpufleet_gates=nodes"),
        (
            ["rehearse.yml", "-e", "gpufleet_rehearsal_faults=gpu-lost gpufleet_rehearsal_nodes=4"],
            "rehearse.yml -e gpufleet_rehearsal_faults=gpu-lost -e gpufleet_rehearsal_nodes=4",
        ),
        (["site.yml", "-eansible_become_pass=pw x=1"], "site.yml -e ansible_become_pass=... -e x=..."),
        (["site.yml", "--extra-vars=@vars.yml"], "site.yml -e @vars.yml"),
        (
            ["site.yml", "-e", '{"gpufleet_settings": {"a": {"b": 1}}, "gpufleet_from_gate": "nodes", "pw": "x"}'],
            """site.yml -e '{"gpufleet_settings": {"a": {"b": 1}}}' -e pw=[redacted]""",
        ),
        (["site.yml", "-e", "{broken"], "site.yml"),
    ],
)
def test_a_command_line_is_shown_without_secrets_and_without_its_start(
    given: list[str], expected: str, tmp_path: Path
) -> None:
    argv = ["/usr/bin/ansible-playbook", *given]
    assert command_line(argv, {}, tmp_path, without=(VARIABLE,)) == f"ansible-playbook {expected}"


def test_the_program_of_a_checkout_is_shown_with_its_path(tmp_path: Path) -> None:
    program = tmp_path / ".cache/venv/bin/ansible-playbook"
    assert command_line([str(program), "x.yml"], {}, tmp_path) == ".cache/venv/bin/ansible-playbook x.yml"


@pytest.mark.parametrize(
    ("typed", "shown"),
    [
        (".cache/venv/bin/ansible-playbook", ".cache/venv/bin/ansible-playbook"),
        ("../venv/bin/ansible-playbook", "../venv/bin/ansible-playbook"),
        ("/srv/venv/bin/ansible-playbook", "ansible-playbook"),
        ("/opt/other/bin/ansible-playbook", "/opt/other/bin/ansible-playbook"),
    ],
)
def test_the_program_is_shown_as_it_can_be_called_again(typed: str, shown: str, tmp_path: Path) -> None:
    environment = {"PATH": "/srv/venv/bin:/usr/bin"}
    assert command_line([typed, "x.yml"], environment, tmp_path) == f"{shown} x.yml"


def test_a_playbook_that_our_program_started_is_shown_as_that_was_typed(tmp_path: Path) -> None:
    argv = [
        "/usr/lib/python3/ansible/__main__.py",
        "playbook",
        "gpufleet.bringup.site",
        "--tags",
        "plan",
        "-i",
        "h.yml",
    ]
    environment = {"PATH": "/srv/venv/bin", TYPED: "/srv/venv/bin/gpufleet plan"}
    assert command_line(argv, environment, tmp_path) == "gpufleet plan -i h.yml"


def test_a_run_that_the_user_ended_starts_again_where_it_was(tmp_path: Path) -> None:
    passed = replace(record(facility=Status.PASSED, fabric=Status.PASSED), command="site -i x.yml", history=True)
    ended = as_interrupted(passed)
    assert run_summary(ended) == "not passed: interrupted in gate nodes; passed before that: facility, fabric"
    assert [gate.gate for gate in ended.gates if gate.message == "interrupted"] == ["nodes"]
    assert way_on(ended) == ("Start again", "site -i x.yml -e gpufleet_from_gate=nodes")
    assert closing_lines(ended, tmp_path)[-1] == "again: site -i x.yml -e gpufleet_from_gate=nodes"
    # What had ended by itself before is no interruption.
    for over in (record(nodes=Status.FAILED), replace(passed, problem="no contact"), replace(passed, check_mode=True)):
        assert as_interrupted(over) == over
    done = replace(passed, work=Work(verb="roll autumn", sentence="4 of 4 nodes returned", passed=True, failed=False))
    assert as_interrupted(done) == done
    roll = replace(passed, work=Work(verb="roll autumn"))
    assert run_summary(as_interrupted(roll)) == "not passed: interrupted in roll autumn"
    assert way_on(as_interrupted(roll)) == ("Start again", "site -i x.yml")


def test_ansible_as_a_module_is_called_as_one(tmp_path: Path) -> None:
    path = "/usr/lib/python3/ansible/__main__.py"
    shown = command_line([path, "playbook", "x.yml"], {"PATH": str(Path(sys.executable).parent)}, tmp_path)
    assert shown == f"{Path(sys.executable).name} -m ansible playbook x.yml"


@pytest.mark.parametrize(
    ("given", "mended"),
    [
        ("-e gpufleet_rehearsal_faults=gpu-missing@gpu03/gpu5", ""),
        (
            """-e '{"gpufleet_rehearsal_faults": ["x@gpu01"], "gpufleet_rehearsal_nodes": 4}'""",
            """ -e '{"gpufleet_rehearsal_nodes": 4}'""",
        ),
        ("-e gpufleet_rehearsal_nodes=4", " -e gpufleet_rehearsal_nodes=4"),
    ],
)
def test_a_rehearsed_fault_is_not_rehearsed_again_unless_it_was_refused(given: str, mended: str) -> None:
    """A gate that failed is to pass on a cluster that was mended; a call that was refused is to do what it asked."""
    failed = replace(record(facility=Status.FAILED), command=f"{COMMAND} {given}")
    assert restart(failed) == f"{COMMAND}{mended}"
    refused = replace(record(), problem="group 'gpu_nodes': matches no host.", command=f"{COMMAND} {given}")
    assert restart(refused) == f"{COMMAND} {given}"


@pytest.mark.parametrize(
    ("problem", "given", "shown"),
    [
        ("gates: 'nonsense' is no gate.", "-e gpufleet_gates=nonsense", "-e gpufleet_gates=<...>"),
        ("gpufleet_gates: a gate is unknown.", "-e gpufleet_gates=x", "-e gpufleet_gates=<...>"),
        ("/nope: no such file.", "-e gpufleet_kubeconfig=/nope", "-e gpufleet_kubeconfig=<...>"),
        ("gpufleet_gates_x: wrong.", "-e gpufleet_gates=nodes", "-e gpufleet_gates=nodes"),
        ("none of 8 hosts answers.", "-e gpufleet_wave_change=none", "-e gpufleet_wave_change=none"),
        ("gpufleet_gate: is no variable of this collection (extra variable), so nothing reads it. Fix: did you mean "
         "gpufleet_gates?", "-e gpufleet_gate=nodes", "-e gpufleet_gates=nodes"),
        ("gpufleet_gate: is no variable of this collection (x), so nothing reads it. Fix: did you mean gpufleet_gates?",
         """-e '{"gpufleet_gate": "nodes", "gpufleet_mode": 1}'""",
         """-e '{"gpufleet_gates": "nodes", "gpufleet_mode": 1}'"""),
        ("gpufleet_zzz: is no variable of this collection (extra variable), so nothing reads it. Fix: remove it",
         "-e gpufleet_zzz=1 -e gpufleet_gates=nodes", "-e gpufleet_gates=nodes"),
        ("--tags nodes: is no tag of this playbook. Fix: -e gpufleet_gates=nodes limits the scope", "--tags nodes",
         "-e gpufleet_gates=nodes"),
        (
            "--tags nodes: no.\n  2. gpufleet_gate: is no variable of this collection. did you mean gpufleet_gates?",
            "-t nodes -e gpufleet_gate=nodes -v -v",
            "-e gpufleet_gates=nodes -v -v",
        ),
        ("--tags plna: is no tag of this playbook. Fix: did you mean --tags plan?", "--tags plna", "--tags plan"),
        ("--tags noodes: is no tag of this playbook. Fix: -e gpufleet_gates=nodes limits the scope", "-t noodes",
         "-e gpufleet_gates=nodes"),
        ("gpufleet_recipe_command: is 'explane', expected one of a, b. Fix: did you mean -e "
         "gpufleet_recipe_command=explain? choose one: a, b", "-e gpufleet_recipe_command=explane",
         "-e gpufleet_recipe_command=explain"),
        ("rehearsal: 2 problems found.\n  1. gpufleet_notes: is an extra variable, x.\n  2. ansible_connection: is an "
         "extra variable, x.", """-e '{"gpufleet_notes": [], "ansible_connection": "x"}' -e gpufleet_notes=1""",
         ""),
        ("ansible_connection: is an extra variable, and x.", "-e ansible_connection=... -e y=...", "-e y=..."),
        ("--tags noodes: is no tag of this playbook. Fix: x", "--tags=noodes", "-e gpufleet_gates=<...>"),
        ("ansible-playbook: 2 problems found.\n  1. --tags plan,nodes: asks for a plan and for a run. Fix: x\n  2. y",
         "--tags plan,nodes", "--tags plan"),
        ("--skip-tags facility: would leave out a part in silence.", "--skip-tags facility",
         f"-e gpufleet_gates={','.join(GATE_IDS[1:])}"),
        ("--skip-tags plan: would leave out a part in silence.", "--skip-tags plan", ""),
        ("--limit x: leaves localhost out, so nothing would be looked at.", "--limit x", ""),
        ("--start-at-task 'Start a run': leaves out the checks before it.", "--start-at-task 'Start a run'", ""),
        ("-i my-site/host.yml: does not exist. Fix: did you mean -i my-site/hosts.yml?", "-i my-site/host.yml",
         "-i my-site/hosts.yml"),
        ("-i none.yml: does not exist. Fix: name the file of your hosts", "-i none.yml", "-i <...>"),
        ("gpufleet_settings.gpu-operator: is no gate, check or test of nodes.", "-e gpufleet_set=gpu-operator.x.y=1",
         "-e gpufleet_set=<...>"),
        ("gpufleet_settings.x: is no check.", """-e '{"gpufleet_set": ["x.y=1"], "gpufleet_gates": "nodes"}'""",
         """-e '{"gpufleet_gates": "nodes"}' -e gpufleet_set=<...>"""),
        ("gpufleet_settings.x: is no check.", "-e gpufleet_set=dcgm-diag.level=4", "-e gpufleet_set=dcgm-diag.level=4"),
        ("--tags x: is no tag. Fix: -e gpufleet_gates=nodes limits", "-e gpufleet_gates=nodes --check",
         "-e gpufleet_gates=nodes --check"),
        ("snapshot: is incomplete. Fix: ask these nodes by pods: -e gpufleet_snapshot_pods=gpu (option node_pods) or x",
         "-e gpufleet_run=r", "-e gpufleet_run=r -e gpufleet_snapshot_pods=gpu"),
        ("gpufleet_acceptances[0]: who: missing.",
         """-e '{"gpufleet_acceptances": [{"check": "x"}], "gpufleet_gates": "nodes"}'""",
         """-e '{"gpufleet_gates": "nodes"}' -e '{"gpufleet_acceptances": [<...>]}'"""),
        ("gpufleet_settings.x: is no check.", """-e '{"gpufleet_settings": {"x": {}}}'""",
         """-e '{"gpufleet_settings": {<...>}}'"""),
        ("x: held by y. Fix: start this run after that one, or let it wait: -e gpufleet_when_held=wait", "-v", "-v"),
        ("gpufleet_wave_reboot: is always. Fix: -e gpufleet_wave_reboot=never", "-e gpufleet_wave_reboot=always",
         "-e gpufleet_wave_reboot=never"),
        ("x: no recipe. Fix: resolve one: ansible-playbook a.b.recipe -e gpufleet_gates=nodes", "-v", "-v"),
        ("x: none. Fix: name it: -e gpufleet_run=.run/latest, or none", "-v", "-v"),
        ("x: none. Fix: name it (-e gpufleet_run=DIRECTORY)", "-v", "-v"),
        ("cluster: is held by run r2, by `ansible-playbook site -e gpufleet_gates=nodes`, since x. Fix: start this run "
         "after that one, or let it wait: -e gpufleet_when_held=wait", "-e gpufleet_gates=nodes",
         "-e gpufleet_gates=nodes"),
        ("nodir: holds no run (no run.json). Fix: start one (ansible-playbook a.b.site -i INVENTORY), or name another",
         "-e gpufleet_run=nodir", "-e gpufleet_run=<...>"),
        ("old.json: cannot be read: No such file.", "-e gpufleet_drift_before=old.json",
         "-e gpufleet_drift_before=<...>"),
        ("site: 1 problem found.\n  1. gpufleet_gates: 'node' is not a gate. Fix: did you mean nodes? the gates are x",
         "-e gpufleet_gates=fabric,node", "-e gpufleet_gates=fabric,nodes"),
        ("site: 2 problems found.\n  1. gpufleet_gates: 'fabrics' is not a gate. Fix: did you mean fabric? x\n  2. "
         "gpufleet_gates: 'foo' is not a gate. Fix: the gates are x", "-e gpufleet_gates=fabrics,foo",
         "-e gpufleet_gates=<...>"),
        ("site: 1 problem found.\n  1. gpufleet_settings.dcgm-dig: is no gate. Fix: did you mean 'dcgm-diag'?",
         "-e gpufleet_set=dcgm-dig.level=2", "-e gpufleet_set=dcgm-diag.level=2"),
        ("x: 3 problems found.\n  1. gpufleet_driver_owner: is 'hosts', expected x. Fix: did you mean -e "
         "gpufleet_driver_owner=host? y\n  2. gpufleet_orchestrator: is 'k8s', expected x. Fix: choose one: x, y\n  3. "
         "gpufleet_profile: is 'onprem', expected x. Fix: did you mean -e gpufleet_profile=on_premises? choose one: x",
         "-e gpufleet_profile=onprem -e gpufleet_driver_owner=hosts -e gpufleet_orchestrator=k8s",
         "-e gpufleet_profile=on_premises -e gpufleet_driver_owner=host -e gpufleet_orchestrator=<...>"),
        ("gpufleet_waivrs: is no variable of this collection (x), so x. Fix: did you mean gpufleet_waivers, "
         "which is a list of mappings?", "-e gpufleet_waivrs=3", "-e gpufleet_waivers=<...>"),
        ("gpufleet_rehearsal_play 'continous': is nothing. Fix: did you mean 'continuous'? known: site",
         "-e gpufleet_rehearsal_play=continous", "-e gpufleet_rehearsal_play=continuous"),
        ("gpufleet_rehearsal_faults 'gpu-mising': is unknown. Fix: did you mean 'gpu-missing' or 'mount-missing'?",
         "-e gpufleet_rehearsal_faults=gpu-mising@gpu03", "-e gpufleet_rehearsal_faults=<...>"),
        ("x: 1 problem found.\n  1. gpufleet_gates: 'node' is not a gate. Fix: did you mean nodes? the gates are x",
         """-e '{"gpufleet_gates": ["node", "fabric"]}'""", """-e '{"gpufleet_gates": ["nodes", "fabric"]}'"""),
        ("gpufleet_settings.dcgm-diag.level: is no mapping. Fix: did you mean -e gpufleet_set=dcgm-diag.level=2?",
         "-e gpufleet_settings=dcgm-diag.level=2", "-e gpufleet_set=dcgm-diag.level=2"),
        ("x: 2 problems found.\n  1. gpufleet_snapshot: is not set. Fix: state it: -e gpufleet_snapshot=..., or -e "
         "gpufleet_x=...\n  2. gpufleet_who: is missing. Fix: state it: -e gpufleet_who=...", "-v",
         "-v -e gpufleet_snapshot=<...> -e gpufleet_who=<...>"),
        ("gpufleet_settings.dcgm-diag.level: is no mapping. Fix: did you mean -e gpufleet_set=dcgm-diag.level=2?",
         """-e '{"gpufleet_settings": {"dcgm-diag.level": 2}}'""",
         """-e '{"gpufleet_set": "dcgm-diag.level=2"}'"""),
        ("x: 2 problems found.\n  1. criteria service: 'generc' is not a known value. Fix: Did you mean 'generic'?\n"
         "  2. criteria intent: 'trainig' is not a known value. Fix: did you mean 'training'?",
         """-e '{"gpufleet_criteria": {"service": "generc", "intent": "trainig"}}'""",
         """-e '{"gpufleet_criteria": {"service": "generic", "intent": "training"}}'"""),
        ("gpufleet_rehearsal_faults 'gpu-lost@gpu33/gpu1': there is no host 'gpu33'. Fix: did you mean 'gpu03'?",
         "-e gpufleet_rehearsal_faults=gpu-lost@gpu33/gpu1,xid-79",
         "-e gpufleet_rehearsal_faults=gpu-lost@gpu03/gpu1,xid-79"),
        ("criteria service: 'zzz' is not a known value. Fix: known: aks, eks",
         "-e gpufleet_criteria=service=zzz,intent=training", "-e gpufleet_criteria=<...>"),
        ("facility: the record is missing.", "-e gpufleet_gates=facility", "-e gpufleet_gates=facility"),
        ("host n1: no rack.", "-e gpufleet_gates=nodes", "-e gpufleet_gates=nodes"),
    ],
)  # fmt: skip
def test_a_value_that_was_wrong_is_not_said_again(problem: str, given: str, shown: str) -> None:
    refused = replace(record(), problem=problem, command=f"{COMMAND} {given}")
    assert restart(refused) == f"{COMMAND} {shown}".rstrip()


def test_an_inventory_that_is_missing_has_its_place_and_one_that_is_named_stays() -> None:
    problem = "group 'gpu_nodes': matches no host. Fix: name the inventory of the site: -i INVENTORY, with x"
    assert without_mistakes("play site --tags plan", problem) == "play site --tags plan -i <...>"
    assert without_mistakes("play site -i bare.yml", problem) == "play site -i bare.yml"
    assert without_mistakes("play site -ibare.yml", problem) == "play site -i bare.yml"
    other = "r: holds no run. Fix: start one (ansible-playbook a.b.site -i INVENTORY), or name another"
    assert without_mistakes("play judge", other) == "play judge"
    assert inventories_of("play site -i a.yml --inventory=b.yml -ic.yml -v --skip-tags x") == (
        "a.yml",
        "b.yml",
        "c.yml",
    )


@pytest.mark.parametrize(
    ("problem", "gate"),
    [
        ("a start at gate fabric_validation: 2 problems found.\n  1. gate nodes: cannot be taken over: x. Fix: start "
         "at nodes: -e gpufleet_from_gate=nodes, or let what is stale run: -e gpufleet_stale=prove\n  2. gate x: y.",
         "nodes"),
        ("group 'gpu_nodes': matches no host.", "fabric_validation"),
        ("x: 2 problems found.\n  1. gpufleet_from_gate: 'fabric' is not a gate. Fix: did you mean fabric_validation?\n"
         "  2. host n1: no rack.", "fabric_validation"),
        ("gpufleet_from_gate: 'x' is not a gate. Fix: known: facility, fabric", "<...>"),
    ],
)  # fmt: skip
def test_a_start_that_was_refused_is_one_at_the_gate_that_the_refusal_names(problem: str, gate: str) -> None:
    refused = replace(record(), problem=problem, command=COMMAND, from_gate="fabric_validation")
    assert restart(refused) == f"{COMMAND} -e gpufleet_from_gate={gate}"


def test_awx_and_a_line_that_is_too_long_have_no_command(tmp_path: Path) -> None:
    assert command_line(["ansible-playbook", "x.yml"], {"AWX_HOST": "https://awx"}, tmp_path) == ""
    assert command_line(["ansible-playbook", "x" * 2000], {}, tmp_path) == ""
    assert command_line(["ansible-playbook", "x.yml", "-e", "gpufleet_set='a.b=1\nc.d=2'"], {}, tmp_path) == ""
