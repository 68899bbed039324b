# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""All pod simulators; the first one that handles a pod simulates it."""

from __future__ import annotations

from . import (
    access_pods,
    aiperf_pods,
    alert_receiver_pods,
    claim_pods,
    dl_unit_pods,
    fio_pods,
    nccl_pods,
    node_facts_pods,
    rank_pods,
    training_pods,
    validator_pods,
    vllm_pods,
)
from .pod_simulator import Json, PodSimulator

SIMULATORS: tuple[PodSimulator, ...] = (
    nccl_pods.SIMULATOR,
    training_pods.SIMULATOR,
    dl_unit_pods.SIMULATOR,
    rank_pods.SIMULATOR,
    fio_pods.SIMULATOR,
    vllm_pods.SIMULATOR,
    aiperf_pods.SIMULATOR,
    alert_receiver_pods.SIMULATOR,
    access_pods.SIMULATOR,
    node_facts_pods.SIMULATOR,
    claim_pods.SIMULATOR,
    validator_pods.SIMULATOR,
)


def simulator_for(pod: Json) -> PodSimulator | None:
    """Return the simulator of a pod, None where no simulator handles its program."""
    return next((simulator for simulator in SIMULATORS if simulator.handles(pod)), None)
