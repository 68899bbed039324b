# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Whether pods of tests may be placed on a node."""

from __future__ import annotations

from collections.abc import Iterable

from ..clients.kube.taints import taint_of
from ..snapshot.node import Node
from .tolerations import Toleration, known_tolerations, repelling


def closed(
    node: Node, tolerations: Iterable[Toleration] | None = None, not_ready: str = "", *, ours: bool = False
) -> str:
    """Return why no pod of a test is placed on a node, empty if one may be.

    Args:
        node: which.
        tolerations: of the pods; None: the taints of platforms.
        not_ready: what the node says where it is not Ready.
        ours: it is cordoned by the roll that tests it, whose pods tolerate that (own_cordon.CORDON).
    """
    if node.unschedulable and not ours:
        return "cordoned"
    if node.ready != "True":
        return f"not Ready ({not_ready})" if not_ready else "not Ready"
    taints = repelling(map(taint_of, node.taints), known_tolerations() if tolerations is None else tolerations)
    return f"taint {', '.join(taints)}" if taints else ""
