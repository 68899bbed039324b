# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Gates that look, one after another, at a rehearsal that is kept, while its model is broken and mended.

Each looks as somebody with just its own roles, so that several can share one cluster.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from rehearsal_harness import ROOT, Rehearsed, left_behind, rehearsal_below, rehearse
from role_bench import RoleUser, assert_refused_by_name, role_user
from waiting import await_model, eventually

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.declare import declare
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.judge import judge_gate
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.observation import observe
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.registry import observers_of
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import JudgeContext, ObserveContext
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.cluster import Cluster
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.connection import Connection
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import NAMESPACES
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import load_hardware
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Outcome, Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.files import RECIPE
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import Host, Site
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.faults.catalogue import (
    choose_faults,
    load_catalogue,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.patch import healthy_cluster
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.spec import (
    ModelSpec,
    read_spec,
    write_spec,
)

CATALOGUE = load_catalogue()
HARDWARE = load_hardware([ROOT / "recipes" / "hardware"])
TODAY = date(2026, 1, 1)


def faults_of(gate: str) -> list[str]:
    """The faults that the gate finds; what a load changes on a host or a link is read by playbook site:
    test_last_gates.py, test_worlds.py."""
    return [
        name
        for name, entry in CATALOGUE.items()
        if entry.expect.gate == gate and not entry.expect.check.startswith(("host-state-after-", "link-errors-under-"))
    ]


@dataclass(frozen=True)
class KeptRehearsal:
    """A rehearsal that outlives its first run, which was healthy."""

    work: Path
    first: Rehearsed

    @property
    def model(self) -> Path:
        return rehearsal_below(self.work) / "model.yaml"

    @property
    def kubeconfig(self) -> str:
        return str(rehearsal_below(self.work) / "cluster" / "admin.kubeconfig")

    @cached_property
    def recipe(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.first.run_dir / RECIPE).read_text(encoding="utf-8"))
        return found

    def cluster(self) -> Cluster:
        return Cluster(Connection(kubeconfig=self.kubeconfig))

    def hosts(self) -> tuple[Host, ...]:
        nodes = read_spec(self.model).nodes
        return tuple(Host(name=node.name, sku=node.sku, node_name=node.name, rack=node.rack) for node in nodes)

    def passed(self, gate: str) -> dict[str, Any]:
        """What the first run recorded of a gate, with all of which passed."""
        assert self.first.rc == 0, self.first.output[-3000:]
        assert self.first.findings() == []
        found: dict[str, Any] = next(entry for entry in self.first.record["gates"] if entry["gate"] == gate)
        return found

    def evidence(self, gate: str) -> list[str]:
        """Names of what the first run kept of a gate."""
        return sorted(path.name for path in (self.first.run_dir / "evidence" / gate).iterdir())

    def assert_nothing_left(self) -> None:
        """The API server takes a moment to empty the last namespace."""
        with self.cluster() as cluster:
            eventually(lambda: not cluster.list_objects(NAMESPACES, labels="gpufleet.io/purpose=test"))


@contextmanager
def kept_rehearsal(work: Path, **variables: Any) -> Iterator[KeptRehearsal]:
    """Start a healthy rehearsal with these variables, yield it as it is after its first run, and end it."""
    try:
        run = rehearse(work, rehearsal_keep=True, **variables)
        yield KeptRehearsal(work, replace(run, run_dir=run.run_dir.resolve()))
    finally:
        rehearse(work, playbook="rehearse_stop.yml")
        assert left_behind(work) == []


class GateBench:
    """One gate: its observers look at the kept rehearsal, and it is judged from what they saved.

    Attributes:
        gate: its id.
        looks: the observers that are asked where a test names none.
        serial: how often was looked.
    """

    gate: ClassVar[str]
    looks: ClassVar[tuple[str, ...]]

    def __init__(self, kept: KeptRehearsal) -> None:
        self.kept = kept
        self.serial = 0

    @cached_property
    def user(self) -> RoleUser:
        """Who looks: somebody with the roles of this gate alone."""
        return role_user(self.gate, self.kept.kubeconfig, self.site(), self.kept.recipe)

    @property
    def own(self) -> Path:
        """The run directory of the last look."""
        return self.kept.work / f"{self.gate}-{self.serial}"

    def site(self, **settings: Any) -> Site:
        """The site with these settings of the gate."""
        raise NotImplementedError

    def settle(self, spec: ModelSpec) -> None:
        """Wait until the cluster shows the model."""
        await_model(self.kept.model)

    @contextmanager
    def modelled(self, spec: ModelSpec) -> Iterator[None]:
        """Let the hardware be like this while the block runs."""
        before = read_spec(self.kept.model)
        write_spec(spec, self.kept.model)
        try:
            self.settle(spec)
            yield
        finally:
            write_spec(before, self.kept.model)
            self.settle(before)

    def with_faults(self, *faults: str) -> ModelSpec:
        """The model with these faults of the catalogue."""
        before = read_spec(self.kept.model)
        return replace(before, faults=choose_faults(faults, healthy_cluster(before, HARDWARE), CATALOGUE))

    def judged(self, *faults: str, **settings: Any) -> tuple[Outcome, ...]:
        """Break the hardware, look at it and judge; then mend it."""
        with self.modelled(self.with_faults(*faults)):
            return self.observed(**settings)

    def observed(
        self, looks: Sequence[str] | None = None, *, may_fail: bool = False, **settings: Any
    ) -> tuple[Outcome, ...]:
        """Look, and judge from what was saved."""
        self.serial += 1
        site, run_dir = self.site(**settings), self.own
        self.prepare(run_dir)
        context = ObserveContext(
            site=site, run_dir=run_dir, today=TODAY, hardware=HARDWARE, connections=self.user.connections
        )
        for look in self.looks if looks is None else looks:
            seen = observe(observers_of(self.gate)[look], self.gate, replace(context, recipe=self.recipe_of(look)))
            assert may_fail or seen.error is None
        return judge_gate(
            declare(self.gate, site), JudgeContext(gate=self.gate, site=site, today=TODAY, hardware=HARDWARE), run_dir
        )

    def prepare(self, run_dir: Path) -> None:
        """Put into a run directory what is there before the gate looks."""

    def recipe_of(self, look: str) -> dict[str, Any] | None:
        """The recipe, for an observer that reads it."""
        return self.kept.recipe

    def assert_missing_rights_are_named(self) -> None:
        """All looks are of somebody who has just the roles of the gate; now with one right less."""
        for right in self.user.drawn():
            with self.user.without(right):
                assert_refused_by_name(self.user, right, self.observed(may_fail=True))
            assert self.user.objects_left() == [], right.text


def not_passed(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """What is not passed; waiting for what another check reports is no finding of its own."""
    return [o for o in outcomes if o.status is not Status.PASSED and not o.blocked_by]
