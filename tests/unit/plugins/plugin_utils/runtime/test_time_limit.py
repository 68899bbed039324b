# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A computation ends with its time, whatever handles faults in it; limits of others stay."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect import tool_reading
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.host_evidence import ToolRun
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import DeadlineError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.clock import time_limit, unlimited
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.host_tools import load_host_tools


@pytest.fixture(autouse=True)
def no_alarm_is_left() -> Iterator[None]:
    before = signal.getsignal(signal.SIGALRM)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    assert signal.getsignal(signal.SIGALRM) is before


def spin(for_s: float = 30.0) -> None:
    end = time.monotonic() + for_s
    while time.monotonic() < end:
        pass


def test_what_takes_every_fault_for_an_answer_is_ended_all_the_same() -> None:
    with pytest.raises(DeadlineError, match=r"check x: did not end within 0\.2"), time_limit("check x", 0.2, "look"):
        with suppress(Exception):
            spin()
        pytest.fail("it went on")


def test_an_exception_that_is_lost_is_raised_again() -> None:
    with pytest.raises(DeadlineError), time_limit("check x", 0.1, "look"):
        with suppress(BaseException):
            spin()
        spin()


def test_the_shorter_of_two_limits_ends_its_own_block() -> None:
    with time_limit("outer", 20, "look"):
        with pytest.raises(DeadlineError, match="inner"), time_limit("inner", 0.1, "look"):
            spin()
        left_s, _interval = signal.getitimer(signal.ITIMER_REAL)
        assert 10 < left_s < 20
    with pytest.raises(DeadlineError, match="outer"), time_limit("outer", 0.1, "look"), time_limit("inner", 20, "look"):
        spin()


@pytest.mark.parametrize("works_s", [30.0, 0.0])
def test_a_cleanup_comes_to_its_end_whether_the_time_was_over_before_or_within_it(works_s: float) -> None:
    done: list[str] = []
    with pytest.raises(DeadlineError), time_limit("check x", 0.1, "look"):
        try:
            spin(works_s)
        finally:
            with unlimited():
                with unlimited():
                    spin(1.3)
                spin(1.3)
                done.append("cleaned")
        spin()
        pytest.fail("it went on")
    assert done == ["cleaned"]


def test_a_cleanup_of_another_thread_changes_nothing_for_this_one() -> None:
    over = threading.Event()

    def clean() -> None:
        with unlimited():
            over.wait(10)

    thread = threading.Thread(target=clean)
    thread.start()
    begun = time.monotonic()
    with pytest.raises(DeadlineError), time_limit("check x", 0.1, "look"):
        spin(5)
    assert time.monotonic() - begun < 3
    over.set()
    thread.join()


def test_a_time_limit_of_the_task_goes_on_afterwards() -> None:
    came: list[int] = []
    before = signal.signal(signal.SIGALRM, lambda number, _frame: came.append(number))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.4)
        with suppress(DeadlineError), time_limit("inner", 0.1, "look"):
            spin()
        assert came == []
        spin(0.5)
        assert came == [signal.SIGALRM]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_another_thread_is_not_limited() -> None:
    done: list[bool] = []

    def work() -> None:
        with time_limit("x", 0.05, "look"):
            spin(0.2)
            done.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done == [True]


def test_a_tool_whose_output_is_never_read_gave_nothing_usable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool_reading, "_LIMIT_S", 0.1)
    monkeypatch.setattr(tool_reading, "parser_named", lambda _name: lambda _text: spin())
    tool = load_host_tools().named("dcgmi_diag")
    found = tool_reading.read_tool(tool, ToolRun(argv=("lspci", "-n"), rc=0, stdout="x"))
    assert isinstance(found, tool_reading.ProbeFailure) and found.kind == "garbage"
    assert found.text == "reading of `lspci -n` did not end within 0.1 s."
