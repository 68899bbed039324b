# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A test that takes its worker with it, as one that hangs does when its time is over, fails; all others are run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import distribution

CONFTEST = """
def pytest_xdist_make_scheduler(config, log):
    from distribution import BySharedFixture
    return BySharedFixture(config, log)
"""
ALONE = """
import os, pytest
@pytest.mark.parametrize("number", range(6))
def test_alone(number):
    if number == {crashes}:
        os._exit(1)
"""
SHARED = """
import os, pytest
@pytest.fixture(scope="module")
def cluster():
    return 1
@pytest.mark.parametrize("number", range(6))
def test_shared(cluster, number):
    if number == {crashes}:
        os._exit(1)
"""


class Worker:
    """What the scheduler knows of a worker."""

    shutting_down = False

    def __init__(self) -> None:
        self.given: list[int] = []

    gateway = SimpleNamespace(id="gw")

    def send_runtest_some(self, indices: list[int]) -> None:
        self.given += indices

    def shutdown(self) -> None:
        self.shutting_down = True


def test_a_worker_that_has_not_collected_is_given_work_when_it_has(tmp_path: Path) -> None:
    options = {"tx": ["popen", "popen"], "loadscopereorder": True}
    config = SimpleNamespace(rootpath=tmp_path, option=SimpleNamespace(**options), getvalue=options.__getitem__)
    tests = [f"test_alone.py::test_alone[{number}]" for number in range(8)]
    scheduler = distribution.BySharedFixture(config)
    first, second, replacement = Worker(), Worker(), Worker()
    for worker in (first, second):
        scheduler.add_node(worker)
        scheduler.add_node_collection(worker, tests)
    scheduler.schedule()
    assert scheduler.remove_node(first) == tests[first.given[0]]
    scheduler.add_node(replacement)  # It is collecting when the other one goes as well.
    assert scheduler.remove_node(second) == tests[second.given[0]]
    assert not replacement.given
    scheduler.add_node_collection(replacement, tests)
    scheduler.schedule()
    assert replacement.given and not replacement.shutting_down


def test_a_worker_that_goes_takes_one_test_with_it(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_alone.py").write_text(ALONE.format(crashes=5))
    (tmp_path / "test_shared.py").write_text(SHARED.format(crashes=2))
    environment = {**os.environ, "PYTHONPATH": str(Path(distribution.__file__).parent)}
    words = [sys.executable, "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider", "--rootdir", str(tmp_path)]
    done = subprocess.run(
        [*words, str(tmp_path)], env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert "2 failed, 10 passed" in done.stdout, done.stdout[-2000:]
