# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Everything of the controller as code: what awx_setup makes by collection awx.awx, and what surveys answer."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from awx_collection import awx_collection
from controller_api import Controller, controller
from first_commands import Said, play

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.inventory.variables import known
from tools import awx_data

STATED = (
    "-e",
    "gpufleet_awx_project_url=https://git.example.org/site.git",
    "-e",
    "gpufleet_awx_image=registry.example.org/ee:1",
)
TEMPLATES = {f"gpufleet {name}" for name in (*awx_data.playbooks(), "plan")}


def set_up(work: Path, repository: Path, there: Controller, *words: str) -> Said:
    paths = f"{repository / '.cache'}:{awx_collection(repository)}"
    environment = {"CONTROLLER_HOST": there.url, "CONTROLLER_OAUTH_TOKEN": "t", "ANSIBLE_COLLECTIONS_PATH": paths}
    return play(work, "awx_setup", *STATED, *words, inventory=False, environment=environment)


@pytest.mark.drawn(1, of="controllers that are set up")
def test_everything_is_made_on_an_empty_controller(tmp_path: Path, repository: Path) -> None:
    with controller() as there:
        said = set_up(tmp_path, repository, there, "-e", '{"gpufleet_awx_credentials": []}')
        assert said.rc == 0, said.output[-4000:]
        assert set(there.names("job_templates")) == TEMPLATES
        made = {template["name"]: template for template in there.objects["job_templates"].values()}
        assert made["gpufleet plan"]["job_tags"] == "plan" and made["gpufleet site"]["playbook"] == "site.yml"
        # Resolved by AWX when a job starts, and not here.
        assert "gpufleet_brought_up" in made["gpufleet judge"]["extra_vars"]
        templates = [*there.objects["job_templates"].values(), *there.objects["workflow_job_templates"].values()]
        assert set(there.surveys) == {template["url"] for template in templates}
        assert [schedule["enabled"] for schedule in there.objects["schedules"].values()] == [False, False, False]
        assert _order(there) == ["plan", "approve the plan", "gates", "burn-in", "approve the acceptance", "accept"]


def _order(there: Controller) -> list[str]:
    """The nodes of the workflow, each behind the one before it."""
    nodes = there.objects["workflow_job_template_nodes"]
    after = {
        int(key.split("/")[1]): ids for key, ids in there.members.items() if key.endswith("/success_nodes") and ids
    }
    behind = {number for ids in after.values() for number in ids}
    (first,) = set(after) - behind
    order = [first]
    while order[-1] in after:
        (following,) = after[order[-1]]
        order.append(following)
    return [nodes[number]["identifier"].removeprefix("gpufleet ") for number in order]


@pytest.mark.long("three runs over some 30 modules; that one makes everything is a case of make test")
def test_a_second_time_changes_nothing_and_what_a_site_changed_stays(tmp_path: Path, repository: Path) -> None:
    with controller() as there:
        assert set_up(tmp_path, repository, there, "--check").rc == 0
        assert there.objects == {}
        assert set_up(tmp_path, repository, there).rc == 0
        former = there.answer("POST", "/api/v2/job_templates/", {}, {"name": "gpufleet of_before", "playbook": "x.yml"})
        assert former[0] == 201
        (schedule, *_others) = there.objects["schedules"].values()
        schedule["enabled"] = True
        there.changes.clear()
        said = set_up(tmp_path, repository, there)
        assert said.rc == 0 and there.changes == [], said.output[-4000:]
        assert "no longer of this release, and left as they are: gpufleet of_before" in said.output
        assert schedule["enabled"] is True


@pytest.mark.drawn(1, of="controllers that are set up")
def test_what_is_missing_is_named_before_anything_is_asked(tmp_path: Path) -> None:
    said = play(tmp_path, "awx_setup", inventory=False)
    assert said.rc != 0
    for words in (
        "gpufleet_awx_project_url: is not set, and this playbook needs it. Fix: -e gpufleet_awx_project_url=...",
        "gpufleet_awx_image: is not set",
        "collection awx.awx: is not installed; this playbook works through its modules. "
        "Fix: ansible-galaxy collection install awx.awx",
    ):
        assert words in said.output, said.output[-3000:]


def test_a_survey_asks_for_variables_that_are_read_and_for_each_once() -> None:
    for name in awx_data.playbooks():
        asked = [question["variable"] for question in awx_data.questions(name)]
        assert len(set(asked)) == len(asked) and set(asked) <= known(), name
        # A default of a survey would replace what the inventory says.
        assert not any("default" in question for question in awx_data.questions(name))


def texts(name: str) -> list[str]:
    """The variables that the survey of a playbook asks for as text."""
    return [question["variable"] for question in awx_data.questions(name) if question["type"] == "text"]


@pytest.mark.drawn(4)
@pytest.mark.parametrize("name", [*filter(texts, awx_data.playbooks())])
def test_a_question_that_is_left_empty_changes_nothing(tmp_path: Path, name: str) -> None:
    """AWX sends an empty text for it, as an extra variable."""
    empty = dict.fromkeys(texts(name), "")
    words = ("--tags", "plan") if name == "site" else ()
    without, with_empty = (
        play(tmp_path / place, name, *words, *more)
        for place, more in (("a", ()), ("b", ("-e", json.dumps(empty))))
        if (tmp_path / place).mkdir() is None
    )
    assert _end(with_empty) == _end(without), with_empty.output[-2000:]


def _end(said: Said) -> tuple[int, str]:
    """How it ended, without names of runs, of directories, and the command that is printed to be used again."""
    text = said.output.rpartition("PLAY RECAP")[2]
    text = re.sub(r"^again: .*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"/[ab]/|\d{8}T\d{6}Z-[0-9a-f]{4}|\d+(\.\d+)? (ms|s)\b", "", text)
    return said.rc, re.sub(r"(ok|changed|skipped)=\d+", "", text)
