# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an upgrade is for each component is what gate 4 would plan, whatever the versions; what is not known is said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from seeds import drawing

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.helm.helm import Release
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.chart_version import same_chart_version
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.installation import Installed
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.model import (
    DIGEST_LABEL,
    MANAGED_BY,
    MANAGED_BY_LABEL,
    REVISION_LABEL,
    Action,
    Step,
    components_of,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.plan import make_plan, upgrade_rules
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.transitions import (
    Transition,
    Verdict,
    components_in,
    installed_by,
    installed_in,
    not_seen,
    transitions,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.versions import recorded_versions
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.constraint.evaluate import parse_version
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.load import load_catalogue
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.files import RECIPES
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.snapshot.model import (
    COLLECTORS,
    Collected,
    CollectorResult,
    Snapshot,
    Workload,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.snapshot.model import Release as Listed

CHARTS = {
    name: entry.default("helm", "defaultVersion")
    for name, entry in load_catalogue([RECIPES]).registry.items()
    if entry.default("helm", "defaultVersion")
}
SEEN = dict.fromkeys(COLLECTORS, CollectorResult(state=Collected.WHOLE))


def entry(version: str, name: str = "", **more: Any) -> dict[str, Any]:
    """One component of a recipe as a map of values."""
    known = {"type": "Helm", "source": "https://charts.example", "namespace": f"{name or 'x'}-system"}
    return {**known, "version": version, "enabled": True, "values": {}, **more}


def recipe(**components: dict[str, Any]) -> dict[str, Any]:
    """A recipe as a map of values, of components by names with `_` in place of `-`."""
    named = {name.replace("_", "-"): {**data} for name, data in components.items()}
    return {"components": named, "deploymentOrder": [*named]}


def between(before: Mapping[str, Any], after: Mapping[str, Any], **how: Any) -> dict[str, Transition]:
    found = transitions(components_in(after), installed_by(components_in(before)), **how)
    return {each.component: each for each in found}


def snapshot(collectors: Mapping[str, CollectorResult] | None = None, **parts: Any) -> Snapshot:
    return Snapshot(taken="2026-11-29T00:00:00Z", made_by="x", collectors={**SEEN, **(collectors or {})}, **parts)


def from_snapshot(seen: Snapshot, after: Mapping[str, Any]) -> dict[str, Transition]:
    components = components_in(after)
    found = transitions(components, installed_in(seen), not_seen(components, seen))
    return {each.component: each for each in found}


def gate_4(name: str, found: str, wanted: str) -> Step:
    """What gate 4 plans for a release that a run installed, from the recipe as a run keeps it."""
    ref = {
        "name": name,
        "namespace": "ns",
        "type": "Helm",
        "chart": name,
        "version": wanted,
        "source": "https://c.example",
    }
    components = components_of({"componentRefs": [ref], "deploymentOrder": [name]})
    old = replace(components[0], version=found)
    labels = {MANAGED_BY_LABEL: MANAGED_BY, DIGEST_LABEL: old.digest, REVISION_LABEL: "3"}
    release = Release(name, "ns", 3, "deployed", name, found)
    return make_plan(components, Installed(releases={f"ns/{name}": release}, labels={f"ns/{name}": labels})).steps[0]


def is_version(text: str) -> bool:
    try:
        parse_version(text)
    except InputError:
        return False
    return True


def versions_around(name: str, pinned: str) -> list[str]:
    """Versions on both sides of everything that is recorded of a component, and some that are none."""
    numbers = parse_version(pinned).padded if is_version(pinned) else (1, 2, 3)
    texts = ["latest", "", pinned, f"{pinned}-rc.1", pinned.removeprefix("v"), f"v{pinned.removeprefix('v')}"]
    known = [numbers]
    for rule in upgrade_rules().components.get(name, ()):
        known += [parse_version(text).padded for text in (*rule.releases, rule.at, rule.removed_below) if text]
    for major, minor, patch in known:
        texts += [f"{major}.{max(0, minor + step)}.{patch}" for step in range(-3, 4)]
        texts += [f"v{major + 1}.0.0", f"{max(0, major - 1)}.{minor}", f"{major}.{minor}.{patch + 1}"]
    return texts


def expected(name: str, step: Step) -> Verdict:
    if step.action in (Action.DOWNGRADE, Action.REFUSE):
        return Verdict.BLOCKED
    if step.action is Action.SKIPS:
        return Verdict.MANUAL if "to be removed first" in step.reason else Verdict.BLOCKED
    assert step.action in (Action.UPGRADE, Action.UNCHANGED)
    if step.replaced:
        return Verdict.MANUAL
    if same_chart_version(step.found_version, step.wanted_version):
        return Verdict.SAME
    ordered = is_version(step.found_version) and is_version(step.wanted_version)
    return Verdict.SAFE if ordered and upgrade_rules().components.get(name) else Verdict.UNKNOWN


@pytest.mark.parametrize("name", CHARTS)
def test_what_is_said_of_two_versions_is_what_gate_4_would_do(name: str) -> None:
    pinned, draw = CHARTS[name], drawing(name)
    texts, next_one = versions_around(name, pinned), f"{pinned.rpartition('.')[0]}.99"
    wanted = [text for text in texts if text]
    drawn = [(draw.choice(texts), draw.choice(wanted)) for _number in range(40)]
    found = set()
    for old, new in [(pinned, pinned), (pinned, next_one), (next_one, pinned), *drawn]:
        step = gate_4(name, old, new)
        here = {name.replace("-", "_"): entry(old, chart=name, namespace="ns")}
        there = recipe(**{name.replace("-", "_"): entry(new, chart=name, namespace="ns")})
        listed = {f"ns/{name}": Listed(chart=name, version=old, status="deployed", owner=MANAGED_BY)}
        both = (between(recipe(**here), there)[name], from_snapshot(snapshot(releases=listed), there)[name])
        for said, whose in zip(both, ("the other recipe's", "the installed"), strict=True):
            assert said.verdict is expected(name, step), (old, new, said)
            assert (said.verdict in (Verdict.SAFE, Verdict.SAME)) <= (not step.action.refused and not step.replaced)
            if step.action.refused:
                assert (said.reason, said.hint) == (step.reason.replace("the installed", whose), step.hint)
            assert bool(said.release) is said.removed_first is ("to be removed first" in step.reason)
        found.add(said.verdict)
    assert {Verdict.SAME, Verdict.BLOCKED} <= found
    assert (Verdict.SAFE in found) is (name in upgrade_rules().components)


@pytest.mark.parametrize(
    ("name", "found", "wanted", "verdict", "reason", "hint"),
    [
        ("cert-manager", "v1.19.4", "v1.20.2", "safe", "nothing that is recorded lies between", ""),
        ("cert-manager", "v1.17.2", "v1.20.2", "blocked", "skips minor versions", "install 1.18, then 1.19 first"),
        ("cert-manager", "v1.20.2", "v1.19.4", "blocked", "other recipe's v1.20.2", "set gpufleet_gpu_stack_allow_"),
        ("nodewright-operator", "v0.15.1", "v0.19.0", "manual", "is deleted first", "choose a time"),
        ("slinky-slurm", "0.4.1", "1.2.0", "manual", "all of it is to be removed first", "playbook remove"),
        ("volcano", "1.10.0", "1.12.0", "unknown", "nothing is recorded about its upgrades", "what its project says"),
        ("cert-manager", "nightly", "v1.20.2", "unknown", "nightly and v1.20.2 cannot be put in an order", "project"),
        ("volcano", "1.12.0", "v1.12.0", "same", "", ""),
    ],
)  # fmt: skip
def test_each_verdict_has_its_reason_what_to_do_and_its_source(
    name: str, found: str, wanted: str, verdict: str, reason: str, hint: str
) -> None:
    place = name.replace("-", "_")
    said = between(recipe(**{place: entry(found)}), recipe(**{place: entry(wanted)}))[name]
    assert (said.verdict, said.found, said.wanted) == (verdict, found, wanted)
    # Gate 4 has asked the cluster, and says so.
    planned = gate_4(name, found, wanted)
    assert "the other recipe" not in planned.reason
    assert ("older than the installed" in planned.reason) is (verdict == "blocked" and "skips" not in reason)
    assert reason in said.reason and hint in said.hint
    assert bool(reason) is bool(said.reason) and bool(hint) is bool(said.hint)
    rests_on_rules = verdict in ("safe", "manual") or "skips" in reason
    assert bool(said.sources) is rests_on_rules
    assert said.settled is (verdict in ("safe", "same"))
    assert bool(said.release) is said.removed_first is (name == "slinky-slurm")


def test_what_comes_what_goes_and_what_is_switched_off() -> None:
    before = recipe(nfd=entry("0.19.0"), volcano=entry("1.2.0"), kueue=entry("0.19.3", enabled=False))
    after = recipe(nfd=entry("0.19.0"), volcano=entry("1.2.0", enabled=False), kueue=entry("0.19.3"))
    found = between(before, after)
    assert {name: each.verdict.value for name, each in found.items()} == {
        "nfd": "same",
        "kueue": "added",
        "volcano": "removed",
    }
    gone = found["volcano"]
    assert (gone.found, gone.release, gone.removed_first) == ("1.2.0", "x-system/volcano", False)
    assert gone.reason.startswith("the other recipe has it, and") and "gate 4 leaves it where it is" in gone.reason
    assert all(each.settled for each in found.values())
    assert found["nfd"].release == found["kueue"].release == ""


def test_other_values_are_told_of_the_same_version_and_nothing_of_them_by_a_snapshot() -> None:
    before, after = (recipe(nfd=entry("0.19.0", values={"a": number}, chart="c/nfd")) for number in (1, 2))
    assert between(before, before)["nfd"].reason == ""
    assert between(before, after)["nfd"].reason == "other values"
    listed = {"x-system/nfd": Listed(chart="nfd", version="0.19.0", status="deployed", owner=MANAGED_BY)}
    assert from_snapshot(snapshot(releases=listed), after)["nfd"] == replace(between(before, before)["nfd"])


def test_another_place_or_another_chart_is_never_the_same() -> None:
    before = recipe(nfd=entry("0.19.0", namespace="old", chart="nfd"))
    moved = between(before, recipe(nfd=entry("0.19.0", namespace="new", chart="nfd")))
    assert [*moved] == ["nfd"], "what moved is told once"
    assert moved["nfd"].verdict is Verdict.BLOCKED
    assert moved["nfd"].reason.startswith("the other recipe has it as release old/nfd")
    other = between(before, recipe(nfd=entry("0.19.0", namespace="old", chart="node-feature-discovery")))["nfd"]
    assert (other.verdict, "is of chart nfd, not node-feature-discovery" in other.reason) == (Verdict.UNKNOWN, True)


def test_manifests_are_the_same_only_where_nothing_of_them_differs() -> None:
    plain = {"source": "", "version": "", "manifestFiles": ["a.yaml"]}
    built = {"type": "Kustomize", "version": "", "tag": "v1.6.0", "path": "config/crd"}
    for first, second in ((plain, {**plain, "manifestFiles": ["b.yaml"]}), (built, {**built, "tag": "v1.6.1"})):
        one, two = (recipe(gateway_api=entry(**{"version": "", **data})) for data in (first, second))
        assert between(one, one)["gateway-api"].verdict is Verdict.SAME
        said = between(one, two)["gateway-api"]
        assert (said.verdict, "its manifests differ" in said.reason) == (Verdict.UNKNOWN, True)
        # A snapshot lists releases, and they are none.
        said = from_snapshot(snapshot(), one)["gateway-api"]
        assert (said.verdict, "a snapshot has Helm releases alone" in said.reason) == (Verdict.UNKNOWN, True)


@pytest.mark.parametrize("state", [Collected.FAILED, Collected.NOT_ASKED])
def test_what_a_snapshot_does_not_say_is_unknown_never_the_same_nor_added(state: Collected) -> None:
    after = recipe(nfd=entry("0.19.0"), cert_manager=entry("v1.20.2"))
    partly = {"x-system/nfd": Listed(chart="nfd", version="0.19.0", status="deployed", owner=MANAGED_BY)}
    why = CollectorResult(state=state, reason="secrets: forbidden", hint="ask for the right")
    found = from_snapshot(snapshot({"releases": why}, releases=partly), after)
    for each in found.values():
        assert (each.verdict, each.settled, each.hint) == (Verdict.UNKNOWN, False, "ask for the right")
        assert "what is installed is not known: secrets: forbidden" in each.reason
    found = from_snapshot(snapshot(releases=partly), after)
    assert [each.verdict for each in found.values()] == [Verdict.SAME, Verdict.ADDED]


def test_what_runs_without_a_release_of_helm_is_not_added() -> None:
    after = recipe(cert_manager=entry("v1.20.2"))
    runs = {"Deployment ops/cm": Workload(images={"main": ("quay.example/jetstack/cert-manager-controller:v1.18.0",)})}
    said = from_snapshot(snapshot(workloads=runs), after)["cert-manager"]
    assert (said.verdict, "Deployment ops/cm runs its image" in said.reason) == (Verdict.UNKNOWN, True)
    why = CollectorResult(state=Collected.FAILED, reason="pods: forbidden")
    said = from_snapshot(snapshot({"workloads": why}), after)["cert-manager"]
    assert (said.verdict, "is not known: pods: forbidden" in said.reason) == (Verdict.UNKNOWN, True)
    assert from_snapshot(snapshot(), after)["cert-manager"].verdict is Verdict.ADDED


@pytest.mark.parametrize(
    ("changes", "verdict", "reason"),
    [
        ({}, "same", ""),
        ({"owner": ""}, "blocked", "already installed by helm release x-system/nfd"),
        ({"owner": "Flux HelmRelease a/b"}, "blocked", "already installed by helm release x-system/nfd"),
        ({"status": "failed"}, "unknown", "its last change did not succeed"),
        ({"status": "pending-upgrade"}, "unknown", "is pending-upgrade"),
        ({"chart": "other"}, "unknown", "is of chart other, not nfd"),
        ({"chart": "", "version": ""}, "unknown", "is of chart (not known), not nfd"),
    ],
)
def test_a_release_of_a_snapshot_is_what_it_says_of_itself(changes: dict[str, str], verdict: str, reason: str) -> None:
    release = Listed(chart="nfd", version="0.19.0", status="deployed", owner=MANAGED_BY)
    seen = snapshot(releases={"x-system/nfd": replace(release, **changes)})
    said = from_snapshot(seen, recipe(nfd=entry("0.19.0")))["nfd"]
    assert (said.verdict, bool(said.hint)) == (verdict, verdict != "same")
    assert reason in said.reason and bool(reason) is bool(said.reason)


def test_releases_of_ours_that_the_recipe_has_not_are_removed_and_those_of_others_no_matter() -> None:
    ours = Listed(chart="volcano", version="1.2.0", status="deployed", owner=MANAGED_BY)
    releases = {"a/volcano": ours, "b/grafana": replace(ours, chart="grafana", owner="")}
    found = from_snapshot(snapshot(releases=releases), recipe(nfd=entry("0.19.0")))
    assert {name: each.verdict.value for name, each in found.items()} == {"nfd": "added", "volcano": "removed"}


@pytest.mark.parametrize(("kubernetes", "support"), [("1.36", "not met"), ("v1.35.1-eks-1", "met"), ("", "")])
def test_a_version_that_is_not_for_that_kubernetes_is_not_settled(kubernetes: str, support: str) -> None:
    after, recorded = recipe(cert_manager=entry("v1.20.2")), recorded_versions()
    said = between(after, after, kubernetes=kubernetes, recorded=recorded)["cert-manager"]
    assert (said.verdict, said.support, said.settled) == (Verdict.SAME, support, support != "not met")
    assert ("its project supports 1.32 to 1.35" in said.support_reason) is bool(kubernetes)
