# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Values of variables that do not fit: of a list of entries, which one."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.arguments import plain_spec, value_problems
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.call import Stated
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.variables import options

NAME = "gpufleet_quarantine"
WHOLE = {"node": "gpu01", "reason": "fan", "ticket": "T-1", "who": "ada"}


def said(value: list[Any]) -> list[str]:
    spec = plain_spec({NAME: options()[NAME]})[NAME]
    return [str(problem) for problem in value_problems(NAME, NAME, spec, {NAME: value})]


def test_an_entry_of_a_list_that_lacks_a_field_is_named_by_its_number() -> None:
    (line,) = said([WHOLE, {key: text for key, text in WHOLE.items() if key != "ticket"}, WHOLE])
    assert line.startswith("gpufleet_quarantine[1]: does not fit: missing required arguments: ticket.")
    assert said([WHOLE, WHOLE]) == [] and said([]) == []
    assert all(line.startswith("gpufleet_quarantine: ") for line in said([WHOLE, "gpu02"]))


def test_a_playbook_that_keeps_something_needs_one_of_its_variables() -> None:
    stated = Stated.__new__(Stated)
    stated.extra, stated.raw = {}, {"localhost": {}}
    (problem,) = stated.missing(["gpufleet_snapshot", "gpufleet_snapshot_source"])
    assert "gpufleet_snapshot: is not set" in str(problem) and "-e gpufleet_snapshot_source=..." in problem.hint
    assert list(stated.missing([])) == []
    stated.raw = {"localhost": {"gpufleet_snapshot_source": "snapshot.json"}}
    assert list(stated.missing(["gpufleet_snapshot", "gpufleet_snapshot_source"])) == []
