# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Whether the credentials of a run allow what its gates will do."""

from __future__ import annotations

from ..clients.kube.cluster import Cluster
from ..clients.kube.permission import AskedPermission, ask_all
from .facts import stack_facts


def asked_permissions(cluster: Cluster) -> tuple[AskedPermission, ...]:
    """Ask for everything that the gates do whether the credentials allow it."""
    wanted = stack_facts().permissions
    return ask_all(cluster, [permission for name in ("observe", "test") for permission in wanted[name]])
