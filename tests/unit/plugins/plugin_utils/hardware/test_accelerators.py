# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kinds of GPU are data: those of the collection, and new ones of a private recipe directory."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.accelerator import (
    Accelerator,
    accelerator_or_error,
    load_accelerators,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import load_hardware
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError, ProblemsError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.load import load_catalogue
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.files import RECIPES
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.hosts.accelerators import printed_facts
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.places import DATA

OWN = load_accelerators()
HARDWARE = load_hardware([RECIPES / "hardware"])
KIND = "name: x900\ntitle: X900\nproduct_pattern: '\\bX900\\b'\naliases: [x9]\n"


@pytest.fixture
def private(tmp_path: Path) -> Path:
    """A private recipe directory with a kind of GPU and a server of its own."""
    for name in ("accelerators", "hardware"):
        (tmp_path / name).mkdir()
    (tmp_path / "accelerators" / "x900.yaml").write_text(KIND)
    text = (RECIPES / "hardware" / "dgx-h100.yaml").read_text()
    for old, new in (("name: dgx-h100", "name: own-x900"), ("aliases: [h100]", ""), ("rator: h100", "rator: x9")):
        text = text.replace(old, new)
    (tmp_path / "hardware" / "own-x900.yaml").write_text(text)
    return tmp_path


@pytest.mark.parametrize("sku", sorted({sku.name for sku in HARDWARE.values()}))
def test_a_product_name_belongs_to_its_kind_and_to_no_other(sku: str) -> None:
    product = HARDWARE[sku].gpu_product
    assert [kind.name for kind in OWN.values() if re.search(kind.product_pattern, product)] == [
        HARDWARE[sku].accelerator
    ]


@pytest.mark.parametrize("kind", OWN.values(), ids=lambda kind: kind.name)
def test_what_the_simulated_tools_print_of_a_kind_is_complete(kind: Accelerator) -> None:
    assert printed_facts(kind, DATA).power_limit_w > 0


def test_a_private_directory_brings_a_new_kind(private: Path) -> None:
    sku = load_hardware([RECIPES / "hardware", private / "hardware"])["own-x900"]
    assert (sku.accelerator, sku.gpu_kind.title) == ("x900", "X900")
    vocabulary = load_catalogue([RECIPES, private]).vocabulary
    accelerator = vocabulary.dimensions["accelerator"]
    assert {"x900", "h100"} <= accelerator.values and accelerator.aliases["x9"] == "x900"
    assert any(rule.value == "x900" and re.search(rule.pattern, "Vendor X900 2TB") for rule in vocabulary.detection)


@pytest.mark.parametrize("kind", sorted(load_catalogue([RECIPES]).vocabulary.dimensions["accelerator"].values))
def test_whatever_a_criterion_can_be_a_server_can_have(private: Path, kind: str) -> None:
    path = private / "hardware" / "own-x900.yaml"
    path.write_text(path.read_text().replace("rator: x9", f"rator: {kind}"))
    assert load_hardware([private / "hardware"])["own-x900"].accelerator == kind


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (KIND.replace("x900", "x901"), "'x901', expected 'x900'"),
        (KIND + "mgi: true\n", "did you mean 'mig'"),
        (KIND.replace("[x9]", "[h100]"), "h100.*two kinds"),
        (KIND.replace("'\\bX900\\b'", "'('"), "not a regular expression"),
    ],
)
def test_a_mistake_in_a_kind_is_refused(private: Path, text: str, problem: str) -> None:
    (private / "accelerators" / "x900.yaml").write_text(text)
    with pytest.raises((InputError, ProblemsError), match=problem):
        load_accelerators([private / "accelerators"])


def test_an_unknown_kind_is_named_with_the_nearest_and_the_way_out(private: Path) -> None:
    with pytest.raises(InputError, match=r"did you mean 'h100'.*one file in accelerators/"):
        accelerator_or_error(OWN, "h10", "SKU x")
    (private / "accelerators" / "x900.yaml").unlink()
    with pytest.raises(ProblemsError, match="'x9' is no kind of GPU"):
        load_hardware([private / "hardware"])
    path = private / "hardware" / "own-x900.yaml"
    path.write_text(path.read_text().replace("rator: x9", "rator: h100") + "gpu: {}\n")
    with pytest.raises(ProblemsError, match="gpu: unknown key"):
        load_hardware([private / "hardware"])
