# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Preflight of the contact: whether the hosts and the API server respond, and whether this user may do what the gates
do."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ...check.phase_rights import phase_rights
from ...check.rights import LEVELS, choices_of, needed_rights
from ...clients.kube.cluster import Cluster, ask_all
from ...clients.kube.connection import connection_from
from ...clients.kube.identity import ClusterIdentity, cluster_identity, is_simulated
from ...clients.kube.objects import NODES
from ...clients.kube.permission import AskedPermission, Permission
from ...collect.snapshot import RIGHTS_OF
from ...component_stack.pins import document_pins
from ...component_stack.versions import kubernetes_lines, recorded_versions
from ...outcome.errors import BringupError, ProblemsError, UnavailableError
from ...run.controller import needs_api
from ...run.run import Run
from ...runtime.files import CLUSTER, write_atomic
from ...runtime.progress import Emit
from ...runtime.text import shell_word
from ...site.model import Site
from ...snapshot.measure import collectors_needed
from ...verdict.restart import inventories_of
from ..inventory.hosts import Inventory
from ..validation.site_images import site_images

# The first contact: no response is more often a wrong address than a server that restarts.
_PATIENCE_S = 15.0


def check_contact(run: Run, options: Mapping[str, Any], inventory: Inventory, emit: Emit) -> None:
    """Check that hosts and API server respond. Some unreachable hosts are data for the gates; all of them are a
    problem.

    Raises:
        ProblemsError: no host responds with the rights that the probes need, or the API server does not.
    """
    site = run.site
    problems: list[BringupError] = []
    if "nodes" in site.gates:
        problems += _check_hosts(site, inventory, emit, run.record.command)
    if needs_api(site):
        problems += _check_api(run, options, emit)
    if problems:
        raise ProblemsError("contact", tuple(problems))


def _check_hosts(site: Site, inventory: Inventory, emit: Emit, command: str) -> list[BringupError]:
    failing: dict[str, str] = {}
    for host in site.in_scope:
        found = inventory.contact(host.name) or {"reached": False, "reason": "was not asked"}
        if not (found.get("reached") and found.get("privileged")):
            failing[host.name] = str(found.get("reason") or "does not answer")
    for name, reason in list(failing.items())[:10]:
        emit(f"contact: {name}: {reason}")
    emit(f"contact: {len(site.in_scope) - len(failing)} of {len(site.in_scope)} hosts answer as root")
    if len(failing) < len(site.in_scope):
        return []
    name, reason = next(iter(failing.items()))
    text = f"none of {len(failing)} answers as root; {name}: {reason}."
    where = "".join(f" -i {shell_word(place)}" for place in inventories_of(command))
    return [UnavailableError("hosts", text, f"try: ansible {name}{where} -b -m raw -a 'id -u'")]


def _check_api(run: Run, options: Mapping[str, Any], emit: Emit) -> list[BringupError]:
    try:
        with Cluster(connection_from(options), patience_s=_PATIENCE_S) as cluster:
            version = cluster.version()
            emit(f"contact: API server answers with version {version}")
            _note_unsupported(run, options, version, emit)
            if denied := denied_rights(cluster, wanted_rights(run, options)):
                return denied
            simulated, identity = _simulated_nodes(cluster), _identity(cluster)
            observed = {
                "version": version,
                "uid": identity.uid,
                "simulated_nodes": len(simulated),
                "rehearsal": identity.rehearsal,
            }
            write_atomic(run.path / CLUSTER, json.dumps(observed) + "\n")
            if (simulated or identity.rehearsal) and not run.site.rehearsal:
                emit(_why_rehearsal(identity, simulated))
                run.mark_rehearsal()
    except BringupError as error:
        return [error]
    return []


def _note_unsupported(run: Run, options: Mapping[str, Any], version: str, emit: Emit) -> None:
    """Report, and note in the run, which charts do not support this Kubernetes, before they are installed.

    A rehearsal has the version of its own toolchain, which says nothing about that of the site.
    """
    if run.recipe is None or run.site.rehearsal:
        return
    lines = kubernetes_lines(document_pins(run.recipe), version, recorded_versions(options.get("recipe_data") or ()))
    for line in lines:
        emit(f"contact: {line}")
    if new := [line for line in lines if line not in run.record.notes]:
        run.save_record(replace(run.record, notes=(*run.record.notes, *new)))


def _simulated_nodes(cluster: Cluster) -> list[str]:
    """Return the nodes of the cluster that KWOK simulates: it manages those with its annotation (kwok.sigs.k8s.io).

    Raises:
        BringupError: the nodes cannot be listed, so it is unknown.
    """
    nodes = cluster.list_metadata(NODES)
    return [str(node["name"]) for node in nodes if is_simulated(node)]


def _identity(cluster: Cluster) -> ClusterIdentity:
    """Return the identity of this cluster; empty where this user may not read it."""
    try:
        return cluster_identity(cluster)
    except BringupError:
        return ClusterIdentity(uid="", rehearsal=False)


def _why_rehearsal(identity: ClusterIdentity, simulated: list[str]) -> str:
    if identity.rehearsal:
        return f"contact: REHEARSAL: the cluster {identity.uid} was started for a rehearsal (annotation of kube-system)"
    return f"contact: REHEARSAL: {len(simulated)} nodes are simulated (KWOK), {simulated[0]} for example"


def wanted_rights(run: Run, options: Mapping[str, Any]) -> dict[Permission, str]:
    """Return the rights that a run needs on the cluster, each with the role that has it.

    Raises:
        BringupError: a setting, or the catalogue of the site's validators, is wrong.
    """
    levels = LEVELS[:1] if run.record.check_mode else LEVELS
    choices = choices_of(run.site, run.recipe, run.hardware, run.settings)
    if not options.get("phases"):
        return needed_rights(run.site.gates, levels, choices)
    images, _notes = site_images(options.get("recipe_data") or ())
    collectors = RIGHTS_OF if images else collectors_needed(run.recipe)
    return phase_rights(options["phases"], levels, choices, collectors=collectors, images=images)


def denied_rights(cluster: Cluster, wanted: Mapping[Permission, str]) -> list[BringupError]:
    """Return the rights that this user does not have (SelfSubjectAccessReview).

    There is one problem for each reason that the server gives, with all its rights and the roles that have them.
    """
    roles, denied = {right.text: role for right, role in wanted.items()}, dict[str, list[AskedPermission]]()
    for requested in ask_all(cluster, tuple(wanted)):
        if not requested.allowed:
            denied.setdefault(requested.reason, []).append(requested)
    return [
        UnavailableError(
            "API server",
            f"this user may not {', '.join(right.text for right in rights)}{f' ({reason})' if reason else ''}.",
            _grant({right: roles[right.text] for right in rights}),
        )
        for reason, rights in denied.items()
    ]


def _grant(denied: Mapping[Permission, str]) -> str:
    """Return the commands that grant these rights."""
    everywhere = dict.fromkeys(role for right, role in denied.items() if role and not right.namespace)
    placed = dict.fromkeys((role, right.namespace) for right, role in denied.items() if role and right.namespace)
    lines = ["kubectl apply -f docs/rbac/roles.yaml"] if any(denied.values()) else []
    lines += [f"kubectl create clusterrolebinding {role} --clusterrole {role} --user NAME" for role in everywhere]
    lines += [f"kubectl create rolebinding {role} -n {place} --role {role} --user NAME" for role, place in placed]
    if not all(denied.values()):
        lines.append("give this user what `rules` of the site's validators give away (docs/validate.md)")
    return f"{'; '.join(lines)}; NAME is what `kubectl auth whoami` says (docs/rbac.md)"
