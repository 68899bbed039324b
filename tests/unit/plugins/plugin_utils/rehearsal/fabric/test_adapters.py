# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is kept of ibstat: only for as long as the simulator says the same of the host's adapters."""

from __future__ import annotations

import os
import re
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.fabric.net import Console
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.fabric.simulator import (
    ANSWER,
    ASK,
    Adapters,
    give,
    make_pipes,
)

TOOL = Path(__file__).resolve().parents[6] / "rehearsal" / "recipes" / "fabric" / "tool.sh"


class Simulator:
    """Answers a console as ibsim 0.10 does."""

    def __init__(self) -> None:
        self.states = {"H-1": "4x 50G Active/LinkUp", "H-2": "4x 50G Active/LinkUp"}
        told, self._tell = os.pipe()
        self._said, say = os.pipe()
        self.console = Console(self._tell, self._said)
        self._reading = threading.Thread(target=self._answer, args=(told, say), daemon=True)
        self._reading.start()

    def _answer(self, told: int, say: int) -> None:
        with open(told, encoding="utf-8") as lines, open(say, "w", encoding="utf-8") as out:
            for line in lines:
                found = re.fullmatch(r'Dump "(.+)"\n', line)
                name = found.group(1) if found else ""
                out.write("sim> # Net status - Mon Nov 23 04:59:06 2026\n")
                if name in self.states:
                    out.write(f'\nCa 1 "{name}"\tnodeguid 1\n2\t[1]\t"S-1"[1]\t lid 26 {self.states[name]}\n')
                    out.write("#  dumped 1 nodes\n")
                else:
                    out.write(f'# nodeid "{name}" not found\n')
                out.flush()

    def close(self) -> None:
        os.close(self._tell)
        self._reading.join()
        os.close(self._said)


@pytest.fixture
def simulator() -> Iterator[Simulator]:
    found = Simulator()
    yield found
    found.close()


@pytest.fixture
def host(tmp_path: Path) -> Path:
    out = tmp_path / "gpu01" / "out"
    out.mkdir(parents=True)
    (out / "hcas.tsv").write_text("mlx5_0\tH-1\tMT4129\t28\tActive\nmlx5_1\t-\tMT41692\t32\tActive\n")
    (out / "ibstat.txt").write_text("CA 'mlx5_1'\n")
    return out.parent


def asked(
    simulator: Simulator, host: Path, say: Callable[[Path], str | None] | None = None
) -> tuple[Adapters, list[str]]:
    ran: list[str] = []

    def run(directory: Path) -> str | None:
        ran.append(directory.name)
        return say(directory) if say else f"run {len(ran)}\n"

    return Adapters(host.parent, simulator.console, run), ran


def test_the_programs_run_once_while_nothing_changes(simulator: Simulator, host: Path) -> None:
    adapters, ran = asked(simulator, host)
    assert [adapters.answer(f"gpu01 {number}") for number in range(3)] == [
        (f"gpu01 {number}", "run 1\n") for number in range(3)
    ]
    assert ran == ["gpu01"]


def test_they_run_again_when_a_port_of_the_host_changes(simulator: Simulator, host: Path) -> None:
    adapters, ran = asked(simulator, host)
    adapters.answer("gpu01 1")
    simulator.states["H-2"] = "4x 2.5G Down/Polling"
    adapters.answer("gpu01 2")
    assert len(ran) == 1, "another host's port"
    simulator.states["H-1"] = "4x 2.5G Down/Polling"
    assert adapters.answer("gpu01 3") == ("gpu01 3", "run 2\n")


@pytest.mark.parametrize("name", ["hcas.tsv", "ibstat.txt"])
def test_they_run_again_when_a_file_of_the_host_changes(simulator: Simulator, host: Path, name: str) -> None:
    adapters, ran = asked(simulator, host)
    adapters.answer("gpu01 1")
    (host / "out" / name).write_text((host / "out" / name).read_text().replace("mlx5_1", "mlx5_9"))
    adapters.answer("gpu01 2")
    assert len(ran) == 2


def test_nothing_is_kept_of_what_moved_while_they_ran(simulator: Simulator, host: Path) -> None:
    def say(_host: Path) -> str:
        simulator.states["H-1"] = f"{simulator.states['H-1']}."
        return "between\n"

    adapters, ran = asked(simulator, host, say)
    assert [adapters.answer("gpu01 1"), adapters.answer("gpu01 2")] == [
        ("gpu01 1", "between\n"),
        ("gpu01 2", "between\n"),
    ]
    assert len(ran) == 2


def test_nothing_is_kept_of_programs_that_failed_or_of_an_adapter_that_the_simulator_does_not_know(
    simulator: Simulator, host: Path
) -> None:
    adapters, ran = asked(simulator, host, lambda _host: None)
    assert adapters.answer("gpu01 1") == adapters.answer("gpu01 1") == ("gpu01 1", "")
    assert len(ran) == 2
    del simulator.states["H-1"]
    adapters, ran = asked(simulator, host)
    assert [adapters.answer("gpu01 1"), adapters.answer("gpu01 1")] == [("gpu01 1", "run 1\n"), ("gpu01 1", "run 2\n")]


def test_what_others_ask_the_simulator_for_does_not_count(simulator: Simulator, host: Path) -> None:
    adapters, ran = asked(simulator, host)
    adapters.answer("gpu01 1")
    simulator.console.tell('Dump "H-2"')
    simulator.console.tell('Dump "H-1"')
    adapters.answer("gpu01 2")
    assert len(ran) == 1


@pytest.mark.parametrize("order", ["", "gpu01", "../gpu01 1", "gpu01 1 2"])
def test_what_is_no_question_gets_no_answer(simulator: Simulator, host: Path, order: str) -> None:
    adapters, ran = asked(simulator, host)
    assert adapters.answer(order) is None and not ran
    assert adapters.answer("gpu99 1") == ("gpu99 1", "")


def test_the_tool_prints_the_answer_that_is_its_own_and_else_runs_the_programs(tmp_path: Path) -> None:
    for name in ("bin", "out", "programs"):
        (tmp_path / name).mkdir()
    make_pipes(tmp_path / "out")
    tool = tmp_path / "bin" / "ibstat"
    tool.write_bytes(TOOL.read_bytes())
    tool.chmod(0o755)
    program = tmp_path / "programs" / "ibstat"
    program.write_text("#!/bin/sh\necho \"CA 'sim'\"\n")
    program.chmod(0o755)
    (tmp_path / "out" / "hcas.tsv").write_text("mlx5_0\tH-1\tMT4129\t28\tActive\n")
    (tmp_path / "out" / "fabric.lock").touch()
    (tmp_path / "out" / "fabric.env").write_text(
        f"LD_PRELOAD=\nIBSIM_SOCKNAME=none\nDIAGNOSTICS={program.parent}\nFABRIC_HOST=gpu01\n"
    )

    def printed(answer: Callable[[str], str]) -> str:
        def serve() -> None:
            with open(os.open(tmp_path / "out" / ASK, os.O_RDWR), encoding="utf-8") as orders:
                give(tmp_path / "out" / ANSWER, answer(orders.readline().strip()))

        serving = threading.Thread(target=serve)
        serving.start()
        done = subprocess.run([tool], capture_output=True, text=True, timeout=100, check=True)
        serving.join()
        return done.stdout

    assert printed(lambda order: f"{order}\nCA 'kept'\n\tCA type: MT4129\n") == "CA 'kept'\n\tCA type: MT4129\n"
    assert printed(lambda order: f"{order}\n") == "CA 'mlx5_0'\n", "nothing is known"
    assert printed(lambda order: "gpu02 7\nCA 'other'\n") == "CA 'mlx5_0'\n", "another host's"
