# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Ports for GPU traffic by adapter, and the setting of most ports of a SKU.

A port is compared with all ports and not only with those of its name: otherwise a name that is set wrong on all hosts
would look right.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, TypeVar, cast

from ...collect.host_facts import FleetFacts
from ...collect.tool_reading import ProbeFailure
from ...outcome.wording import first_of
from ...probe.rdma_link import RdmaLink
from ..spec import CheckSpec, JudgeContext
from .hca_state import SPEC as HCA_STATE
from .hca_state import HcaStateSettings
from .node_context import NodeContext
from .uniform import uniformity

# How many ports a text names.
NAMED_PORTS = 4


class _Port(Protocol):
    @property
    def device(self) -> str: ...


P = TypeVar("P", bound=_Port)


def adapter_names(host: NodeContext) -> list[str]:
    """Return the adapters for GPU traffic by name, each once, however many of its ports carry it."""
    configured = host.context.settings_of(HCA_STATE.id, HcaStateSettings, host.entry.sku).hcas
    return list(dict.fromkeys(name.partition(":")[0] for name in host.adapters(configured).names))


def ports_of(host: NodeContext, fact: str, _kind: type[P]) -> dict[str, P]:
    """Return what a tool reports about the ports for GPU traffic, by adapter; empty where it is not known.

    Args:
        host: the host.
        fact: what the tool reported, a tuple with an entry for each network interface.
        _kind: the type of the entries.
    """
    ports, links = host.facts.read(fact, tuple), host.facts.read("rdma_links", tuple)
    if isinstance(ports, ProbeFailure) or isinstance(links, ProbeFailure):
        return {}
    names = adapter_names(host)
    known: tuple[RdmaLink, ...] = links
    devices = {link.netdev: link.device for link in known if link.device in names}
    return {devices[port.device]: port for port in cast("tuple[P, ...]", ports) if port.device in devices}


def usual_of_ports(
    spec: CheckSpec,
    observed: FleetFacts,
    context: JudgeContext,
    ports: Callable[[NodeContext], Mapping[str, P]],
    reported: Callable[[P], str],
) -> dict[str, str]:
    """Return, by SKU, the setting of most of its ports as a text; empty where two settings are equally frequent."""
    known: dict[str, dict[str, str]] = {}
    for entry in context.site.in_scope:
        if entry.name in observed.hosts and entry.sku in context.hardware:
            found = ports(NodeContext(spec, context, observed, entry))
            words = {f"{entry.name}/{name}": reported(port) for name, port in found.items()}
            known.setdefault(entry.sku, {}).update(words)
    return {sku: uniformity(words).expected for sku, words in known.items()}


def most_ports(usual: str) -> str:
    """Return the text of what odd ports are compared with: the usual setting, or that there is none."""
    return f"most ports: {usual}" if usual else "as many ports have another setting"


def odd_ports(odd: Mapping[str, P], reported: Callable[[P], str]) -> str:
    """Return the text of the ports with their settings; ports with the same setting are listed together."""
    by_words: dict[str, list[str]] = {}
    for name, port in odd.items():
        by_words.setdefault(reported(port), []).append(f"{name} ({port.device})")
    return "; ".join(f"{first_of(names, NAMED_PORTS)}: {words}" for words, names in by_words.items())
