# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a catalogue supports: the whole of it, what is near a question that it does not answer, and the policy."""

from __future__ import annotations

import itertools
import random
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.criteria import make_criteria, parse_criteria
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.lattice import lattice
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.listing import listing
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.model import Catalogue
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.policy import Unsupported, unsupported_reason
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.request import Request, answer
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.suggest import suggestions
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.support import (
    not_honoured,
    supported_combinations,
)

from .conftest import Tree

VALUES = {
    "service": ("eks", "gke", "kind"),
    "accelerator": ("h100", "gb200"),
    "intent": ("training", "inference"),
    "os": ("ubuntu", "cos"),
}


def every_question() -> list[dict[str, str]]:
    """Return every question that states some of a few values."""
    rows = itertools.product(*(("", *values) for values in VALUES.values()))
    return [{name: value for name, value in zip(VALUES, row, strict=True) if value} for row in rows if any(row)]


def random_layers(dice: random.Random, tree: Tree) -> Catalogue:
    """Write layers for random criteria below random parents."""
    tree.registry("nfd")
    tree.overlay("base", {"regardlessOf": ["os"]} if dice.random() < 0.2 else {})
    names: list[str] = []
    for number in range(dice.randint(1, 8)):
        chosen = dice.sample(sorted(VALUES), dice.randint(1, 3))
        spec: dict[str, Any] = {"criteria": {name: dice.choice(VALUES[name]) for name in chosen}}
        if names and dice.random() < 0.5:
            spec["base"] = dice.choice(names)
        if dice.random() < 0.2:
            spec["regardlessOf"] = dice.sample(sorted(VALUES), 1)
        names.append(f"layer-{number}")
        tree.overlay(names[-1], spec)
    return tree.load()


@pytest.mark.parametrize("seed", range(40))
def test_the_lattice_holds_what_is_honoured_and_nothing_else(seed: int, tree: Tree) -> None:
    catalogue = random_layers(random.Random(seed), tree)
    supported = lattice(catalogue)
    for stated in every_question():
        criteria = make_criteria(stated)
        assert (criteria in supported) is (not not_honoured(criteria, catalogue)), criteria


def test_the_lattice_of_our_catalogue(own: Catalogue, upstream: Catalogue) -> None:
    dice = random.Random(5)
    for catalogue, number in ((upstream, 36), (own, 100_000)):
        supported = lattice(catalogue)
        assert len(supported) >= number
        for member in dice.sample(sorted(supported.members), min(len(supported), 300)):
            assert not_honoured(supported.criteria(member), catalogue) == ()
    dimensions = [d for d in own.vocabulary.dimensions.values() if not d.number]
    refused = 0
    for _question in range(600):
        chosen = dice.sample(dimensions, dice.randint(1, 5))
        criteria = make_criteria({d.name: dice.choice(sorted(d.values)) for d in chosen})
        refused += criteria not in supported
        assert (criteria in supported) is (not not_honoured(criteria, own)), criteria
    assert 0 < refused < 600


def test_list(own: Catalogue) -> None:
    found = listing(own)
    assert {"criteria": {"service": "kind"}, "overlays": ["monitoring-hpa", "kind"]} in found["combinations"]
    assert {entry["name"] for entry in found["components"]} == set(own.registry)
    assert "a100" in found["criteria"]["accelerator"]
    environments = {entry["service"]: entry for entry in found["environments"]}
    assert "tcpxo" in environments["gke"]["fabric"]
    assert "tcpxo" not in environments["eks"]["fabric"]
    assert found["supported"] == len(lattice(own))


def test_list_of_what_goes_with_something(own: Catalogue) -> None:
    stated = parse_criteria({"fabric": "efa"}, own.vocabulary)
    found = listing(own, stated)
    (environment,) = found["environments"]
    assert (environment["service"], environment["fabric"]) == ("eks", ["efa"])
    assert {entry["criteria"]["fabric"] for entry in found["combinations"]} == {"efa"}
    for name in ("accelerator", "os", "platform"):
        for value in environment[name]:
            intents = ("training", "inference")
            tried = [{**stated.to_dict(), "service": "eks", name: value, "intent": intent} for intent in intents]
            assert any(not not_honoured(make_criteria(each), own) for each in tried), (name, value)
    nothing = parse_criteria({"fabric": "efa", "service": "gke"}, own.vocabulary)
    assert listing(own, nothing)["environments"] == []


def test_every_listed_combination_is_supported(upstream: Catalogue, own: Catalogue) -> None:
    for catalogue in (upstream, own):
        combinations = supported_combinations(catalogue)
        assert len(combinations) > 5
        for criteria in combinations:
            assert unsupported_reason(criteria, catalogue) == ("", "")


@pytest.mark.parametrize(
    ("stated", "lost", "first"),
    [
        ({"service": "gke"}, "service=gke", "[service=gke, os=cos] (add os=cos)"),
        (
            {"service": "gke", "os": "ubuntu"},
            "service=gke, os=ubuntu",
            "[service=gke, os=cos] (os=cos instead of ubuntu)",
        ),
        ({"service": "eks", "accelerator": "a100"}, "accelerator=a100", "[service=eks] (drop accelerator=a100)"),
        (
            {"service": "eks", "accelerator": "h100"},
            "accelerator=h100",
            "[service=eks, accelerator=h100, intent=inference] (add intent=inference; or training)",
        ),
        ({"service": "oke"}, "service=oke", "[service=aks] (service=aks instead of oke; or eks)"),
    ],
)  # fmt: skip
def test_what_nobody_supports(stated: dict[str, str], lost: str, first: str, upstream: Catalogue) -> None:
    criteria = parse_criteria(stated, upstream.vocabulary)
    reason, hint = unsupported_reason(criteria, upstream)
    assert f"no layer that fits honours {lost}." in reason
    near = suggestions(criteria, upstream)
    assert str(near[0]) == first
    assert first in hint
    for suggestion in near:
        assert not not_honoured(suggestion.criteria, upstream)


def test_the_policy_decides(upstream_tree: Path) -> None:
    strict = Request(criteria={"service": "gke"}, recipe_data=(upstream_tree,))
    with pytest.raises(InputError, match=r"Nearest supported: .*takes the layers that fit: .* unsupported=warn"):
        answer(strict)
    with pytest.raises(InputError) as ours:
        answer(Request(criteria={"service": "gke", "accelerator": "a10", "fabric": "efa"}))
    assert "unsupported=warn" not in str(ours.value), "ours has no such tool"
    warned = answer(Request(criteria={"service": "gke"}, recipe_data=(upstream_tree,), unsupported=Unsupported.WARN))
    assert warned.result.layers == ("base", "monitoring-hpa")
    assert "Nearest supported" in warned.warnings[-1]


def test_a_layer_can_be_right_regardless(own: Catalogue) -> None:
    assert not not_honoured(parse_criteria({"service": "kind", "gpu": "a100"}, own.vocabulary), own)
    assert not_honoured(parse_criteria({"service": "kind", "fabric": "efa"}, own.vocabulary), own)


@pytest.mark.parametrize(
    ("stated", "expected"),
    [
        (
            {"service": "gke", "accelerator": "l40s"},
            [
                "(drop accelerator=l40s)",
                "(service=bcm instead of gke; or eks,",
                "(accelerator=a100 instead of l40s; or",
            ],
        ),
        (
            {"service": "generic", "accelerator": "h100", "intent": "training", "fabric": "efa"},
            ["(drop fabric=efa)", "(service=eks instead of generic)", "(fabric=infiniband instead of efa; or none,"],
        ),
        (
            {"service": "eks", "platform": "dynamo", "intent": "training", "os": "ubuntu"},
            ["(drop platform=dynamo)", "(intent=inference instead of training)", "(platform=kubeflow instead of"],
        ),
        (
            {"service": "metal3", "accelerator": "h100", "intent": "training"},
            ["(service=aks instead of metal3; or bcm,", "(drop service=metal3, drop accelerator=h100)"],
        ),
    ],
)
def test_what_is_near_is_built_from_the_question(stated: dict[str, str], expected: list[str], own: Catalogue) -> None:
    criteria = parse_criteria(stated, own.vocabulary)
    found = suggestions(criteria, own)
    assert len(found) == len(expected)
    for suggestion, text in zip(found, expected, strict=True):
        assert text in str(suggestion)
        kept = {**stated, **dict(suggestion.add)}
        wanted = {name: value for name, value in kept.items() if (name, stated.get(name)) not in suggestion.drop}
        wanted.update(dict(suggestion.add))
        assert suggestion.criteria == make_criteria(wanted)
        for value in suggestion.also:
            other = make_criteria({**suggestion.criteria.to_dict(), suggestion.add[0][0]: value})
            assert not_honoured(other, own) == ()


def test_every_suggestion_is_supported(own: Catalogue) -> None:
    dice = random.Random(11)
    dimensions = [d for d in own.vocabulary.dimensions.values() if not d.number]
    seen = 0
    for _question in range(60):
        chosen = dice.sample(dimensions, dice.randint(2, 5))
        criteria = make_criteria({d.name: dice.choice(sorted(d.values)) for d in chosen})
        if not_honoured(criteria, own):
            found = suggestions(criteria, own)
            assert all(not_honoured(suggestion.criteria, own) == () for suggestion in found)
            seen += bool(found)
    assert seen > 20
