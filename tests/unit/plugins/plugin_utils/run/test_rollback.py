# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The run to whose recipe a site goes back: the last one that passed with another recipe, or none is guessed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import recorded
from recorded import SITE
from returned import described, misfits

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError, NotFoundError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.rollback import last_good_run, rollback_facts
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.run import Run
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.history import open_store


def made(base: Path, name: str, version: str, *more: str, site: str = "island", **gates: Status) -> Run:
    """A run of that site with that version in its recipe, and its gates in the history, in the order of the calls."""
    refs = [{"name": component, "namespace": "n", "version": version} for component in ("operator", *more)]
    recipe = {"componentRefs": refs, "deploymentOrder": [ref["name"] for ref in refs]}
    return recorded.made(base, name, recipe, site, **gates)


def back(base: Path, run: Run) -> str:
    return last_good_run(run, str(base / "history"), None).record.run_id


def test_it_goes_back_to_the_newest_run_that_passed_with_another_recipe(tmp_path: Path) -> None:
    made(tmp_path, "a", "1.0.0", gpu_stack=Status.PASSED, telemetry=Status.PASSED)
    made(tmp_path, "b", "1.1.0", gpu_stack=Status.PASSED)
    made(tmp_path, "c", "1.2.0", gpu_stack=Status.PASSED, telemetry=Status.FAILED)
    made(tmp_path, "d", "1.3.0", gpu_stack=Status.FAILED)
    made(tmp_path, "e", "2.0.0", gpu_stack=Status.PASSED)
    run = made(tmp_path, "f", "2.0.0", "dra", gpu_stack=Status.FAILED)
    assert back(tmp_path, run) == "e"
    run = made(tmp_path, "g", "2.0.0", gpu_stack=Status.FAILED)
    assert back(tmp_path, run) == "b", "e has the same recipe, c and d did not pass"


def test_components_that_the_older_recipe_does_not_have_are_told(tmp_path: Path) -> None:
    good = made(tmp_path, "a", "1.0.0", gpu_stack=Status.PASSED)
    run = made(tmp_path, "b", "1.0.0", "dra", gpu_stack=Status.FAILED)
    assert rollback_facts(good, run) == {"run_id": "a", "stays": ["dra"]}
    assert list(misfits(rollback_facts(good, run), described("component_stack", "rollback"))) == []


def test_a_gate_that_began_and_was_never_decided_is_not_passed(tmp_path: Path) -> None:
    run = made(tmp_path, "a", "1.0.0", gpu_stack=Status.PASSED)
    open_store(tmp_path / "history").begin_gate(run.record, "gpu_stack", SITE)
    with pytest.raises(NotFoundError, match=r"no run of site island .*\(0 passed\)"):
        back(tmp_path, made(tmp_path, "b", "2.0.0"))


def test_a_directory_that_is_gone_is_told_and_nothing_older_is_taken(tmp_path: Path) -> None:
    made(tmp_path, "a", "1.0.0", gpu_stack=Status.PASSED)
    shutil.rmtree(made(tmp_path, "b", "1.1.0", gpu_stack=Status.PASSED).path)
    run = made(tmp_path, "c", "2.0.0", gpu_stack=Status.FAILED)
    with pytest.raises(NotFoundError, match=r"run b.*directory .*runs/b is gone.*rollback_to"):
        back(tmp_path, run)
    chosen = last_good_run(run, None, str(tmp_path / "runs" / "a"))
    assert chosen.record.run_id == "a"


def test_runs_of_other_sites_do_not_count(tmp_path: Path) -> None:
    other = made(tmp_path, "a", "1.0.0", site="mainland")
    run = made(tmp_path, "b", "2.0.0", gpu_stack=Status.FAILED)
    with pytest.raises(NotFoundError, match="names no run of site island"):
        back(tmp_path, run)
    with pytest.raises(InputError, match="is a run of site mainland, not of island"):
        last_good_run(run, None, str(other.path))


def test_without_a_history_a_run_must_be_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no history.*rollback_to"):
        last_good_run(made(tmp_path, "a", "1.0.0"), None, None)
