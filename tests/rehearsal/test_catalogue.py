# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Recipes of the catalogue that the seed draws, installed in turn on one cluster; `make rehearse-catalogue`: all."""

from __future__ import annotations

from pathlib import Path

from catalogue_bench import catalogue_bench, leaves, not_ready
from seeds import drawing

DRAWN = 3


def test_recipes_that_are_drawn_are_installed(tmp_path: Path) -> None:
    with catalogue_bench(tmp_path) as bench:
        for leaf in drawing("catalogue").sample(leaves(), DRAWN):
            assert not_ready(bench.become(leaf.recipe)) == [], leaf.name
