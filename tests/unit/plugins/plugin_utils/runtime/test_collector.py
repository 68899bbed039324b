# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The garbage collector is held inside, and afterwards it is as it was."""

from __future__ import annotations

import gc
import multiprocessing
from collections.abc import Iterator
from typing import Any

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.interpreter import (
    collector_held,
    leave_inherited,
)


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    """The collector runs before and after each test."""
    gc.enable()
    yield
    gc.enable()


def test_the_collector_is_held_inside_and_runs_afterwards() -> None:
    with collector_held():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_it_runs_again_after_an_error() -> None:
    with pytest.raises(ValueError, match="inside"), collector_held():
        raise ValueError("inside")
    assert gc.isenabled()


def test_one_inside_another_does_not_let_it_run_too_early() -> None:
    with collector_held():
        with collector_held():
            pass
        assert not gc.isenabled()
    gc.disable()
    with collector_held():
        pass
    assert not gc.isenabled()


def _in_a_worker(answers: Any) -> None:
    before = gc.get_freeze_count()
    leave_inherited()
    answers.put((before, gc.get_freeze_count(), gc.isenabled()))


def test_a_forked_worker_leaves_what_it_inherited_alone_and_collects_its_own() -> None:
    fork = multiprocessing.get_context("fork")
    answers = fork.SimpleQueue()
    worker = fork.Process(target=_in_a_worker, args=(answers,))
    worker.start()
    before, after, collects = answers.get()
    worker.join()
    assert after > before + 1000 and collects


def test_a_process_of_its_own_inherited_nothing() -> None:
    before = gc.get_freeze_count()
    leave_inherited()
    assert gc.get_freeze_count() == before
