# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What people read: hints, the nearest questions, the listing and differences."""

from __future__ import annotations

import pytest
from returned import described, misfits

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.module_action import failed_result
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError, ProblemsError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.criteria import parse_criteria
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.difference import difference
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.lattice import lattice
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.listing import listing, listing_lines
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.model import Catalogue
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.policy import unsupported_reason
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.resolve import resolve
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.suggest import suggestions

from .conftest import Tree

TRAINING = {"service": "eks", "accelerator": "h100", "intent": "training", "os": "ubuntu"}


@pytest.mark.parametrize(
    ("said", "meant"),
    [("aws", "eks"), ("GCP", "gke"), ("azure", "aks"), ("openshift", "ocp"), ("oracle", "oke"), ("ekz", "eks")],
)
def test_a_cloud_is_no_service_and_the_hint_names_the_service(said: str, meant: str, own: Catalogue) -> None:
    with pytest.raises(ProblemsError, match=rf"is not a known value\. Fix: Did you mean '{meant}'\?"):
        parse_criteria({"service": said}, own.vocabulary)


def test_what_people_mean_is_a_value(own: Catalogue) -> None:
    for dimension in own.vocabulary.dimensions.values():
        assert set(dimension.meant.values()) <= dimension.values
        assert not set(dimension.meant) & (dimension.values | set(dimension.aliases))
        assert dimension.unsuggested <= dimension.values


def test_a_test_cluster_is_the_nearest_to_nothing_but_itself(own: Catalogue) -> None:
    asked = parse_criteria({"service": "gke", "accelerator": "l40s"}, own.vocabulary)
    found = suggestions(asked, own)
    assert found
    assert all("kind" not in (one.criteria.get("service"), *one.also) for one in found)
    kind = parse_criteria({"service": "kind", "accelerator": "h100", "fabric": "infiniband"}, own.vocabulary)
    assert any(one.criteria.get("service") == "kind" for one in suggestions(kind, own))


def test_the_number_of_nodes_alone_chooses_nothing(own: Catalogue, upstream: Catalogue) -> None:
    for catalogue in (own, upstream):
        reason, hint = unsupported_reason(parse_criteria({"nodes": 4}, catalogue.vocabulary), catalogue)
        assert "nodes=4 chooses no recipe" in reason
        assert hint.startswith("State one of: service, accelerator,")


def test_the_number_of_nodes_is_no_obstacle_in_an_upstream_tree(upstream: Catalogue) -> None:
    criteria = parse_criteria({**TRAINING, "nodes": 16}, upstream.vocabulary)
    assert unsupported_reason(criteria, upstream) == ("", "")


def test_in_an_upstream_tree_self_managed_means_any_and_that_is_told(upstream_like: Tree) -> None:
    upstream_like.overlay("base", {})
    upstream_like.overlay("mine", {"criteria": {"service": "self-managed"}})
    upstream_like.overlay("every", {"criteria": {"service": "any"}})
    (warning,) = upstream_like.load().warnings
    assert "mine.yaml:7: service: self-managed means any in this tree, so the layer is for everything" in warning


def test_a_hint_is_never_empty(tree: Tree) -> None:
    tree.overlay("base", {})
    catalogue = tree.load()
    _reason, hint = unsupported_reason(parse_criteria({"service": "eks"}, catalogue.vocabulary), catalogue)
    assert hint == "List what is supported (gpufleet_recipe_command=list)."


def test_the_listing_is_read_by_people(own: Catalogue) -> None:
    found = listing(own)
    assert list(misfits(found, described("recipe_catalogue_info", "listing"))) == []
    assert found["matching"] == found["supported"]
    some = listing(own, parse_criteria({"service": "eks"}, own.vocabulary))
    of_eks = sum(("service", "eks") in question.stated for question in lattice(own))
    assert (some["matching"], some["supported"]) == (of_eks, found["supported"])
    assert listing_lines(some)[0].startswith(f"{of_eks} of {found['supported']} supported questions have these")
    lines = listing_lines(found)
    assert len(lines) < 200
    assert lines[0].startswith(f"{found['supported']} questions are supported.")
    assert any(line.split()[:2] == ["mpi-operator", "v0.8.0"] for line in lines)
    assert "none with these criteria" in listing_lines({**found, "environments": []})[1]


def test_the_listing_offers_only_what_something_supports(own: Catalogue) -> None:
    found = listing(own)
    assert "runai" not in found["criteria"]["platform"] and "volcano" in found["criteria"]["platform"]
    for name, values in found["criteria"].items():
        somewhere = {
            value
            for row in found["environments"]
            for value in ([row[name]] if name == "service" else row.get(name, []))
        }
        assert set(values) == somewhere, name


def test_a_difference_is_read_by_people(own: Catalogue) -> None:
    left = resolve(parse_criteria(TRAINING, own.vocabulary), own)
    for other, expected in (
        ({**TRAINING, "platform": "volcano"}, "added: volcano"),
        ({**TRAINING, "os": "rhel"}, "constraints"),
        (TRAINING, "nothing differs"),
    ):
        lines = difference(left, own, resolve(parse_criteria(other, own.vocabulary), own), own).lines()
        assert expected in lines
        assert not any("deploymentOrder[" in line for line in lines)
        assert len(lines) < 60


def test_an_error_is_said_once_in_a_result() -> None:
    error = ProblemsError("recipe", (InputError("a", "is wrong.", "mend it"), InputError("b", "is, too.")))
    result = failed_result(error)
    assert result["error"] == {"kind": "ProblemsError", "subject": "recipe"}
    assert result["msg"].count("is wrong") == 1
    quoted = failed_result(InputError("a", "is wrong.", "mend it", ("line 3: x",)))
    assert quoted["error"] == {"kind": "InputError", "subject": "a", "evidence": ["line 3: x"]}
