# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Commands of pages, of heads of playbooks and of examples name playbooks and variables that there are, also where they
cannot be run here."""

from __future__ import annotations

import re
import shlex
from itertools import pairwise
from pathlib import Path

import pytest
from ansible.parsing.splitter import split_args
from both import of_both
from documented import commands_of, user_pages

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.inventory.app import HOST_VARIABLES
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.inventory.variables import options
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.stats import STATS

ROOT = Path(__file__).resolve().parents[3]
PLAYBOOKS = sorted((ROOT / "playbooks").glob("*.yml"))
_NAME = re.compile(r"\bgpufleet_[a-z0-9_]+\b(?!\.)")
_TEXTS = ("", ".py", ".yml", ".yaml", ".md")
_PLAYBOOK = re.compile(r"\bgpufleet\.bringup\.(\w+)")


def _head(path: Path) -> list[str]:
    """Return the commands in the comments at the top of a playbook."""
    lines = (line.removeprefix("#").strip() for line in path.read_text(encoding="utf-8").splitlines()[:20])
    return [line for line in lines if "ansible-playbook " in line]


def _read() -> set[str]:
    """Return the names that playbooks and roles read; a comment reads nothing."""
    paths = of_both("playbooks/*.yml", "playbooks/parts/*.yml", "roles/*/*/*.yml")
    lines = (line for path in paths for line in path.read_text(encoding="utf-8").splitlines())
    found = {name for line in lines if not line.lstrip().startswith("#") for name in _NAME.findall(line)}
    return found | {*options(), *HOST_VARIABLES, *STATS}


COMMANDS = {str(command): command.text for page in user_pages(ROOT) for command in commands_of(ROOT, page)}
COMMANDS |= {f"{path.name}: {text}": text for path in PLAYBOOKS for text in _head(path)}
KNOWN = _read()


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_names_what_there_is(command: str) -> None:
    text = COMMANDS[command]
    assert {name for name in _NAME.findall(text) if name not in KNOWN} == set()
    called = {name for name in _PLAYBOOK.findall(text) if "ansible-playbook" in text}
    assert called <= {path.stem for path in PLAYBOOKS}


def dropped(command: str) -> list[str]:
    """Return the words behind `-e` that Ansible drops: a shell takes the quotes away, and Ansible splits at spaces."""
    words = shlex.split(command, comments=True)
    extra = [word for before, word in pairwise(words) if before in ("-e", "--extra-vars")]
    plain = [word for word in extra if not word.startswith(("@", "{", "["))]
    return [part for word in plain for part in split_args(word) if "=" not in part]


@pytest.mark.parametrize("command", [name for name, text in COMMANDS.items() if " -e " in text])
def test_text_with_spaces_reaches_ansible_whole(command: str) -> None:
    assert dropped(COMMANDS[command]) == []


def test_no_hint_gives_text_that_ansible_splits() -> None:
    """The same of every text of the product, its roles and its pages: `-e name="two words"`."""
    paths = [*ROOT.glob("*.md"), *ROOT.glob("Makefile"), *(ROOT / "docs").rglob("*.md")]
    for room in ("plugins", "playbooks", "roles", "recipes", "rehearsal", "inventories", "extensions", "tools", "bin"):
        paths += [path for path in (ROOT / room).rglob("*") if path.is_file() and path.suffix in _TEXTS]
    split = re.compile(r"""-e gpufleet_\w+=(?:"[^"\n]*\s|'[^'\n]*\s|<[^>\n]*\s)""")
    wrong = {str(path.relative_to(ROOT)): split.findall(path.read_text("utf-8", errors="ignore")) for path in paths}
    assert {name: found for name, found in wrong.items() if found} == {}
    assert split.search('-e gpufleet_who="Ada Lovelace"') and dropped('x -e who="Ada Lovelace"') == ["Lovelace"]
    assert dropped("""x -e "who='Ada Lovelace'" """) == []


@pytest.mark.parametrize("page", user_pages(ROOT))
def test_a_command_that_does_not_end_with_0_says_so_to_the_reader(page: str) -> None:
    """A comment of HTML is for the tests: whoever reads the page does not see it."""
    parts = re.split(r"<!-- ends with (\d+)[^>]*-->", (ROOT / page).read_text("utf-8"))
    unsaid = [text[:80] for status, text in zip(parts[1::2], parts[2::2], strict=True)
              if f"ends with {status}" not in text[:700]]  # fmt: skip
    assert unsaid == []


def test_pages_agree_about_the_exit_code_of_statistics() -> None:
    """run/stats.py publishes 0 or 8; the other numbers are in the result of the task that failed."""
    readme, awx = ((ROOT / page).read_text("utf-8") for page in ("README.md", "docs/awx.md"))
    assert "`gpufleet_exit_code` in `set_stats`: 0 passed, 8 not passed" in readme
    assert "| `gpufleet_exit_code` | 0 passed, 8 not passed." in awx


def test_a_name_that_nothing_reads_is_found() -> None:
    assert not {"gpufleet_wave_role", "gpufleet_snapshots"} & KNOWN
    assert len(COMMANDS) > 100
