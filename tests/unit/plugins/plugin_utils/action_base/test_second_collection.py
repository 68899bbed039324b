# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The collection that rehearses: found by its name, of one release with this one, or how to get it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ansible_collections.gpufleet.bringup.plugins.lookup.rehearsal import LookupModule
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base import call
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.version import collection_version
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.files import REHEARSAL, collection_root
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.launch import python_argv

LOOKUP = "ansible_collections.gpufleet.bringup.plugins.lookup.rehearsal"


def release(directory: Path, version: str) -> Path:
    (directory / "MANIFEST.json").write_text(f'{{"collection_info": {{"version": "{version}"}}}}', "utf-8")
    return directory


def test_a_collection_is_found_where_python_finds_it(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert collection_root(REHEARSAL) == repository.resolve() / "rehearsal"
    assert collection_root("gpufleet.nowhere") is None


def test_an_empty_directory_of_its_name_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import ansible_collections

    (tmp_path / "somebody/empty").mkdir(parents=True)
    (tmp_path / "somebody/whole/meta").mkdir(parents=True)
    monkeypatch.setattr(ansible_collections, "__path__", [str(tmp_path)])
    assert collection_root("somebody.empty") is None
    assert collection_root("somebody.whole") == tmp_path / "somebody/whole"


def test_the_lookup_names_the_playbook_that_rehearses() -> None:
    assert LookupModule().run(["rehearse", "rehearse_stop"]) == [
        "gpufleet.rehearsal.rehearse", "gpufleet.rehearsal.rehearse_stop",
    ]  # fmt: skip


@pytest.mark.parametrize("other", ["", "0.0.9"])
def test_the_lookup_names_another_one_where_that_release_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: str
) -> None:
    root = release(tmp_path, other) if other else None
    monkeypatch.setattr(f"{LOOKUP}.collection_root", lambda _name: root)
    assert LookupModule().run(["rehearse"]) == ["gpufleet.bringup.parts.rehearsal_missing"]


def test_a_missing_one_and_another_release_are_named_with_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = collection_version()
    assert list(call.collection_problems([REHEARSAL])) == []
    monkeypatch.setattr(call, "COLLECTION_ROOT", tmp_path)
    monkeypatch.setattr(call, "collection_root", lambda _name: None)
    (missing,) = call.collection_problems([REHEARSAL])
    assert "gpufleet.rehearsal: is not installed" in str(missing)
    assert f"ansible-galaxy collection install gpufleet-rehearsal-{mine}.tar.gz" in missing.hint
    (others,) = call.collection_problems(["awx.awx"])
    assert others.hint == "ansible-galaxy collection install awx.awx"
    monkeypatch.setattr(call, "collection_root", lambda _name: release(tmp_path, "0.0.9"))
    (older,) = call.collection_problems([REHEARSAL])
    assert f"is version 0.0.9, and gpufleet.bringup is {mine}." in str(older)
    # A checkout has both, once it is set up.
    (tmp_path / "galaxy.yml").touch()
    (older,) = call.collection_problems([REHEARSAL])
    assert older.hint == f"make -C {tmp_path} setup"


def test_a_module_of_another_collection_runs_as_a_program(tmp_path: Path) -> None:
    room = tmp_path / "plugins/plugin_utils/room"
    room.mkdir(parents=True)
    imported = "ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.gates"
    (room / "says.py").write_text(f"import sys\nimport {imported}\nprint(__name__, sys.argv[1:])\n", "utf-8")
    argv = python_argv("other.room.says", "a", "b", collection=tmp_path)
    done = subprocess.run(argv, cwd="/", env={}, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "__main__ ['a', 'b']\n"), done.stderr
