# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Questions about a recipe: query, explain, diff, list, what is not supported, overrides."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import (
    BringupError,
    InputError,
    NotFoundError,
    ProblemsError,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.criteria import parse_criteria
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.difference import difference
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.explain import explain
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.hydrate import component_values, self_contained
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.model import Catalogue, RecipeResult
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.overrides import as_mapping, with_overrides
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.paths import leaves, lookup, parse_path, shown
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.policy import Unsupported
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.query import query
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.request import (
    Request,
    answer,
    catalogue_of,
    request_of,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.resolve import resolve

from .conftest import Tree

TRAINING = {"service": "eks", "accelerator": "h100", "intent": "training", "os": "ubuntu"}


def recipe(catalogue: Catalogue, **stated: str) -> RecipeResult:
    """Resolve."""
    return resolve(parse_criteria(stated, catalogue.vocabulary), catalogue)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("", ()),
        (".", ()),
        ("a.b", ("a", "b")),
        (".a.b", ("a", "b")),
        ("a[0].b", ("a", 0, "b")),
        ('a."b.c".d', ("a", "b.c", "d")),
        ('a["b.c"][2]', ("a", "b.c", 2)),
        ("a['it''s']", ("a", "it's")),
        ('["/proc/sys/kernel/osrelease"]', ("/proc/sys/kernel/osrelease",)),
    ],
)
def test_paths(text: str, path: tuple[str | int, ...]) -> None:
    assert parse_path(text) == path


@given(st.lists(st.integers(0, 99) | st.text(min_size=1, max_size=5), min_size=1, max_size=4))
def test_a_shown_path_reads_back(path: list[str | int]) -> None:
    assert parse_path("." + shown(tuple(path)) if isinstance(path[0], str) else shown(tuple(path))) == tuple(path)


@pytest.mark.parametrize("text", ["a..b", "a[", "a[x]", 'a."b', "a.", "..", "a[-1]"])
def test_paths_that_cannot_be_read(text: str) -> None:
    with pytest.raises(InputError, match="cannot be read at character"):
        parse_path(text)


@given(st.text(max_size=12))
def test_no_path_crashes(text: str) -> None:
    try:
        lookup({"a": [{"b": 1}]}, parse_path(text))
    except BringupError as error:
        assert str(error)


@pytest.mark.parametrize(
    ("selector", "value"),
    [
        ("components.gpu-operator.values.driver.version", "580.105.08"),
        (".components.gpu-operator.version", "v25.10.1"),
        ("deploymentOrder[0]", "aws-ebs-csi-driver"),
        ("deploymentOrder.0", "aws-ebs-csi-driver"),
        ("constraints[0].value", ">= 1.32.4"),
        ("criteria.accelerator", "h100"),
        ("validation.performance.checks", ["nccl-all-reduce-bw"]),
        ("components.gpu-operator.values.devicePlugin.env[0].name", "DP_DISABLE_HEALTHCHECKS"),
    ],
)
def test_query(selector: str, value: Any, upstream: Catalogue) -> None:
    assert query(recipe(upstream, **TRAINING), upstream, selector) == value


def test_query_of_nothing_is_everything(upstream: Catalogue) -> None:
    assert set(query(recipe(upstream, **TRAINING), upstream, "")) >= {"components", "deploymentOrder", "constraints"}


def test_a_miss_says_what_is_there(upstream: Catalogue) -> None:
    result = recipe(upstream, **TRAINING)
    with pytest.raises(NotFoundError, match=r"Did you mean components\.gpu-operator\?"):
        query(result, upstream, "components.gpu-operater")
    with pytest.raises(NotFoundError, match=r"There is: .*enabled"):
        query(result, upstream, "components.gpu-operator.values.driver.zzz")
    with pytest.raises(NotFoundError, match="nothing lies below"):
        query(result, upstream, "components.gpu-operator.version.major")


def test_every_leaf_can_be_asked_for(upstream: Catalogue) -> None:
    result = recipe(upstream, **TRAINING)
    everything = query(result, upstream, "")
    paths = list(leaves(everything))
    assert len(paths) > 300
    for path, value in paths:
        assert lookup(everything, parse_path(shown(path))) == value


def test_explain_prints_the_chain_of_the_seed(upstream: Catalogue) -> None:
    lines = explain(recipe(upstream, **TRAINING), upstream, "").lines()
    assert lines[0] == "base → eks → eks-training → h100-eks-training → h100-eks-ubuntu-training"


def test_explain_tells_who_set_a_value_and_what_it_replaced(upstream: Catalogue) -> None:
    found = explain(recipe(upstream, **TRAINING), upstream, "constraints[0].value")
    assert [(origin.layer, origin.value, origin.replaced) for origin in found.origins] == [
        ("base", ">= 1.25", None),
        ("eks", ">= 1.28", ">= 1.25"),
        ("eks-training", ">= 1.30", ">= 1.28"),
        ("h100-eks-training", ">= 1.32.4", ">= 1.30"),
    ]
    assert found.value == ">= 1.32.4"
    assert Path(found.origins[-1].file).name == "h100-eks-training.yaml"


def test_explain_names_values_files_registry_and_overrides(upstream: Catalogue, own: Catalogue) -> None:
    result = recipe(upstream, **TRAINING)
    value = explain(result, upstream, "components.gpu-operator.values.driver.version")
    assert [Path(origin.file).name for origin in value.origins] == ["values.yaml"]
    namespace = explain(result, upstream, "components.gpu-operator.namespace")
    assert [origin.layer for origin in namespace.origins] == ["registry"]
    mine = recipe(own, service="generic", accelerator="h100", intent="training", os="ubuntu", platform="volcano")
    assert explain(mine, own, "components.volcano.chart").origins[0].layer == "registry"
    changed = with_overrides(mine, own, {"gpu-operator": {"driver": {"version": "999"}}})
    origins = explain(changed, own, "components.gpu-operator.values.driver.version").origins
    assert [(origin.layer, origin.value) for origin in origins][-1] == ("overrides", "999")
    release = explain(mine, own, "constraints[1].value")
    assert release.origins[-1].layer == "mixin os-ubuntu"


def test_explain_shows_what_the_registry_has_where_a_layer_says_otherwise(tree: Tree) -> None:
    tree.registry("op")
    tree.overlay("base", {"componentRefs": [{"name": "op", "type": "Helm"}]})
    replacing = [("registry", "1.0.0", None), ("newer", "2.0.0", "1.0.0")]
    for version, told in (("2.0.0", replacing), ("1.0.0", [("newer", "1.0.0", None)])):
        pinned = {"name": "op", "version": version}
        tree.overlay("newer", {"criteria": {"intent": "training"}, "componentRefs": [pinned]})
        catalogue = tree.load()
        result = recipe(catalogue, intent="training")
        found = explain(result, catalogue, "components.op.version")
        assert [(origin.layer, origin.value, origin.replaced) for origin in found.origins] == told
        assert [origin.layer for origin in explain(result, catalogue, "components.op.type").origins] == ["base"]
    assert Path(explain(result, catalogue, "components.op.namespace").origins[0].file).name == "registry.yaml"


def test_explaining_a_component_shows_values_and_no_dictionaries(own: Catalogue) -> None:
    result = recipe(own, service="generic", accelerator="h100", intent="training")
    lines = explain(result, own, "components.gpu-operator").lines()
    assert "components.gpu-operator:" in lines
    assert any(line.startswith("  version = ") for line in lines)
    assert not any("{'" in line or '{"' in line for line in lines)
    changed = with_overrides(result, own, {"gpu-operator": {"driver": {"version": "999"}}})
    (head, line) = explain(changed, own, "components.gpu-operator").lines()[-2:]
    assert head.endswith("set 1 value")
    assert line.startswith('    values.driver.version = "999"') and ", replacing " in line


def test_a_component_that_is_switched_off_is_removed_and_shifts_nothing(own: Catalogue) -> None:
    result = recipe(own, service="kind")
    without = with_overrides(result, own, {"nodewright-operator": {"enabled": False}})
    found = difference(result, own, without, own)
    assert found.components_removed == ("nodewright-operator",) and found.components_added == ()
    assert found.changes == () and not found.same
    assert difference(without, own, result, own).components_added == ("nodewright-operator",)


def test_components_that_change_places_are_one_difference(own: Catalogue) -> None:
    result = recipe(own, service="kind")
    turned = replace(result, order=tuple(reversed(result.order)))
    (change,) = difference(result, own, turned, own).changes
    assert (change.path, change.left, change.right) == ("deploymentOrder", [*result.order], [*turned.order])


def test_explain_agrees_with_query_everywhere(own: Catalogue) -> None:
    result = recipe(own, service="generic", accelerator="h100", intent="training")
    for path, value in leaves(query(result, own, "components.gpu-operator")):
        found = explain(result, own, shown(("components", "gpu-operator", *path)))
        assert found.value == value
        assert found.origins[-1].value == value


def test_diff(upstream: Catalogue) -> None:
    training = recipe(upstream, **TRAINING)
    inference = recipe(upstream, **{**TRAINING, "intent": "inference"})
    found = difference(training, upstream, inference, upstream)
    assert found.components_added == ("kgateway", "kgateway-crds")
    assert found.components_removed == ()
    changed = {change.path: (change.left, change.right) for change in found.changes}
    assert changed["components.skyhook-customizations.values.intent"] == ("multiNodeTraining", "inference")
    assert difference(training, upstream, training, upstream).same
    other = with_overrides(training, upstream, {"gpu-operator": {"driver": {"version": "1"}}})
    (change,) = difference(training, upstream, other, upstream).changes
    assert (change.path, change.kind) == ("components.gpu-operator.values.driver.version", "changed")


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        ({"gpu-operatr": {}}, "Did you mean 'gpu-operator'"),
        ({"gpu-operator": {"driver": {"versoin": "1"}}}, r"driver\.versoin: is not a known value.*driver\.version"),
        ({"gpu-operator": {"driver": {"enabled": "yes"}}}, "must be true or false, found 'yes'"),
        ({"gpu-operator": {"driver": "580"}}, "must be a mapping"),
        ({"gpu-operator": {"toolkit": {"env": "A=B"}}}, "must be a list"),
        ({"gpu-operator": 5}, "must be a mapping of values"),
    ],
)
def test_a_wrong_override(overrides: dict[str, Any], expected: str, own: Catalogue) -> None:
    result = recipe(own, service="kind")
    with pytest.raises(ProblemsError, match=expected):
        with_overrides(result, own, overrides)


def test_overrides_win_and_may_switch_off(own: Catalogue) -> None:
    result = recipe(own, service="kind")
    given_values = {
        "gpuoperator": {"driver": {"version": "570.1"}, "daemonsets": {"tolerations": [{"operator": "Exists"}]}},
        "skyhook": {"enabled": False},
        "prometheusadapter": {"rules": None},
    }
    changed = with_overrides(result, own, given_values)
    component = changed.component("gpu-operator")
    assert component is not None
    values = component_values(component, own)
    assert values["driver"] == {**values["driver"], "version": "570.1", "enabled": False}
    assert "nodewright-operator" not in changed.order
    assert "nodewright-operator" in result.order
    unchecked = with_overrides(result, own, {"gpu-operator": {"new": 1}}, check=False)
    assert unchecked.component("gpu-operator") != result.component("gpu-operator")


def test_assignments_have_the_type_of_what_they_replace(own: Catalogue) -> None:
    written = [
        "gpu-operator:driver.enabled=true",
        "gpu-operator:driver.version=570.1",
        "gpu-operator:driver.rdma.new=1",
    ]
    changed = with_overrides(recipe(own, service="kind"), own, as_mapping(written), check=False)
    component = changed.component("gpu-operator")
    assert component is not None
    driver = component.overrides["driver"]
    assert (driver["enabled"], driver["version"], driver["rdma"]["new"]) == (True, "570.1", 1)
    assert driver["version"].__class__ is str


def test_assignments_have_one_form() -> None:
    assert as_mapping(["x:c=a=b:c", 'x:"d.e"=v']) == {"x": {"c": "a=b:c", "d.e": "v"}}
    for wrong in (["driver.enabled=false"], ["a:b"], ["a:b=1", "a:b.c=2"], ["a:b.c=2", "a:b=1"]):
        with pytest.raises(InputError):
            as_mapping(wrong)


def test_a_changed_file_is_never_served_from_memory(tree: Tree) -> None:
    tree.registry("nfd")
    tree.overlay("base", {"componentRefs": [{"name": "nfd", "valuesFile": "components/nfd/values.yaml"}]})
    path = tree.write("components/nfd/values.yaml", "a: 1\n")
    request = Request(criteria={"service": "kind"}, recipe_data=(tree.root,), unsupported=Unsupported.WARN)
    first = answer(request)
    assert query(first.result, first.catalogue, "components.nfd.values.a") == 1
    assert catalogue_of((tree.root,)) is first.catalogue
    path.write_text("a: 2\n", encoding="utf-8")
    second = answer(request)
    assert query(second.result, second.catalogue, "components.nfd.values.a") == 2
    tree.overlay("kind", {"criteria": {"service": "kind"}})
    assert "kind" in answer(request).result.layers


def test_self_contained(own: Catalogue) -> None:
    result = recipe(own, service="kind")
    for component, entry in zip(result.components, self_contained(result, own)["componentRefs"], strict=True):
        assert "valuesFile" not in entry
        assert entry["overrides"] == component_values(component, own)


def test_hosts_say_what_they_are_where_nobody_states_it(repository: Path, tmp_path: Path) -> None:
    stated = {"service": "generic", "intent": "training", "os": "ubuntu"}
    plain = answer(request_of({"criteria": stated}))
    found = answer(request_of({"criteria": stated, "skus": ["dgx-h100", "dgx-h100"]}))
    assert set(found.result.layers) - set(plain.result.layers) == {"generic-infiniband"}
    assert answer(request_of({"criteria": stated, "skus": []})).result.layers == plain.result.layers
    with pytest.raises(ProblemsError, match="gpufleet_sku is dgx-h100, which has h100"):
        answer(request_of({"criteria": {**stated, "accelerator": "h200"}, "skus": ["dgx-h100"]}))
    with pytest.raises(NotFoundError, match="own-8"):
        answer(request_of({"criteria": stated, "skus": ["own-8"]}))
    # A private SKU, compared with the catalogue alone: the hosts stay what they are.
    (tmp_path / "hardware").mkdir()
    text = (repository / "recipes/hardware/dgx-h100.yaml").read_text(encoding="utf-8")
    own = re.sub(r"(?m)^aliases:.*\n", "", text).replace("name: dgx-h100", "name: own-8", 1)
    (tmp_path / "hardware" / "own-8.yaml").write_text(own, encoding="utf-8")
    asked = request_of({"criteria": stated, "skus": ["own-8"], "recipe_data": [tmp_path]})
    assert answer(asked).result.layers == found.result.layers
    assert answer(replace(asked, recipe_data=())).result.layers == found.result.layers
