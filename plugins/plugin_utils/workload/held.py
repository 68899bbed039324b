# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A job that its queue did not admit, or that is held without one: who holds it, in place of what follows from having
no pods."""

from __future__ import annotations

from typing import Any

from ..clients.kube.errors import RefusedError
from .follow import Ending, ObservedJob
from .kueue import why_held
from .namespace import TemporaryNamespace
from .pending import suspended


def create_unheld(namespace: TemporaryNamespace, objects: list[dict[str, Any]]) -> None:
    """Create objects in the namespace of a test, in that order.

    Raises:
        RefusedError: the API server refuses one, or suspends one that goes through no queue, so that it makes no pods.
        BringupError: the API server does not answer.
    """
    for made in namespace.create(objects):
        if not namespace.cluster_queue and (why := suspended(made)):
            raise RefusedError(namespace.name, why)


def explained(namespace: TemporaryNamespace, job: str, seen: ObservedJob, ending: Ending) -> Ending:
    """Return how a job ended, as `held` where its queue keeps it from having pods.

    Raises:
        BringupError: the API server does not answer.
    """
    if not namespace.cluster_queue or ending.state != "refused" or seen.pods or seen.refusals:
        return ending
    why = why_held(namespace.cluster, namespace.name, job)
    said = why or (
        "Kueue says nothing of it; does its managedJobsNamespaceSelector leave out namespaces of tests, does "
        "kueue-controller-manager run?"
    )
    return Ending("held", f"ClusterQueue {namespace.cluster_queue} did not admit it: {said}")
