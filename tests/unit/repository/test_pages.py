# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is generated: files in git are what their generators write, pages of the reference can be made and are whole."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.kit.settings import settings_in
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.registry import all_settings, all_specs
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.load import load_catalogue as load_recipes
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.files import RECIPES
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.host_tools import load_host_tools
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.faults.catalogue import load_catalogue
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.places import DATA
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.worlds.catalogue import load_worlds
from tools import pages, tarball, tree
from tools.pages import COMMITTED, REFERENCE, ROOT, main, reference_page


@pytest.mark.parametrize("target", COMMITTED)
def test_a_generated_file_of_the_repository_is_current(target: str) -> None:
    texts = COMMITTED[target]()
    for path, text in texts.items():
        assert (ROOT / path).read_text(encoding="utf-8") == text, f"make {target}"
    (line,) = [line for line in (ROOT / "Makefile").read_text("utf-8").splitlines() if line.startswith(f"{target}: ")]
    assert line.startswith(f"{target}: setup ## Write ") and next(iter(texts)).rpartition("/")[0] in line


def test_one_target_writes_the_reference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "ROOT", tmp_path)
    assert main(["reference"]) == 0
    written = {path.name for path in (tmp_path / "docs/reference").iterdir()}
    assert written == set(REFERENCE) == {f"{name}.md" for name in NAMED}
    assert "\nreference: setup ## Write the pages of docs/reference/" in (ROOT / "Makefile").read_text("utf-8")


def test_a_page_that_is_made_no_longer_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "docs/reference").mkdir(parents=True)
    (tmp_path / "docs/reference/former.md").write_text("# Former\n")
    monkeypatch.setattr(pages, "ROOT", tmp_path)
    monkeypatch.setattr(pages, "REFERENCE", {"one.md": lambda: "# One\n"})
    assert main(["reference"]) == 0
    assert [path.name for path in (tmp_path / "docs/reference").iterdir()] == ["one.md"]


def test_git_does_not_keep_the_reference_and_the_tarball_does() -> None:
    ignored = ["git", "check-ignore", "--quiet", "docs/reference/settings.md"]
    assert subprocess.run(ignored, cwd=ROOT, check=False).returncode == 0
    galaxy = yaml.safe_load((ROOT / "galaxy.yml").read_text(encoding="utf-8"))
    assert [entry for entry in galaxy["build_ignore"] if entry.startswith("docs")] == []


def test_the_tarball_has_what_git_tracks_and_the_reference_and_nothing_of_its_owner(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An inventory with its facility record, or a snapshot, may lie in the checkout."""
    packed: list[str] = []

    def call(argv: tuple[str, ...], cwd: Path) -> int:
        packed.extend(path.relative_to(cwd).as_posix() for path in cwd.rglob("*") if path.is_file())
        assert argv[-2:] == ("--output-path", str(Path("out").absolute())) and cwd != ROOT
        return 3

    tracked = {Path("galaxy.yml"), Path("meta/runtime.yml")}
    monkeypatch.setattr(tree, "tracked_files", lambda: tracked)
    monkeypatch.setattr(tree, "files_of_checkout", lambda: tracked | {Path("my-site/facility/record.yaml")})
    monkeypatch.setattr(tarball, "write_reference", lambda copy: (copy / "settings.md").write_text("# Settings\n"))
    monkeypatch.setattr(subprocess, "call", call)
    assert tarball.main(["out"]) == 3
    assert sorted(packed) == ["galaxy.yml", "meta/runtime.yml", "settings.md"]
    assert "left out, because git does not track them: 1 files: my-site/facility/record.yaml" in capsys.readouterr().out


def _settings() -> set[str]:
    entries = [(key, row) for key, kinds in all_settings().items() for kind in kinds
               for row in settings_in(kind).values()]  # fmt: skip
    assert {f"{key}.{row.name}" for key, row in entries if not row.meaning.strip()} == set()
    return {f"| `{row.name}` | " for _key, row in entries if row.name != "ctrf"} | {
        f"`{key}`" for key in all_settings()
    }


def _checks() -> set[str]:
    specs = all_specs()
    assert {spec.id for spec in specs if not spec.title.strip()} == set()
    return {f"| `{spec.id}` | " for spec in specs} | {f"`{cause}`" for spec in specs for cause in spec.causes}


def _faults() -> set[str]:
    faults = load_catalogue().values()
    assert {fault.id for fault in faults if not fault.description.strip()} == set()
    return {f"| `{fault.id}` | {fault.kind} | {fault.description} |" for fault in faults}


def _worlds() -> set[str]:
    worlds = load_worlds(DATA)
    assert {name for name, world in worlds.items() if not (world.title.strip() and world.sources)} == set()
    return {f"| `{name}` | " for name in worlds} | {f"- `{name}`: {world.sources[0]}" for name, world in worlds.items()}


def _tools() -> set[str]:
    tools = load_host_tools().tools
    assert {tool.name for tool in tools if not tool.reports.strip()} == set()
    return {f"| {tool.name} | `" for tool in tools} | {f"| {tool.package} | " for tool in tools}


def _catalogue() -> set[str]:
    return {f"| {name} | {entry.data['displayName']} | " for name, entry in load_recipes([RECIPES]).registry.items()}


# By page: what stands in it, one line or more for each thing that there is.
NAMED = {
    "catalogue": _catalogue,
    "checks": _checks,
    "faults": _faults,
    "settings": _settings,
    "tools": _tools,
    "worlds": _worlds,
}


@pytest.mark.parametrize("name", NAMED)
def test_a_page_of_the_reference_has_everything_with_its_words(name: str) -> None:
    text, wanted = reference_page(f"{name}.md"), NAMED[name]()
    assert len(wanted) > 20
    assert sorted(words for words in wanted if words not in text) == []
    assert text.endswith("\n") and not text.endswith("\n\n") and text.count("\n# ") + text.startswith("# ") == 1


def test_each_setting_has_its_row_below_its_check_with_its_default() -> None:
    tables = dict(part.split("\n", 1) for part in reference_page("settings.md").split("\n### ")[1:])
    missing = []
    for key, kinds in all_settings().items():
        own = {row.name: row for kind in kinds for row in settings_in(kind).values() if row.name != "ctrf"}
        rows = {line.split("`")[1]: line for line in tables.get(f"`{key}`", "").split("\n## ")[0].splitlines()
                if line.startswith("| `")}  # fmt: skip
        missing += [f"{key}.{name}" for name in own.keys() ^ rows.keys()]
        missing += [f"{key}.{name}" for name in own.keys() & rows.keys() if own[name].meaning.replace("|", "\\|")
                    not in rows[name] or rows[name].replace("\\|", "").count("|") != 7]  # fmt: skip
    assert missing == []


def test_a_page_that_there_is_not_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check-doc"]) == 2
    assert "there is no check-doc; there are: reference, aiperf-lock, awx, rbac-docs" in capsys.readouterr().err
