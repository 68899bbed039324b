# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Somebody on a rehearsal cluster who has the roles of one gate and no other right, or all of them but one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from seeds import drawing
from waiting import eventually

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack import (
    observe_access,
    observe_dra,
    observe_platform,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack.access import Looked
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.rights import (
    CONTACT,
    LEVELS,
    choices_of,
    gate_permissions,
    needed_rights,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import ObserveContext
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.cluster import Cluster, ask_all
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.connection import Connection
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import (
    NAMESPACES,
    PODS,
    PRIORITY_CLASSES,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.permission import Permission
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.preflight.contact import denied_rights
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.rbac.app import (
    RbacSubject,
    bindings,
    put_objects,
    role_objects,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Outcome, Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import Site
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.namespace import HOLDING

Json = dict[str, Any]
# How many rights are taken away in turn, drawn by the seed of the tests; `all` takes each.
HOW_MANY = os.environ.get("GPUFLEET_RIGHTS", "1")


@dataclass(frozen=True)
class RoleUser:
    """Who may do just what one gate needs at one site, and what that is."""

    gate: str
    kubeconfig: str
    needed: tuple[Permission, ...]
    roles: tuple[Json, ...]
    site: Site
    recipe: Json | None

    @property
    def name(self) -> str:
        return f"acceptance-{self.gate}"

    @property
    def connections(self) -> dict[str, str]:
        """Connection options of a run that is this user."""
        return {"kubeconfig": self.kubeconfig, "impersonate_user": self.name}

    def bind(self) -> RoleUser:
        """Give the user the roles."""
        with Cluster(Connection(kubeconfig=self.kubeconfig)) as admin:
            subject = RbacSubject(kind="User", name=self.name)
            put_objects(admin, [*self.roles, *bindings(self.roles, subject)], dry_run=False)
        eventually(lambda: not self.denied(), what="the roles count")
        return self

    def denied(self) -> list[str]:
        """What of the needed rights the server refuses to this user."""
        with Cluster(Connection(**self.connections)) as cluster:
            return [asked.text for asked in ask_all(cluster, self.needed) if not asked.allowed]

    def drawn(self) -> list[Permission]:
        """The rights to take away."""
        if HOW_MANY == "all":
            return list(self.needed)
        return drawing(f"rights of {self.gate}").sample(self.needed, int(HOW_MANY))

    @contextmanager
    def without(self, right: Permission) -> Iterator[None]:
        """Take one right away while the block runs."""
        with Cluster(Connection(kubeconfig=self.kubeconfig)) as admin:
            put_objects(admin, [role_without(role, right) for role in self.roles], dry_run=False)
            try:
                eventually(lambda: self.denied() == [right.text], what="the smaller roles count")
                yield
            finally:
                put_objects(admin, self.roles, dry_run=False)
                eventually(lambda: not self.denied(), what="the roles count again")

    def refusals(self) -> list[str]:
        """What preflight of a run in which this user tests the gate says."""
        with Cluster(Connection(**self.connections)) as cluster:
            choices = choices_of(self.site, self.recipe)
            return [p.reason for p in denied_rights(cluster, needed_rights([self.gate], LEVELS[:2], choices))]

    def objects_left(self) -> list[str]:
        """What tests made and is there still; a namespace that is going away does not count."""
        with Cluster(Connection(kubeconfig=self.kubeconfig)) as admin:
            found = [
                item["metadata"]
                for kind in (NAMESPACES, PRIORITY_CLASSES, PODS)
                for item in admin.list_objects(kind, labels="gpufleet.io/purpose=test")
            ]
        return [entry["name"] for entry in found if not entry.get("deletionTimestamp")]


def role_user(gate: str, kubeconfig: str, site: Site, recipe: Json | None = None) -> RoleUser:
    """Return a user with the roles that role `rbac` makes for the gate, limited to what this site's choices need."""
    choices = choices_of(site, recipe)
    needed = tuple(dict.fromkeys(entry for level in LEVELS[:2] for entry in gate_permissions(gate, level, choices)))
    roles = tuple(role_objects([gate], LEVELS[1:2], choices))
    return RoleUser(gate, kubeconfig, needed, roles, site, recipe).bind()


def assert_refused_by_name(user: RoleUser, right: Permission, outcomes: tuple[Outcome, ...]) -> None:
    """Preflight names the missing right alone; a gate that is run all the same does not pass, and says which it is."""
    assert user.refusals() == [f"this user may not {right.text}."]
    told = [outcome for outcome in outcomes if outcome.status is not Status.PASSED and not outcome.blocked_by]
    # What preflight itself does, and making a Lease that is there already, the gate may do without.
    assert told or right in (*CONTACT, *HOLDING), right.text
    for outcome in told:
        words = " ".join((outcome.summary, outcome.hint))
        assert right.text in words or (right.verb in words and right.resource in words), (right.text, words)


def role_without(role: Json, right: Permission) -> Json:
    """Return a role without one right."""
    if role["metadata"].get("namespace", "") != right.namespace:
        return role
    smaller = deepcopy(role)
    resource = f"{right.resource}/{right.subresource}" if right.subresource else right.resource
    for rule in smaller.get("rules", ()):
        if rule["apiGroups"] == [right.group] and rule["resources"] == [resource]:
            rule["verbs"] = [verb for verb in rule["verbs"] if verb != right.verb]
    if "rules" in role:
        smaller["rules"] = [rule for rule in smaller["rules"] if rule["verbs"]]
    return smaller


def assert_looks_around(context: ObserveContext, nodes: int) -> None:
    """What gate gpu_stack sees of containers on every node and of what the cluster offers beside them."""
    assert len({device.device for device in observe_dra.observe(context).devices}) == 2
    access = observe_access.observe(context)
    assert "PodSecurity" in (access.host_path_refused or ""), "the API server itself refuses the path"
    assert [len(node.owner.uuids) if node.owner else 0 for node in access.nodes] == [8] * nodes
    assert all(node.plain == node.asking == Looked(done=True) for node in access.nodes) and not access.leftovers
    assert observe_platform.observe(context).claims == ()
