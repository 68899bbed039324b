# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Text with spaces behind `-e`: what Ansible would drop is refused with the words that give it whole."""

from __future__ import annotations

import shlex
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from ansible.parsing.splitter import parse_kv
from ansible.parsing.utils.yaml import from_yaml

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.command_line import command_line
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.extra_words import unnamed_words
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.text import extra_variable


def read(words: list[str]) -> dict[str, Any]:
    """Return what Ansible reads from the words that a shell gives it."""
    found: dict[str, Any] = {}
    for before, word in pairwise(words):
        if before == "-e":
            found |= from_yaml(word) if word.startswith("{") else parse_kv(word)
    return found


def test_words_that_ansible_would_drop_are_refused_once_with_the_right_form() -> None:
    (problem,) = unnamed_words(["gpufleet_who=Ada Lovelace", "gpufleet_why=acceptance, ticket 4711", "a=1 b=2"])
    assert "'Lovelace', 'ticket', '4711'" in problem.reason
    assert read(shlex.split(problem.hint.partition(": ")[2])) == {
        "gpufleet_who": "Ada Lovelace",
        "gpufleet_why": "acceptance, ticket 4711",
    }
    assert """-e "gpufleet_who='Ada Lovelace'" """ in problem.hint


def test_a_mapping_that_ansible_would_cut_is_given_as_one() -> None:
    (problem,) = unnamed_words(['gpufleet_criteria={"service": "kind", "accelerator": "a100"}'])
    assert read(shlex.split(problem.hint.partition(": ")[2])) == {
        "gpufleet_criteria": {"service": "kind", "accelerator": "a100"}
    }


def test_a_word_alone_and_a_value_of_others_are_refused_without_the_value() -> None:
    (alone,) = unnamed_words(["gpufleet_who"])
    assert "'gpufleet_who'" in alone.reason and alone.hint == "write -e NAME=VALUE"
    (other,) = unnamed_words(["ansible_become_pass=my secret"])
    assert "secret" not in str(other) and "ansible_become_pass='...'" in str(other)


@pytest.mark.parametrize(
    "given",
    ["gpufleet_who='Ada Lovelace'", "a=1 b=2", '{"gpufleet_who": "Ada Lovelace"}', "@my file.yml", "[a, b]", "", "a="],
)
def test_what_ansible_reads_whole_passes(given: str) -> None:
    assert list(unnamed_words([given])) == []


@pytest.mark.parametrize("text", ["Ada", "Ada Lovelace", "Ada's run", 'say "no"', "a $HOME", "a {{ b }}", "100 %!"])
def test_a_text_reaches_ansible_whole(text: str) -> None:
    assert read(shlex.split(extra_variable("gpufleet_why", text))) == {"gpufleet_why": text}


@pytest.mark.parametrize(
    "given", ["gpufleet_who='Ada Lovelace'", '{"gpufleet_who": "Ada\'s run"}', "gpufleet_who=Ada gpufleet_why='a b'"]
)
def test_the_command_to_type_again_gives_ansible_the_same(given: str, tmp_path: Path) -> None:
    again = command_line(["ansible-playbook", "baseline.yml", "-e", given], {}, tmp_path)
    assert read(shlex.split(again)) == read(["-e", given])
