# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Takes the snapshot that a user requests: the cluster, its Helm releases with their owners, the hosts of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ...clients.helm.helm import Helm
from ...clients.kube.cluster import Cluster
from ...clients.kube.connection import Connection
from ...collect.node_pod import is_whole, node_facts, node_script
from ...collect.provider_dumps import provider_readings
from ...collect.snapshot import (
    LIMIT_S,
    OWNERS,
    READINGS,
    Collection,
    Look,
    all_hosts,
    collect_cluster,
    host_from_pod,
    hosts_of,
    result_of,
    run_collector,
)
from ...collect.snapshot_place import read_snapshot
from ...collect.tool_reading import NOT_RUN
from ...component_stack.facts import stack_facts
from ...component_stack.owners import release_owner
from ...component_stack.read import installed
from ...outcome.errors import BringupError, UnavailableError
from ...outcome.wording import count, first_of
from ...run.version import COLLECTION, collection_version
from ...snapshot.model import Collected, CollectorResult, Host, Node, Release, Snapshot, gpu_count, gpu_nodes, has_gpus
from ...workload.node_pods import NodePods, Printed, run_on_nodes
from ...workload.nodes import Toleration, known_tolerations, tolerations_with

# Hosts of a snapshot on nodes without SSH access: each is read by a pod on it.

# For the start and end of the container.
_AROUND_S = 10.0
_HINT = "see why, and take the snapshot again: what a pod there needs is in docs/snapshot.md"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedPods:
    """The nodes that pods read: those with GPUs, or `everywhere`.

    `image` and `runtime_class` are those of the pods, empty for the release's image and the cluster's default runtime;
    `tolerations` are those of the pods.
    """

    everywhere: bool = False
    image: str = ""
    runtime_class: str = ""
    tolerations: tuple[Toleration, ...] = field(default_factory=known_tolerations)
    limit_s: float = 30.0
    start_s: float = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class OverSsh:
    """The hosts that a run read, why it did not read others, and inventory names by the names in the cluster.

    `failed` is why no host is known, `told` the source, `rehearsal` whether the hosts are simulated.
    """

    hosts: Mapping[str, Host] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    failed: CollectorResult | None = None
    told: str = ""
    rehearsal: bool = False


def with_pods(cluster: Cluster, snapshot: Snapshot, over_ssh: OverSsh, requested: RequestedPods) -> Collection:
    """Return the hosts that were read over SSH, together with those that pods read.

    Args:
        cluster: the cluster.
        snapshot: the snapshot whose nodes are read.
        over_ssh: the hosts that are known already.
        requested: which nodes, and how.
    """
    read, names = dict(over_ssh.hosts), over_ssh.names
    if over_ssh.failed is not None:
        return _failed(read, over_ssh.failed.reason, over_ssh.failed.hint)
    wanted = snapshot.nodes if requested.everywhere else {name: snapshot.nodes[name] for name in _with_gpus(snapshot)}
    nodes = {name: node for name, node in wanted.items() if names.get(name, name) not in read}
    if not snapshot.whole("nodes"):
        reason = f"no node was asked by a pod: the nodes are not known ({snapshot.collectors['nodes'].reason})"
        return _failed(read, reason, "let collector nodes look first")
    if not nodes and not read:
        return _failed(
            read,
            "no node has GPUs, so none was asked by a pod",
            "ask every node: -e gpufleet_snapshot_pods=all (option node_pods)",
        )
    try:
        printed = _requested(cluster, nodes, requested) if nodes else {}
    except BringupError as error:
        return _failed(read, f"no node was asked by a pod: {error.subject}: {error.reason}".rstrip("."), error.hint)
    missing = {name: reason for name, reason in over_ssh.missing.items() if name not in map(names.get, nodes, nodes)}
    for node, found in sorted(printed.items()):
        name = names.get(node, node)
        if is_whole(found.log):
            read[name] = host_from_pod(node_facts(name, found.log, requested.limit_s))
        else:
            missing[name] = found.reason or "the log of its pod is cut off"
    result = result_of(read, missing, _HINT)
    reported = "; ".join(filter(None, (result.reason, over_ssh.told, f"{len(nodes)} asked by pods")))
    return Collection(name="hosts", parts={"hosts": all_hosts(read, missing)}, result=replace(result, reason=reported))


def _with_gpus(snapshot: Snapshot) -> tuple[str, ...]:
    return gpu_nodes(replace(snapshot, hosts={}))


def _requested(cluster: Cluster, nodes: Mapping[str, Node], requested: RequestedPods) -> dict[str, Printed]:
    facts = stack_facts()
    pods = NodePods(
        image=requested.image or facts.dra.image,
        script=node_script(requested.limit_s),
        prefix=facts.test_pods.namespace_prefix,
        priority=facts.test_pods.priority,
        runtime_class=requested.runtime_class,
        tolerations=requested.tolerations,
        start_s=requested.start_s,
        run_s=requested.limit_s + _AROUND_S,
    )
    return run_on_nodes(cluster, nodes, pods)


def _failed(read: Mapping[str, Host], reason: str, hint: str) -> Collection:
    failed = CollectorResult(state=Collected.FAILED, reason=reason, hint=hint)
    return Collection(name="hosts", parts={"hosts": dict(read)}, result=failed)


_GATE_NODES = "ansible-playbook gpufleet.bringup.site -i INVENTORY -e gpufleet_gates=nodes"


def take_snapshot(
    connection: Connection,
    *,
    helm: str,
    run_dir: Path | None,
    limit_s: float = LIMIT_S,
    only: frozenset[str] | None = None,
    pods: RequestedPods | None = None,
) -> Snapshot:
    """Return a new snapshot of a cluster.

    Args:
        connection: the cluster.
        helm: the program, for the releases.
        run_dir: a run whose gate nodes read the hosts; without one the snapshot has no hosts.
        limit_s: seconds a collector may take.
        only: the collectors to run; None for all.
        pods: which nodes are read by pods; None for none.

    Raises:
        BringupError: every collector failed.
    """
    more, over_ssh = [], _over_ssh(run_dir)
    with Cluster(connection, request_timeout_s=limit_s, patience_s=limit_s) as cluster:
        snapshot = collect_cluster(cluster, f"{COLLECTION} {collection_version()}", limit_s, only)
        if only is None or "releases" in only:
            client = Helm(connection, binary=helm, timeout_s=limit_s)
            more.append(run_collector("releases", lambda look: _releases(look, client), cluster, limit_s))
        more.append(_hosts(over_ssh) if pods is None else with_pods(cluster, snapshot, over_ssh, pods))
    if over_ssh.rehearsal:
        # Simulated hosts make the whole a rehearsal, whatever the cluster is.
        snapshot = replace(snapshot, rehearsal=True)
    for found in more:
        snapshot = replace(snapshot, collectors={**snapshot.collectors, found.name: found.result}, **found.parts)
    return snapshot


def requested_snapshot(
    connection: Connection, place: str, options: Mapping[str, Any], *, check_mode: bool = False
) -> Snapshot:
    """Return the snapshot at a place, or a new one where no place is named.

    Args:
        connection: the cluster, which is also read for a snapshot in a ConfigMap.
        place: file, address or ConfigMap; empty for a new snapshot.
        options: those of the modules that take snapshots (doc_fragments/snapshot.py).
        check_mode: creates no pods.

    Raises:
        BringupError: it cannot be read, or every collector failed.
    """
    if place:
        return read_snapshot(place, lambda: Cluster(connection))
    provider = provider_readings(options["provider"])
    run_dir = Path(options["run_dir"]).expanduser() if options["run_dir"] else None
    limit_s, wanted = float(options["timeout_s"]), options["node_pods"]
    pods = RequestedPods(
        everywhere=wanted == "all",
        image=options["node_image"],
        runtime_class=options["runtime_class"],
        tolerations=tolerations_with(options["node_tolerations"], "node_tolerations"),
        limit_s=limit_s,
    )
    taken = take_snapshot(
        connection,
        helm=options["helm"],
        run_dir=run_dir,
        limit_s=limit_s,
        pods=pods if wanted != "none" and not check_mode else None,
    )
    return replace(taken, provider=provider)


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
    from ...collect.host_facts import load_hosts
    from ...run.run import Run

    try:
        site = Run(run_dir).site
        found, missing = hosts_of(load_hosts(run_dir, site, READINGS))
    except BringupError as error:
        reason = f"{error.subject}: {error.reason}".rstrip(".")
        return OverSsh(failed=CollectorResult(state=Collected.FAILED, reason=reason, hint=error.hint))
    names = {host.node_name: host.name for host in site.hosts}
    reported = f"of run {run_dir.resolve().name}"
    return OverSsh(hosts=found, missing=missing, names=names, told=reported, rehearsal=site.rehearsal)


def _hosts(over_ssh: OverSsh) -> Collection:
    """Return the hosts of a run, where no node is read by a pod."""
    parts = {"hosts": all_hosts(over_ssh.hosts, over_ssh.missing)}
    if over_ssh.failed is not None:
        return Collection(name="hosts", parts={}, result=over_ssh.failed)
    if not over_ssh.told:
        reason = "no run was named whose gate nodes read the hosts, and no pods were asked for"
        return Collection(name="hosts", parts={}, result=CollectorResult(state=Collected.NOT_ASKED, reason=reason))
    hint = (
        "ask these nodes by pods: -e gpufleet_snapshot_pods=gpu (option node_pods), or run gate nodes again and take "
        "the snapshot of that run"
    )
    result = result_of(over_ssh.hosts, over_ssh.missing, hint)
    return Collection(name="hosts", parts=parts, result=replace(result, reason=f"{result.reason}; {over_ssh.told}"))


def summary(snapshot: Snapshot) -> dict[str, Any]:
    """Return a summary of a snapshot."""
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
    """Return the error for a snapshot of which a collector failed: accepted as it is, it would let any drift
    through."""
    parts = [f"{name} ({found.reason})" for name, found in sorted(snapshot.failed.items())]
    fixes = [found.hint for found in snapshot.failed.values() if found.hint]
    hint = "; ".join([*dict.fromkeys(fixes), "or keep it without them: -e gpufleet_snapshot_incomplete=true"])
    return UnavailableError(
        "snapshot", f"is not complete, and was not written: no answer for {'; '.join(parts)}.", hint
    )


def unseen(snapshot: Snapshot) -> list[str]:
    """Return one line for each collector that failed, one for hosts that were not read, and one for what the run did
    not read on the hosts, with the fix."""
    lines = [
        f"collector {name} failed: {found.reason}. Fix: {found.hint or 'see the reason'}"
        for name, found in sorted(snapshot.failed.items())
    ]
    lost = [f"{name} ({host.not_read})" for name, host in sorted(snapshot.hosts.items()) if host.not_read]
    if lost:
        fix = snapshot.collectors["hosts"].hint
        lines.append(f"{count(len(lost), 'host')} not read: {first_of(lost, 8, '; ')}. Fix: {fix}")
    not_run = {
        name: facts
        for name, host in sorted(snapshot.hosts.items())
        if (facts := {fact for fact, why in host.unread.items() if why == NOT_RUN})
    }
    if not_run:
        names, lacking = first_of(tuple(not_run), 8), ", ".join(sorted(set[str]().union(*not_run.values())))
        lines.append(
            f"the run of {count(len(not_run), 'host')} ({names}) did not ask them for {lacking}: these are not in the "
            f"snapshot. Fix: take it of a run of gate nodes: {_GATE_NODES}, then this again with "
            "-e gpufleet_run=.run/latest"
        )
    return lines
