# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The five checks that every recipe names take the time of the slowest and a tenth, by what each says of itself: how
long it takes, and what it disturbs. Upstream takes 60 s, one after another (vCluster's walkthrough with an A100).

`bench/conformance.py` measures the same with observers that wait: 1.001 times the slowest.
"""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.selection import declare_phase
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import Disturbance
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.observing import needed_observers
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import Host, Site, SiteProfile

FIVE = ["platform-health", "gpu-operator-health", "dra-support", "accelerator-metrics", "ai-service-metrics"]
SITE = Site(
    name="lab", profile=SiteProfile.CLOUD, hosts=(Host(name="gpu01", sku="dgx-h100", node_name="gpu01"),),
    capabilities=("kubernetes", "pods", "dra", "prometheus"),
)  # fmt: skip


def share(names: list[str], *, at_once: bool = True) -> float:
    """Return how long a phase with these names takes, as a multiple of its slowest observer."""
    recipe: dict[str, Any] = {"validation": {"conformance": {"checks": names}}}
    declared = declare_phase("conformance", SITE, recipe, components=("gpu-operator",))
    seconds: dict[str, float] = {}
    for planned in (planned for part in declared.parts for planned in part.checks):
        key = planned.observer.key
        seconds[key] = max(seconds.get(key, 0.0), planned.spec.duration_s)
    found = [entry for part in declared.parts for entry in needed_observers(part)]
    apart = [o.key for o, disturbs in found if not disturbs.makes_pods or disturbs is Disturbance.PLAIN_PODS]
    beside = apart if at_once else []
    in_turn = sum(seconds[o.key] for o, _disturbs in found if o.key not in beside)
    assert len(found) > 3 and seconds.keys() == {observer.key for observer, _disturbs in found}
    return max([in_turn, *(seconds[key] for key in beside)]) / max(seconds.values())


def test_five_checks_of_every_recipe_take_the_slowest_and_a_tenth() -> None:
    assert share(FIVE) <= 1.1


def test_one_after_another_they_would_take_longer() -> None:
    """As upstream takes them: so the test above fails as soon as what they disturb lets them not be at once."""
    assert share(FIVE, at_once=False) > 1.1
