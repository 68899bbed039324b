# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which checks a phase asks: what the recipe names, else all of it, and nothing that is left out in silence."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from typing import Any

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.registry import all_checks
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.selection import (
    PhaseDeclaration,
    declare_phase,
    limits_of,
    names_of_checks,
    require_names,
    seconds_of,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.gates import PHASES
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.report.ai_conformance import conformance
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import Host, Site, SiteProfile
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.gate import decide

SITE = Site(
    name="lab",
    profile=SiteProfile.CLOUD,
    hosts=(
        Host(name="gpu01", sku="dgx-h100", node_name="gpu01"),
        Host(name="gpu02", sku="dgx-h100", node_name="gpu02"),
    ),
    capabilities=("kubernetes", "pods", "dra", "prometheus", "multi_node", "infiniband", "host_access"),
)


def declared(phase: str, *names: str, skip: tuple[str, ...] = ()) -> PhaseDeclaration:
    recipe: dict[str, Any] = {"validation": {phase: {"checks": list(names)}}} if names else {}
    return declare_phase(phase, SITE, recipe, components=("gpu-operator",), skip=skip)


@pytest.mark.parametrize("phase", PHASES)
def test_a_recipe_that_names_no_checks_asks_all_of_the_phase(phase: str) -> None:
    own = {check.spec.id for check in all_checks() if check.spec.phase_at(SITE) == phase}
    found = declared(phase)
    assert set(found.expected) | {entry.id for entry in found.not_declared} == own
    assert found.expected and not found.unknown and not found.skipped


def test_upstreams_names_are_names_of_ours() -> None:
    found = declared("conformance", "platform-health", "gpu-operator-health", "dra-support", "accelerator-metrics")
    assert {"component-health", "cluster-policy-ready", "dra-allocation", "gpu-metrics-complete"} <= set(found.expected)
    assert "gang-admission" not in found.expected
    assert {part.gate for part in found.parts} == {"gpu_stack", "telemetry"}


def test_what_the_recipe_does_not_name_is_told_as_not_asked() -> None:
    found = declared("conformance", "dra-support")
    reasons = {entry.id: entry.reason for entry in found.not_declared}
    assert reasons["gang-admission"] == (
        "the recipe's validation.conformance does not name it; it names dra-support"
    )  # fmt: skip


def test_the_component_that_a_phase_rests_on_is_asked_for_its_health() -> None:
    section = {"checks": ["gang-scheduling"], "infrastructure": "gpu-operator"}
    found = declare_phase(
        "conformance", SITE, {"validation": {"conformance": section}}, components=("gpu-operator", "nfd")
    )
    assert set(found.expected) == {"gang-admission", "component-health"}


def test_a_check_may_be_named_as_we_call_it() -> None:
    assert set(declared("conformance", "gang-admission").expected) == {"gang-admission"}


def test_a_name_without_a_check_in_this_release_is_kept_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    names_of_checks()["not-yet-written"] = ("not-yet-written",)
    try:
        found = declared("conformance", "dra-support", "not-yet-written")
        assert found.unknown == ("not-yet-written",)
        assert declared("conformance", "not-yet-written", skip=("not-yet-written",)).unknown == ()
    finally:
        names_of_checks().pop("not-yet-written")


def test_a_check_that_is_left_out_by_name_is_told_and_not_asked() -> None:
    found = declared("conformance", "dra-support", "gang-scheduling", skip=("gang-scheduling",))
    assert [(entry.id, entry.reason) for entry in found.skipped] == [
        ("gang-admission", "named in gpufleet_skip_checks")
    ]  # fmt: skip
    assert "gang-admission" not in found.expected


def test_a_name_that_is_left_out_is_left_out_in_its_phase() -> None:
    """What else leads to the same check is of another phase, and stays asked there."""
    skip = ("secure-accelerator-access",)
    assert declared("deployment", "check-nvidia-smi", skip=skip).skipped == ()
    found = declared("conformance", "secure-accelerator-access", "gang-scheduling", skip=skip)
    assert {entry.id for entry in found.skipped} == {"secure-accelerator-access", "gpu-containers"}
    assert set(found.expected) == {"gang-admission"}
    assert not declared("conformance", "check-nvidia-smi", skip=("check-nvidia-smi",)).expected
    ours = declared("deployment", "check-nvidia-smi", skip=("gpu-containers",))
    assert [entry.id for entry in ours.skipped] == ["gpu-containers"]


@pytest.mark.parametrize(("name", "near"), [("gang-schedulin", "gang-scheduling"), ("dra-suport", "dra-support")])
def test_a_name_that_nobody_knows_is_an_error_with_the_nearest(name: str, near: str) -> None:
    with pytest.raises(InputError, match="is no check") as caught:
        require_names([name], "gpufleet_skip_checks")
    assert near in caught.value.hint


def test_a_name_that_is_no_question_at_a_site_is_told_and_holds_nothing() -> None:
    """Who gives GPUs out is the recipe's choice; anything else that cannot be asked is skipped, which is no pass."""
    reason = "the recipe's DRA driver gives out no GPUs; the device plugin does"
    by_plugin = replace(SITE, capabilities=("kubernetes", "pods", "prometheus"), missing={"dra": reason})
    recipe = {"validation": {"conformance": {"checks": ["dra-support", "gang-scheduling", "cluster-autoscaling"]}}}
    found = declare_phase("conformance", by_plugin, recipe)
    assert set(found.expected) == {"gang-admission"}
    assert [entry.id for entry in found.skipped] == ["cluster-autoscaling"]
    assert {e.id for e in found.not_declared if reason in e.reason} == {"dra-slices", "dra-allocation"}
    fixed = replace(by_plugin, capabilities=(*by_plugin.capabilities, "fixed_nodes"))
    assert declare_phase("conformance", fixed, recipe).skipped == ()
    alone = {"validation": {"conformance": {"checks": ["dra-support"]}}}
    assert declare_phase("conformance", by_plugin, alone).expected == {}


def test_what_a_recipe_of_the_catalogue_asks_is_what_evidence_rests_on() -> None:
    """Names of phase conformance lead to every check of their requirement, so that a whole phase is evidence of it."""
    named = {
        "accelerator-metrics": "accelerator_metrics", "ai-service-metrics": "ai_service_metrics",
        "dra-support": "dra_support", "gang-scheduling": "gang_scheduling", "pod-autoscaling": "pod_autoscaling",
        "cluster-autoscaling": "cluster_autoscaling", "inference-gateway": "ai_inference",
        "secure-accelerator-access": "secure_accelerator_access",
    }  # fmt: skip
    for name, requirement in named.items():
        assert set(conformance().requirements[requirement].checks) <= set(names_of_checks()[name]), name
    whole = {
        i
        for name in (*named, "platform-health", "gpu-operator-health", "robust-controller")
        for i in names_of_checks()[name]
    }
    for requirement in ("driver_runtime_management", "robust_controller"):
        assert set(conformance().requirements[requirement].checks) <= whole, requirement


def test_every_alias_of_the_catalogue_leads_to_checks_of_this_release() -> None:
    ours = {check.spec.id for check in all_checks()}
    led = {name: found for name, found in names_of_checks().items() if found != (name,)}
    assert led and not {i for found in led.values() for i in found} - ours


@pytest.mark.parametrize(("text", "seconds"), [("30m", 1800), ("1h30m", 5400), ("90s", 90), ("", 0)])
def test_durations_are_read_as_recipes_write_them(text: str, seconds: float) -> None:
    assert seconds_of(text, "x") == seconds
    assert limits_of({"validation": {"performance": {"timeout": text}}}, "performance")[0] == seconds


@pytest.mark.parametrize("text", ["30", "half an hour", "m", "-3m"])
def test_what_is_no_duration_is_an_error(text: str) -> None:
    with pytest.raises(InputError, match="is no duration"):
        seconds_of(text, "validation.performance.timeout")


@pytest.mark.parametrize("phase", ["deployment", "conformance"])
@pytest.mark.parametrize("names", [["platform-health"], []])
def test_what_a_section_demands_is_judged_whatever_checks_it_names(phase: str, names: list[str]) -> None:
    section = {"checks": names, "constraints": [{"name": "Deployment.gpu-operator.version", "value": ">= v24.6.0"}]}
    found = declare_phase(phase, SITE, {"validation": {phase: section}}, components=("gpu-operator",))
    assert "recipe-constraints" in found.expected


# NVIDIA/aicr recipes/validators/catalog.yaml, later than 0.11.
LATER = ["gke-gpu-nic-networks", "slinky-slurm-imex-channel", "nccl-cre-all-reduce-bw", "cre-training-goodput"]


def test_later_names_of_upstream_are_known_and_those_without_a_check_are_no_pass() -> None:
    require_names(LATER, "the recipe")
    assert declared("performance", *LATER[2:]).unknown == ("cre-training-goodput",)
    assert "nccl-all-nodes-bw" in declared("performance", "nccl-cre-all-reduce-bw").expected
    assert declared("deployment", LATER[0]).unknown == (LATER[0],)
    assert declared("conformance", LATER[1]).unknown == (LATER[1],)


@pytest.mark.parametrize("section", [{"checks": []}, {"checks": [], "timeout": "30m"}, {}])
def test_a_phase_of_which_a_recipe_states_that_it_asks_nothing_is_skipped_and_no_pass(section: dict[str, Any]) -> None:
    """As NVIDIA/aicr recipes/overlays/h100-gke-cos-training-slurm.yaml: test pods would go past the Slurm there."""
    found = declare_phase("performance", SITE, {"validation": {"performance": section}})
    assert not found.expected and not found.unknown and found.not_declared
    assert {entry.reason for entry in found.not_declared if "it names" in entry.reason} == {
        "the recipe's validation.performance does not name it; it names none"
    }
    verdict = decide("performance", found.expected, (), SITE, date(2026, 11, 27), found.not_declared)
    assert verdict.status is Status.SKIPPED
    assert declare_phase("performance", SITE, {"validation": {"performance": {"timeout": "30m"}}}).expected
