# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which permissions the credentials have, as the API server answers it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...runtime.pool import map_bounded

if TYPE_CHECKING:
    from .cluster import Cluster
    from .permission import AskedPermission, Permission

_AT_ONCE = 8


def ask_all(cluster: Cluster, wanted: Sequence[Permission]) -> tuple[AskedPermission, ...]:
    """Ask the server about every permission (SelfSubjectAccessReview).

    Raises:
        BringupError: the API server does not answer.
    """
    return tuple(map_bounded(cluster.can_i, list(wanted), _AT_ONCE))
