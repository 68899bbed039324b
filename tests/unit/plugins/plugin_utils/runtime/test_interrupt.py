# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""SIGTERM and SIGINT end a run at the next line: nothing takes them for a fault of what was looked at."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from contextlib import suppress
from datetime import date
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.observation import observation_path, observe
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import ObserveContext, observer_of
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import (
    AbortedError,
    BringupError,
    DeadlineError,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.clock import time_limit
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.interrupt import (
    end_with_controller,
    interruptible,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.pool import map_bounded
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import Site, SiteProfile

NUMBERS = [signal.SIGTERM, signal.SIGINT]


@pytest.mark.parametrize("number", NUMBERS)
def test_code_that_handles_errors_does_not_go_on(number: signal.Signals) -> None:
    after = []
    with pytest.raises(AbortedError, match=f"ended by {number.name}"), interruptible("run"):
        with suppress(BringupError, Exception):
            os.kill(os.getpid(), number)
        after.append("went on")
    assert after == []


@pytest.mark.parametrize("number", NUMBERS)
def test_no_observation_is_saved_and_the_next_observer_does_not_start(tmp_path: Path, number: signal.Signals) -> None:
    looked = []

    def look(_context: ObserveContext) -> str:
        looked.append(1)
        os.kill(os.getpid(), number)
        return "seen"

    context = ObserveContext(
        site=Site(name="lab", profile=SiteProfile.CLOUD, hosts=()), run_dir=tmp_path, today=date(2026, 11, 1)
    )
    with pytest.raises(AbortedError), interruptible("run"):
        for key in ("first", "second"):
            observe(observer_of(key, str, look), "nodes", context)
    assert looked == [1]
    assert not observation_path(tmp_path, "nodes", "first").exists()


def test_the_end_of_a_test_within_a_run_is_the_end_of_the_run() -> None:
    after = []
    with pytest.raises(AbortedError, match="run: ended by SIGTERM"), interruptible("run"):
        with suppress(BringupError), interruptible("test"):
            os.kill(os.getpid(), signal.SIGTERM)
        after.append("went on")
    assert after == []


def test_whoever_ends_a_run_does_not_wait_for_requests_that_are_under_way() -> None:
    gate = threading.Event()
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGTERM)).start()
    began = time.monotonic()
    try:
        with pytest.raises(AbortedError), interruptible("run"):
            map_bounded(lambda _item: gate.wait(30), list(range(8)), 2)
        assert time.monotonic() - began < 5
    finally:
        gate.set()


def test_without_a_signal_nothing_changes() -> None:
    before = [signal.getsignal(number) for number in NUMBERS]
    with interruptible("run"), interruptible("test"):
        assert map_bounded(str, [1, 2], 2) == ["1", "2"]
    assert [signal.getsignal(number) for number in NUMBERS] == before


def fork_and_be_sent(number: int) -> None:
    """Fork; the signal comes within a hook that `logging` has for forks, which holds its lock."""

    def called(frame: FrameType, event: str, _argument: Any) -> None:
        if event == "call" and frame.f_code.co_name in {"_afterFork", "_releaseLock"}:
            sys.setprofile(None)
            os.kill(os.getpid(), number)

    sys.setprofile(called)
    subprocess.run(["true"], check=True, preexec_fn=os.getpid)


def wait_for_the_end() -> None:
    """Be where a signal, or a time that is over, ends this at once; one that is lost lets it go on after a while."""
    threading.Event().wait(5)


def a_thread_can_make_a_logger() -> bool:
    thread = threading.Thread(target=logging.getLogger, args=(str(uuid4()),), daemon=True)
    thread.start()
    thread.join(5)
    return not thread.is_alive()


@pytest.mark.parametrize("number", NUMBERS)
def test_a_signal_that_comes_while_a_program_is_started_is_not_lost(number: signal.Signals) -> None:
    after = []
    with pytest.raises(AbortedError, match=f"ended by {number.name}"), interruptible("run"):
        fork_and_be_sent(number)
        wait_for_the_end()
        after.append("went on")
    assert after == []
    assert a_thread_can_make_a_logger()


def test_a_signal_that_comes_while_memory_is_freed_is_not_lost() -> None:
    class Freed:
        pass

    after = []
    with pytest.raises(AbortedError, match="ended by SIGTERM"), interruptible("run"):
        freed = Freed()
        reference = weakref.ref(freed, lambda _reference: os.kill(os.getpid(), signal.SIGTERM))
        del freed
        wait_for_the_end()
        after.append("went on")
    assert after == [] and reference() is None


def test_a_time_that_is_over_while_a_program_is_started_keeps_no_lock() -> None:
    with pytest.raises(DeadlineError), time_limit("look", 60, "nothing"):
        fork_and_be_sent(signal.SIGALRM)
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        wait_for_the_end()
    assert a_thread_can_make_a_logger()


@pytest.mark.parametrize(("gone", "code"), [(False, 0), (True, -signal.SIGTERM)])
def test_a_worker_whose_controller_went_before_it_was_bound_to_it_ends(
    monkeypatch: pytest.MonkeyPatch, *, gone: bool, code: int
) -> None:
    if gone:
        monkeypatch.setattr(multiprocessing, "parent_process", lambda: SimpleNamespace(pid=os.getpid()))
    worker = multiprocessing.get_context("fork").Process(target=end_with_controller)
    # What another test of this process left behind is none of the worker's.
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        worker.start()
        worker.join(20)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert worker.exitcode == code
