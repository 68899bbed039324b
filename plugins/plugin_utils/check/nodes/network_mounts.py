# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check network-mounts: every host has the network file systems that the others of its SKU have, mounted writable.

Parser of `findmnt -r` for file systems of the network: where they are, of which kind, to read only or not.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from ...collect.host_facts import FleetFacts
from ...collect.tool_reading import ProbeFailure
from ...outcome.model import Outcome, SubjectKind
from ...probe.text import plain, unreadable
from ..kit.finding import Finding, Report
from ..kit.settings import setting
from ..spec import Check, CheckSpec, Disturbance, JudgeContext, needs
from .node_context import NodeContext, per_host
from .observe_hosts import OBSERVER

_TOOL = "findmnt -l -n -r -o TARGET,FSTYPE,OPTIONS"
_NONE = "no network file systems"
_ROW = re.compile(r"(/\S{0,1000}) ([a-z][\w.-]{1,40}) (\S{2,6000})")
_ON_DEMAND = "autofs"
# Volumes of pods come and go.
_OF_PODS = "/var/lib/kubelet/"


@dataclass(frozen=True, slots=True)
class Mount:
    """One file system."""

    path: str
    kind: str
    read_only: bool


def parse(text: str) -> tuple[Mount, ...]:
    """Return the mounts in the order of their paths, without what autofs mounts on demand and without volumes of pods.

    Raises:
        InputError: nothing, or a line of another kind.
    """
    if text.strip() == _NONE:
        return ()
    found: dict[str, Mount] = {}
    demanded: list[str] = []
    for line in plain(text).splitlines():
        match = _ROW.fullmatch(line.rstrip())
        if match is None:
            raise unreadable(_TOOL, line, "`/shared nfs4 rw,relatime,vers=4.2`")
        if match[2] == _ON_DEMAND:
            demanded.append(f"{match[1].rstrip('/')}/")
        else:
            # Of several on top of each other the last one counts.
            found[match[1]] = Mount(match[1], match[2], "ro" in match[3].split(","))
    if not found and not demanded:
        raise unreadable(_TOOL, "nothing", f"at least one mount, or `{_NONE}`")
    return tuple(
        mount
        for path, mount in sorted(found.items())
        if not path.startswith((_OF_PODS, *demanded)) and f"{path}/" not in demanded
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkMountsSettings:
    """Settings of check network-mounts."""

    paths: tuple[str, ...] = setting(
        "Where a file system of the network must be mounted on every host; what is not listed is held against most "
        "hosts of the SKU, and a difference is for a person.",
        default=[],
    )


SPEC = CheckSpec(
    id="network-mounts",
    gate="nodes",
    title="File systems of the network mounted alike on all hosts of a SKU",
    per=SubjectKind.NODE,
    compares=True,
    disturbs=Disturbance.HOST_COMMAND,
    applies=(needs("host_access"),),
    causes=("mount-missing",),
    settings=NetworkMountsSettings,
)
_FACT = "mounts"
# By SKU and path, how most hosts have it mounted; true: read only.
_Usual = Mapping[str, Mapping[str, bool]]


def judge(observed: FleetFacts, context: JudgeContext) -> tuple[Outcome, ...]:
    """Judge mounts. A missing one that the site lists fails; of the others a person decides."""
    usual = _usual(observed, context)
    return per_host(SPEC, observed, context, lambda host: _judge(host, usual.get(host.entry.sku, {})), needs=(_FACT,))


def _usual(observed: FleetFacts, context: JudgeContext) -> _Usual:
    counts: dict[str, Counter[tuple[str, bool]]] = {}
    hosts: Counter[str] = Counter()
    for entry in context.site.in_scope:
        mounts = observed.hosts[entry.name].read(_FACT, tuple) if entry.name in observed.hosts else ()
        if entry.name not in observed.hosts or isinstance(mounts, ProbeFailure):
            continue
        hosts[entry.sku] += 1
        counts.setdefault(entry.sku, Counter()).update((mount.path, mount.read_only) for mount in mounts)
    return {
        sku: {path: read_only for (path, read_only), times in found.items() if 2 * times > hosts[sku]}
        for sku, found in counts.items()
    }


def _judge(host: NodeContext, usual: Mapping[str, bool]) -> Report:
    mounts: dict[str, Mount] = {mount.path: mount for mount in host.facts.values[_FACT]}
    configured = host.settings(NetworkMountsSettings).paths
    findings: list[Finding] = []
    for path in (*configured, *(path for path in usual if path not in configured)):
        if path not in mounts:
            by = "the site states it" if path in configured else "most hosts of the SKU have it"
            cause = "mount-missing" if path in configured else "mount-differs"
            text, hint = (
                f"nothing is mounted at {path}, and {by}",
                f"`mount {path}` on {host.name} says why; then /etc/fstab",
            )
            findings.append(Finding(cause=cause, text=text, hint=hint, marginal=path not in configured))
        elif mounts[path].read_only and not usual.get(path, False):
            text = f"{path} ({mounts[path].kind}) is mounted to read only, and not so on most hosts"
            hint = (
                f"`findmnt {path}` and the kernel log of {host.name}: a server that refuses writes, or a failed remount"
            )
            findings.append(Finding(cause="mount-read-only", text=text, hint=hint, marginal=True))
    named = ", ".join(f"{mount.path} ({mount.kind})" for mount in mounts.values()) or "no file system of the network"
    return Report(
        summary=f"{named}, as on the other hosts"[:200], findings=tuple(findings), evidence=host.evidence(_FACT)
    )


CHECK = Check(SPEC, OBSERVER, judge)
