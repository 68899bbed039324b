# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which ranks are slow, and whether they fail: those that differ by less than a measurement does have one status."""

from __future__ import annotations

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.kit.settings_layers import checked_settings
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.training_acceptance.analysis import (
    find_slow,
    find_slow_data,
    slow_hosts,
)
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


def test_a_host_whose_gpus_lie_on_both_sides_of_the_limit_is_slow_as_a_whole() -> None:
    around = {f"gpu03/gpu{gpu}": 0.945 + 0.001 * gpu for gpu in range(8)}
    found = find_slow({**WELL, **around}, JUDGE)
    assert found.peers.suspects and set(found.peers.suspects) < around.keys()
    assert (found.nodes, found.gpus) == (("gpu03",), ())
    # Three of eight are three GPUs, and one beyond the noise is none.
    few = {f"gpu03/gpu{gpu}": 0.945 if gpu < 3 else 0.96 for gpu in range(8)}
    assert find_slow({**WELL, **few}, JUDGE).gpus == ("gpu03/gpu0", "gpu03/gpu1", "gpu03/gpu2")


def test_hosts_on_both_sides_of_the_limit_are_alike() -> None:
    parts = {"gpu00": 0.944, "gpu01": 0.947, "gpu02": 0.953, "gpu03": 0.97}
    rates = {gpu: parts.get(gpu.partition("/")[0], 1.0) for gpu in WELL}
    assert slow_hosts(find_slow(rates, JUDGE), rates) == (("gpu00", "gpu01"), {"gpu00", "gpu01", "gpu02"})


def test_hosts_that_are_late_alike_with_their_data_have_one_status() -> None:
    late = {"gpu02": 0.123, "gpu05": 0.118, "gpu07": 0.09}
    found = find_slow_data({f"gpu{host:02d}": late.get(f"gpu{host:02d}", 0.02) for host in range(8)}, 1.0, JUDGE)
    assert set(found.slow) == late.keys()
    assert found.bad == {"gpu02", "gpu05"}
