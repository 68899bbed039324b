# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What gpufleet_driver_owner lays over a recipe is in the answers to query and explain, and replaces no layer of the
site's own without a word (U113 of the usability trial: `query` said enabled true, recipe.json of the run false)."""

from __future__ import annotations

from pathlib import Path

import pytest
from sites import make_site

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.recipe.app import answer_for
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.recipe.owner_layer import idle_value, with_owner
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.explain import explain
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.paths import parse_path
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.query import query_shown
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.request import Request, answer
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import DriverOwner

UBUNTU = {"service": "generic", "accelerator": "h100", "os": "ubuntu", "intent": "training"}
ENABLED = "components.gpu-operator.values.driver.enabled"
VERSION = "components.gpu-operator.values.driver.version"
_OVERLAY = """\
apiVersion: gpufleet.bringup/v1
kind: RecipeMetadata
metadata: {name: acme-driver}
spec:
  base: generic-training
  criteria: {service: generic, accelerator: h100, os: ubuntu, intent: training}
  componentRefs:
    - name: gpu-operator
      overrides: {driver: {%s}}
"""


def _own(directory: Path, driver: str) -> Path:
    overlays = directory / "recipes" / "overlays"
    overlays.mkdir(parents=True)
    (overlays / "acme-driver.yaml").write_text(_OVERLAY % driver, encoding="utf-8")
    return directory / "recipes"


def test_the_owner_of_the_driver_is_the_last_layer_of_an_explanation() -> None:
    answered = answer(Request(criteria=UBUNTU))
    owned, laid_over = with_owner(answered, {}, "host")
    found = explain(answered.result, answered.catalogue, ENABLED, laid_over)
    assert found.value is False
    assert found.lines()[-1] == "  gpufleet_driver_owner: host (the inventory) set false, replacing true"
    assert query_shown(owned.result, owned.catalogue, ENABLED) is False


@pytest.mark.parametrize("owner", [None, "operator"])
def test_where_nothing_is_laid_over_the_recipe_is_what_its_layers_say(owner: str | None) -> None:
    answered = answer(Request(criteria=UBUNTU))
    owned, laid_over = with_owner(answered, {}, owner)
    assert laid_over == () and owned is answered
    assert explain(answered.result, answered.catalogue, ENABLED, laid_over).value is True


def test_the_answer_is_that_of_a_run() -> None:
    answered = answer(Request(criteria=UBUNTU))
    owned, _laid_over = with_owner(answered, {}, "host")
    run = answer_for(make_site(criteria=UBUNTU), {"recipe_data": [], "overrides": {}}, {})
    for component in ("gpu-operator", "nvidia-dra-driver-gpu"):
        selector = f"components.{component}.values"
        found = query_shown(owned.result, owned.catalogue, selector)
        assert found == query_shown(run.result, run.catalogue, selector)


def test_what_a_run_refuses_is_refused_here() -> None:
    stated = {"gpuoperator": {"driver": {"enabled": True}}}
    answered = answer(Request(criteria=UBUNTU, overrides=stated))
    with pytest.raises(InputError, match="is host, and the overrides of gpu-operator"):
        with_owner(answered, stated, "host")


def test_a_layer_of_the_site_that_the_owner_replaces_is_named(tmp_path: Path) -> None:
    own = _own(tmp_path, "enabled: true, version: 580.126.09")
    found = answer_for(make_site(criteria=UBUNTU), {"recipe_data": [str(own)], "overrides": {}}, {})
    idle, told = [line for line in found.warnings if "gpufleet_driver_owner" in line]
    assert idle.startswith(f"{VERSION} has no effect: gpufleet_driver_owner is host, so that gpu-operator installs no")
    assert "layer acme-driver (" in idle
    assert told.startswith(f"{ENABLED} is false, because gpufleet_driver_owner is host; layer acme-driver (")
    assert "acme-driver.yaml) sets true, which has no effect." in told


@pytest.mark.parametrize(
    ("owner", "driver"),
    [
        (DriverOwner.HOST, "enabled: false"),
        (DriverOwner.OPERATOR, "enabled: true"),
        (DriverOwner.OPERATOR, "version: 580.126.09"),
    ],
)
def test_a_layer_that_is_not_replaced_is_not_named(tmp_path: Path, owner: DriverOwner, driver: str) -> None:
    own = _own(tmp_path, driver)
    site = make_site(criteria=UBUNTU, driver_owner=owner)
    found = answer_for(site, {"recipe_data": [str(own)], "overrides": {}}, {})
    assert not [line for line in found.warnings if "gpufleet_driver_owner" in line]


def test_a_version_of_a_driver_that_the_operator_does_not_install_is_said_to_have_no_effect() -> None:
    """`query --driver-owner host` printed a version that no host would ever get."""
    path = parse_path(VERSION)
    assert "has no effect: gpufleet_driver_owner is host" in idle_value("host", path)
    assert [idle_value(owner, path) for owner in ("operator", None)] == ["", ""]
    assert idle_value("host", parse_path(ENABLED)) == idle_value("host", parse_path("components.gpu-operator")) == ""
    options = {"recipe_data": [], "overrides": {"gpuoperator": {"driver": {"version": "580.126.09"}}}}
    for owner, many in ((DriverOwner.HOST, 1), (DriverOwner.OPERATOR, 0)):
        found = answer_for(make_site(criteria=UBUNTU, driver_owner=owner), options, {})
        said = [line for line in found.warnings if line.startswith(f"gpufleet_overrides: {VERSION} has no effect")]
        assert len(said) == many
