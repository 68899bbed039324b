# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Faults in random worlds: each must be found at its gate, with its cause and its subject, and nothing else may be."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.registry import all_checks
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Outcome
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.faults.catalogue import (
    FaultDefinition,
    choose_faults,
    load_catalogue,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.spec import Fault
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.places import DATA
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.worlds.catalogue import (
    HOSTS_WANTED,
    World,
    load_worlds,
    offers,
)

from .judge import GATES, held, judge_gates, judged_gates
from .place import settle

# A host whose tools hang takes their time limits.
_PATIENT = "hang"
# A rack of eighteen takes as long as five smaller worlds.
_MOST_HOSTS = 9
# Of faults that are not drawn.
_SEED = 1


@dataclass(frozen=True)
class Drawn:
    """One fault in one world."""

    world: str
    fault: str
    seed: int

    @property
    def id(self) -> str:
        """Its name in the list of tests."""
        return f"{self.world}:{self.fault}"


@dataclass(frozen=True)
class DrawnWorld:
    """A healthy world, with so many hosts more than its file states, and another draw of its model."""

    world: str
    more: int
    seed: int

    @property
    def id(self) -> str:
        """Its name in a list."""
        return f"{self.world}+{self.more}:{self.seed}"

    @property
    def grown(self) -> World:
        """The world with its hosts."""
        world = load_worlds(DATA)[self.world]
        last = world.hosts[-1]
        return replace(world, hosts=(*world.hosts[:-1], replace(last, count=last.count + self.more)))


def drawn_worlds(draw: random.Random, count: int) -> list[DrawnWorld]:
    """Return so many healthy worlds that can be judged here; none twice before each was drawn once."""
    worlds = {name: world for name, world in load_worlds(DATA).items() if judged_gates(world)}
    found: list[DrawnWorld] = []
    while len(found) < count:
        for name in draw.sample(sorted(worlds), min(len(worlds), count - len(found))):
            more = draw.randrange(4) if _may_grow(worlds[name]) else 0
            found.append(DrawnWorld(name, more, draw.randrange(1, 10**6)))
    return found


def _may_grow(world: World) -> bool:
    """Whether the world has no fixed number of hosts: figures that were published for one, an only host of its kind,
    hosts that are not in the inventory."""
    measured = any("cluster.nccl" in change.at for shape in world.model for change in shape.patch)
    last = world.hosts[-1]
    return not measured and not last.outside and last.count > 1


def drawn_faults(draw: random.Random, count: int, directory: Path) -> list[Drawn]:
    """Return so many faults of the gates that are judged here, each in a world that it fits.

    Args:
        draw: the source of random numbers.
        count: how many; no fault twice before each was drawn once.
        directory: where SKU files of worlds may be written.
    """
    worlds, catalogue = load_worlds(DATA), load_catalogue()
    fitting = _fitting(worlds, catalogue, directory)
    ids = sorted(fault for fault, names in fitting.items() if names)
    found: list[Drawn] = []
    while len(found) < count:
        for fault in draw.sample(ids, min(len(ids), count - len(found))):
            found.append(Drawn(draw.choice(fitting[fault]), fault, draw.randrange(10**6)))
    return found


def drawn_for(draw: random.Random, fault: str, directory: Path) -> Drawn:
    """Return one fault of gate nodes in a random world that it fits and that declares that gate.

    Args:
        draw: the source of random numbers.
        fault: its id.
        directory: where SKU files of worlds may be written.

    Raises:
        LookupError: no world has what it needs.
    """
    definition, worlds = load_catalogue()[fault], load_worlds(DATA)
    for name in draw.sample(sorted(worlds), len(worlds)):
        place = settle(worlds[name], directory / name)
        offered = offers(worlds[name], place.hardware, place.healthy)
        if definition.fits(offered) and _asked(definition, offered) and len(place.model.nodes) <= _MOST_HOSTS:
            return Drawn(name, fault, draw.randrange(10**6))
    raise LookupError(f"no world has what fault {fault} needs: {', '.join(definition.needs)}")


def _fitting(
    worlds: Mapping[str, World], catalogue: Mapping[str, FaultDefinition], directory: Path
) -> dict[str, list[str]]:
    offered = {}
    for name, world in worlds.items():
        place = settle(world, directory / name)
        offered[name] = offers(world, place.hardware, place.healthy)
    return {
        fault.id: [name for name, words in offered.items() if fault.fits(words) and _asked(fault, words)]
        for fault in catalogue.values()
        if fault.expect.gate in GATES
    }


def _asked(fault: FaultDefinition, offered: frozenset[str]) -> bool:
    """Whether its check is asked at its gate: those of the driver are asked elsewhere where the operator owns it."""
    spec = next(check.spec for check in all_checks() if check.spec.id == fault.expect.check)
    return "host_driver" in offered or not spec.needs_driver


def problems_of(drawn: Drawn, directory: Path, *, only: str = "") -> list[str]:
    """Return what the gates say of a drawn fault that they should not, and what they do not; nothing if all is
    right. The gates come in their order, and what comes after the one that finds it is not reached; with `only` that
    gate alone is asked."""
    world, definition = load_worlds(DATA)[drawn.world], load_catalogue()[drawn.fault]
    fault = _placed(drawn, directory)
    world = replace(world, gates=(only,)) if only else world
    expect = definition.expect
    if definition.earlier is not None and definition.earlier.gate in judged_gates(world):
        expect = definition.earlier
    for gate, outcomes in judge_gates(world, directory / "run", faults=(fault,)):
        if gate == expect.gate and expect.status != "passed":
            return _at_its_gate(outcomes, fault, (expect.check, expect.cause, expect.status))
        if found := held(outcomes):
            return [f"{fault.subject}: gate {gate} says {_said(found)}"]
    return [] if expect.status == "passed" else [f"{fault.subject}: nothing says it"]


def each_fault(directory: Path) -> list[Drawn]:
    """Return every fault of the gates that are judged here, by id, in the smallest world that it fits.

    Args:
        directory: where SKU files of worlds may be written.
    """
    worlds, catalogue = load_worlds(DATA), load_catalogue()
    fitting = _fitting(worlds, catalogue, directory)
    smallest = {
        fault: min(names, key=lambda name: (len(worlds[name].nodes), name)) for fault, names in fitting.items() if names
    }
    return [Drawn(smallest[fault], fault, _SEED) for fault in sorted(smallest)]


def until_found(drawn: Drawn, directory: Path) -> Iterator[tuple[str, list[Outcome]]]:
    """Yield each gate with what it says of a drawn fault, up to the one that should find it."""
    world, definition = load_worlds(DATA)[drawn.world], load_catalogue()[drawn.fault]
    fault = _placed(drawn, directory)
    for gate, outcomes in judge_gates(world, directory / "run", faults=(fault,)):
        yield gate, outcomes
        if gate == definition.expect.gate:
            return


def _placed(drawn: Drawn, directory: Path) -> Fault:
    """Return a drawn fault on a subject that is looked at, if its world has one."""
    definition = load_catalogue()[drawn.fault]
    place = settle(load_worlds(DATA)[drawn.world], directory / "first")
    alike = Counter(host.sku for host in place.site.in_scope)
    least = max((number for word, number in HOSTS_WANTED.items() if word in definition.needs), default=1)
    # What is set aside, or no part of the inventory, is not looked at; the only host of its kind has no peers.
    looked_at = {host.name for host in place.site.in_scope if alike[host.sku] >= least}
    (fault,) = choose_faults(drawn.fault, place.healthy, {drawn.fault: definition}, drawn.seed)
    for seed in range(drawn.seed, drawn.seed + 50):
        (fault,) = choose_faults(drawn.fault, place.healthy, {drawn.fault: definition}, seed)
        node = fault.subject.partition("/")[0]
        if definition.kind not in ("node", "gpu", "hca") or node in looked_at:
            break
    return fault


def _at_its_gate(outcomes: list[Outcome], fault: Fault, expected: tuple[str, str, str]) -> list[str]:
    found = held(outcomes)
    problems = []
    if {(o.check, o.cause, o.status.value) for o in found} != {expected}:
        problems.append(f"{fault.subject}: expected {expected}, found {_said(found)}")
    names = {subject.name for outcome in found for subject in outcome.subjects}
    # Of a rail a gate before that of the rails names the adapters.
    if fault.kind not in ("cluster", "rail") and names.isdisjoint((fault.subject, fault.subject.partition("/")[0])):
        problems.append(f"{fault.subject}: not among the subjects {sorted(names)}")
    return problems


def _said(found: list[Outcome]) -> list[str]:
    return [
        f"{o.check} {o.status.value} {o.cause} ({', '.join(s.name for s in o.subjects)}): {o.summary}" for o in found
    ]
