# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Roles with exactly the rights that the gates need, as API objects; docs/rbac/roles.yaml and module rbac use them.

There is one ClusterRole for each gate and level, and a Role of the same name for rights in a single namespace. A level
includes the levels before it, so one role for a gate is enough.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from ...check.rights import LEVELS, Choices, gate_permissions, role_name
from ...clients.kube.cluster import Cluster
from ...clients.kube.objects import NAMESPACES, SERVICE_ACCOUNTS, Kind
from ...clients.kube.permission import Permission
from ...collect.snapshot import RIGHTS
from ...component_stack.facts import stack_facts
from ...workload.namespace import BASIC, job_permissions
from ...workload.node_pods import RIGHTS as POD_RIGHTS
from ..continuous.free_nodes import RIGHTS as FREE_RIGHTS
from ..waves.kubernetes import NODE_RIGHTS as WAVE_RIGHTS
from ..waves.kubernetes import UPGRADE_RIGHTS

Json = dict[str, Any]
_GROUP = "rbac.authorization.k8s.io"
_API = f"{_GROUP}/v1"
CLUSTER_ROLES = Kind(_API, "ClusterRole", "clusterroles", namespaced=False)
ROLES = Kind(_API, "Role", "roles")
CLUSTER_ROLE_BINDINGS = Kind(_API, "ClusterRoleBinding", "clusterrolebindings", namespaced=False)
ROLE_BINDINGS = Kind(_API, "RoleBinding", "rolebindings")
_BINDINGS = {CLUSTER_ROLES.kind: CLUSTER_ROLE_BINDINGS, ROLES.kind: ROLE_BINDINGS}
KINDS = {
    kind.kind: kind
    for kind in (NAMESPACES, SERVICE_ACCOUNTS, CLUSTER_ROLES, ROLES, CLUSTER_ROLE_BINDINGS, ROLE_BINDINGS)
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RbacSubject:
    """Who gets the roles: a User, a Group, or a ServiceAccount of a namespace."""

    kind: str
    name: str
    namespace: str = ""

    def as_object(self) -> Json:
        """Return the subject in the form of a binding."""
        if self.kind == SERVICE_ACCOUNTS.kind:
            return {"kind": self.kind, "name": self.name, "namespace": self.namespace}
        return {"apiGroup": _GROUP, "kind": self.kind, "name": self.name}


def role_objects(gates: Iterable[str], levels: Iterable[str], choices: Choices) -> list[Json]:
    """Return the roles of those gates, with the namespaces that they are in.

    Args:
        gates: gate ids; one without a cluster has none.
        levels: of `observe`, `test`, `install`.
        choices: the facts of the site that decide what its gates need.
    """
    wanted = tuple(levels)
    roles = [role for gate in gates for level in LEVELS if level in wanted for role in _roles(gate, level, choices)]
    places = dict.fromkeys(role["metadata"].get("namespace", "") for role in roles)
    spaces = [{"apiVersion": "v1", "kind": NAMESPACES.kind, "metadata": {"name": place}} for place in places if place]
    return [*spaces, *roles]


def snapshot_role() -> Json:
    """Return the role to take a snapshot. The right to write it into a ConfigMap is left to the site."""
    return _role("snapshot", "observe", "", _rules(RIGHTS))


def snapshot_pod_roles() -> list[Json]:
    """Return the roles to take a snapshot, and to read nodes by pods for it."""
    return _in_places("snapshot", "pods", (*RIGHTS, *POD_RIGHTS))


def validator_roles() -> list[Json]:
    """Return the roles to run the site's validator images, without the rights of the images themselves."""
    from ...check.validators.observe import RIGHTS as VALIDATING

    return _in_places("validators", "test", VALIDATING)


def _in_places(subject: str, level: str, wanted: Collection[Permission]) -> list[Json]:
    """Return one role for the cluster, and one for each namespace with separate rights."""
    places = sorted({entry.namespace for entry in wanted})
    return [_role(subject, level, place, _rules(e for e in wanted if e.namespace == place)) for place in places]


def wave_role() -> Json:
    """Return the role to roll a change over the nodes; no gate has these rights."""
    return _role("waves", "install", "", _rules((*WAVE_RIGHTS, *UPGRADE_RIGHTS)))


def continuous_role() -> Json:
    """Return the role to find the nodes that are free for tests."""
    return _role("continuous", "observe", "", _rules(FREE_RIGHTS))


def continuous_test_roles() -> list[Json]:
    """Return the roles to test free nodes, without the rights for a site's policy about nodes."""
    jobs = [job_permissions(kind, by_dra=True, files=True) for kind in ("plain-job", "gang-job")]
    # Tests of two nodes, by whichever gang API the cluster has.
    apis = [gang.api_version for gang in stack_facts().gangs.values()]
    jobs += [job_permissions("gang-job", gang_api=api, imex=True) for api in apis]
    wanted = dict.fromkeys((*FREE_RIGHTS, *BASIC, *(permission for kind in jobs for permission in kind)))
    return _in_places("continuous", "test", tuple(wanted))


def policy_role() -> Json:
    """Return the role to label, taint and cordon nodes that continuous validation finds bad."""
    from ..remediation.app import RIGHTS as POLICY_RIGHTS

    return _role("continuous", "install", "", _rules(POLICY_RIGHTS))


def bindings(roles: Iterable[Json], subject: RbacSubject) -> list[Json]:
    """Return the bindings of roles to a subject: one object for each role, named after both."""
    found = []
    for role in roles:
        kind = _BINDINGS.get(role["kind"])
        if kind is not None:
            metadata = {**role["metadata"], "name": f"{role['metadata']['name']}:{subject.name}"}
            reference = {"apiGroup": _GROUP, "kind": role["kind"], "name": role["metadata"]["name"]}
            body = {"apiVersion": _API, "kind": kind.kind, "metadata": metadata, "roleRef": reference}
            found.append({**body, "subjects": [subject.as_object()]})
    return found


def _roles(gate: str, level: str, choices: Choices) -> list[Json]:
    if not gate_permissions(gate, level, choices):
        return []
    if level == "install":
        # What charts contain differs by chart and version, and a role may be created only by a user who has all of its
        # rights.
        everything = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
        addresses = {"nonResourceURLs": ["*"], "verbs": ["*"]}
        return [_role(gate, level, "", [everything, addresses])]
    before = LEVELS[: LEVELS.index(level) + 1]
    wanted = [entry for one in before for entry in gate_permissions(gate, one, choices)]
    places = dict.fromkeys(entry.namespace for entry in wanted)
    return [_role(gate, level, place, _rules(e for e in wanted if e.namespace == place)) for place in sorted(places)]


def _role(gate: str, level: str, namespace: str, rules: list[Json]) -> Json:
    place = {"namespace": namespace} if namespace else {}
    labels = {"gpufleet.io/gate": gate, "gpufleet.io/level": level}
    metadata = {"name": role_name(gate, level), **place, "labels": labels}
    kind = ROLES if namespace else CLUSTER_ROLES
    return {"apiVersion": _API, "kind": kind.kind, "metadata": metadata, "rules": rules}


def _rules(wanted: Iterable[Permission]) -> list[Json]:
    verbs: dict[tuple[str, str], list[str]] = {}
    for entry in wanted:
        resource = f"{entry.resource}/{entry.subresource}" if entry.subresource else entry.resource
        verbs.setdefault((entry.group, resource), []).append(entry.verb)
    return [
        {"apiGroups": [group], "resources": [resource], "verbs": sorted(set(found))}
        for (group, resource), found in sorted(verbs.items())
    ]


def subject_objects(subject: RbacSubject) -> list[Json]:
    """Return the service account with its namespace; users and groups are no objects."""
    if subject.kind != SERVICE_ACCOUNTS.kind:
        return []
    space = {"apiVersion": "v1", "kind": NAMESPACES.kind, "metadata": {"name": subject.namespace}}
    metadata = {"name": subject.name, "namespace": subject.namespace}
    return [space, {"apiVersion": "v1", "kind": SERVICE_ACCOUNTS.kind, "metadata": metadata}]


def put_objects(cluster: Cluster, objects: Iterable[Json], *, dry_run: bool) -> tuple[bool, list[str]]:
    """Apply these objects to the cluster, and return whether something changed and how messages name them.

    Raises:
        BringupError: the server refuses one; who grants a role must have its rights.
    """
    changed, titles = False, list[str]()
    for body in objects:
        kind, name, place = KINDS[body["kind"]], body["metadata"]["name"], body["metadata"].get("namespace", "")
        titles.append(_title(body))
        live = cluster.find(kind, name, place)
        if live is None and dry_run:
            # Its namespace may be missing as well in a dry run.
            changed = True
        elif kind is not NAMESPACES or live is None:
            done = cluster.apply(kind, body, place, dry_run=dry_run, force=True)
            changed |= live is None or any(done.get(key) != live.get(key) for key in ("rules", "roleRef", "subjects"))
    return changed, list(dict.fromkeys(titles))


def remove_objects(cluster: Cluster, objects: Iterable[Json], *, dry_run: bool) -> tuple[bool, list[str]]:
    """Remove roles and bindings, and return whether there was one and how messages name them.

    Raises:
        BringupError: the server refuses it.
    """
    found = []
    for body in reversed(list(objects)):
        kind, name, place = KINDS[body["kind"]], body["metadata"]["name"], body["metadata"].get("namespace", "")
        if kind in (NAMESPACES, SERVICE_ACCOUNTS) or cluster.find(kind, name, place) is None:
            continue
        found.append(_title(body))
        if not dry_run:
            cluster.delete(kind, name, place)
    return bool(found), found


def _title(body: Json) -> str:
    place = body["metadata"].get("namespace")
    return (
        f"{body['kind']} {place}/{body['metadata']['name']}" if place else f"{body['kind']} {body['metadata']['name']}"
    )
