# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judges a world in this process: its evidence comes from the simulators, its verdicts from the gates' own judges.

Gates that need a control plane are left out; `make rehearse WORLD=<id>` runs those too.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.declare import declare
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.judge import judge_gate
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.observation import observe
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.registry import observers_of
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Outcome, Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.rehearsal.fabric.cabling import write_cabling
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.rehearsal.hosts.prepare import prepare_hosts
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.rehearsal.model.spec import Fault
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.rehearsal.worlds.model import World

from . import fabric, hosts, nccl
from .place import Place, settle

GATES = ("fabric", "nodes", "fabric_validation")
"""The gates that can be judged without a control plane."""
DATA = Path(__file__).resolve().parents[2] / "recipes" / "rehearsal"


def judged_gates(world: World) -> tuple[str, ...]:
    """Return the gates that the world declares and this module judges."""
    return tuple(gate for gate in GATES if gate in world.gates)


def judge_world(
    world: World, directory: Path, *, faults: tuple[Fault, ...] = (), gates: tuple[str, ...] = GATES
) -> list[Outcome]:
    """Return everything that these gates say of a world with these faults in it.

    Args:
        world: the world.
        directory: an empty directory.
        faults: what is broken.
        gates: the gates to judge; those that the world does not declare are left out.

    Raises:
        BringupError: the world is not valid, or this machine cannot simulate it.
    """
    wanted = [gate for gate in judged_gates(world) if gate in gates]
    plan = str(directory / "cabling.yaml")
    stated = {"fabric": {"interval_s": fabric.INTERVAL_S} | ({"plan": plan} if world.plan else {})}
    first = settle(world, directory)
    infiniband = bool(first.healthy.infiniband.switches) and not {"fabric", "nodes"}.isdisjoint(wanted)
    if infiniband and world.plan:
        write_cabling(first.healthy.nodes, Path(plan))
    place = settle(world, directory, faults=faults, settings=stated if infiniband else None)
    with ExitStack() as stack:
        if not {"fabric", "nodes"}.isdisjoint(wanted):
            net = fabric.planned(place.model, directory) if infiniband else None
            prepare_hosts(place.model, directory, DATA, fabric=net, kernel_settings=Path("/nonexistent"))
            if net is not None:
                stack.enter_context(fabric.running(net, directory / "fabric.log"))
        return [outcome for gate in wanted for outcome in _outcomes(gate, place)]


def _outcomes(gate: str, place: Place) -> tuple[Outcome, ...]:
    look: dict[str, Any] = {"fabric": fabric.probe, "nodes": hosts.probe, "fabric_validation": nccl.observe}
    look[gate](place)
    if gate != "fabric_validation":
        for observer in observers_of(gate).values():
            observe(observer, gate, place.observing())
    return judge_gate(declare(gate, place.site), place.judging(gate), place.run_dir)


def held(outcomes: list[Outcome]) -> list[Outcome]:
    """Return what is not passed, without what only waits for another result."""
    return [outcome for outcome in outcomes if outcome.status is not Status.PASSED and not outcome.blocked_by]
