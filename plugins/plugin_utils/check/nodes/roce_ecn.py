# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check roce-ecn: every RoCE port notifies about congestion and slows down when notified (ECN, which DCQCN needs).

Without it a full link is only held back by pauses, which spread over the fabric. Both directions are set for each port
and priority; NVIDIA's driver package shows them in /sys/class/net, the kernel's own driver does not.

Parser of the ECN switches of RoCE ports in /sys/class/net, as `grep -H` prints one line for each priority.

NVIDIA's driver package: "Explicit Congestion Notification" in the manuals of MLNX_OFED and DOCA (enable/<priority>).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ...collect.host_facts import FleetFacts
from ...collect.tool_reading import ProbeFailure
from ...outcome.model import Outcome, SubjectKind
from ...outcome.wording import count
from ...probe.text import plain, unreadable
from ...site.adapters import carries_gpu_traffic
from ..kit.finding import Finding, Report
from ..kit.settings import setting
from ..spec import Check, CheckSpec, Disturbance, JudgeContext, needs
from .hca_state import SPEC as HCA_STATE
from .node_context import NodeContext, per_host
from .observe_hosts import OBSERVER
from .roce_ports import adapter_names, most_ports, odd_ports, ports_of, usual_of_ports

_TOOL = "grep of /sys/class/net/*/ecn/roce_*/enable"
_NONE = "no ECN settings"
_LINE = re.compile(r"/sys/class/net/([^/\s]{1,40})/ecn/roce_(np|rp)/enable/([0-7]):([01])")
_BOTH = ("np", "rp")


@dataclass(frozen=True, slots=True)
class PortEcn:
    """One network device: the priorities on which it tells senders of congestion (`notifies`, notification point), and
    on which it slows down when it is told (`reacts`, reaction point)."""

    device: str
    notifies: tuple[int, ...]
    reacts: tuple[int, ...]


def parse(text: str) -> tuple[PortEcn, ...]:
    """Return the devices in the order of their names; none where the driver has no such files.

    Raises:
        InputError: a line of another kind, a priority twice, or a device without one direction or one priority.
    """
    if text.strip() == _NONE:
        return ()
    found: dict[str, dict[str, dict[int, bool]]] = {}
    for line in plain(text).splitlines():
        match = _LINE.fullmatch(line.rstrip())
        if match is None:
            raise unreadable(_TOOL, line, "`/sys/class/net/eth0/ecn/roce_np/enable/3:1`")
        device, protocol, priority = match[1], match[2], int(match[3])
        switches = found.setdefault(device, {}).setdefault(protocol, {})
        if priority in switches:
            raise unreadable(_TOOL, line, "every priority once")
        switches[priority] = match[4] == "1"
    if not found:
        raise unreadable(_TOOL, "nothing", f"at least one switch, or `{_NONE}`")
    for device, protocols in found.items():
        if set(protocols) != set(_BOTH) or protocols["np"].keys() != protocols["rp"].keys():
            raise unreadable(_TOOL, f"{device} without one of its switches", "roce_np and roce_rp of every priority")
    return tuple(
        PortEcn(device, _on(protocols["np"]), _on(protocols["rp"])) for device, protocols in sorted(found.items())
    )


def _on(switches: dict[int, bool]) -> tuple[int, ...]:
    return tuple(sorted(priority for priority, on in switches.items() if on))


@dataclass(frozen=True, slots=True, kw_only=True)
class RoceEcnSettings:
    """Settings of check roce-ecn."""

    priorities: tuple[int, ...] | None = setting(
        "Priorities on which every port must have ECN on, in both directions, such as [3]; null: not stated, a host "
        "that differs from most is for a person.",
        default=None,
    )


SPEC = CheckSpec(
    id="roce-ecn",
    gate="nodes",
    title="RoCE ports mark congestion and heed it",
    per=SubjectKind.NODE,
    compares=True,
    disturbs=Disturbance.HOST_COMMAND,
    applies=(needs("host_access", "roce"),),
    causes=("roce-ecn-off",),
    settings=RoceEcnSettings,
)
_FACT = "ecn"


def judge(observed: FleetFacts, context: JudgeContext) -> tuple[Outcome, ...]:
    """Judge every port. One without ECN on a configured priority fails.

    Where no priorities are configured, a port is compared with most ports of its SKU.
    """
    usual = usual_of_ports(SPEC, observed, context, _known_ports, _reported)
    return per_host(SPEC, observed, context, lambda host: _judge(host, usual.get(host.entry.sku, "")))


def _known_ports(host: NodeContext) -> dict[str, PortEcn]:
    """Return ECN of the ports for GPU traffic, by adapter; empty where it is not known."""
    return ports_of(host, _FACT, PortEcn)


def _reported(port: PortEcn) -> str:
    return f"marks on {_words(port.notifies)}, heeds on {_words(port.reacts)}"


def _words(priorities: Sequence[int]) -> str:
    return ", ".join(map(str, priorities)) or "no priority"


def _judge(host: NodeContext, usual: str) -> Report | Outcome:
    if host.sku.fabric != "roce" or not carries_gpu_traffic(host.sku):
        text = f"{host.sku.name} has no RoCE adapter for GPU traffic"
        return Report(summary=text, evidence=host.evidence("rdma_links"))
    ports, links = host.facts.read(_FACT, tuple), host.facts.read("rdma_links", tuple)
    for fact, value in ((_FACT, ports), ("rdma_links", links), ("hcas", host.facts.hcas)):
        if isinstance(value, ProbeFailure):
            return host.tool_failure(fact, value)
    names = adapter_names(host)
    if not names:
        return host.answer.blocked(by=HCA_STATE.id, because="the adapters for GPU traffic are not known")
    return _ports(host, names, _known_ports(host), usual)


def _ports(host: NodeContext, names: Sequence[str], mine: dict[str, PortEcn], usual: str) -> Report | Outcome:
    wanted, proof = host.settings(RoceEcnSettings).priorities, host.evidence(_FACT)
    untold = [name for name in names if name not in mine]
    findings: list[Finding] = []
    for name, port in mine.items() if wanted is not None else ():
        off = [number for number in wanted or () if number not in port.notifies or number not in port.reacts]
        if off:
            text = (
                f"{name} ({port.device}) {_reported(port)}, expected ECN on {_words(wanted or ())} in both directions"
            )
            hint = f"echo 1 into /sys/class/net/{port.device}/ecn/roce_np/enable/{off[0]} and roce_rp/enable/{off[0]}"
            part = (host.part(SubjectKind.HCA, name),)
            findings.append(Finding(cause="roce-ecn-off", text=text, hint=f"{hint}; make it last", subjects=part))
    if untold and wanted is not None and not findings:
        text = f"ECN is stated, and nothing tells it of {', '.join(untold)}"
        hint = f"`ls /sys/class/net/*/ecn` on {host.name}: the kernel's own driver and virtual functions do not show it"
        return host.answer.unknown("roce-ecn-not-reported", text, hint, evidence=proof)
    odd = {name: port for name, port in mine.items() if wanted is None and _reported(port) != usual}
    if odd:
        hint = "state priorities of roce-ecn, and bring the ports to them; or accept the difference"
        messages = odd_ports(odd, lambda port: f"ECN {_reported(port)}")
        parts = () if len(odd) == len(mine) else tuple(host.part(SubjectKind.HCA, name) for name in odd)
        text = f"{messages}; {most_ports(usual)}"
        findings.append(Finding(cause="roce-ecn-differs", text=text, hint=hint, subjects=parts, marginal=True))
    reported = "; ".join(sorted({_reported(port) for port in mine.values()}))
    summary = (
        f"ECN of {count(len(mine), 'port')}: {reported}" if mine else "the driver shows no ECN, and none is stated"
    )
    return Report(summary=summary, findings=tuple(findings), evidence=proof)


CHECK = Check(SPEC, OBSERVER, judge)
