# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A phase takes the time of its slowest check where checks disturb nothing; those that make pods follow each other.

The checks are checks of a site whose observers wait; what they measure is when each began and ended.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from sites import make_site

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.selection import declare_phase
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.validation.looks import observe_phase
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.validation.phases import phase_outcomes
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.run import Run
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.clock import now_utc
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.progress import silent
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.run import new_run

CORE = "ansible_collections.gpufleet.bringup.plugins.plugin_utils"
WAITS = """
import time
from dataclasses import dataclass
from {core}.check.kit.answer import Answer
from {core}.check.spec import Check, CheckSpec, Disturbance, observer_of
from {core}.outcome.model import SubjectKind

SPEC = CheckSpec(
    id="{id}", gate="telemetry", title="Waits", per=SubjectKind.CLUSTER, disturbs=Disturbance.{disturbs}
)


@dataclass(frozen=True)
class Waited:
    begun: float
    ended: float


def observe(context):
    begun = time.monotonic()
    time.sleep({seconds})
    return Waited(begun, time.monotonic())


def judge(seen: Waited, context):
    return (Answer.about_cluster(SPEC, context).passed("it waited"),)


CHECK = Check(SPEC, observer_of("{id}", Waited, observe), judge)
"""


@dataclass
class Bench:
    """A run whose recipe names checks of the site that wait."""

    run: Run
    names: tuple[str, ...]

    def look(self, gate: str = "", every: bool = True, **phase: Any) -> tuple[float, dict[str, tuple[float, float]]]:
        """Return how long the phase looked, and when each check that ended began and ended."""
        section = {"checks": list(self.names), **phase}
        recipe = {"deploymentOrder": [], "validation": {"conformance": section}}
        (self.run.path / "recipe.json").write_text(json.dumps(recipe))
        self.run.reload()
        declaration = declare_phase("conformance", self.run.site, self.run.recipe)
        context = self.run.observe_context(datetime.now(UTC).date(), silent)
        begun = monotonic()
        found = observe_phase(self.run, declaration, lambda _gate: (context, None), gate=gate)
        took_s = monotonic() - begun
        assert not every or {entry.key for entry in found} == set(self.names)
        return took_s, {e.key: (e.data["begun"], e.data["ended"]) for e in found if e.data is not None}

    def answers(self) -> dict[str, tuple[str, str]]:
        """What the phase says of each check: status and summary."""
        declaration = declare_phase("conformance", self.run.site, self.run.recipe)
        found = phase_outcomes(self.run, declaration)
        return {outcome.check: (outcome.status.value, outcome.summary) for outcome in found}


@pytest.fixture
def bench(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Bench]:
    """Checks by their ids, each with its seconds, and whether it makes pods."""
    directory = tmp_path / "checks" / "telemetry"
    directory.mkdir(parents=True)
    for name, seconds, disturbs in request.param:
        text = WAITS.format(core=CORE, id=name, seconds=seconds, disturbs=disturbs)
        (directory / f"{name.replace('-', '_')}.py").write_text(text)
    path = tmp_path / "20261123T050000Z-ab12"
    path.mkdir()
    run = Run(path)
    run.save_record(new_run(path.name, "lab", now_utc(), (), rehearsal=False))
    run.save_site(make_site(capabilities=("kubernetes",), check_dirs=(str(directory.parent),)))
    run.save_hardware({})
    yield Bench(run, tuple(name for name, _seconds, _disturbs in request.param))


FIVE = [(f"waiting-{n}", 3.0, "NOTHING") for n in range(5)]


@pytest.mark.parametrize("bench", [FIVE], indirect=True)
def test_five_checks_take_the_time_of_the_slowest(bench: Bench) -> None:
    took_s, seen = bench.look()
    assert max(begun for begun, _ended in seen.values()) < min(ended for _begun, ended in seen.values())
    # One after another they take 15 s; on a quiet machine it is 3.0 s and some milliseconds.
    assert took_s < 9.0
    assert set(bench.answers().values()) == {("passed", "it waited")}


MIXED = [
    ("looks-only", 1.5, "NOTHING"), ("makes-pods", 0.5, "TEST_PODS"), ("makes-more", 0.5, "TEST_PODS"),
    ("makes-most", 0.5, "TEST_PODS"),
]  # fmt: skip


@pytest.mark.parametrize("bench", [MIXED], indirect=True)
def test_those_that_make_pods_follow_each_other_beside_the_others(bench: Bench) -> None:
    _took_s, seen = bench.look()
    only = seen.pop("looks-only")
    in_turn = sorted(seen.values())
    assert all(before[1] <= after[0] for before, after in pairwise(in_turn))
    assert only[0] < in_turn[0][1] and in_turn[0][0] < only[1], "it did not wait for those that make pods"


PLAIN = [
    ("takes-gpus", 1.5, "TEST_PODS"), ("plain-pods", 1.5, "PLAIN_PODS"), ("more-plain", 1.5, "PLAIN_PODS"),
    ("looks-only", 1.5, "NOTHING"),
]  # fmt: skip


@pytest.mark.parametrize("bench", [PLAIN], indirect=True)
def test_pods_without_gpus_are_beside_those_with_some(bench: Bench) -> None:
    _took_s, seen = bench.look()
    assert max(begun for begun, _ended in seen.values()) < min(ended for _begun, ended in seen.values())


@pytest.mark.parametrize("bench", [[("late-pods", 8.0, "TEST_PODS"), ("late-look", 8.0, "NOTHING")]], indirect=True)
def test_what_has_not_ended_when_the_phase_is_over_is_other(bench: Bench) -> None:
    took_s, seen = bench.look(timeout="1s")
    assert seen == {}
    answers = bench.answers()
    assert all(status == "other" and "did not end within" in text for status, text in answers.values()), answers
    assert took_s < 7.5


@pytest.mark.parametrize("bench", [[("quick-look", 0.1, "TEST_PODS")]], indirect=True)
def test_a_phase_whose_gates_look_one_after_another_has_its_time_once(bench: Bench) -> None:
    """Hosts are read between the loads of phase performance, so each gate of it is a task of its own."""
    bench.run.save_record(replace(bench.run.record, updated=_before(minutes=4)))
    assert bench.look(timeout="5m", gate="telemetry")[1]
    bench.run.save_record(replace(bench.run.record, updated=_before(minutes=6)))
    assert bench.look(timeout="5m", gate="telemetry")[1] == {}
    (answer,) = bench.answers().values()
    assert answer[0] == "other" and "did not end within" in answer[1]
    assert bench.look(gate="telemetry")[1], "without a limit"
    assert bench.look(timeout="5m")[1], "a phase of one task begins with it"


@pytest.mark.parametrize("bench", [[("quick-look", 0.1, "TEST_PODS")]], indirect=True)
def test_what_a_recipe_names_of_another_gate_is_looked_at_with_the_last_of_the_phase(bench: Bench) -> None:
    """Nobody asks for that gate by itself: it is none of the phase."""
    other = bench.run.path.parent / "checks" / "fabric_validation"
    other.mkdir()
    text = WAITS.format(core=CORE, id="far-look", seconds=0.1, disturbs="TEST_PODS")
    (other / "far_look.py").write_text(text.replace('gate="telemetry"', 'gate="fabric_validation"'))
    both = replace(bench, names=("quick-look", "far-look"))
    assert set(both.look(gate="telemetry", every=False)[1]) == {"quick-look", "far-look"}
    assert both.look(gate="gpu_stack", every=False)[1] == {}


def _before(*, minutes: float) -> str:
    return (datetime.now(UTC) - timedelta(minutes=minutes)).isoformat(timespec="seconds").replace("+00:00", "Z")
