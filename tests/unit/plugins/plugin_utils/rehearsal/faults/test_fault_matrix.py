# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The matrix of faults: every gate has some, each is exercised by a test, and no known failure mode is missing."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml
from seeds import CASES_VARIABLE

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.registry import all_checks
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.gates import GATE_IDS
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.faults.catalogue import (
    FaultDefinition,
    load_catalogue,
)

ROOT = Path(__file__).resolve().parents[6]
CATALOGUE = load_catalogue()
CHECKS = {check.spec.id: check.spec for check in all_checks()}
LEAST = 30
# Tests that take every fault of a gate, or of a part of it, by its id.
WHERE = ("tests/unit/plugins/plugin_utils/rehearsal/faults", "tests/rehearsal")
# Every fault is in their ids, too, and they exercise none: this file, and the grammar of what is chosen.
NOT_THERE = (Path(__file__), Path(__file__).with_name("test_choose.py"))
# How a bring-up fails in the field; "step skipped" is not a fault of a cluster, see test_gate_verdict.py.
FAILURE_MODES = {
    "no gang scheduler": ("gang-not-running", "gang-partial"),
    "TCP fallback": ("rdma-resource-missing", "hca-filter-no-match"),
    "telemetry blind": ("metrics-blind",),
    "vLLM out of KV memory": ("vllm-out-of-memory",),
    "missing host in metrics": ("exporter-down",),
    "stale series": ("exporter-frozen",),
    "duplicate UUID": ("gpu-duplicate-uuid", "exporter-twice"),
    "alert never arrives": ("alert-not-delivered",),
    "half-placed job": ("training-half-placed",),
    "one slow GPU": ("gpu-throttled",),
    "growing step time": ("training-leak",),
    "NaN loss": ("training-not-a-number",),
    "slow TTFT": ("first-token-slow",),
    "5xx": ("requests-fail",),
    "short answers": ("answers-short",),
    "cold first request": ("first-request-cold",),
}


@pytest.fixture(scope="module")
def collected() -> str:
    """The ids of every test of the directories that exercise faults."""
    words = [
        sys.executable,
        "-m",
        "pytest",
        "--collect-only",
        "-q",
        *WHERE,
        *(f"--ignore={path}" for path in NOT_THERE),
    ]
    environment = os.environ | {CASES_VARIABLE: "all"}
    done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:]
    return done.stdout


def test_every_gate_has_faults_and_there_are_enough() -> None:
    counts = Counter(fault.expect.gate for fault in CATALOGUE.values())
    assert set(counts) == set(GATE_IDS), f"no fault for {set(GATE_IDS) - set(counts)}"
    assert sum(counts.values()) >= LEAST


@pytest.mark.parametrize("mode", FAILURE_MODES)
def test_the_ways_in_which_a_bring_up_fails_can_be_rehearsed(mode: str) -> None:
    assert all(fault in CATALOGUE for fault in FAILURE_MODES[mode])


@pytest.mark.parametrize("fault", CATALOGUE.values(), ids=list(CATALOGUE))
def test_what_a_fault_is_expected_to_cause_is_what_a_check_can_say(fault: FaultDefinition) -> None:
    for expect in (entry for entry in (fault.expect, fault.earlier) if entry is not None):
        assert expect.check in CHECKS
        # A check lists the causes of what it fails; those of `other` are its own words, and a pass has none.
        if expect.status == "failed":
            assert expect.cause in CHECKS[expect.check].causes
        else:
            assert bool(expect.cause) is (expect.status == "other")


def test_every_fault_is_exercised_by_a_test(collected: str) -> None:
    missing = [fault for fault in CATALOGUE if not re.search(rf"[\[-]{re.escape(fault)}[\]-]", collected)]
    assert not missing


def undrawn() -> list[dict[str, Any]]:
    return yaml.safe_load((ROOT / "tests/data/undrawn_causes.yaml").read_text(encoding="utf-8"))


def test_every_cause_has_a_fault_or_a_reason_why_it_has_none() -> None:
    """The list names neither a cause that a fault brings about nor one that no check declares."""
    expects = [entry for fault in CATALOGUE.values() for entry in (fault.expect, fault.earlier) if entry is not None]
    drawn = {(expect.check, expect.cause) for expect in expects}
    declared = {(spec.id, cause) for spec in CHECKS.values() for cause in spec.causes}
    listed = [(check, cause) for entry in undrawn() for check, causes in entry["causes"].items() for cause in causes]
    assert len(listed) == len(set(listed))
    assert sorted(declared - drawn - set(listed)) == [], "add a fault, or the cause to tests/data/undrawn_causes.yaml"
    assert sorted(set(listed) - (declared - drawn)) == [], "take these out of tests/data/undrawn_causes.yaml"


@pytest.mark.parametrize("entry", undrawn(), ids=lambda entry: next(iter(entry["causes"])))
def test_a_cause_without_a_fault_is_shown_by_a_test(entry: dict[str, Any]) -> None:
    tests = ROOT / "tests/unit/plugins/plugin_utils/check"
    text = "".join((tests / name).read_text(encoding="utf-8") for name in entry["shown_by"])
    assert len(entry["reason"].split()) > 5
    assert [cause for causes in entry["causes"].values() for cause in causes if f'"{cause}"' not in text] == []
