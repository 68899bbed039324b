# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fleets for the gate."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from nccl_fleet import Fleet

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import Sku, load_hardware


@pytest.fixture(scope="session")
def hardware(repository: Path) -> dict[str, Sku]:
    return load_hardware([repository / "recipes/hardware"])


@pytest.fixture
def fleet(hardware: dict[str, Sku]) -> Callable[..., Fleet]:
    def make(count: int, **faults: object) -> Fleet:
        return Fleet(hosts=tuple(f"gpu{n:02d}" for n in range(1, count + 1)), hardware=hardware, **faults)  # type: ignore[arg-type]

    return make
