# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The five conformance checks of the upstream tool's walkthrough on a control plane, with its GPU.

Command and answer are those of vCluster's walkthrough ("Introducing and a Deep Dive Into AICR with vCluster", June
2026): recipe of service kind and accelerator a100, one NVIDIA A100-SXM4-40GB; `aicr validate --phase conformance` says
that readiness and five validators passed, that a claim was given a GPU, and which GPU the metrics are of. What of it
needs no cluster is in tests/unit/plugins/plugin_utils/features/validation/test_coming_from_aicr.py. Its four nodes
without a GPU answer nothing, and are not there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
import yaml
from live_site import LiveSite, live_site
from rehearsal_harness import ROOT, Rehearsed, rehearse
from waiting import eventually

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.selection import names_of_checks

pytestmark = pytest.mark.drawn(1, of="runs from elsewhere", whole=True)

CHECKS = ("platform-health", "gpu-operator-health", "dra-support", "accelerator-metrics", "ai-service-metrics")
PRODUCT = "NVIDIA A100-SXM4-40GB"
# A virtual machine of Google Cloud with one of the eight GPUs, which no catalogue of ours has.
ONE_GPU = {
    "name": "a2-highgpu-1g", "title": "Google Cloud a2-highgpu-1g, one A100 40 GB", "gpus": 1, "nvlink_links": 0,
    "nvlink_generation": None, "nvlink_domain_gpus": 0, "compute_hcas": 0, "hca_rate_gbps": 0, "hca_model": "",
    "intra_node_busbw_gbps": {},
}  # fmt: skip
# The walkthrough's stack gives GPUs out by claims; ours does so where the site says it.
CLAIMS = {
    "gpu-operator": {"devicePlugin": {"enabled": False}},
    "nvidia-dra-driver-gpu": {"gpuResourcesEnabledOverride": True, "resources": {"gpus": {"enabled": True}}},
}


@dataclass(frozen=True)
class Walked:
    """The site, and its validation."""

    site: LiveSite
    done: Rehearsed

    def outcomes(self, phase: str) -> list[dict[str, Any]]:
        """Return the results of a phase as its CTRF has them."""
        report = json.loads((self.done.run_dir / "ctrf" / f"{phase}.json").read_text(encoding="utf-8"))
        return [test["extra"]["outcome"] | {"status": test["status"]} for test in report["results"]["tests"]]


@pytest.fixture(scope="module")
def walked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Walked]:
    """The stack installed, then phase conformance."""
    directory = tmp_path_factory.mktemp("walkthrough")
    known = yaml.safe_load((ROOT / "recipes" / "hardware" / "a2-highgpu-8g.yaml").read_text(encoding="utf-8"))
    hardware = directory / "data" / "hardware" / "a2-highgpu-1g.yaml"
    hardware.parent.mkdir(parents=True)
    hardware.write_text(yaml.safe_dump(known | ONE_GPU), encoding="utf-8")
    with live_site(
        directory, 1, sku="a2-highgpu-1g", recipe_data=(directory / "data",), profile="cloud", overrides=CLAIMS,
        criteria={"service": "kind", "accelerator": "a100"},
    ) as site:  # fmt: skip
        installed = site.run("gpu_stack")
        # One GPU has no room for two gangs; the walkthrough does not ask about any.
        open_ones = {(found.check, found.cause) for found in installed.findings()}
        assert open_ones == {("gang-admission", "no-capacity")}, installed.output[-3000:]
        inventory = site.inventory
        done = rehearse(directory, playbook="validate.yml", inventory=inventory, phases=["conformance"])
        yield Walked(site, replace(done, run_dir=done.run_dir.resolve()))


def test_readiness_and_the_five_checks_pass_as_there(walked: Walked) -> None:
    done = walked.done
    assert done.rc == 0, done.output[-4000:]
    assert {entry["gate"]: entry["status"] for entry in done.record["phases"]} == {
        "readiness": "passed", "conformance": "passed",
    }  # fmt: skip
    recipe = json.loads((done.run_dir / "recipe.json").read_text(encoding="utf-8"))
    assert tuple(recipe["validation"]["conformance"]["checks"]) == CHECKS
    status: dict[str, set[str]] = {}
    for outcome in walked.outcomes("conformance"):
        status.setdefault(outcome["check"], set()).add(outcome["status"])
    # Every check of ours that stands for one of theirs answered, and nothing else did.
    theirs = {check for name in CHECKS for check in names_of_checks()[name]}
    assert status == {check: {"passed"} for check in theirs}, status
    constraint = next(o for o in walked.outcomes("readiness") if o["check"] == "readiness-constraints")
    assert "K8s.server.version" in json.dumps(constraint)


def test_a_claim_was_given_the_gpu_and_the_metrics_are_of_it(walked: Walked) -> None:
    found = {outcome["check"]: outcome for outcome in walked.outcomes("conformance")}
    assert found["dra-allocation"]["summary"].startswith("1 GPU of gpu01 allocated and seen in a container: ")
    # What nvidia-smi lists in the container that got it, and the one GPU whose UUID the metrics have.
    assert PRODUCT in json.dumps(found["dra-allocation"]["evidence"])
    assert found["gpu-metrics-complete"]["summary"].startswith("metrics of 1 GPU ")
    eventually(lambda: not walked.site.tests(), what=walked.site.tests)
