# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judges a world in this process: its evidence comes from the simulators, its verdicts from the gates' own judges.

Gates that need a control plane are left out; `make rehearse WORLD=<id>` runs those too.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.declare import declare
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.judge import judge_gate
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.observation import observe
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.registry import observers_of
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Outcome, Status
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.fabric.net import write_cabling
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.hosts.prepare import prepare_hosts
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.spec import Fault
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.places import DATA
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.worlds.catalogue import World

from . import dl_unit, fabric, hosts, nccl, ranks
from .place import Place, settle

GATES = ("fabric", "nodes", "fabric_validation")
"""The gates that can be judged without a control plane."""
_OF_LINKS = "link-errors-under-load"


def judged_gates(world: World) -> tuple[str, ...]:
    """Return the gates that the world declares and this module judges."""
    return tuple(gate for gate in GATES if gate in world.gates)


def judge_world(world: World, directory: Path, *, seed: int = 0) -> list[Outcome]:
    """Return everything that the gates say of a healthy world, see judge_gates."""
    return [outcome for _gate, outcomes in judge_gates(world, directory, seed=seed) for outcome in outcomes]


def judge_gates(
    world: World, directory: Path, *, faults: tuple[Fault, ...] = (), seed: int = 0
) -> Iterator[tuple[str, list[Outcome]]]:
    """Yield each gate that the world declares with what it says, in their order; who stops asking saves the others.

    With faults that leave the fabric as it is, gate fabric is not asked: it would say what it says without them.

    Args:
        world: the world.
        directory: where everything is written.
        faults: what is broken.
        seed: draws the model, 0: as always.

    Raises:
        BringupError: the world is not valid, or this machine cannot simulate it.
    """
    directory.mkdir(parents=True, exist_ok=True)
    plan = str(directory / "cabling.yaml")
    first = settle(world, directory, faults=faults, seed=seed)
    wired = bool(first.healthy.infiniband.switches) and "fabric" in world.gates
    wired = wired and (not faults or fabric.differs(first.model, first.healthy))
    if wired and world.plan:
        write_cabling(first.planned_nodes, Path(plan))
    stated = {"fabric": {"interval_s": fabric.INTERVAL_S} | ({"plan": plan} if world.plan else {})}
    place = settle(world, directory, faults=faults, settings=stated if wired else None, seed=seed)
    gates = [gate for gate in judged_gates(world) if wired or gate != "fabric"]
    with ExitStack() as stack:
        net = fabric.planned(place.model, directory) if wired else None
        prepare_hosts(place.model, directory, DATA, fabric=net, kernel_settings=Path("/nonexistent"))
        if net is not None:
            stack.enter_context(fabric.running(net, directory / "fabric.log"))
        for gate in gates:
            yield gate, list(_outcomes(gate, place, wired=net is not None))


def _outcomes(gate: str, place: Place, *, wired: bool) -> tuple[Outcome, ...]:
    """Return what a gate says; of a fabric that is not simulated here, its check of the links says nothing."""
    observers = dict(observers_of(gate))
    if gate == "fabric":
        hosts.probe_adapters(place)
        fabric.probe(place)
    elif gate == "nodes":
        hosts.probe(place)
    else:
        hosts.probe_state(place, gate, "before")
        if wired:
            fabric.probe_load(place, "before")
        dl_unit.observe(place)
        ranks.observe(place)
        nccl.observe(place)
        hosts.load(place, "nccl-tests")
        hosts.probe_state(place, gate, "after")
        if wired:
            fabric.probe_load(place, "after")
        del observers["dl_unit"], observers["nccl"], observers["ranks"]
    for observer in observers.values():
        observe(observer, gate, place.observing())
    outcomes = judge_gate(declare(gate, place.site), place.judging(gate), place.run_dir)
    return tuple(found for found in outcomes if wired or found.check != _OF_LINKS)


def held(outcomes: list[Outcome]) -> list[Outcome]:
    """Return what is not passed, without what only waits for another result."""
    return [outcome for outcome in outcomes if outcome.status is not Status.PASSED and not outcome.blocked_by]
