# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a gate must be allowed to do is asked before it starts anything, all of it at once."""

from __future__ import annotations

from collections.abc import Sequence

from ..clients.kube.cluster import Cluster, Permission
from ..clients.kube.errors import ForbiddenError

# What every test in a namespace of its own does: the namespace, what its jobs are made of, their logs, their removal.
SPACE = (
    *(Permission(verb, "namespaces") for verb in ("list", "create", "delete")),
    *(Permission(verb, "priorityclasses", "scheduling.k8s.io") for verb in ("create", "delete")),
    *(Permission(verb, "pods") for verb in ("list", "delete")),
    Permission("get", "pods", subresource="log"),
    Permission("list", "nodes"),
    Permission("list", "events"),
)
# What pods that reach each other need beside that.
GANG = (
    *(Permission(verb, "jobs", "batch") for verb in ("create", "delete")),
    *(Permission(verb, "services") for verb in ("list", "create")),
    Permission("create", "secrets"),
    Permission("create", "configmaps"),
)


def refuse_without(cluster: Cluster, wanted: Sequence[Permission], gate: str) -> None:
    """Return if everything is allowed.

    Raises:
        ForbiddenError: something is not; it names all of it.
        BringupError: the API server does not answer.
    """
    refused = [permission for permission in wanted if not cluster.can_i(permission)[0]]
    if refused:
        words = ", ".join(f"{one.verb} {_resource(one)}" for one in refused)
        raise ForbiddenError(f"gate {gate}", f"not allowed: {words}.", f"grant it, see docs/{gate}.md")


def _resource(permission: Permission) -> str:
    name = "/".join(part for part in (permission.resource, permission.subresource) if part)
    return f"{name}.{permission.group}" if permission.group else name
