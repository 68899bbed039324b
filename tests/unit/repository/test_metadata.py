# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The collection's metadata says what is there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from both import COLLECTIONS, of_both


def load(path: Path) -> Any:
    return yaml.safe_load(path.read_text("utf-8"))


def stems(root: Path, directory: str) -> set[str]:
    return {path.stem for path in (root / "plugins" / directory).glob("[!_]*.py")}


def names(requirements: Path) -> set[str]:
    """Package names of a requirements file, as pip normalises them."""
    lines = (line.strip() for line in requirements.read_text("utf-8").splitlines())
    found = (re.match(r"[A-Za-z][\w.-]*", line) for line in lines)
    return {re.sub(r"[-_.]+", "-", match.group()).lower() for match in found if match}


@pytest.mark.parametrize("root", COLLECTIONS.values(), ids=COLLECTIONS)
def test_the_action_group_lists_every_module(root: Path) -> None:
    group = load(root / "meta/runtime.yml")["action_groups"]["all"]
    assert group == sorted(stems(root, "modules"))


@pytest.mark.parametrize("root", COLLECTIONS.values(), ids=COLLECTIONS)
def test_every_action_has_its_documentation(root: Path) -> None:
    assert stems(root, "action") - stems(root, "modules") == set()


def test_every_entry_point_of_a_role_is_described() -> None:
    """antsibull-docs, which makes the reference of the site, demands it."""
    bare = [
        f"{path.parent.parent.name}: {name}"
        for path in of_both("roles/*/meta/argument_specs.yml")
        for name, entry in load(path)["argument_specs"].items()
        if not entry.get("description")
    ]
    assert bare == []


def test_the_first_collection_needs_none_and_the_second_the_first_of_its_own_release() -> None:
    first, second = (load(root / "galaxy.yml") for root in COLLECTIONS.values())
    assert (first["namespace"], first["name"], first["dependencies"]) == ("gpufleet", "bringup", {})
    assert (second["namespace"], second["name"], second["version"]) == ("gpufleet", "rehearsal", first["version"])
    assert second["dependencies"] == {"gpufleet.bringup": f"=={first['version']}"}
    # The tarball of the first has nothing of the second, and none of its tests.
    assert {"rehearsal", "tests/rehearsal", "tests/unit/plugins/plugin_utils/rehearsal"} <= {*first["build_ignore"]}
    runtimes = [load(root / "meta/runtime.yml")["requires_ansible"] for root in COLLECTIONS.values()]
    assert runtimes[0] == runtimes[1]


def test_an_execution_environment_installs_what_users_need(repository: Path) -> None:
    environment = load(repository / "meta/execution-environment.yml")
    assert {name for name in environment["dependencies"].values() if not (repository / name).is_file()} == set()
    assert "ssh-keygen" in (repository / environment["dependencies"]["system"]).read_text("utf-8")
    needed = names(repository / "requirements.txt")
    assert {"kubernetes", "cattrs"} <= needed
    for locked in ("python3.11.txt", "python3.12.txt"):
        assert needed <= names(repository / "requirements" / locked)


def test_both_locked_sets_pin_by_hash_and_name_no_place(repository: Path) -> None:
    for locked, core in (("python3.11.txt", "2.19.14"), ("python3.12.txt", "2.21.5")):
        text = (repository / "requirements" / locked).read_text("utf-8")
        assert f"ansible-core=={core} " in text
        assert "://" not in text
        pins = re.split(r"^(?=\w)", text, flags=re.MULTILINE)[1:]
        assert [pin.split()[0] for pin in pins if "--hash=sha256:" not in pin] == []
