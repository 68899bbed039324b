# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A run directory has no secrets, and the tasks that need one get it from the variables, or say that they do not."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from sites import make_site

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.inference_acceptance.settings import (
    GATE,
    InferenceSettings,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.kit.settings_layers import (
    SITE,
    Layer,
    load_settings,
    shipped_layers,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.registry import all_settings
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.model import Component, components_of
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.recipe.app import answer_for
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.recipe.secrets import (
    recipe_with_secrets,
    restore_settings,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.difference import difference
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.hydrate import hydrated
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.output import documents, write_documents
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.request import answer, request_of
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.run import Run
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.redaction import MASK, redact_data
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.run import new_run

CRITERIA = {"service": "generic", "accelerator": "h100", "os": "ubuntu", "intent": "training"}
SETTINGS = {GATE: {"env": {"HF_TOKEN": "cAnArY", "NCCL_ALGO": "Ring"}, "hub": "https://bob:cAnArY@hub.example.org"}}
STATED = {"settings": SETTINGS, "set": []}


def overrides(password: str) -> dict[str, Any]:
    return {"kube-prometheus-stack": {"grafana": {"adminPassword": password}}}


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """A run as preflight leaves it."""
    site = make_site(criteria=CRITERIA, settings=SETTINGS, gates=(GATE,), capabilities=("kubernetes",))
    found = Run(tmp_path)
    found.save_site(site)
    found.save_hardware({})
    found.save_record(new_run("r1", "lab", "2026-11-22T10:00:00Z", site.gates, rehearsal=False))
    answered = answer_for(site, {"recipe_data": [], "overrides": overrides("cAnArY")}, {})
    files = documents(answered.result, answered.catalogue, {"run_dir": str(tmp_path)})
    write_documents(files, check_mode=False)
    return found


def test_no_file_of_preflight_has_a_secret(run: Run) -> None:
    assert [path for path in run.path.iterdir() if path.is_file() and b"cAnArY" in path.read_bytes()] == []
    assert run.site.settings[GATE]["env"] == {"HF_TOKEN": MASK, "NCCL_ALGO": "Ring"}


def test_of_a_stated_environment_what_is_not_known_to_be_plain_is_not_saved(tmp_path: Path) -> None:
    """`BMC_PW` and `SLURM_JWT` of a site stood in clear in settings.json and site.json."""
    env = {"BMC_PW": "cAnArY", "SLURM_JWT": "cAnArY", "ANYTHING": "cAnArY", "NCCL_DEBUG": "INFO"}
    found = Run(tmp_path)
    found.save_site(make_site(settings={GATE: {"env": env}}))
    loaded, problems = load_settings(
        all_settings(()), [*shipped_layers(all_settings(())), Layer(SITE, {GATE: {"env": env}})]
    )
    assert not problems
    found.save_settings(loaded)
    assert [path.name for path in tmp_path.iterdir() if b"cAnArY" in path.read_bytes()] == []
    assert found.site.settings[GATE]["env"]["NCCL_DEBUG"] == "INFO"
    restore_settings(found, {"settings": {GATE: {"env": env}}, "set": []})
    assert found.site.settings[GATE]["env"] == env


def test_settings_are_whole_again_where_pods_are_made(run: Run) -> None:
    restore_settings(run, STATED)
    context = run.observe_context(date(2026, 11, 22), lambda line: None)
    server = context.settings_of(GATE, InferenceSettings).server
    assert server.env == SETTINGS[GATE]["env"] and server.hub == SETTINGS[GATE]["hub"]
    # In memory alone.
    assert "cAnArY" not in (run.path / "site.json").read_text("utf-8")


@pytest.mark.parametrize(
    "settings", [{}, {GATE: {"env": {"NCCL_ALGO": "Ring"}}}, {GATE: {**SETTINGS[GATE], "hub": "x"}}]
)
def test_a_secret_that_is_not_stated_any_more_ends_the_task(run: Run, settings: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="is a secret, which is not saved with a run"):
        restore_settings(run, {"settings": settings, "set": []})


def test_a_run_without_secrets_asks_for_none(tmp_path: Path) -> None:
    found = Run(tmp_path)
    found.save_site(make_site(settings={GATE: {"env": {"NCCL_ALGO": "Ring"}}}))
    restore_settings(found, {"settings": {}, "set": []})


def test_the_recipe_is_installed_with_its_secrets(run: Run) -> None:
    recipe = recipe_with_secrets(run, {"recipe_data": [], "overrides": overrides("cAnArY")})
    assert recipe is not None
    component = next(entry for entry in components_of(recipe) if entry.name == "kube-prometheus-stack")
    assert component.values["grafana"]["adminPassword"] == "cAnArY"


def test_values_that_are_not_stated_any_more_end_the_installation(run: Run) -> None:
    with pytest.raises(InputError, match="adminPassword"):
        recipe_with_secrets(run, {"recipe_data": [], "overrides": {}})


def test_nothing_that_is_shipped_looks_like_a_secret() -> None:
    answered = answer(request_of({"criteria": CRITERIA, "recipe_data": [], "overrides": {}}))
    data = json.loads(json.dumps(hydrated(answered.result, answered.catalogue)))
    assert redact_data(data) == data


def test_a_digest_leaves_secrets_out_and_nothing_else() -> None:
    component = Component(
        name="c", namespace="n", chart="c", version="1", source="", values={"adminPassword": "one", "a": 1}
    )
    assert component.digest == replace(component, values={"adminPassword": "two", "a": 1}).digest
    assert component.digest != replace(component, values={"adminPassword": "one", "a": 2}).digest


def test_a_difference_of_recipes_says_that_a_secret_differs_and_not_what_it_is() -> None:
    left, right = (
        answer(request_of({"criteria": CRITERIA, "recipe_data": [], "overrides": overrides(word)}))
        for word in ("cAnArY1", "cAnArY2")
    )
    found = difference(left.result, left.catalogue, right.result, right.catalogue)
    (change,) = [change for change in found.changes if change.path.endswith("values.grafana.adminPassword")]
    assert (change.kind, change.left, change.right) == ("changed", MASK, MASK)
    assert "cAnArY" not in str(found)
