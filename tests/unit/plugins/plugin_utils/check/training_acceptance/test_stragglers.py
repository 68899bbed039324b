# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which ranks are slow, and whether they fail: those that differ by less than a measurement does have one status."""

from __future__ import annotations

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.kit.settings_layers import checked_settings
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.training_acceptance.analysis import find_slow
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.training_acceptance.settings import (
    TrainingSettings,
)

JUDGE = checked_settings(TrainingSettings, "training_acceptance", {}).judge
WELL = {f"gpu{host:02d}/gpu{gpu}": 1.0 for host in range(16) for gpu in range(8)}


def test_gpus_that_are_slow_alike_have_one_status() -> None:
    """The limit of 0.9 lay between GPUs of other hosts that differ by half a percent (T114)."""
    slow = {"gpu02/gpu3": 0.895, "gpu05/gpu1": 0.9, "gpu09/gpu2": 0.903}
    found = find_slow({**WELL, **slow}, JUDGE)
    assert set(found.gpus) == slow.keys() == found.bad


def test_a_gpu_beyond_the_noise_of_the_worst_is_marginal_still() -> None:
    found = find_slow({**WELL, "gpu02/gpu3": 0.85, "gpu05/gpu1": 0.92}, JUDGE)
    assert set(found.gpus) == {"gpu02/gpu3", "gpu05/gpu1"}
    assert found.bad == {"gpu02/gpu3"}
