# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check imex-domain: where IMEX is a service of the hosts, it runs on every host of a rack and their domain is up.

It lets GPUs of one NVLink domain use memory of other hosts; without it NCCL and NVSHMEM stay within a host. Elsewhere
domains are created with the workloads (ComputeDomains of the DRA driver), and the service must not run.

Parser of `nvidia-imex-ctl -N -j`, with and without `-H`: the state of an IMEX domain and of its nodes.

Fields and states: NVIDIA/DCGM, DCGM_FI_IMEX_DOMAIN_STATUS (UP, DOWN, DEGRADED) and DCGM_FI_IMEX_DAEMON_STATUS (READY
and what comes before and after it).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from ...collect.host_facts import FleetFacts
from ...collect.tool_reading import ProbeFailure
from ...outcome.model import Basis, Expectation, Measure, Outcome, SubjectKind, node_subject
from ...outcome.wording import count
from ...probe.json_output import an_object, read_json, words
from ...probe.text import unreadable
from ..kit.finding import Finding, Report
from ..kit.settings import setting
from ..spec import Check, CheckSpec, Disturbance, JudgeContext, needs
from .node_context import NodeContext, per_host
from .observe_hosts import OBSERVER
from .uniform import each_once

_TOOL = "nvidia-imex-ctl -N -j"
_UP, _READY = "UP", "READY"


@dataclass(frozen=True, slots=True)
class ImexNode:
    """One node of the domain: its address, its name (empty where it was not asked for) and the state of its service."""

    address: str
    name: str
    status: str
    version: str


@dataclass(frozen=True, slots=True)
class ImexDomain:
    """The domain as one of its nodes sees it."""

    status: str
    nodes: tuple[ImexNode, ...]

    @property
    def unready(self) -> tuple[ImexNode, ...]:
        """The nodes that are not READY."""
        return tuple(node for node in self.nodes if node.status != _READY)


def parse(text: str) -> ImexDomain:
    """Return the domain with its nodes by their numbers.

    Raises:
        InputError: no state of the domain, no node, or a node without state or address.
    """
    start = text.find("{")
    document = an_object(read_json(text[start:] if start > 0 else text, _TOOL), _TOOL, "the document")
    status = words(document, "status", _TOOL)
    listed = an_object(document.get("nodes"), _TOOL, "nodes")
    if not status or not listed:
        raise unreadable(_TOOL, f"status {status!r}, {len(listed)} nodes", "a status and at least one node")
    nodes = []
    for number, value in sorted(listed.items(), key=lambda item: (len(item[0]), item[0])):
        entry = an_object(value, _TOOL, f"node {number}")
        node = ImexNode(
            address=words(entry, "host", _TOOL),
            name=words(entry, "hostName", _TOOL),
            status=words(entry, "status", _TOOL),
            version=words(entry, "version", _TOOL),
        )
        if not node.address or not node.status:
            raise unreadable(_TOOL, f"node {number} with {entry}"[:120], "host and status of every node")
        nodes.append(node)
    return ImexDomain(status, tuple(nodes))


@dataclass(frozen=True, slots=True, kw_only=True)
class ImexDomainSettings:
    """Settings of check imex-domain."""

    service: Literal["any", "running", "off"] = setting(
        "Whether IMEX is a service of the hosts. running: it must run; off: it must not, for workloads bring their "
        "own; any: as on most hosts of the rack.",
        default="any",
    )


SPEC = CheckSpec(
    id="imex-domain",
    gate="nodes",
    title="IMEX domains of racks up, with all their hosts",
    per=SubjectKind.NODE,
    compares=True,
    disturbs=Disturbance.HOST_COMMAND,
    applies=(needs("host_access", "host_driver"),),
    causes=("imex-not-running", "imex-running", "imex-domain-not-up"),
    settings=ImexDomainSettings,
)
_FACT, _UNITS, _SERVICE = "imex", "units", "nvidia-imex.service"
_ACTIVE, _FAILED = "active", "failed"
# By rack: the state of the service on each of its hosts.
_Racks = Mapping[str, Mapping[str, str]]


def judge(observed: FleetFacts, context: JudgeContext) -> tuple[Outcome, ...]:
    """Judge every host. One without the service is at fault itself; a domain that is down while all run it is a fault
    of the rack."""
    racks: dict[str, dict[str, str]] = {}
    for entry in context.site.in_scope:
        sku, facts = context.hardware.get(entry.sku), observed.hosts.get(entry.name)
        if sku is not None and facts is not None and sku.nvlink_domain == "rack":
            racks.setdefault(entry.rack, {})[entry.name] = _state(facts.read(_UNITS, dict))
    down: dict[str, Outcome] = {}
    return each_once(per_host(SPEC, observed, context, lambda host: _judge(host, racks, down)))


def _state(units: Mapping[str, Mapping[str, str]] | ProbeFailure) -> str:
    """Return the state of the service as systemd names it; empty where the unit is missing or was not read."""
    unit = {} if isinstance(units, ProbeFailure) else units.get(_SERVICE, {})
    return unit.get("ActiveState", "") if unit.get("LoadState") == "loaded" else ""


def _judge(host: NodeContext, racks: _Racks, down: dict[str, Outcome]) -> Report | Outcome:
    if host.sku.nvlink_domain != "rack":
        return Report(summary=f"the NVLinks of {host.sku.name} end at the host", evidence=host.evidence(_UNITS))
    units = host.facts.read(_UNITS, dict)
    if isinstance(units, ProbeFailure):
        return host.tool_failure(_UNITS, units)
    rack = racks[host.entry.rack]
    running = [name for name, state in rack.items() if state == _ACTIVE]
    state, wanted = rack[host.name], host.settings(ImexDomainSettings).service
    must_run = wanted == "running" or (wanted == "any" and (2 * len(running) > len(rack) or state == _FAILED))
    if state != _ACTIVE and must_run:
        text = (
            f"{_SERVICE} is {state or 'not there'}; it runs on {len(running)} of {count(len(rack), 'host')} of the rack"
        )
        hint = "`systemctl status nvidia-imex` on the node; its release must be that of the driver"
        found = Finding(cause="imex-not-running", text=text, hint=hint)
        return Report(summary=text, findings=(found,), evidence=host.evidence(_UNITS))
    if state != _ACTIVE:
        return Report(summary="IMEX is no service of this host", evidence=host.evidence(_UNITS))
    if wanted == "off":
        text = f"{_SERVICE} runs on the host, and the site states that workloads bring their own"
        hint = "`systemctl disable --now nvidia-imex` on the node: it holds what ComputeDomains need"
        found = Finding(cause="imex-running", text=text, hint=hint)
        return Report(summary=text, findings=(found,), evidence=host.evidence(_UNITS))
    domain = host.facts.read(_FACT, ImexDomain)
    if isinstance(domain, ProbeFailure):
        return host.tool_failure(_FACT, domain)
    return _domain(host, domain, rack, down)


def _domain(
    host: NodeContext, domain: ImexDomain, rack: Mapping[str, str], down: dict[str, Outcome]
) -> Report | Outcome:
    proof = host.evidence(_FACT)
    still = [name for name, state in rack.items() if state != _ACTIVE]
    if (domain.status != _UP or domain.unready) and still and len(domain.unready) <= len(still):
        return host.answer.blocked(by=SPEC.id, because=f"{_SERVICE} does not run on {', '.join(still)}")
    if domain.status != _UP or domain.unready:
        if host.entry.rack not in down:
            down[host.entry.rack] = _not_up(host, domain, rack)
        return down[host.entry.rack]
    findings: tuple[Finding, ...] = ()
    if len(domain.nodes) < len(rack):
        text = f"the domain has {count(len(domain.nodes), 'node')}; {len(rack)} hosts of {host.entry.rack} are in scope"
        hint = "compare /etc/nvidia-imex/nodes_config.cfg with the hosts of the rack; or accept that it has parts"
        findings = (Finding(cause="imex-domain-small", text=text, hint=hint, marginal=True),)
    return Report(
        summary=f"domain {domain.status}, {count(len(domain.nodes), 'node')} ready",
        findings=findings,
        measured=(Measure("imex_nodes_ready", len(domain.nodes), "count"),),
        expected=(Expectation("imex_nodes_ready", ">=", len(rack), Basis.INVENTORY, "count"),),
        evidence=proof,
    )


def _not_up(host: NodeContext, domain: ImexDomain, rack: Mapping[str, str]) -> Outcome:
    """Return the one outcome about a rack whose domain is not up: first the hosts that it names, then the others."""
    named = [node.name for node in domain.unready if node.name in rack]
    listed = ", ".join(f"{node.name or node.address} {node.status}" for node in domain.unready[:8])
    others = [name for name in rack if name not in named]
    first, *more = (*named, *others)
    text = f"domain {domain.status} as {host.name} sees it" + (f": {listed}" if listed else "")
    hint = "`nvidia-imex-ctl -N -H` and /var/log/nvidia-imex.log on the hosts that it names; ports between them open?"
    answer = type(host.answer)(SPEC, host.context, node_subject(first))
    subjects = tuple(map(node_subject, more))
    return answer.failed("imex-domain-not-up", text, hint, more_subjects=subjects, evidence=host.evidence(_FACT))


CHECK = Check(SPEC, OBSERVER, judge)
