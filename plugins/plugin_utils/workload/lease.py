# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""One controller for a cluster: a Lease (coordination.k8s.io) that a run holds while it installs or tests.

The rules and fields are those of client-go's leader election (kubernetes/client-go tools/leaderelection): a record is
written only over the version that was read, and another's record is dead when it has not changed for its whole
duration by the clock of whoever watches it. Its times are for people: clocks of two controllers may differ.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from ..clients.kube.cluster import Cluster
from ..clients.kube.errors import ConflictError
from ..clients.kube.kinds import LEASES, NAMESPACES
from ..outcome.errors import NotFoundError, UnavailableError
from ..runtime.progress import Emit, silent

NAMESPACE, NAME = "gpufleet-system", "bringup"
# Longer than requests wait for an API server that is away: nobody loses the cluster for that.
DURATION_S = 180
RENEW_S = 10.0
# Who could not renew for so long stops, before another may take over.
RENEW_DEADLINE_S = 160.0
RUN, COMMAND, CONTROLLER = "gpufleet.io/run", "gpufleet.io/command", "gpufleet.io/controller"
_RETRY_S = 2.0
_LONGEST_S = 3600
_LABELS = {"gpufleet.io/managed-by": "gpufleet.bringup"}
Json = dict[str, Any]


class HeldError(UnavailableError):
    """Another run holds the cluster."""


class LostError(UnavailableError):
    """This run does not hold the cluster any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Who holds the cluster, or wants to: `holder` is unique, the rest is for people."""

    holder: str
    run_id: str = ""
    command: str = ""
    controller: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRecord:
    """What a Lease says; `holder` is empty where nobody holds it. Times are RFC 3339 by its holder's clock."""

    holder: str = ""
    run_id: str = ""
    command: str = ""
    controller: str = ""
    acquired: str = ""
    renewed: str = ""
    duration_s: int = DURATION_S
    transitions: int = 0

    @property
    def expires(self) -> str:
        """When it ends by its holder's clock; empty where it does not say when it was renewed."""
        try:
            renewed = datetime.fromisoformat(self.renewed.replace("Z", "+00:00"))
        except ValueError:
            return ""
        return (renewed + timedelta(seconds=self.duration_s)).strftime("%Y-%m-%dT%H:%M:%SZ")

    @property
    def text(self) -> str:
        """Who it is, for messages."""
        words = [f"run {self.run_id or 'without a name'} ({self.holder})"]
        words += [f"on controller {self.controller}"] if self.controller else []
        words += [f"by `{self.command}`"] if self.command else []
        words += [f"since {self.acquired}"] if self.acquired else []
        words += [f"last renewed {self.renewed}, expires {self.expires} unless renewed"] if self.expires else []
        return ", ".join(words)


def read_record(lease: Json) -> LeaseRecord:
    """Return what a Lease says; a field that is missing or senseless has its default."""
    spec = lease.get("spec") or {}
    notes = (lease.get("metadata") or {}).get("annotations") or {}
    duration = spec.get("leaseDurationSeconds")
    transitions = spec.get("leaseTransitions")
    return LeaseRecord(
        holder=str(spec.get("holderIdentity") or ""),
        run_id=str(notes.get(RUN) or ""),
        command=str(notes.get(COMMAND) or ""),
        controller=str(notes.get(CONTROLLER) or ""),
        acquired=str(spec.get("acquireTime") or ""),
        renewed=str(spec.get("renewTime") or ""),
        duration_s=min(duration, _LONGEST_S) if isinstance(duration, int) and duration > 0 else DURATION_S,
        transitions=transitions if isinstance(transitions, int) else 0,
    )


def holder_of(cluster: Cluster) -> LeaseRecord:
    """Return who holds the cluster now, whether that run is alive or not.

    Raises:
        BringupError: the API server does not answer.
    """
    return read_record(cluster.find(LEASES, NAME, NAMESPACE) or {})


def acquire(
    cluster: Cluster,
    claim: Claim,
    *,
    wait_s: float = 0.0,
    emit: Emit = silent,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Take the cluster for that claim, at once where nobody holds it or this holder does already.

    A record of another holder is watched: renewed meanwhile, its run is alive; unchanged for its duration, it is dead
    and taken over.

    Args:
        cluster: which.
        claim: for whom.
        wait_s: how long to wait for the end of a run that is alive; 0 refuses as soon as that is seen.
        emit: takes the progress lines.
        clock: the local monotonic clock, in seconds.
        sleep: waits for so many seconds.

    Raises:
        HeldError: another run holds it and is alive.
        BringupError: the API server does not answer or refuses.
    """
    watched: Json | None = None
    since = began = clock()
    while True:
        lease = cluster.find(LEASES, NAME, NAMESPACE)
        record = read_record(lease or {})
        now = clock()
        dead = watched is not None and (lease or {}).get("spec") == watched and now - since > record.duration_s
        if lease is None or record.holder in ("", claim.holder) or dead:
            if _written(cluster, claim, lease, record):
                return
            continue
        if lease.get("spec") != watched:
            # Changed while it was watched: somebody renews it.
            if watched is not None and now - began >= wait_s:
                raise _held(record)
            emit(f"the cluster is held by {record.text}: waiting until it is renewed or dead")
            watched, since = lease.get("spec"), now
        sleep(_RETRY_S)


def renew(cluster: Cluster, claim: Claim) -> None:
    """Say that the holder is alive.

    Raises:
        LostError: another holds the cluster now, or nobody.
        BringupError: the API server does not answer; to be tried again.
    """

    def renewed(lease: Json) -> Json:
        if read_record(lease).holder != claim.holder:
            raise _lost(claim.holder, read_record(lease))
        return {**lease, "spec": {**lease["spec"], "renewTime": _now()}}

    try:
        cluster.change(LEASES, NAME, renewed, NAMESPACE)
    except NotFoundError:
        raise _lost(claim.holder, LeaseRecord()) from None


def release(cluster: Cluster, claim: Claim) -> None:
    """Give the cluster back; nothing is done where another holds it.

    Raises:
        BringupError: the API server does not answer.
    """

    def given_back(lease: Json) -> Json | None:
        if read_record(lease).holder != claim.holder:
            return None
        return {
            **lease,
            "spec": {**lease["spec"], "holderIdentity": "", "renewTime": _now(), "leaseDurationSeconds": 1},
        }

    with suppress(NotFoundError):
        cluster.change(LEASES, NAME, given_back, NAMESPACE)


def confirm(cluster: Cluster, holder: str) -> None:
    """Return if that holder has the cluster.

    Raises:
        LostError: it has not.
        BringupError: the API server does not answer.
    """
    record = holder_of(cluster)
    if record.holder != holder:
        raise _lost(holder, record)


def _written(cluster: Cluster, claim: Claim, lease: Json | None, before: LeaseRecord) -> bool:
    """Write the claim over what was read; tell whether nobody was faster."""
    notes = {RUN: claim.run_id, COMMAND: claim.command, CONTROLLER: claim.controller}
    same = before.holder == claim.holder
    spec = {
        "holderIdentity": claim.holder,
        "leaseDurationSeconds": DURATION_S,
        "acquireTime": before.acquired if same and before.acquired else _now(),
        "renewTime": _now(),
        "leaseTransitions": before.transitions + (0 if same or lease is None else 1),
    }
    try:
        if lease is None:
            _created(cluster, {"metadata": {"name": NAME, "labels": _LABELS, "annotations": notes}, "spec": spec})
        else:
            annotations = {**(lease["metadata"].get("annotations") or {}), **notes}
            body = {**lease, "metadata": {**lease["metadata"], "annotations": annotations}, "spec": spec}
            cluster.replace(LEASES, body, NAMESPACE)
    except ConflictError:
        return False
    return True


def _created(cluster: Cluster, body: Json) -> None:
    body = {"apiVersion": LEASES.api_version, "kind": LEASES.kind, **body}
    try:
        cluster.create(LEASES, body, NAMESPACE)
    except NotFoundError:
        # Another controller may make it meanwhile.
        with suppress(ConflictError):
            cluster.create(NAMESPACES, {"metadata": {"name": NAMESPACE, "labels": _LABELS}})
        cluster.create(LEASES, body, NAMESPACE)


def _held(record: LeaseRecord) -> HeldError:
    hint = (
        "start this run after that one, or let it wait: -e gpufleet_when_held=wait; the Lease of a dead run is taken "
        f"over after {record.duration_s} s by itself (kubectl get lease -n {NAMESPACE} {NAME} -o yaml)"
    )
    return HeldError("cluster", f"is held by {record.text}; it was renewed while this run watched.", hint)


def _lost(holder: str, record: LeaseRecord) -> LostError:
    now = record.text if record.holder else "nobody"
    hint = "start the run again; it waits or refuses as gpufleet_when_held says, and removes what this one left"
    return LostError("cluster", f"is not held by {holder} any more, but by {now}.", hint)


def _now() -> str:
    """Return the time as the API server's MicroTime."""
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
