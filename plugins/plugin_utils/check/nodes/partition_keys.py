# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check partition-keys: InfiniBand ports for GPU traffic are full members of the partitions that they should be in.

Two limited members of a partition cannot talk to each other (InfiniBand Architecture Specification, volume 1, 10.9: the
high bit of a P_Key), so a port that is a full member of none carries no traffic between GPUs. Which partitions there
are is decided by the site or the provider; ports that differ from most of their rail are for a person to decide.

Parser of the partition keys of network adapters in /sys/class/infiniband, as `grep -H` prints one line for each.

Linux: Documentation/ABI/stable/sysfs-class-infiniband, .../ports/<port-num>/pkeys/<pkey-index>.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...collect.host_facts import FleetFacts
from ...collect.tool_reading import ProbeFailure
from ...outcome.model import Basis, Expectation, Outcome, SubjectKind
from ...outcome.wording import count
from ...probe.text import plain, unreadable
from ...site.adapters import carries_gpu_traffic
from ..kit.finding import Finding, Report
from ..kit.settings import setting
from ..spec import Check, CheckSpec, Disturbance, JudgeContext, needs
from .hca_state import SPEC as HCA_STATE
from .hca_state import HcaStateSettings
from .node_context import NodeContext, per_host
from .observe_hosts import OBSERVER
from .uniform import Uniformity, each_once, shared_outcome, split_outcome, uniformity

_TOOL = "grep of /sys/class/infiniband/*/ports/*/pkeys"
_NONE = "no partition keys"
_LINE = re.compile(r"/sys/class/infiniband/([\w.-]{1,40})/ports/(\d{1,3})/pkeys/\d{1,5}:0x([0-9a-fA-F]{4})")


@dataclass(frozen=True, slots=True)
class PortKeys:
    """The keys of one port, each once; entries of its table that are empty (0x0000) are left out."""

    port: str
    keys: tuple[int, ...]


def parse(text: str) -> tuple[PortKeys, ...]:
    """Return the ports as `mlx5_0:1`, in the order of their names; none on a host without adapters.

    Raises:
        InputError: nothing, or a line of another kind.
    """
    if text.strip() == _NONE:
        return ()
    ports: dict[str, set[int]] = {}
    for line in plain(text).splitlines():
        match = _LINE.fullmatch(line.rstrip())
        if match is None:
            raise unreadable(_TOOL, line, "`/sys/class/infiniband/mlx5_0/ports/1/pkeys/0:0xffff`")
        ports.setdefault(f"{match[1]}:{match[2]}", set()).add(int(match[3], 16))
    if not ports:
        raise unreadable(_TOOL, "nothing", f"at least one key, or `{_NONE}`")
    return tuple(PortKeys(port, tuple(sorted(keys - {0}))) for port, keys in sorted(ports.items()))


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionKeysSettings:
    """Settings of check partition-keys."""

    pkeys: tuple[int, ...] = setting(
        "Partition keys that every port for GPU traffic must have, with the bit of a full member, such as [0x8001]; "
        "empty: not stated, a port that differs from most of its rail is for a person.",
        default=[],
        minimum=1,
        maximum=0xFFFF,
    )


SPEC = CheckSpec(
    id="partition-keys",
    gate="nodes",
    title="InfiniBand ports are full members of their partitions",
    per=SubjectKind.NODE,
    compares=True,
    disturbs=Disturbance.HOST_COMMAND,
    applies=(needs("host_access", "infiniband"),),
    causes=("partition-key-limited", "partition-key-missing"),
    settings=PartitionKeysSettings,
)
_FULL_MEMBER = 0x8000
_NOBODY = Uniformity("", {}, stated=False)
_WORD = "set of partition keys"
_HINT = "read the partitions of the subnet manager (opensm: partitions.conf; UFM: PKeys) and add the GUID of the port"


def judge(observed: FleetFacts, context: JudgeContext) -> tuple[Outcome, ...]:
    """Judge ports against the configured keys, else against the ports of the same rail of the SKU."""
    known = [entry for entry in context.site.in_scope if entry.name in observed.hosts and entry.sku in context.hardware]
    hosts = [NodeContext(SPEC, context, observed, entry) for entry in known]
    by_rail: dict[tuple[str, int], dict[str, str]] = {}
    for host in hosts:
        for rail, (_name, keys) in enumerate(_ports(host)):
            # A port with only limited membership is wrong whatever the others have.
            if _full(keys):
                by_rail.setdefault((host.entry.sku, rail), {})[host.name] = _reported(keys)
    usual = {place: uniformity(reported) for place, reported in by_rail.items()}
    hint = f"state the right ones: gpufleet_settings: {{{SPEC.id}: {{pkeys: [...]}}}}"

    def of_halves(first: NodeContext) -> Outcome:
        return split_outcome(first, _halves(first, usual), "partition-keys-split", _WORD, hint, marginal=True)

    split = {sku: shared_outcome(of_halves) for sku in {host.entry.sku for host in hosts}}

    def judge_host(host: NodeContext) -> Report | Outcome:
        result = _judge(host, usual)
        if not isinstance(result, Report) or result.findings or not _halves(host, usual):
            return result
        return split[host.entry.sku](host)

    return each_once(per_host(SPEC, observed, context, judge_host))


def _concerned(host: NodeContext) -> bool:
    return host.sku.fabric == "infiniband" and carries_gpu_traffic(host.sku)


def _names(host: NodeContext) -> tuple[str, ...]:
    configured = host.context.settings_of(HCA_STATE.id, HcaStateSettings, host.entry.sku).hcas
    return host.adapters(configured).names


def _ports(host: NodeContext) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """Return the ports for GPU traffic, rail by rail, with their keys; empty where adapters or keys are not known."""
    table = host.facts.read("pkeys", tuple)
    if isinstance(table, ProbeFailure) or isinstance(host.facts.hcas, ProbeFailure) or not _concerned(host):
        return ()
    ports: tuple[PortKeys, ...] = table
    keys = {port.port: port.keys for port in ports}
    return tuple((name, keys.get(name if ":" in name else f"{name}:1", ())) for name in _names(host))


def _full(keys: Sequence[int]) -> bool:
    return any(key & _FULL_MEMBER for key in keys)


def _reported(keys: Sequence[int]) -> str:
    return ", ".join(f"0x{key:04x}" for key in sorted(keys))


def _halves(host: NodeContext, usual: Mapping[tuple[str, int], Uniformity]) -> Mapping[str, str]:
    """Return the keys by host of the first rail where no keys have most ports; empty where there is no such rail."""
    if host.settings(PartitionKeysSettings).pkeys:
        return {}
    mine = (one for (sku, _rail), one in usual.items() if sku == host.entry.sku)
    return next((one.by_host for one in mine if one.tie and host.name in one.by_host), {})


def _judge(host: NodeContext, usual: Mapping[tuple[str, int], Uniformity]) -> Report | Outcome:
    if not _concerned(host):
        text = f"{host.sku.name} has no InfiniBand adapter for GPU traffic"
        return Report(summary=text, evidence=host.evidence("pkeys"))
    if isinstance(host.facts.hcas, ProbeFailure):
        return host.tool_failure("hcas", host.facts.hcas)
    table = host.facts.read("pkeys", tuple)
    if isinstance(table, ProbeFailure):
        return host.tool_failure("pkeys", table)
    up = {hca.name for hca in host.facts.hcas if any(port.state == "Active" for port in hca.ports)}
    ports = _ports(host)
    # A port gets its keys when the subnet manager sets it up.
    if not ports or not {name.partition(":")[0] for name, _keys in ports} <= up:
        because = "an adapter for GPU traffic is not known, not there or down"
        return host.answer.blocked(by=HCA_STATE.id, because=because)
    untold = [name for name, keys in ports if not keys]
    if untold:
        text = f"no partition key is shown of {', '.join(untold)}"
        hint = f"`cat /sys/class/infiniband/{untold[0].partition(':')[0]}/ports/1/pkeys/*` on the node"
        return host.answer.unknown("partition-keys-not-reported", text, hint, evidence=host.evidence("pkeys"))
    configured = host.settings(PartitionKeysSettings).pkeys
    findings = [
        finding
        for rail, (name, keys) in enumerate(ports)
        for finding in _port(host, name, keys, configured, usual.get((host.entry.sku, rail), _NOBODY))
    ]
    return Report(
        summary=f"{count(len(ports), 'port')} with "
        f"{'; '.join(dict.fromkeys(_reported(keys) for _name, keys in ports))}",
        findings=tuple(findings),
        expected=(Expectation("pkeys", ">=", _reported(configured), Basis.RULE),) if configured else (),
        evidence=host.evidence("pkeys"),
    )


def _port(
    host: NodeContext, name: str, keys: Sequence[int], configured: Sequence[int], usual: Uniformity
) -> list[Finding]:
    subjects = (host.part(SubjectKind.HCA, name),)
    missing = [key for key in configured if key not in keys]
    if missing:
        text = f"{name} has {_reported(keys)}, and not {_reported(missing)}"
        return [Finding(cause="partition-key-missing", text=text, hint=_HINT, subjects=subjects)]
    if not _full(keys):
        text = (
            f"{name} has {_reported(keys)}: a limited member of every partition, which reaches no other limited member"
        )
        return [Finding(cause="partition-key-limited", text=text, hint=f"{_HINT} as full", subjects=subjects)]
    if not configured and usual.expected and _reported(keys) != usual.expected:
        text = f"{name} has {_reported(keys)}, most ports of its rail {usual.expected}"
        hint = f"{_HINT}, or accept the difference (gpufleet_acceptances)"
        return [Finding(cause="partition-keys-differ", text=text, hint=hint, subjects=subjects, marginal=True)]
    return []


CHECK = Check(SPEC, OBSERVER, judge)
