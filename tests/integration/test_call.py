# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Commands that cannot be done as they are asked: refused before anything else, in sentences of ours."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import yaml
from bare_python import bare_python
from first_commands import Said, play

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.call import OLDEST_ANSIBLE

# What is of Ansible alone: its classes, its argument specs, lines of its own source.
NOT_FOR_A_USER = ("Traceback", "_Ansible", "argument_spec_data", "Validation of arguments failed", "this is a defect")


def refused(said: Said, *words: str) -> None:
    """It ended with an error that has these words, and began nothing."""
    assert said.rc != 0
    assert [word for word in words if word not in said.output] == [], said.output[-3000:]
    assert [word for word in NOT_FOR_A_USER if word in said.output] == [], said.output[-3000:]
    assert "in scope:" not in said.output


@pytest.mark.drawn(7, of="calls that are refused")
def test_every_wrong_variable_of_command_line_groups_and_hosts_is_said_once_and_together(tmp_path: Path) -> None:
    play(tmp_path, "rehearse_faults", "--syntax-check")
    hosts, group = tmp_path / "inventory/hosts.yml", tmp_path / "inventory/group_vars/all.yml"
    text = hosts.read_text("utf-8").replace("gpu03: {gpufleet_rack", "gpu03: {gpufleet_rak")
    hosts.write_text(text, "utf-8")
    stated = yaml.safe_load(group.read_text("utf-8"))
    stated |= {"gpufleet_quarantin": [], "gpufleet_minimum_nodes": "seven", "gpufleet_waivers": {"check": "gpu-census"}}
    stated |= {"gpufleet_when_held": "waite", "gpufleet_own_thing_of_the_site": 1}
    group.write_text(yaml.safe_dump(stated), "utf-8")
    said = play(tmp_path, "site", "-e", "gpufleet_gate=facility", "-e", "gpufleet_settings=quick")
    refused(
        said, "did you mean gpufleet_gates", "gpufleet_quarantin", "did you mean gpufleet_quarantine", "gpufleet_rack",
        "gpufleet_minimum_nodes: is 'seven', expected a whole number.", "gpufleet_waivers: is a mapping, expected a l",
        "gpufleet_when_held: is 'waite', expected one of refuse, wait.", "does not begin with gpufleet_",
        "gpufleet_settings: is text, expected a mapping.", "8 problems",
        "(stated for all hosts)", "(stated for host gpu03)", "(extra variable)",
    )  # fmt: skip
    assert not (tmp_path / ".run").exists()


@pytest.mark.drawn(7, of="calls that are refused")
def test_a_misspelled_name_hides_no_wrong_setting_and_no_wrong_sku(tmp_path: Path) -> None:
    """What the next check would refuse is in the same list; what follows from the misspelled name is not."""
    play(tmp_path, "rehearse_faults", "--syntax-check")
    hosts, group = tmp_path / "inventory/hosts.yml", tmp_path / "inventory/group_vars/all.yml"
    text = hosts.read_text("utf-8").replace("gpu03: {gpufleet_rack", "gpu03: {gpufleet_sku: dgx-h10, gpufleet_rak")
    hosts.write_text(text, "utf-8")
    stated = yaml.safe_load(group.read_text("utf-8"))
    stated |= {"gpufleet_minimun_nodes": 99}
    stated["gpufleet_settings"] = {"facility": {"alowed_signers": "/x", "identity": ["you@example.org"]}}
    stated["gpufleet_waivers"] = [{"check": "gpu-cens", "subject": "gpu99", "until": "2999-01-01"}]
    group.write_text(yaml.safe_dump(stated), "utf-8")
    said = play(tmp_path, "site")
    refused(
        said, "did you mean gpufleet_minimum_nodes", "did you mean gpufleet_rack", "alowed_signers", "identity",
        "host gpu03: gpufleet_sku is 'dgx-h10'", "'gpu-cens' is not a check", "'gpu99' matches no host",
        "gpufleet_waivers[0]: who: missing.", "gpufleet_waivers[0]: reason: missing.", "gpufleet_waivers[0].until",
    )  # fmt: skip
    assert "has no gpufleet_rack" not in said.output and "is 99" not in said.output, said.output[-3000:]
    assert not (tmp_path / ".run").exists()


@pytest.mark.drawn(7, of="calls that are refused")
def test_a_rehearsal_reports_every_word_that_is_wrong(tmp_path: Path) -> None:
    words = (
        "-e",
        "gpufleet_rehearsal_sku=h10",
        "-e",
        "gpufleet_gates=node",
        "-e",
        "gpufleet_rehearsal_faults=gpu-mising",
    )
    every = ("SKU 'h10'", "gpufleet_gates: 'node' is not a gate", "'gpu-mising': is not in the catalogue")
    said = play(tmp_path, "rehearse", *words, "-e", "gpufleet_rehearsal_nodes=two", inventory=False)
    refused(said, *every, "gpufleet_rehearsal_nodes: is 'two', expected a whole number", "4 problems")
    assert not (tmp_path / ".run").exists()
    said = play(tmp_path, "rehearse", *words, inventory=False)
    refused(said, *every, "3 problems")
    said = play(tmp_path, "rehearse", "-e", "gpufleet_rehearsal_nodes=two", inventory=False)
    refused(said, "gpufleet_rehearsal_nodes: is 'two'")
    assert "problems found" not in said.output


@pytest.mark.drawn(3, of="words that leave out a part")
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (
            ("--tags", "nodes"),
            "--tags nodes: is no tag of this playbook. Fix: -e gpufleet_gates=nodes limits the scope",
        ),
        (("--tags", "plan,nodes"), "asks for a plan and for a run"),
        (("--skip-tags", "facility"), "--skip-tags facility: would leave out a part in silence."),
        (("--start-at-task", "Start a run"), "--start-at-task 'Start a run': leaves out the checks before it."),
        (("--limit", "gpu01"), "leaves localhost, gpu02, gpu03 and 5 more out, so nothing would be looked at"),
        (("--limit", "localhost,gpu01"), "which would count as silent"),
    ],
)
def test_options_that_leave_out_a_part_are_refused(tmp_path: Path, words: tuple[str, ...], expected: str) -> None:
    refused(play(tmp_path, "site", *words), expected)


@pytest.mark.drawn(7, of="calls that are refused")
@pytest.mark.parametrize("enabled", [False, True])
def test_an_error_that_ends_a_playbook_is_told_once_at_the_end_with_the_command(tmp_path: Path, enabled: bool) -> None:
    """U114: Ansible shows the result of a failed task twice, in `[ERROR]` and in `fatal`; neither has the way on."""
    more = {"ANSIBLE_CALLBACKS_ENABLED": "gpufleet.bringup.gates"} if enabled else {}
    said = play(tmp_path, "judge", "-e", "gpufleet_run=.run/nothing", environment=more)
    lines = said.output.splitlines()
    assert said.rc == 2, said.output
    assert sum("holds no run" in line for line in lines) == 1, said.output
    (recap,) = (number for number, line in enumerate(lines) if line.startswith("PLAY RECAP"))
    error, again = [line for line in lines[recap:] if line][-2:]
    assert error.startswith("error    .run/nothing: holds no run") and " Fix: " in error
    assert again.startswith("again: ")
    assert again.endswith("playbook gpufleet.bringup.judge -i inventory/hosts.yml -e gpufleet_run=<...>")


@pytest.mark.drawn(7, of="calls that are refused")
@pytest.mark.parametrize(
    ("playbook", "words", "inventory", "way_on", "again"),
    [
        ("site", ("--tags", "plna"), True, "did you mean --tags plan?", "--tags plan"),
        ("site", ("--tags", "plan"), False, "name the inventory of the site: -i INVENTORY", "--tags plan -i <...>"),
        (
            "recipe", ("-e", "gpufleet_recipe_command=explane"), True,
            "did you mean -e gpufleet_recipe_command=explain? choose one: resolve, query, hydrate, explain, diff, list",
            "-e gpufleet_recipe_command=explain",
        ),
        (
            "rehearse", ("-e", "gpufleet_notes=x", "-e", "ansible_connection=local"), False,
            "gpufleet_notes: is an extra variable, and a rehearsal sets it itself", "gpufleet.bringup.rehearse",
        ),
    ],
)  # fmt: skip
def test_a_word_that_was_misspelled_or_missing_ends_with_the_command_that_was_meant(
    tmp_path: Path, playbook: str, words: tuple[str, ...], inventory: bool, way_on: str, again: str
) -> None:
    said = play(tmp_path, playbook, *words, inventory=inventory)
    refused(said, way_on)
    last = [line for line in said.output.splitlines() if line][-1]
    assert last.startswith("again: ") and last.endswith(again), said.output[-3000:]


@pytest.mark.drawn(7, of="calls that are refused")
def test_a_failure_that_the_play_reads_keeps_its_text(tmp_path: Path) -> None:
    ask = {"gpufleet.bringup.recipe_info": {"criteria": {"service": "kind"}, "selector": "nothing.here"}}
    tasks = [
        {**ask, "register": "asked", "ignore_errors": True},
        {"ansible.builtin.debug": {"msg": "read: {{ asked.msg }}"}},
        {"block": [ask], "rescue": [{"ansible.builtin.debug": {"msg": "rescued: {{ ansible_failed_result.msg }}"}}]},
    ]
    book = tmp_path / "own.yml"
    book.write_text(yaml.safe_dump([{"hosts": "localhost", "gather_facts": False, "tasks": tasks}]), "utf-8")
    said = play(tmp_path, str(book))
    assert said.rc == 0, said.output
    assert "read: nothing.here: " in said.output and "rescued: nothing.here: " in said.output
    assert "at the end" not in said.output and "error    " not in said.output


@pytest.mark.drawn(7, of="calls that are refused")
def test_a_playbook_without_preflight_refuses_the_same(tmp_path: Path) -> None:
    said = play(tmp_path, "judge", "--limit", "gpu01", "--tags", "nodes", "-e", "gpufleet_treshholds=current")
    refused(said, "did you mean gpufleet_thresholds", "--limit gpu01", "--tags nodes", "3 problems")


@pytest.mark.drawn(7, of="calls that are refused")
def test_text_that_ansible_would_cut_at_a_space_is_refused_with_the_form_that_works(tmp_path: Path) -> None:
    words = ("-e", "gpufleet_run=.run/x", "-e", "gpufleet_who=Ada Lovelace", "-e", "gpufleet_why=acceptance, ticket 47")
    said = play(tmp_path, "baseline", *words)
    refused(said, "'Lovelace', 'ticket', '47'", """-e "gpufleet_who='Ada Lovelace'" """)
    assert said.output.count("Ansible splits its text") == 1


@pytest.mark.drawn(7, of="calls that are refused")
def test_a_snapshot_that_would_be_kept_nowhere_is_refused(tmp_path: Path) -> None:
    refused(
        play(tmp_path, "snapshot"),
        "gpufleet_snapshot: is not set, and this playbook needs it or gpufleet_snapshot_source. Fix: state it: -e gpu",
    )


@pytest.mark.drawn(7, of="calls that are refused")
def test_a_file_to_read_that_is_not_there_is_refused_before_a_run_begins(tmp_path: Path) -> None:
    play(tmp_path, "rehearse_faults", "--syntax-check")
    for name in ("accepted.json", "recipe.yaml"):
        (tmp_path / name).touch()
    words = ("-e", "gpufleet_validate_recipe=recipe.yaml", "-e", "gpufleet_validate_snapshot=acepted.json")
    said = play(tmp_path, "validate", "-e", "gpufleet_no_cluster=true", *words, inventory=False)
    refused(said, "gpufleet_validate_snapshot: names 'acepted.json', which does not exist. Fix: did you mean 'accepte")
    again = said.output.rstrip().splitlines()[-1]
    assert again.endswith("-e gpufleet_validate_snapshot=accepted.json") and again.startswith("again: "), again
    refused(play(tmp_path, "validate", *words), "gpufleet_validate_snapshot: names 'acepted.json'")
    said = play(tmp_path, "drift", inventory=False)
    refused(said, "gpufleet_drift_before: is not set, and this playbook needs it or gpufleet_drift_recipe. Fix: state")
    assert said.output.rstrip().endswith("-e gpufleet_drift_before=<...>")
    assert not (tmp_path / ".run").exists()


@pytest.mark.drawn(7, of="calls that are refused")
def test_a_name_of_before_is_read_and_reported_once(tmp_path: Path) -> None:
    said = play(tmp_path, "facility_record", "-e", "facility_record_signed_by=you@example.org")
    refused(said, "is already there")
    # A record is replaced only by who asks for it.
    assert said.output.rstrip().endswith("-e gpufleet_facility_record_path=<...>")
    assert said.output.count("facility_record_signed_by is called gpufleet_facility_record_signed_by now") == 1


@pytest.mark.drawn(7, of="calls that are refused")
def test_a_directory_that_is_named_as_the_inventory_is_reported(tmp_path: Path) -> None:
    play(tmp_path, "rehearse_faults", "--syntax-check")
    said = play(tmp_path, "judge", "-i", "inventory", inventory=False)
    assert "name its file, -i " in said.output and "/inventory/hosts.yml" in said.output
    assert "name its file" not in play(tmp_path, "judge").output


@pytest.mark.drawn(7, of="calls that are refused")
def test_an_inventory_that_does_not_exist_is_refused_with_the_nearest_name(tmp_path: Path) -> None:
    play(tmp_path, "rehearse_faults", "--syntax-check")
    said = play(tmp_path, "site", "-i", "inventory/host.yml", inventory=False)
    refused(said, "-i inventory/host.yml: does not exist", "did you mean -i inventory/hosts.yml?")
    assert said.output.rstrip().endswith("playbook gpufleet.bringup.site -i inventory/hosts.yml")
    assert not (tmp_path / ".run").exists()


@pytest.mark.drawn(7, of="calls that are refused")
def test_tags_that_the_user_gives_to_all_of_it_are_theirs(tmp_path: Path) -> None:
    own = tmp_path / "own.yml"
    own.write_text(yaml.safe_dump([{"import_playbook": "gpufleet.bringup.site", "tags": ["bringup"]}]), "utf-8")
    assert "in scope: facility" in play(tmp_path, str(own), "--tags", "bringup").output
    refused(play(tmp_path, str(own), "--tags", "bringup,nodes"), "--tags nodes: is no tag")


@pytest.mark.drawn(7, of="calls that are refused")
def test_an_ansible_that_is_too_old_is_refused(tmp_path: Path) -> None:
    old = (
        "import ansible.release; ansible.release.__version__ = '2.16.19'; from ansible.cli.playbook import main; main()"
    )
    said = play(tmp_path, "site", program=(sys.executable, "-c", old))
    refused(
        said,
        f"error    {sys.executable}: this is 2.16.19, and gpufleet.bringup needs ansible-core 2.18 or newer",
        "-m pip install 'ansible-core>=2.18'",
    )
    assert said.output.rstrip().splitlines()[-1].startswith("again: ")


@pytest.mark.drawn(7, of="calls that are refused")
def test_an_ansible_that_cannot_load_the_collection_is_refused_too(tmp_path: Path) -> None:
    old = (
        "import ansible.release; ansible.release.__version__ = '2.15.13'; from ansible.cli.playbook import main; main()"
    )
    said = play(tmp_path, "site", program=(sys.executable, "-c", old))
    refused(said, "needs ansible-core 2.18 or newer", f"this is 2.15.13 of {sys.executable}")


def test_the_oldest_ansible_is_that_of_the_collection(repository: Path) -> None:
    required = yaml.safe_load((repository / "meta/runtime.yml").read_text("utf-8"))["requires_ansible"]
    call = (repository / "playbooks/parts/call.yml").read_text("utf-8")
    assert required == f">={OLDEST_ANSIBLE}.0" and f"'ansible-core>={OLDEST_ANSIBLE}'" in call


PACKAGES = ("cattrs", "jmespath", "junitparser", "kubernetes", "pygal", "SQLAlchemy")


@pytest.mark.drawn(7, of="calls that are refused")
def test_every_package_that_is_missing_is_named_with_the_command(tmp_path: Path, repository: Path) -> None:
    program = bare_python(tmp_path / "bare", without=PACKAGES)
    said = play(tmp_path, "recipe", program=program)
    refused(
        said,
        "needs Python packages that it lacks",
        *PACKAGES,
        "-m pip install -r ",
        "/requirements.txt",
        sys.executable,
    )
    assert (repository / "requirements.txt").read_text("utf-8").count(">=") == len(PACKAGES) + len(
        ("cryptography", "Jinja2", "PyYAML")
    ), "but those of Ansible"


@pytest.mark.drawn(7, of="calls that are refused")
def test_a_module_in_a_playbook_of_the_user_names_what_is_missing(tmp_path: Path) -> None:
    own = tmp_path / "own.yml"
    tasks = [{"gpufleet.bringup.recipe": {"criteria": {"service": "generic"}}}]
    own.write_text(yaml.safe_dump([{"hosts": "localhost", "gather_facts": False, "tasks": tasks}]), "utf-8")
    said = play(tmp_path, str(own), inventory=False, program=bare_python(tmp_path / "bare", without=("cattrs",)))
    refused(said, f"{sys.executable}: has no Python module 'cattr", "-m pip install -r ")
