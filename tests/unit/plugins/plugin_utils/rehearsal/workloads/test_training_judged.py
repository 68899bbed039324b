# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What simulated pods print goes the way of the gate: healthy hosts pass on every SKU, each fault is found where it is.

The cluster is left out: tests/rehearsal/shared/test_fabric_and_training.py has it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from seeds import drawing
from simulated_training import NOW, group_on, hardware, outputs_of
from training_fleet import GATE, TrainingFleet

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.training_acceptance.analysis import cohorts_of
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.training_acceptance.model import (
    PodRecord,
    Record,
    Results,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.training_acceptance.observe_training import (
    parse_run,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Outcome, Status
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.faults.catalogue import (
    choose_faults,
    load_catalogue,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.patch import build_model, healthy_cluster
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.spec import ModelSpec, numbered_nodes
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.workloads.pod_simulator import SimContext

CATALOGUE = load_catalogue()
# What the scheduler or the kubelet says, and no pod.
ELSEWHERE = ("launch-unschedulable", "half-placed", "launch-image")
# What the hosts say after it.
AFTER = "host-state-after-training"
OURS = [
    name
    for name, entry in CATALOGUE.items()
    if entry.expect.gate == GATE
    and entry.expect.cause not in ELSEWHERE
    and entry.expect.check != AFTER
    # Those of the shared volume: check/shared_storage/test_storage_judged.py.
    and not entry.expect.check.startswith("storage-")
]


def judged(nodes: int, sku: str, *faults: str) -> list[Outcome]:
    """Train on simulated nodes until nothing is left to be known; return everything that is not passed by itself."""
    spec = ModelSpec(name="lab", seed=3, nodes=numbered_nodes(nodes, sku))
    model = build_model(
        replace(spec, faults=choose_faults(faults, healthy_cluster(spec, hardware()), CATALOGUE)), hardware()
    )
    names = tuple(node.name for node in model.nodes)
    fleet = TrainingFleet(hosts=names, hardware=hardware(), sku=sku)
    plan = replace(fleet.plan(), shapes={sku: fleet.plan().settings.shape_for(hardware()[sku], nodes)})
    results = Results(plan=plan)
    for attempt in range(1, 6):
        if not any(cohort.wants_more for cohort in cohorts_of(results, hardware())):
            break
        record, logs = train(model, names, plan, sku, attempt)
        results = replace(results, runs=(*results.runs, parse_run(record, logs, plan.settings)))
    return [o for o in fleet.outcomes(results) if o.status is not Status.PASSED and not o.blocked_by]


def train(model: Any, names: Iterable[str], plan: Any, sku: str, attempt: int) -> tuple[Record, dict[str, str]]:
    """Return a run and the log of every host, as the pods of the product's own manifest print them."""
    shape, run, gpus = plan.shapes[sku], plan.settings.run, hardware()[sku].gpus
    options = {
        name: getattr(shape, name)
        for name in ("layers", "hidden", "heads", "sequence", "batch", "accumulate", "vocabulary")
    } | {"steps": run.steps, "load-s": run.load_s}
    pods = group_on(list(names), gpus=gpus, name=f"train-1-{attempt}", shape=options)
    outputs = outputs_of(pods, SimContext(model=model, skus=hardware(), now=NOW))
    hosts = tuple(names)
    parts = [outputs[pod["metadata"]["name"]] for pod in pods.pods]
    codes = [part.exit_code for part in parts]
    state = "timeout" if None in codes else "failed" if any(codes) else "succeeded"
    logs = {node: "".join(f"{line}\n" for _s, line in part.lines) for node, part in zip(hosts, parts, strict=True)}
    record = Record(
        name=pods.name, sku=sku, hosts=hosts, attempt=attempt, gpus=gpus, state=state, reason=state,
        pods=tuple(
            PodRecord(host=node, node=node, index=n, exit_code=codes[n], reason="Error" if codes[n] else "")
            for n, node in enumerate(hosts)
        ),
    )  # fmt: skip
    return record, logs


@pytest.mark.quickly(1)
@pytest.mark.parametrize(("nodes", "sku"), [(1, "dgx-h100"), (2, "dgx-b200"), (5, "dgx-h100"), (3, "pcie-a10")])
def test_healthy_nodes_pass(nodes: int, sku: str) -> None:
    assert [(o.check, o.cause, o.summary) for o in judged(nodes, sku)] == []


@pytest.mark.quickly(6)
@pytest.mark.drawn(12)
@pytest.mark.parametrize("fault", OURS)
def test_a_fault_is_found_where_it_is_and_nowhere_else(fault: str) -> None:
    draw, expected = drawing(fault), CATALOGUE[fault].expect
    node = f"gpu{draw.randint(1, 5):02d}"
    subject = {"node": node, "gpu": f"{node}/gpu{draw.randrange(8)}"}.get(CATALOGUE[fault].kind, "")
    found = judged(5, "dgx-h100", f"{fault}@{subject}" if subject else fault)
    told = {(o.check, o.cause, o.status.value) for o in found}
    assert told == {(expected.check, expected.cause, expected.status)}, [o.summary for o in found]
    if subject:
        assert len(found) == 1
        assert {subject, node} <= {entry.name for entry in found[0].subjects}, found[0].summary
