# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The gate's settings about the network of test pods; later benchmark gates use them too."""

from __future__ import annotations

from ...site.model import Site
from ..benchmark.network import NetworkSettings
from .rules import GATE, Rules, load_rules


def network_settings(rules: Rules) -> NetworkSettings:
    """Return the part of the gate's settings that is about the network."""
    run = rules.run
    return NetworkSettings(
        hcas=run.hcas, rdma_resource=run.rdma_resource, rdma_count=run.rdma_count, rdma_prefixes=rules.rdma_resources,
        annotations=run.annotations, env=run.env,
    )  # fmt: skip


def site_network(site: Site) -> NetworkSettings:
    """Return what the site states about the network of test pods.

    Raises:
        InputError: an unknown setting, or a value of the wrong kind.
    """
    return network_settings(load_rules(site.settings.get(GATE, {})))
