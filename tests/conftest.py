# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What every test may use: the checkout, and the directory of foreign data."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ctrf_schema import install_ctrf_schema
from hypothesis import HealthCheck, settings
from seeds import CASES_VARIABLE, LONG_VARIABLE, drawing, every_case, long_ones, run_seed
from seeds import VARIABLE as SEED_VARIABLE

# Time is not what these tests are about: the machines are shared, and a slow moment is no defect.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
# What `make check` uses, many times a day.
settings.register_profile("quick", settings.get_profile("patient"), max_examples=25)
settings.load_profile("patient")

ROOT = Path(__file__).resolve().parent.parent


def shared_directory() -> Path:
    """Where foreign data is: captures, crds, upstream, vectors."""
    return Path(os.environ.get("GPUFLEET_SHARED") or ROOT.parent / "shared")


# What is told of the reason where a test fails; the whole of it stands at the end of the output.
REASON_CHARACTERS = 600


class FailuresAtOnce:
    """Names every test that fails when it fails, and why: a run that is cut off would keep both for itself."""

    def __init__(self, write_line: Callable[[str], None]) -> None:
        self.write_line = write_line

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.write_line("")
            self.write_line(f"FAILED {report.nodeid} ({report.when})")
            self.write_line(_reason(report.longrepr))


def _reason(longrepr: object) -> str:
    """Return the message of what was raised, its beginning and its end: a test appends what a program said last."""
    crash = getattr(longrepr, "reprcrash", None)
    words = crash.message if crash is not None else str(longrepr)
    half = REASON_CHARACTERS // 2
    return words if len(words) <= REASON_CHARACTERS else f"{words[:half]} [...] {words[-half:]}"


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Make both collections importable by their names, in a checkout where `make setup` has not been run."""
    run_seed()
    if not hasattr(config, "workerinput"):
        reporter = config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None:
            config.pluginmanager.register(FailuresAtOnce(reporter.write_line), "failures-at-once")
    for name, target in (("bringup", "../../.."), ("rehearsal", "../../../rehearsal")):
        link = ROOT / ".cache/ansible_collections/gpufleet" / name
        if not link.exists():
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(target)


def pytest_report_header() -> list[str]:
    directory = shared_directory()
    again = f"again: {SEED_VARIABLE}={run_seed()}; every case: {CASES_VARIABLE}=all; the long tests: {LONG_VARIABLE}=1"
    seed = f"random seed: {run_seed()} ({again})"
    if directory.is_dir():
        return [seed, f"shared data: {directory}"]
    return [seed, f"shared data: MISSING ({directory}); tests that read it are skipped. Set GPUFLEET_SHARED."]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out tests of the other schedule (marked `long`, or not), and of the rest cases of tests that are marked
    `drawn`, and with the quick profile of those marked `quickly`."""
    quick = config.getoption("--hypothesis-profile") == "quick"
    left_out = _not_drawn(items, "quickly") if quick else set()
    if not (_asked_for(config) or any(word.endswith(".py") for word in config.args)):
        left_out |= {item.nodeid for item in items if bool(item.get_closest_marker("long")) != long_ones()}
    if not (every_case() or _asked_for(config)):
        left_out |= _not_drawn([item for item in items if item.nodeid not in left_out], "drawn")
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in left_out])
    items[:] = [item for item in items if item.nodeid not in left_out]


def _asked_for(config: pytest.Config) -> bool:
    """Whether the tests are chosen by name: then all of their cases are run."""
    return bool(config.getoption("keyword")) or any("::" in word for word in config.args)


def _not_drawn(items: list[pytest.Item], mark: str) -> set[str]:
    """Return the cases beyond the number that the marks of their test state; the seed draws which.

    Tests whose marks say `of` the same are drawn from together; files whose marks say `whole` are drawn as files, and
    then the tests of those that are left.
    """
    left_out: set[str] = set()
    for whole in (True, False):
        cases: dict[str, dict[str, list[str]]] = {}
        numbers: dict[str, int] = {}
        for item in items:
            marks = [found for found in item.iter_markers(mark) if bool(found.kwargs.get("whole")) == whole]
            if not marks or item.nodeid in left_out:
                continue
            file, _sep, _test = item.nodeid.partition("::")
            name = marks[0].kwargs.get("of") or item.nodeid.partition("[")[0]
            cases.setdefault(name, {}).setdefault(file if whole else item.nodeid, []).append(item.nodeid)
            numbers[name] = marks[0].args[0]
        for name, known in cases.items():
            for case in drawing(name).sample(list(known), max(0, len(known) - numbers[name])):
                left_out.update(known[case])
    return left_out


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Let tests that share a cluster run on one worker."""
    from distribution import BySharedFixture

    return BySharedFixture(config, log)


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the checkout."""
    return ROOT


@pytest.fixture(scope="session")
def ctrf_schema() -> dict[str, Any]:
    """The official JSON schema of CTRF."""
    return install_ctrf_schema(ROOT)


_NO_SHARED_DATA = "no shared data"


@pytest.fixture(scope="session")
def shared() -> Path:
    """The directory of foreign data; a test that asks for it is skipped where there is none."""
    directory = shared_directory()
    if not directory.is_dir():
        pytest.skip(_NO_SHARED_DATA)
    return directory


def pytest_report_teststatus(report: pytest.TestReport | pytest.CollectReport) -> tuple[str, str, str] | None:
    """Count these skips by themselves: a reason for each of a hundred tests says no more than one line."""
    if report.skipped and isinstance(report.longrepr, tuple) and _NO_SHARED_DATA in str(report.longrepr[2]):
        return _NO_SHARED_DATA, "s", "SKIPPED (no shared data)"
    return None


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say once what was not run for lack of foreign data, and how to get it."""
    number = len(terminalreporter.stats.get(_NO_SHARED_DATA, ()))
    if number:
        terminalreporter.write_line(
            f"{number} tests were not run: they read data of others (captures, schemas, vectors), which is not at "
            f"{shared_directory()}. Set GPUFLEET_SHARED; CONTRIBUTING.md says where the data comes from.",
            yellow=True,
        )
