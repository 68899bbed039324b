# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Where tests of nodes run: a namespace of their own, once the rights that they need are there."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager

from ..check.kit.tolerations import cluster_queue_of, tolerations_of
from ..check.node_tests.settings import CONTINUOUS, ContinuousSettings
from ..check.node_tests.spec import NodeTest
from ..check.spec import ObserveContext
from ..clients.kube.cluster import Cluster
from ..component_stack.facts import stack_facts
from ..workload.jobs import job_namespace
from ..workload.namespace import BASIC, TemporaryNamespace, refuse_without
from ..workload.nodes import Toleration
from ..workload.queue import PERMISSIONS as QUEUED


def node_test_namespace(
    cluster: Cluster,
    context: ObserveContext,
    tests: Sequence[NodeTest],
    *,
    name: str,
    asked_by: str,
    tolerated: tuple[Toleration, ...] = (),
) -> AbstractContextManager[TemporaryNamespace]:
    """Return the namespace for these tests; what is in it is removed on every way out.

    Args:
        cluster: where.
        context: of the run that holds the cluster.
        tests: what will run there.
        name: a part of its name.
        asked_by: who needs the rights, for the message that names what is missing.
        tolerated: taints beside those that the site tolerates.

    Raises:
        ForbiddenError: the user may not do what the tests need.
        BringupError: the API server does not answer.
    """
    queue, pods = cluster_queue_of(context), stack_facts().test_pods
    wanted = dict.fromkeys(permission for test in tests for permission in test.permissions())
    refuse_without(cluster, (*BASIC, *wanted, *(QUEUED if queue else ())), asked_by)
    return job_namespace(
        cluster, name, prefix=pods.namespace_prefix, priority=pods.priority, emit=context.emit,
        cleanup_s=context.settings_of(CONTINUOUS, ContinuousSettings).cleanup_s,
        tolerations=(*tolerations_of(context), *tolerated), holder=context.holder, cluster_queue=queue,
    )  # fmt: skip
