# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which cluster it is."""

from __future__ import annotations

from .cluster import Cluster
from .kinds import NAMESPACES


def cluster_uid(cluster: Cluster) -> str:
    """Return what tells a cluster from every other: the UID of its namespace kube-system, which lives as long as it
    does.

    Raises:
        BringupError: this user may not read it, or the server does not answer.
    """
    found = cluster.get(NAMESPACES, "kube-system")
    return str((found.get("metadata") or {}).get("uid") or "")
