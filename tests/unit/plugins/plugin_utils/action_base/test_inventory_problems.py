# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""An inventory that does not exist: Ansible warns, and goes on without hosts."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.call import inventory_problems


def test_a_file_or_its_directory_that_was_misspelled_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my-site").mkdir()
    (tmp_path / "my-site/hosts.yml").touch()
    said = [str(problem) for problem in inventory_problems([str(tmp_path / "my-site/host.yml"), "my-sight/hosts.yml"])]
    assert [text.partition(":")[0] for text in said] == ["-i my-site/host.yml", "-i my-sight/hosts.yml"]
    assert all("does not exist" in text and "did you mean -i my-site/hosts.yml?" in text for text in said)
    (tmp_path / "staging").mkdir()
    (tmp_path / "staging/hosts.yml").touch()
    # Another site, a directory of one, or a file of another kind is not what was meant.
    for other in ("production/hosts.yml", "hosts.yml", "clusters.yml", "staging/clusters.yml"):
        (problem,) = inventory_problems([other])
        assert "did you mean" not in problem.hint
    (alone,) = inventory_problems([str(tmp_path / "x/y/zz")])
    assert alone.hint == f"name the file of your hosts with -i; paths count from {tmp_path}"


def test_what_exists_a_list_of_hosts_and_the_default_of_ansible_pass(tmp_path: Path) -> None:
    (tmp_path / "hosts.yml").touch()
    given = [str(tmp_path / "hosts.yml"), str(tmp_path), "localhost,", "a,b", "/etc/ansible/hosts"]
    assert list(inventory_problems(given)) == []


def test_the_inventory_of_a_rehearsal_that_was_stopped_is_no_word_for_another_file(tmp_path: Path) -> None:
    (tmp_path / "rehearsal").mkdir()
    (tmp_path / "rehearsal/cabling.yaml").touch()
    (problem,) = inventory_problems([str(tmp_path / "rehearsal/inventory.yml")])
    assert "no rehearsal is up there" in str(problem) and "gpufleet.bringup.rehearse -e" in problem.hint
    assert "cabling" not in str(problem) + problem.hint
