# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Takes a snapshot as a user asks for it: the cluster, its Helm releases with their owners, the hosts of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..clients.helm.helm import Helm
from ..clients.kube.cluster import Cluster
from ..clients.kube.connection import Connection
from ..collect.snapshot_cluster import LIMIT_S, Collection, Look, collect_cluster, run_collector
from ..collect.snapshot_hosts import READINGS, all_hosts, hosts_of, result_of
from ..collect.snapshot_place import read_snapshot
from ..collect.snapshot_rights import OWNERS
from ..collect.tool_reading import NOT_RUN
from ..component_stack.owners import release_owner
from ..component_stack.read import installed
from ..outcome.errors import BringupError, UnavailableError
from ..outcome.wording import first_of
from ..snapshot.gpus import gpu_count, has_gpus
from ..snapshot.model import Collected, CollectorResult, Release, Snapshot
from ..workload.tolerations import tolerations_with
from .snapshot_pods import OverSsh, PodsAsked, with_pods
from .version import COLLECTION, collection_version

_GATE_NODES = "ansible-playbook gpufleet.bringup.site -i INVENTORY -e gpufleet_gates=nodes"


def take_snapshot(
    connection: Connection,
    *,
    helm: str,
    run_dir: Path | None,
    limit_s: float = LIMIT_S,
    only: frozenset[str] | None = None,
    pods: PodsAsked | None = None,
) -> Snapshot:
    """Return the snapshot of a cluster now.

    Args:
        connection: the cluster.
        helm: the program, for the releases.
        run_dir: a run whose gate nodes read the hosts; without one they are not part of it.
        limit_s: seconds a collector may take.
        only: the collectors that are asked; None for all.
        pods: which nodes are asked by pods; None for none.

    Raises:
        BringupError: no collector got an answer.
    """
    more, over_ssh = [], _over_ssh(run_dir)
    with Cluster(connection, request_timeout_s=limit_s, patience_s=limit_s) as cluster:
        snapshot = collect_cluster(cluster, f"{COLLECTION} {collection_version()}", limit_s, only)
        if only is None or "releases" in only:
            client = Helm(connection, binary=helm, timeout_s=limit_s)
            more.append(run_collector("releases", lambda look: _releases(look, client), cluster, limit_s))
        more.append(_hosts(over_ssh) if pods is None else with_pods(cluster, snapshot, over_ssh, pods))
    if over_ssh.rehearsal:
        # Hosts that are simulated make the whole a rehearsal, whatever the cluster is.
        snapshot = replace(snapshot, rehearsal=True)
    for found in more:
        snapshot = replace(snapshot, collectors={**snapshot.collectors, found.name: found.result}, **found.parts)
    return snapshot


def snapshot_asked_for(
    connection: Connection, place: str, options: Mapping[str, Any], *, check_mode: bool = False
) -> Snapshot:
    """Return the snapshot at a place, or one that is taken now where none is named.

    Args:
        connection: the cluster, which is also asked for a snapshot in a ConfigMap.
        place: file, address or ConfigMap; empty for now.
        options: those of the modules that take snapshots (doc_fragments/snapshot.py).
        check_mode: makes no pods.

    Raises:
        BringupError: it cannot be read, or no collector got an answer.
    """
    if place:
        return read_snapshot(place, lambda: Cluster(connection))
    run_dir = Path(options["run_dir"]).expanduser() if options["run_dir"] else None
    limit_s, wanted = float(options["timeout_s"]), options["node_pods"]
    pods = PodsAsked(
        everywhere=wanted == "all",
        image=options["node_image"],
        runtime_class=options["runtime_class"],
        tolerations=tolerations_with(options["node_tolerations"], "node_tolerations"),
        limit_s=limit_s,
    )
    return take_snapshot(
        connection,
        helm=options["helm"],
        run_dir=run_dir,
        limit_s=limit_s,
        pods=pods if wanted != "none" and not check_mode else None,
    )


def _releases(look: Look, helm: Helm) -> dict[str, Any]:
    found = installed(helm, look.cluster)
    owners: dict[str, str] = {}
    for kind in OWNERS:
        for release, owner in look.all_of(kind, release_owner) or ():
            if owner:
                owners.setdefault(release, owner)
    return {
        "releases": {
            key: Release(
                chart=release.chart,
                version=release.chart_version,
                status=release.status,
                owner=COLLECTION if found.is_ours(key) else owners.get(key, ""),
            )
            for key, release in sorted(found.releases.items())
        }
    }


def _over_ssh(run_dir: Path | None) -> OverSsh:
    if run_dir is None:
        return OverSsh()
    # Most snapshots are taken outside of a run.
    from ..collect.host_facts import load_hosts
    from .run import Run

    try:
        site = Run(run_dir).site
        found, missing = hosts_of(load_hosts(run_dir, site, READINGS))
    except BringupError as error:
        reason = f"{error.subject}: {error.reason}".rstrip(".")
        return OverSsh(failed=CollectorResult(state=Collected.FAILED, reason=reason, hint=error.hint))
    names = {host.node_name: host.name for host in site.hosts}
    told = f"of run {run_dir.resolve().name}"
    return OverSsh(hosts=found, missing=missing, names=names, told=told, rehearsal=site.rehearsal)


def _hosts(over_ssh: OverSsh) -> Collection:
    """Return what a run knows of hosts, where no node is asked by a pod."""
    parts = {"hosts": all_hosts(over_ssh.hosts, over_ssh.missing)}
    if over_ssh.failed is not None:
        return Collection(name="hosts", parts={}, result=over_ssh.failed)
    if not over_ssh.told:
        reason = "no run was named whose gate nodes read the hosts, and no pods were asked for"
        return Collection(name="hosts", parts={}, result=CollectorResult(state=Collected.NOT_ASKED, reason=reason))
    hint = "run gate nodes again and take the snapshot of that run, or ask these nodes by pods (node_pods)"
    result = result_of(over_ssh.hosts, over_ssh.missing, hint)
    return Collection(name="hosts", parts=parts, result=replace(result, reason=f"{result.reason}; {over_ssh.told}"))


def summary(snapshot: Snapshot) -> dict[str, Any]:
    """Return a snapshot in short."""
    return {
        "taken": snapshot.taken,
        "made_by": snapshot.made_by,
        "cluster_uid": snapshot.cluster_uid,
        "rehearsal": snapshot.of_rehearsal,
        "server_version": snapshot.server.version,
        "providers": sorted({node.provider for node in snapshot.nodes.values() if node.provider}),
        "nodes": len(snapshot.nodes),
        "gpu_nodes": sum(has_gpus(node) for node in snapshot.nodes.values()),
        "gpus": sum(gpu_count(node) for node in snapshot.nodes.values()),
        "hosts": sum(not host.not_read for host in snapshot.hosts.values()),
        "hosts_not_read": sum(bool(host.not_read) for host in snapshot.hosts.values()),
        "failed": sorted(snapshot.failed),
        "workloads": len(snapshot.workloads),
        "releases": {key: release.version for key, release in snapshot.releases.items()},
    }


def not_complete(snapshot: Snapshot) -> UnavailableError:
    """Return the error of a snapshot of which a collector failed: kept as accepted, it would let any drift through."""
    parts = [f"{name} ({found.reason})" for name, found in sorted(snapshot.failed.items())]
    fixes = [found.hint for found in snapshot.failed.values() if found.hint]
    hint = "; ".join([*dict.fromkeys(fixes), "or keep it without them: -e gpufleet_snapshot_incomplete=true"])
    return UnavailableError(
        "snapshot", f"is not complete, and was not written: no answer for {'; '.join(parts)}.", hint
    )


def unseen(snapshot: Snapshot) -> list[str]:
    """Return one line for each collector that failed, one for hosts that were not read, and one for what the run of
    the hosts did not ask them, with the fix."""
    lines = [
        f"collector {name} failed: {found.reason}. Fix: {found.hint or 'see the reason'}"
        for name, found in sorted(snapshot.failed.items())
    ]
    lost = [f"{name} ({host.not_read})" for name, host in sorted(snapshot.hosts.items()) if host.not_read]
    if lost:
        fix = snapshot.collectors["hosts"].hint
        lines.append(f"{len(lost)} host(s) not read: {first_of(lost, 8, '; ')}. Fix: {fix}")
    not_run = {
        name: facts
        for name, host in sorted(snapshot.hosts.items())
        if (facts := {fact for fact, why in host.unread.items() if why == NOT_RUN})
    }
    if not_run:
        names, lacking = first_of(tuple(not_run), 8), ", ".join(sorted(set[str]().union(*not_run.values())))
        lines.append(
            f"the run of {len(not_run)} host(s) ({names}) did not ask them for {lacking}: these are not in the "
            f"snapshot. Fix: take it of a run of gate nodes: {_GATE_NODES}, then this again with "
            "-e gpufleet_run=.run/latest"
        )
    return lines
