# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A simulated tool is asked again as soon as anything that it prints could have changed, and only then is not."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpufleet.bringup.plugins.module_utils.tool_run import run_tool
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.host_tools import load_host_tools
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.hosts import kept_answers
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.hosts.kept_answers import NOT_KEPT, KeptAnswers

LIMIT_S, MOST = 20.0, 1 << 22
LONG = "a line of a tool\n" * 20_000


@dataclass
class Host:
    """A host with one tool, which notes that it ran and prints a file."""

    at: Path
    monkeypatch: pytest.MonkeyPatch

    @property
    def command(self) -> list[str]:
        return [str(self.at / "bin/tool"), "-q"]

    def tool(self, end: str = "exit 0") -> None:
        path = self.at / "bin/tool"
        path.unlink(missing_ok=True)
        path.write_text(f'#!/bin/sh\necho ran >> {self.at}/ran\ncat {self.at}/out/said.txt\necho "$WORD" >&2\n{end}\n')
        path.chmod(0o755)

    def ask(self, command: list[str] | None = None, limit_s: float = LIMIT_S) -> dict[str, Any]:
        """Ask as a process on the host does: it begins with what is kept, and keeps what it heard."""
        with self.monkeypatch.context() as process:
            process.setattr(subprocess, "Popen", subprocess.Popen)
            answers = KeptAnswers(
                [self.command], tools=str(self.at), kept=str(self.at / "kept"), state=str(self.at / "state")
            )
            answers.offer()
            result = run_tool(command or self.command, limit_s, MOST)
            answers.keep()
        del result["duration_s"]
        return result

    @property
    def runs(self) -> int:
        return len((self.at / "ran").read_text().splitlines())


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    for name in ("bin", "out"):
        (tmp_path / name).mkdir()
    made = Host(tmp_path, monkeypatch)
    (tmp_path / "out/said.txt").write_text(LONG)
    made.tool()
    return made


def test_the_second_answer_is_the_first_to_the_byte(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORD", "careful")
    first, second = host.ask(), host.ask()
    assert (first["stdout"], first["stderr"], first["rc"]) == (LONG, "careful\n", 0)
    assert (second, host.runs) == (first, 1)


def _marked(host: Host) -> None:
    (host.at / "state/services").mkdir(parents=True)
    (host.at / "state/services/chronyd").write_text("inactive\n")


def _replaced(host: Host) -> None:
    # As prepare_hosts does it: another file by the same name, with the same size and time.
    path = host.at / "out/said.txt"
    seen = path.stat()
    path.rename(host.at / "before")
    path.write_text("b" + LONG[1:])
    os.utime(path, ns=(seen.st_atime_ns, seen.st_mtime_ns))


@pytest.mark.parametrize(
    "change",
    [
        lambda host: (host.at / "out/said.txt").write_text("other\n"),
        _replaced,
        lambda host: host.tool("# a newer one"),
        _marked,
        lambda host: host.monkeypatch.setenv("WORD", "another"),
    ],
    ids=["file", "file-of-same-size", "tool", "mark", "environment"],
)  # fmt: skip
def test_what_may_have_changed_is_asked_again(host: Host, change: Callable[[Host], Any]) -> None:
    before = host.ask()
    change(host)
    said = (host.at / "out/said.txt").read_text()
    again = host.ask()
    assert (again["stdout"], host.runs, before["stdout"]) == (said, 2, LONG)


def test_a_file_that_no_script_of_it_names_changes_nothing(host: Host) -> None:
    host.ask()
    (host.at / "out/more.txt").write_text("beside it\n")
    assert (host.ask()["stdout"], host.runs) == (LONG, 1)


def test_what_a_program_between_two_questions_changed_is_seen_in_the_same_process(host: Host) -> None:
    changing = ["sh", "-c", f"echo changed > {host.at}/out/said.txt"]
    with host.monkeypatch.context() as process:
        process.setattr(subprocess, "Popen", subprocess.Popen)
        answers = KeptAnswers([host.command], tools=str(host.at), kept=str(host.at / "kept"), state=str(host.at / "s"))
        answers.offer()
        before = run_tool(host.command, LIMIT_S, MOST)
        answers.keep()
        assert run_tool(host.command, LIMIT_S, MOST)["stdout"] == before["stdout"] == LONG
        run_tool(changing, LIMIT_S, MOST)
        assert run_tool(host.command, LIMIT_S, MOST)["stdout"] == "changed\n"


def test_a_program_is_started_without_a_copy_of_python_unless_something_else_is_to_be_done(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Any] = []

    class Popen(subprocess.Popen[bytes]):
        def __init__(self, args: Any, **options: Any) -> None:
            given.append(options.get("preexec_fn"))
            super().__init__(args, **options)

    monkeypatch.setattr(kept_answers, "_Popen", Popen)
    monkeypatch.setattr(subprocess, "Popen", subprocess.Popen)
    KeptAnswers([], tools=str(host.at), kept=str(host.at / "kept")).offer()
    assert run_tool(["true"], LIMIT_S, MOST)["rc"] == 0
    subprocess.run(["true"], check=True, preexec_fn=os.getpid)
    assert given == [None, os.getpid]


def test_a_tool_that_went_away_is_missing(host: Host) -> None:
    host.ask()
    (host.at / "bin/tool").unlink()
    assert host.ask()["missing"]


def test_a_failure_is_never_kept(host: Host) -> None:
    host.tool("exit 3")
    assert [host.ask()["rc"] for _time in range(2)] == [3, 3]
    assert host.runs == 2


def test_what_was_killed_at_its_limit_is_never_kept(host: Host) -> None:
    host.tool("sleep 60")
    assert [host.ask(limit_s=0.5)["timed_out"] for _time in range(2)] == [True, True]
    assert host.runs == 2


def test_other_commands_and_other_ways_to_start_one_are_not_kept(host: Host) -> None:
    for _time in range(2):
        host.ask([host.command[0], "-x"])
        with host.monkeypatch.context() as process:
            process.setattr(subprocess, "Popen", subprocess.Popen)
            KeptAnswers([host.command], tools=str(host.at), kept=str(host.at / "kept")).offer()
            assert subprocess.run(host.command, check=True, stdout=subprocess.PIPE, text=True).stdout == LONG
    assert (host.runs, (host.at / "kept").exists()) == (4, False)


def test_a_kept_answer_says_when_it_was_asked(host: Host) -> None:
    head = "<?xml?>\n<!DOCTYPE>\n<nvidia_smi_log>\n"
    (host.at / "out/said.txt").write_text(f"{head}\t<timestamp>Mon Jan  1 00:00:00 2001</timestamp>\n<timestamp>x\n")
    host.ask()
    again = host.ask()["stdout"]
    assert time.asctime()[-4:] in again and "2001" not in again and again.endswith("\n<timestamp>x\n")
    assert host.runs == 1


def test_an_answer_that_is_cut_on_the_disk_is_none(host: Host) -> None:
    host.ask()
    (kept,) = (host.at / "kept").iterdir()
    kept.write_bytes(kept.read_bytes()[:100])
    assert (host.ask()["stdout"], host.runs) == (LONG, 2)


def test_every_tool_of_the_list_is_there() -> None:
    assert all(load_host_tools().named(name).used_by == "host_probe" for name in NOT_KEPT)
