# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Words of the measures that tell which way the data of a benchmark between hosts went, as its log proves it."""

from __future__ import annotations

BETWEEN_HOSTS = "between hosts"
# What carried the data there: adapters with RDMA, plain TCP, NVLink of one domain, or no single one of these.
NETWORK, SOCKETS, NVLINK, MIXED = "network", "sockets", "NVLink", "more than one"
NOT_SHOWN = "not shown"
NVLS, USED = "NVLS", "used"
