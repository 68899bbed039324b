# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Observe the Slurm of a site without Kubernetes, by `scontrol` and `sacctmgr` of this machine."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass

from ...outcome.errors import BringupError
from ...runtime.process import run_command
from ..spec import ObserveContext, observer_of
from .observe_slurm import Said

_COMMAND_S = 60.0
# Seconds that remain after a time limit for srun to report to slurmctld that its job is over.
_GRACE_S = 5.0
_DATABASE = "accounting_storage/slurmdbd"
# Lines of the two configurations that are saved. Other lines may contain paths of secrets.
_KEPT = (
    "Configuration data as of", "Cgroup Support Configuration:", "SlurmDBD configuration:", "AccountingStorageType ",
    "SLURM_VERSION ", "SLURMDBD_VERSION ", "TaskPlugin ", "ProctrackType ", "SlurmdParameters ", "Prolog ", "Prolog[",
    "Epilog ", "Epilog[", "HealthCheckProgram ", "HealthCheckInterval ", "CgroupPlugin ", "ConstrainDevices ",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmDaemons:
    """The result of each command. Of `config` and `database` only the judged lines are kept.

    `database` is None if slurmctld does not use slurmdbd, or did not report whether it does.
    """

    ping: Said
    config: Said
    nodes: Said
    partitions: Said
    database: Said | None = None
    schema_version: int = 1


def program(context: ObserveContext, name: str) -> str:
    """Return the path of a Slurm program: all are in the directory of the scontrol that the site configures."""
    scontrol = context.connections.get("scontrol") or "scontrol"
    return os.path.join(os.path.dirname(scontrol), name) if os.path.dirname(scontrol) else name


def ask(argv: Iterable[str], timeout_s: float = _COMMAND_S) -> Said:
    """Run a command on this machine and return how it ended."""
    try:
        done = run_command(tuple(argv), timeout_s, grace_s=_GRACE_S)
    except BringupError as error:
        return Said(rc=None, stderr=f"{error.subject}: {error.reason}")
    return Said(rc=done.rc, stdout=done.stdout, stderr=done.stderr, timed_out=done.timed_out)


def observe(context: ObserveContext) -> SlurmDaemons:
    """Query slurmctld, and slurmdbd if it is used."""
    scontrol = program(context, "scontrol")
    config = _kept(ask((scontrol, "show", "config")))
    uses = any(line.startswith("AccountingStorageType ") and _DATABASE in line for line in config.stdout.splitlines())
    return SlurmDaemons(
        ping=ask((scontrol, "ping")),
        config=config,
        nodes=ask((scontrol, "show", "nodes")),
        partitions=ask((scontrol, "show", "partitions", "-o")),
        database=_kept(ask((program(context, "sacctmgr"), "show", "config"))) if uses else None,
    )


def _kept(reported: Said) -> Said:
    lines = [line for line in reported.stdout.splitlines() if line.startswith(_KEPT)]
    return Said(rc=reported.rc, stdout="\n".join(lines), stderr=reported.stderr, timed_out=reported.timed_out)


OBSERVER = observer_of("slurm_daemons", SlurmDaemons, observe)
