# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The model and the load of a recipe are those of gate inference_acceptance, unless the inventory says other ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from sites import make_site

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.inference_acceptance.settings import (
    GATE,
    InferenceSettings,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.kit.settings_layers import settings_for
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.inventory.app import checked_settings_of
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.recipe.app import resolve_recipe
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.recipe.declared import benchmark_inputs
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.codec import load_json
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.run import Run
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.run import new_run

CRITERIA = {"service": "generic", "accelerator": "h100", "intent": "training", "os": "ubuntu"}
INPUTS = {"inference-model": "acme/llama-70b", "inference-concurrency-per-gpu": "64"}


def recipe(**stated: str) -> dict[str, Any]:
    entries = [{"name": name.replace("_", "-"), "value": value} for name, value in stated.items()]
    return {"validation": {"performance": {"constraints": entries}}}


def started(tmp_path: Path, settings: dict[str, Any], private: dict[str, Any] | None = None) -> Run:
    """Return a run after preflight resolved a recipe whose private layer states a model and a load."""
    data = tmp_path / "data"
    spec = {"criteria": CRITERIA, **recipe(**INPUTS)}
    layer = {"apiVersion": "gpufleet.bringup/v1", "kind": "RecipeMetadata", "metadata": {"name": "mine"}, "spec": spec}
    files = {"overlays/mine.yaml": layer} | ({"thresholds/mine.yaml": private} if private else {})
    for name, content in files.items():
        (data / name).parent.mkdir(parents=True, exist_ok=True)
        (data / name).write_text(yaml.safe_dump(content), encoding="utf-8")
    site = make_site(
        criteria=CRITERIA, gates=("gpu_stack", GATE), capabilities=("kubernetes",), settings={GATE: settings}
    )
    run = Run(tmp_path / "run")
    run.save_site(site)
    run.save_hardware({})
    loaded, problems = checked_settings_of(site.settings, [str(data)], ())
    assert not problems
    run.save_settings(loaded)
    run.save_record(new_run("r1", "lab", "2026-11-22T10:00:00Z", site.gates, rehearsal=False))
    resolve_recipe(run, {"recipe_data": [str(data)], "overrides": {}}, lambda _line: None)
    return Run(run.path)


def applied(run: Run) -> tuple[str, int]:
    settings = settings_for(InferenceSettings, GATE, run.site.settings.get(GATE, {}), run.settings[GATE])
    return settings.server.model, settings.load.concurrency_per_gpu


def test_the_recipe_wins_over_what_the_release_and_private_thresholds_say(tmp_path: Path) -> None:
    run = started(tmp_path, {}, {GATE: {"model": "acme/of-thresholds", "output_tokens": 512}})
    assert applied(run) == ("acme/llama-70b", 64)
    saved = load_json(run.path / "settings.json")["settings"][GATE]
    assert saved["model"] == {"value": "acme/llama-70b", "sources": ["recipe"]}
    assert saved["output_tokens"]["value"] == 512
    told = [note for note in run.record.notes if note.startswith(GATE)]
    assert told == [
        f"{GATE}.concurrency_per_gpu is 64, from validation.performance of the recipe",
        f"{GATE}.model is acme/llama-70b, from validation.performance of the recipe",
    ]
    assert told[0] in (run.path / "report.md").read_text(encoding="utf-8")


def test_the_inventory_wins_over_the_recipe_and_the_report_says_for_what_the_bounds_are(tmp_path: Path) -> None:
    run = started(tmp_path, {"model": "acme/small", "concurrency_per_gpu": 64})
    assert applied(run) == ("acme/small", 64)
    assert [note for note in run.record.notes if note.startswith(GATE)] == [
        f"{GATE}.model is acme/small, from gpufleet_settings; validation.performance of the recipe has its bounds "
        "for acme/llama-70b"
    ]


@pytest.mark.parametrize(
    ("value", "taken"),
    [("64", 64), ("== 64", 64), (">= 64", None), ("!= 64", None), ("in [64, 128]", None), ("< 64", None)],
)
def test_only_one_value_configures_the_load(value: str, taken: int | None) -> None:
    found = benchmark_inputs(recipe(inference_concurrency_per_gpu=value))
    assert found.get("concurrency_per_gpu") == taken


@pytest.mark.parametrize("value", ["many", "0", "-1", "", "1.5"])
def test_a_load_that_is_none_is_refused_before_anything_runs(value: str) -> None:
    with pytest.raises(InputError, match="inference-concurrency-per-gpu"):
        benchmark_inputs(recipe(inference_concurrency_per_gpu=value))


def test_a_recipe_without_them_changes_nothing() -> None:
    assert benchmark_inputs(recipe(inference_throughput=">= 1", inference_routing_mode="dynamo-router")) == {}
    assert benchmark_inputs(None) == {}
