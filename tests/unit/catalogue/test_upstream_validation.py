# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What recipes of the upstream tool say of validation is known here: checks, constraints, times, health checks."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.selection import (
    checks_named,
    infrastructure_of,
    limits_of,
    require_names,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.chainsaw import assertions_of
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.constraint.declared import unknown_name
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.gates import PHASES
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.criteria import parse_criteria
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.hydrate import plain
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.load import load_catalogue
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.resolve import resolve
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.sections import constraints_of

TREE = "upstream/aicr-0.11.1/recipes"


def test_every_recipe_of_upstream_can_be_validated(shared: Path) -> None:
    tree = load_catalogue([shared / TREE])
    asked, demanded = set(), set()
    for layer in tree.layers.values():
        stated = layer.criteria.to_dict() if layer.criteria is not None else {}
        if not stated:
            continue
        recipe = plain(resolve(parse_criteria(stated, tree.vocabulary), tree))
        for phase in PHASES:
            require_names(checks_named(recipe, phase), f"{layer.name}: {phase}")
            limits_of(recipe, phase)
            assert infrastructure_of(recipe, phase) in ("", *recipe["deploymentOrder"])
            names = [str(entry["name"]) for entry in constraints_of(recipe, phase)]
            assert [hint for name in names if (hint := unknown_name(name, phase))] == [], layer.name
            asked |= set(checks_named(recipe, phase))
            demanded |= set(names)
    assert {"operator-health", "nccl-all-reduce-bw", "dra-support"} <= asked
    assert {"Deployment.gpu-operator.version", "nccl-all-reduce-bw"} <= demanded


def test_every_health_check_of_upstream_is_known(shared: Path) -> None:
    files = sorted((shared / TREE / "checks").glob("*/health-check.yaml"))
    assert len(files) > 10
    for path in files:
        assert assertions_of(path.read_text(encoding="utf-8"), str(path)), path


# The performance sections of later overlays (gb200-oke-ubuntu-inference-dynamo.yaml) and of the later catalogue.
@pytest.mark.parametrize(
    "name",
    [
        "inference-model", "inference-concurrency-per-gpu", "inference-routing-mode", "inference-throughput",
        "inference-ttft-p99", "inference-model-cache-storage-class", "nccl-benchmark-profile",
        "nccl-benchmark-runtime-ref", "nccl-cre-all-reduce-bw", "nccl-all-reduce-bw-net", "nccl-all-reduce-bw-nvls",
    ],
)  # fmt: skip
def test_what_later_recipes_state_of_their_benchmark_is_known(name: str) -> None:
    assert unknown_name(name, "performance") == "" and "validation.performance" in unknown_name(name)
