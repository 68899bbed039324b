# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Some components of a recipe by their names: what they need is there, what needs them is gone, the rest stays."""

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.helm.helm import Release
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.installation import Installed
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.model import (
    MANAGED_BY,
    MANAGED_BY_LABEL,
    Component,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.plan import make_plan
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.selection import (
    alone,
    chosen_of,
    namespaces_alone,
    narrowed,
    needed_by,
    with_needed,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError


def component(name: str, *needs: str, namespace: str = "") -> Component:
    return Component(
        name=name,
        namespace=namespace or name,
        chart=name,
        version="1.0.0",
        source="https://x.example",
        depends_on=needs,
    )


ALL = (
    component("certs"),
    component("crds", namespace="monitoring"),
    component("operator", "certs"),
    component("metrics", "crds", namespace="monitoring"),
    component("queue", "operator", "metrics"),
)


def there(*names: str, ours: bool = True, version: str = "1.0.0") -> Installed:
    found = [each for each in ALL if each.name in names]
    releases = {
        each.release: Release(
            name=each.name, namespace=each.namespace, revision=1, status="deployed", chart=each.chart,
            chart_version=version,
        )
        for each in found
    }  # fmt: skip
    labels = {each.release: {MANAGED_BY_LABEL: MANAGED_BY if ours else "else"} for each in found}
    return Installed(releases=releases, labels=labels)


def names(components: tuple[Component, ...]) -> list[str]:
    return [each.name for each in components]


def test_no_name_is_all_and_a_name_that_is_none_is_refused() -> None:
    assert chosen_of(ALL, []) == ALL
    assert names(chosen_of(ALL, ["queue", "certs"])) == ["certs", "queue"]
    with pytest.raises(InputError, match=r"quee.*no component.*queue"):
        chosen_of(ALL, ["certs", "quee"])


def test_what_a_component_needs_through_others_is_looked_at_and_nothing_else() -> None:
    assert names(with_needed(ALL, chosen_of(ALL, ["operator"]))) == ["certs", "operator"]
    assert with_needed(ALL, chosen_of(ALL, ["queue"])) == ALL
    assert with_needed(ALL, ALL) == ALL


@pytest.mark.parametrize(
    ("installed", "lacks"),
    [
        (there(), ("operator needs certs, which is not installed",)),
        (there("certs"), ()),
        (there("certs", version="0.9.0"), ()),
        (there("certs", version="2.0.0"), ()),
        (there("certs", ours=False), ("operator needs certs, which is not installed",)),
    ],
    ids=["absent", "there", "older", "newer", "of somebody who was not asked"],
)
def test_what_it_needs_has_to_be_there_in_whatever_version(installed: Installed, lacks: tuple[str, ...]) -> None:
    chosen = chosen_of(ALL, ["operator"])
    plan, only, said = narrowed(make_plan(with_needed(ALL, chosen), installed), chosen)
    assert (said, names(only), only[0].depends_on) == (lacks, ["operator"], ())
    assert [step.component for step in plan.steps] == ["operator"]


def test_components_that_are_named_together_keep_their_order_and_lack_nothing_of_each_other() -> None:
    chosen = chosen_of(ALL, ["operator", "certs"])
    _plan, only, said = narrowed(make_plan(with_needed(ALL, chosen), there()), chosen)
    assert ([each.depends_on for each in only], said) == ([(), ("certs",)], ())
    _plan, only, said = narrowed(make_plan(ALL, there()), ALL)
    assert (only, said) == (ALL, ())


def test_what_needs_a_component_has_to_be_gone_or_be_named_too() -> None:
    certs = chosen_of(ALL, ["certs"])
    found = there("certs", "operator")
    assert needed_by(ALL, certs, found) == ("certs is needed by operator, which is installed",)
    assert needed_by(ALL, certs, there("certs", "queue")) == ()
    assert needed_by(ALL, certs, there("certs", "operator", ours=False)) == ()
    assert needed_by(ALL, chosen_of(ALL, ["certs", "operator"]), found) == ()


def test_all_else_counts_as_staying() -> None:
    chosen = chosen_of(ALL, ["metrics"])
    assert list(alone(there("certs", "metrics"), chosen).releases) == ["monitoring/metrics"]
    assert namespaces_alone(("monitoring", "tests"), ALL, chosen) == ("tests",)
    assert namespaces_alone(("monitoring",), ALL, chosen_of(ALL, ["crds", "metrics"])) == ("monitoring",)
    assert namespaces_alone(("monitoring",), ALL, ALL) == ("monitoring",)
