# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Names of the measures that report which path the data of a benchmark between hosts took, as its log proves."""

from __future__ import annotations

BETWEEN_HOSTS = "between hosts"
# The transport of that data: adapters with RDMA, plain TCP, NVLink of one domain, or several of these.
NETWORK, SOCKETS, NVLINK, MIXED = "network", "sockets", "NVLink", "more than one"
NOT_SHOWN = "not shown"
NVLS, USED = "NVLS", "used"
