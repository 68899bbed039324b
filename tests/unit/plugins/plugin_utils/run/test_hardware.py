# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run saves of its SKUs: everything that judges read, the kind of GPU included."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.accelerator import Simulated
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import load_hardware
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.run import Run

ROOT = Path(__file__).resolve().parents[5]


def test_judges_of_a_saved_run_know_the_kind_of_gpu(tmp_path: Path) -> None:
    sku = load_hardware([ROOT / "recipes" / "hardware"])["dgx-h100"]
    assert sku.gpu is not None and sku.gpu.ecc and sku.gpu.row_remap
    Run(tmp_path).save_hardware({"mine": sku})
    again = Run(tmp_path).hardware["mine"]
    assert again.gpu == replace(sku.gpu, simulated=Simulated())
    assert replace(again, gpu=None) == replace(sku, gpu=None)


def test_a_run_of_a_release_that_did_not_save_it_gets_that_of_this_one(tmp_path: Path) -> None:
    sku = load_hardware([ROOT / "recipes" / "hardware"])["dgx-h100"]
    Run(tmp_path).save_hardware({"mine": sku})
    path = tmp_path / "hardware.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    del document["mine"]["gpu"]
    path.write_text(json.dumps(document), encoding="utf-8")
    assert Run(tmp_path).hardware["mine"].gpu_kind.ecc
