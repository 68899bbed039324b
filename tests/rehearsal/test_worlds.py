# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Healthy worlds pass, and faults in them are found: each run of the tests draws some worlds and some faults.

What is drawn is known when it runs: every worker, and all who only collect, would draw all worlds first.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory

import pytest
import yaml
from seeds import drawing, run_seed

# The bench of the worlds is no part of the collection: it is a module of the checkout.
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.faults.catalogue import load_catalogue
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.places import DATA
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.worlds.catalogue import load_worlds
from tools.world_bench.draws import Drawn, drawn_faults, drawn_for, problems_of
from tools.world_bench.draws import drawn_worlds as healthy_draws
from tools.world_bench.judge import held, judge_world, judged_gates

WORLDS = load_worlds(DATA)
HEALTHY, FAULTS = 3, 4
MANY_FAULTS, MANY_HEALTHY = 300, 100
LEAST_WORLDS, LEAST_FAULTS = 25, 60
# Faults of nodes that came after the first release; each is put into a random world that it fits, on a random subject.
FIRST = yaml.safe_load((Path(__file__).parents[1] / "data/first_release_node_faults.yaml").read_text(encoding="utf-8"))
LATER = [name for name, fault in load_catalogue().items() if fault.expect.gate == "nodes" and name not in FIRST]
LEAST_LATER = 25


@cache
def drawn_worlds() -> list[str]:
    return drawing("worlds").sample([name for name, world in WORLDS.items() if judged_gates(world)], HEALTHY)


@cache
def faults_in_worlds() -> list[Drawn]:
    with TemporaryDirectory(prefix="worlds-") as scratch:
        return drawn_faults(drawing("faults in worlds"), FAULTS, Path(scratch))


@pytest.mark.parametrize("number", range(HEALTHY))
def test_a_healthy_world_passes(number: int, tmp_path: Path) -> None:
    name = drawn_worlds()[number]
    outcomes = judge_world(WORLDS[name], tmp_path)
    assert outcomes
    assert [outcome for outcome in outcomes if outcome.blocked_by] == []
    assert [(o.gate, o.check, o.cause, o.summary) for o in held(outcomes)] == [], f"world {name}, seed {run_seed()}"


@pytest.mark.parametrize("number", range(FAULTS))
def test_a_fault_in_a_world_is_found_and_nothing_else(number: int, tmp_path: Path) -> None:
    drawn = faults_in_worlds()[number]
    assert problems_of(drawn, tmp_path) == [], f"{drawn.id}, seed {run_seed()}"


@pytest.mark.long("300 faults in random worlds take half an hour")
def test_three_hundred_faults_in_random_worlds_are_found_and_nothing_else(tmp_path: Path) -> None:
    """Gate, cause and subject are right and nothing else is held; `python -m tools.worlds --faults 300` prints them."""
    wrong: dict[str, list[str]] = {}
    for number, drawn in enumerate(drawn_faults(drawing("many faults in worlds"), MANY_FAULTS, tmp_path / "fit")):
        place = tmp_path / str(number)
        if problems := problems_of(drawn, place):
            wrong[drawn.id] = problems
        rmtree(place, ignore_errors=True)
    assert wrong == {}, f"seed {run_seed()}"


@pytest.mark.long("100 healthy draws take ten minutes")
def test_a_hundred_healthy_draws_are_silent(tmp_path: Path) -> None:
    """Other seeds and numbers of hosts than the worlds state; `python -m tools.worlds --healthy 100` prints them."""
    wrong: dict[str, list[tuple[str, str, str]]] = {}
    for number, drawn in enumerate(healthy_draws(drawing("many healthy worlds"), MANY_HEALTHY)):
        place = tmp_path / str(number)
        if found := held(judge_world(drawn.grown, place, seed=drawn.seed)):
            wrong[drawn.id] = [(outcome.check, outcome.cause, outcome.summary) for outcome in found]
        rmtree(place, ignore_errors=True)
    assert wrong == {}, f"seed {run_seed()}"


def test_there_are_enough_worlds_and_faults_beyond_those_of_before() -> None:
    """60 worlds and 267 faults were there before commit 17bab27d was reviewed."""
    assert len(WORLDS) >= 60 + LEAST_WORLDS and len(load_catalogue()) >= 267 + LEAST_FAULTS


def test_there_are_enough_node_faults_beyond_those_of_the_first_release() -> None:
    assert len(LATER) >= LEAST_LATER


@pytest.mark.drawn(4)
@pytest.mark.parametrize("fault", LATER)
def test_a_later_fault_of_a_node_is_found_in_a_random_world(fault: str, tmp_path: Path) -> None:
    drawn = drawn_for(drawing(f"world for {fault}"), fault, tmp_path / "fit")
    assert problems_of(drawn, tmp_path / "run", only="nodes") == [], f"{drawn.id}, seed {run_seed()}"


@pytest.mark.parametrize("fault", ["roce-drops-under-nccl"])
def test_what_a_load_does_to_a_network_that_the_standard_cluster_has_not_is_found(fault: str, tmp_path: Path) -> None:
    drawn = drawn_for(drawing(f"world for {fault}"), fault, tmp_path / "fit")
    assert problems_of(drawn, tmp_path / "run") == [], f"{drawn.id}, seed {run_seed()}"
