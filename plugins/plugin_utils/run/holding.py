# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Holding the cluster, or hosts without one, while a run installs or tests. What dead runs left is removed first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..clients.kube.cluster import Cluster
from ..clients.kube.connection import connection_from
from ..clients.kube.transport import PATIENCE_S
from ..outcome.errors import BringupError
from ..outcome.gates import GATES
from ..runtime.process import controller_pid
from ..runtime.progress import Emit
from ..workload.lease import Claim, HeldError, LostError, claim_of, end_keeper, hold_cluster, hold_hosts
from ..workload.namespace import sweep_left
from .controller import needs_api
from .gpu_users import save_gpu_users
from .run import Run

WAIT = "wait"
_CLEANUP_S = 120.0
# For a cluster that a run could do without.
_PATIENCE_S = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """What a run holds.

    `holder` is the identity in its Lease (empty for nothing). There is also what dead runs had left, and what of it
    could not be removed, with the reason and the command.
    """

    holder: str = ""
    swept: tuple[str, ...] = ()
    remains: tuple[str, ...] = ()


def needs_hold(run: Run) -> bool:
    """Return whether a gate in scope installs, tests or loads hosts."""
    return any(gate.id in run.site.gates for gate in GATES if not gate.only_looks)


def take_hold(run: Run, options: Mapping[str, Any], emit: Emit) -> Hold:
    """Hold the cluster until the run ends, and remove what dead runs left there before free capacity is counted.

    A later task of the same run finds it held, and only checks that it still is. What cannot be removed becomes a note
    of the run, which every report shows.

    Gate nodes alone does not use the API server, and may run before there is one. It holds the cluster where the site
    names one and it responds; else the hosts.

    Args:
        run: the run.
        options: `kubeconfig` and `context`; `when_held` (`refuse` or `wait`) and `wait_s`, how long.
        emit: takes the progress lines.

    Raises:
        HeldError: another run holds it.
        LostError: this run held it, and lost it.
        BringupError: the API server does not respond.
    """
    wait_s = float(options.get("wait_s") or 0.0) if options.get("when_held") == WAIT else 0.0
    claim = claim_of_run(run)
    if needs_api(run.site):
        return _of_cluster(run, options, claim, wait_s, emit)
    if "kubernetes" in run.site.capabilities and _names_cluster(options):
        try:
            return _of_cluster(run, options, claim, wait_s, emit, patience_s=_PATIENCE_S)
        except (HeldError, LostError):
            raise
        except BringupError as error:
            emit(f"gate nodes goes on without the cluster, hosts alone are held: {error.reason}")
    hold_hosts(claim, run.path, pid=controller_pid(), wait_s=wait_s, emit=emit)
    return Hold(holder=claim.holder)


def _names_cluster(options: Mapping[str, Any]) -> bool:
    """Return whether the site names its cluster; a kubeconfig in the home directory may be of another."""
    connection = connection_from(options)
    return bool(connection.kubeconfig or connection.context or connection.host)


def _of_cluster(
    run: Run, options: Mapping[str, Any], claim: Claim, wait_s: float, emit: Emit, patience_s: float = PATIENCE_S
) -> Hold:
    remains: list[str] = []
    with Cluster(connection_from(options), patience_s=patience_s) as cluster:
        swept: tuple[str, ...] = ()
        if hold_cluster(cluster, claim, run.path, pid=controller_pid(), wait_s=wait_s, emit=emit):
            swept = sweep_left(cluster, claim.holder, cleanup_s=_CLEANUP_S, emit=emit, remains=remains)
            # Only a run that loads hosts reads them; the roles of other gates do not allow to list all claims.
            users = save_gpu_users(cluster, run.site, run.path) if "nodes" in run.site.gates else {}
            if users:
                host, pods = next(iter(users.items()))
                emit(f"GPUs of {len(users)} hosts are in use, of {host} by pod {pods[0]}")
    if remains:
        run.save_record(replace(run.record, notes=(*run.record.notes, *remains)))
    return Hold(holder=claim.holder, swept=swept, remains=tuple(remains))


def end_hold(run: Run) -> None:
    """Release what the run holds; does nothing where it holds nothing."""
    end_keeper(run.path)


def claim_of_run(run: Run) -> Claim:
    """Return the identity of the run."""
    record = run.record
    return claim_of(record.run_id, record.command)
