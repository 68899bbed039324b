# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a gate must be allowed to do, asked before it starts anything and all of it at once."""

from __future__ import annotations

from collections.abc import Iterable

from ..clients.kube.asked import ask_all
from ..clients.kube.cluster import Cluster
from ..clients.kube.errors import ForbiddenError
from ..clients.kube.kinds import PODS, RESOURCE_CLAIMS
from ..clients.kube.permission import Permission
from .job_words import JobKind
from .lease import NAMESPACE
from .namespace import GROUPS, MAKERS

# Whoever tests holds the cluster, and removes what dead runs left.
HOLDING = (
    Permission("list", "namespaces"),
    *(Permission(verb, "leases", "coordination.k8s.io", NAMESPACE) for verb in ("get", "create", "update")),
)
# A namespace of ours is emptied before it goes, whatever a run of then may have made in it.
CLEARING = (
    *(
        Permission(verb, kind.plural, kind.group)
        for kind in (*MAKERS, *GROUPS, RESOURCE_CLAIMS, PODS)
        for verb in ("list", "delete")
    ),
    # Finalizers whose controller does not run are taken off our own objects.
    *(Permission("patch", kind.plural, kind.group) for kind in (*GROUPS, RESOURCE_CLAIMS, PODS)),
)
# What every test in a namespace of its own does: make it, follow its pods, read their logs, remove it.
BASIC = (
    *HOLDING,
    *(Permission(verb, "namespaces") for verb in ("create", "delete")),
    *(Permission(verb, "priorityclasses", "scheduling.k8s.io") for verb in ("create", "delete")),
    *CLEARING,
    Permission("get", "pods", subresource="log"),
    *(Permission(verb, "nodes") for verb in ("get", "list")),
    Permission("list", "resourceslices", "resource.k8s.io"),
    Permission("list", "events"),
)
_ACCESS = (*(Permission(verb, "services") for verb in ("list", "create")), Permission("create", "secrets"))


def job_permissions(
    kind: JobKind, *, gang_api: str = "", by_dra: bool = False, imex: bool = False, files: bool = False
) -> tuple[Permission, ...]:
    """Return what jobs of a kind need beside BASIC.

    Args:
        kind: of the jobs.
        gang_api: API version of the PodGroups of their gangs (`scheduling.volcano.sh/v1beta1`); empty for none.
        by_dra: their GPUs are taken by resource claims.
        imex: they share GPU memory across hosts, by ComputeDomains.
        files: their pods get files, as those of a `torchrun` and of `ranks` always do.
    """
    owner, group = ("mpijobs", "kubeflow.org") if kind == "mpijob" else ("jobs", "batch")
    wanted = [Permission(verb, owner, group) for verb in ("create", "delete")]
    wanted.append(Permission("watch", "pods"))
    if kind in ("gang-job", "torchrun", "ranks"):
        wanted += _ACCESS
    if files or kind in ("torchrun", "ranks"):
        wanted += [Permission(verb, "configmaps") for verb in ("create", "delete")]
    if gang_api and kind != "mpijob":
        wanted.append(Permission("create", "podgroups", gang_api.partition("/")[0]))
    if by_dra:
        wanted.append(Permission("create", "resourceclaimtemplates", "resource.k8s.io"))
        wanted.append(Permission("get", "deviceclasses", "resource.k8s.io"))
    if imex:
        wanted += [Permission(verb, "computedomains", "resource.nvidia.com") for verb in ("list", "create")]
    return tuple(wanted)


def refuse_without(cluster: Cluster, wanted: Iterable[Permission], gate: str) -> None:
    """Return if everything is allowed.

    Raises:
        ForbiddenError: something is not; it names all of it.
        BringupError: the API server does not answer.
    """
    refused = [permission for permission in ask_all(cluster, list(wanted)) if not permission.allowed]
    if refused:
        words = ", ".join(permission.text for permission in refused)
        raise ForbiddenError(f"gate {gate}", f"not allowed: {words}.", f"grant it, see docs/{gate}.md")
