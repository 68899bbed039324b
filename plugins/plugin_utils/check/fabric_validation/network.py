# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The gate's settings about the network of test pods. Later benchmark gates use them too."""

from __future__ import annotations

from ..benchmark.network import NetworkSettings
from ..spec import ObserveContext
from .settings import GATE, FabricValidationSettings


def network_settings(settings: FabricValidationSettings) -> NetworkSettings:
    """Return the part of the gate's settings that is about the network."""
    run = settings.run
    return NetworkSettings(
        hcas=run.hcas,
        rdma_resource=run.rdma_resource,
        rdma_count=run.rdma_count,
        rdma_prefixes=settings.rdma_resources,
        rdma_classes=settings.rdma_classes,
        annotations=run.annotations,
        env=run.env,
        privileged=run.privileged,
        host_network=run.host_network,
        beside=settings.beside_resources,
        pods=settings.pods,
    )


def site_network(context: ObserveContext) -> NetworkSettings:
    """Return the settings about the network of test pods.

    Raises:
        ProblemsError: everything that is wrong with the settings of gate fabric_validation.
    """
    return network_settings(context.settings_of(GATE, FabricValidationSettings))
