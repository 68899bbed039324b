# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What can be rehearsed from start to end: the playbook that chooses it and the list agree."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import NotFoundError
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.lifecycle.request import (
    SITE,
    known_plays,
    plays_table,
    refuse_unknown_play,
    request_problems,
)

PLAYBOOKS = Path(__file__).resolve().parents[6] / "rehearsal" / "playbooks"


def test_the_playbook_chooses_among_all_that_are_listed() -> None:
    plays = yaml.safe_load((PLAYBOOKS / "rehearse.yml").read_text(encoding="utf-8"))
    imported = [str(play.get("ansible.builtin.import_playbook", "")) for play in plays]
    (chosen,) = (text for text in imported if "gpufleet_rehearsal_play" in text)
    names = re.search(r"\[(.*)\]", chosen)
    assert names is not None
    assert {*re.findall(r"'(\w+)'", names[1]), SITE} == set(known_plays())


def test_each_says_what_it_does_and_ends_with_its_verb() -> None:
    for name, text in known_plays().items():
        assert text.endswith(".") and f"{name} " in plays_table()
        if name != SITE:
            plays = yaml.safe_load((PLAYBOOKS / "verbs" / f"{name}.yml").read_text(encoding="utf-8"))
            assert plays[-1]["ansible.builtin.import_playbook"] == f"gpufleet.bringup.{name}"


def test_others_are_refused_with_the_nearest_and_all() -> None:
    refuse_unknown_play("continuous")
    with pytest.raises(NotFoundError, match=r"did you mean 'continuous'\? known: site, baseline"):
        refuse_unknown_play("contnuous")
    with pytest.raises(NotFoundError, match="no package repositories"):
        refuse_unknown_play("converge")


def test_all_that_is_wrong_with_a_rehearsal_is_one_list() -> None:
    options = {
        "play": "site", "world": "", "recipe_data": [], "sku": "h1000", "nodes": 0, "faults": ["gpu-mising@gpu03"],
    }  # fmt: skip
    found = [str(problem) for problem in request_problems(options, hosts=(), extra={})]
    assert len(found) == 3
    for word in ("gpufleet_rehearsal_nodes: is 0", "h1000", "gpu-mising"):
        assert any(word in text for text in found)


@pytest.mark.parametrize("hosts", [(), ("gpu01", "gpu02", "gpu03", "gpu04")])
def test_a_fault_of_a_host_that_is_not_there_is_refused_before_anything_starts(hosts: tuple[str, ...]) -> None:
    options = {"play": "site", "world": "", "recipe_data": [], "sku": "dgx-h100", "nodes": 4}

    def wrong(*faults: str) -> list[str]:
        return [str(problem) for problem in request_problems({**options, "faults": faults}, hosts=hosts, extra={})]

    (problem,) = wrong("gpu-lost@gpu77/gpu1,gpu-lost@gpu04", "no-subnet-manager", "gpu-lost")
    assert "gpu-lost@gpu77/gpu1" in problem and "there is no host 'gpu77'" in problem
    assert wrong("gpu-lost@gpu04/gpu1", "faults.yaml") == []
