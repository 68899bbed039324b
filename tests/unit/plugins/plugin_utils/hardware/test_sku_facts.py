# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The hardware facts: strict loading, and the numbers that ceilings, budgets and checks are computed from."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import Sku, load_hardware, sku_or_error
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import (
    InputError,
    NotFoundError,
    ProblemsError,
)

ROOT = Path(__file__).resolve().parents[5]
HARDWARE = load_hardware([ROOT / "recipes" / "hardware"])
SKUS = {sku.name: sku for sku in HARDWARE.values()}
SHARED = Path(os.environ.get("GPUFLEET_SHARED") or ROOT.parent / "shared")

# Which SKU each published system is. MI300X has no SKU here: this collection brings up NVIDIA GPUs only.
SYSTEMS = {
    "2x p4de, 4x100G EFA": "p4de",
    "2x p5, 32x100G EFA": "p5",
    "2x OCI H100, 8x400G": "BM.GPU.H100.8",
    "2x OCI A100, 16x100G": "BM.GPU.B4.8",
    "2x GKE A3 Mega, 8x200G": "a3-mega",
    "8x CoreWeave H100 IB": "hgx-h100",
    "4x B200 8x400G, ring": "b200",
    "20x GB200 NVL72 racks": "gb200",
    "2x B200 8x400G, algorithm unknown": "b200",
    "2x B200 8x400G, algorithm unknown, slow": "b200",
}
# OCI states 8 x 2 x 200 Gb/s for its H100 shape; the published row counts each pair as one port.
PAIRED = {"2x OCI H100, 8x400G"}


def _vectors() -> list[dict[str, Any]]:
    path = SHARED / "vectors" / "ceilings.yaml"
    if not path.is_file():
        pytest.skip(f"NOT TESTED: no {path}; set GPUFLEET_SHARED to the acceptance data")
    yaml = pytest.importorskip("yaml")
    rows = yaml.safe_load(path.read_text(encoding="utf-8"))
    return [row for row in rows if "system" in row]


def test_the_published_systems_come_out_of_the_facts() -> None:
    seen = 0
    for row in _vectors():
        if "MI300X" in row["system"]:
            continue
        sku = HARDWARE[SYSTEMS[row["system"]]]
        domains = 18 if sku.nvlink_domain == "rack" else 1
        nics = sku.compute_hcas * domains
        assert sku.nvlink_domain_gpus == row["gpus"], row["system"]
        assert nics * sku.hca_rate_gbps / 8 == row["nics"] * row["gbps"] / 8, row["system"]
        if row["system"] not in PAIRED:
            assert (nics, sku.hca_rate_gbps) == (row["nics"], row["gbps"]), row["system"]
        if "b_net" in row:
            assert nics * sku.hca_rate_gbps / 8 == row["b_net"], row["system"]
        if row["b_x"] is None:
            assert (sku.best_busbw_gbps or 1e9) >= row["ref"], row["system"]
        else:
            assert sku.best_busbw_gbps == row["b_x"], row["system"]
        seen += 1
    assert seen >= 8


# Network per node in GB/s, published per instance type.
B_NET = {
    "p4d": 50, "p5": 400, "p5e": 400, "p5en": 400, "p6-b200": 400, "p6-b300": 800, "p6e-gb200": 200,
    "nd-a100-v4": 200, "nd-h100-v5": 400, "nd-h200-v5": 400, "nd-gb200-v6": 200, "dgx-h100": 400, "dgx-b300": 800,
    "a3-high": 100, "a3-mega": 200, "a3-ultra": 400, "a4": 400, "a4x": 200, "gb200": 200, "gb300": 400, "g6e": 50,
    "BM.GPU.GB300.4": 400, "BM.GPU.GB200-v3.4": 400, "a4x-max": 400, "BM.GPU.L40S-NC.4": 0,
    "BM.GPU.A100-v2.8": 200, "BM.GPU.B200.8": 400,
}  # fmt: skip


@pytest.mark.parametrize(("name", "expected"), sorted(B_NET.items()))
def test_network_per_node(name: str, expected: float) -> None:
    sku = HARDWARE[name]
    assert sku.compute_hcas * sku.hca_rate_gbps / 8 == expected


def test_every_accelerator_of_the_catalogue_has_a_sku_by_its_own_name() -> None:
    wanted = {
        "t4": "Tesla T4", "a10": "NVIDIA A10", "a100": "NVIDIA A100-SXM4-80GB", "h100": "NVIDIA H100 80GB HBM3",
        "h200": "NVIDIA H200", "b200": "NVIDIA B200", "b300": "NVIDIA B300 SXM6 AC", "gb200": "NVIDIA GB200",
        "gb300": "NVIDIA GB300", "l4": "NVIDIA L4", "l40s": "NVIDIA L40S",
        "rtx-pro-6000": "NVIDIA RTX PRO 6000 Blackwell Server Edition",
    }  # fmt: skip
    assert {name: HARDWARE[name].gpu_product for name in wanted} == wanted
    assert {name: HARDWARE[name].accelerator for name in wanted} == {name: name for name in wanted}


@pytest.mark.parametrize("sku", SKUS.values(), ids=str)
def test_facts_agree_with_each_other(sku: Sku) -> None:
    assert sku.gpu_product_label == sku.gpu_product.replace(" ", "-")
    assert sku.gpu_pci_id is not None
    assert sku.gpu_pci_id.startswith("10de:")
    assert (sku.nvlink_domain_gpus == 0) == (sku.nvlink_links == 0)
    assert all(source.strip() for source in sku.sources)
    same_part = [other for other in SKUS.values() if other.gpu_product == sku.gpu_product]
    for other in same_part:
        facts = ("gpu_memory_mib", "gpu_pci_id", "nvlink_links", "peak_tflops", "hbm_tb_per_s", "accelerator")
        assert [getattr(other, fact) for fact in facts] == [getattr(sku, fact) for fact in facts]
    if any("docs.aws" in s or "cloud.google" in s or "learn.microsoft" in s or "docs.oracle" in s for s in sku.sources):
        assert (sku.power_max_w, sku.weight_kg, sku.rack_power_max_w) == (None, None, None), "a tenant cannot know"


def test_memory_and_ids_are_what_real_tools_print() -> None:
    printed = {
        "h100-sxm-8gpu-580.xml": "h100", "gb200-4gpu-580.xml": "gb200", "l40s-1gpu-595.xml": "l40s",
        "a100-sxm4-1gpu-570.xml": "dgx-a100-40gb",
    }  # fmt: skip
    folder = SHARED / "captures" / "nvidia-smi-xml"
    if not folder.is_dir():
        pytest.skip(f"NOT TESTED: no {folder}; set GPUFLEET_SHARED to the acceptance data")
    from xml.etree import ElementTree

    for name, sku_name in printed.items():
        gpu = ElementTree.parse(folder / name).getroot().find("gpu")
        assert gpu is not None
        sku = HARDWARE[sku_name]
        assert gpu.findtext("product_name") == sku.gpu_product
        assert gpu.findtext("fb_memory_usage/total") == f"{sku.gpu_memory_mib} MiB"
        assert gpu.findtext("pci/pci_device_id") == f"{sku.gpu_pci_id[5:].upper()}10DE" if sku.gpu_pci_id else False


def _written(tmp_path: Path, name: str = "mine") -> Path:
    text = (ROOT / "recipes" / "hardware" / "dgx-h100.yaml").read_text(encoding="utf-8")
    text = text.replace("name: dgx-h100", f"name: {name}").replace("aliases: [h100]", "aliases: []")
    (tmp_path / f"{name}.yaml").write_text(text, encoding="utf-8")
    return tmp_path / f"{name}.yaml"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("weight_kg: ", "wieght_kg: ", "did you mean 'weight_kg'"),
        ("gpus: 8", "gpus: '8'", "expected a whole number"),
        ("gpus: 8", "gpus: true", "expected a whole number"),
        ("gpus: 8\n", "", "gpus: missing"),
        ("gpus: 8", "gpus: 0", "expected more than 0"),
        ("gpus: 8", "gpus: 8\ngpus: 9", "given twice"),
        ("fabric: infiniband", "fabric: infinband", "did you mean 'infiniband'"),
        ("nvlink_generation: 4\n", "", "nvlink_links and nvlink_generation"),
        ("hbm_tb_per_s: 3.35", "hbm_tb_per_s: .nan", "expected a finite number"),
        ("gpus: 8", "gpus: [8", "not valid YAML"),
        ("name: mine", "name: other", "expected 'mine'"),
        ("sources:\n", "sources: []\nx:\n", "unknown key"),
    ],
)
def test_a_mistake_in_a_file_is_named_with_the_file(tmp_path: Path, old: str, new: str, said: str) -> None:
    path = _written(tmp_path)
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(ProblemsError) as caught:
        load_hardware([tmp_path])
    assert said in str(caught.value)
    assert "mine.yaml" in str(caught.value)


def test_a_later_directory_replaces_and_aliases_must_be_unique(tmp_path: Path) -> None:
    mine = _written(tmp_path, "dgx-h100")
    mine.write_text(
        mine.read_text(encoding="utf-8").replace("power_max_w: 10200", "power_max_w: 9000"), encoding="utf-8"
    )
    found = load_hardware([ROOT / "recipes" / "hardware", tmp_path])
    assert found["dgx-h100"].power_max_w == 9000
    assert "h100" not in found
    mine.write_text(mine.read_text(encoding="utf-8").replace("aliases: []", "aliases: [h200]"), encoding="utf-8")
    with pytest.raises(ProblemsError, match="'h200' is also a name or alias of 'dgx-h100'"):
        load_hardware([ROOT / "recipes" / "hardware", tmp_path])


def test_an_unknown_sku_or_directory_is_an_error_that_helps(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="did you mean 'dgx-h100'"):
        sku_or_error(HARDWARE, "dgxh100")
    with pytest.raises(ProblemsError, match="no such directory"):
        load_hardware([tmp_path / "none"])


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_a_garbled_file_is_an_input_error_never_a_crash(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    raw = bytearray((ROOT / "recipes" / "hardware" / "dgx-h100.yaml").read_bytes())
    for _change in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    directory = tmp_path_factory.mktemp("garbled")
    (directory / "dgx-h100.yaml").write_bytes(bytes(raw))
    try:
        found = load_hardware([directory])
    except InputError:
        return
    assert all(isinstance(sku, Sku) for sku in found.values())


@pytest.mark.parametrize(
    ("names", "problem"),
    [
        (("mlx5_2",), "has 1 names, expected one for each of the 8 ports"),
        (tuple("abcdefgg"), "has g twice"),
        ((*"abcdefg", "h/1"), "has 'h/1', expected names such as mlx5_2"),
    ],
)
def test_names_of_adapters_are_one_for_each_port(names: tuple[str, ...], problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        replace(HARDWARE["h100"], hca_names=names)
    assert replace(HARDWARE["h100"], hca_names=tuple("abcdefgh")).hca_names == tuple("abcdefgh")


@pytest.mark.parametrize(
    ("name", "ports", "rate", "names"),
    [
        ("dgx-h100", 8, 400, (0, 3, 4, 5, 6, 9, 10, 11)),
        ("dgx-h200", 8, 400, (0, 3, 4, 5, 6, 9, 10, 11)),
        ("dgx-a100", 8, 200, (0, 1, 2, 3, 6, 7, 8, 9)),
        ("gb200-nvl72", 4, 400, (0, 1, 4, 5)),
        ("bm-gpu4-8", 16, 100, (0, 1, 2, 3, *range(6, 18))),
        ("bm-gpu-h100-8", 16, 200, (0, 1, *range(3, 11), *range(12, 18))),
        ("bm-gpu-b200-8", 8, 400, (0, 3, 4, 5, 6, 9, 10, 11)),
        ("bm-gpu-gb300-4", 8, 400, (0, 1, 2, 3, 5, 6, 7, 8)),
        ("bm-gpu-gb200-v3-4", 8, 400, (0, 1, 2, 3, 5, 6, 7, 8)),
    ],
)
def test_published_names_of_adapters(name: str, ports: int, rate: int, names: tuple[int, ...]) -> None:
    sku = HARDWARE[name]
    assert (sku.compute_hcas, sku.hca_rate_gbps) == (ports, rate)
    assert sku.hca_names == tuple(f"mlx5_{number}" for number in names)
