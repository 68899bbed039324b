# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The site: what the inventory says there is, in one typed value that every gate reads."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from ..outcome.decisions import Acceptance, Quarantine, Waiver
from ..outcome.gates import GATE_IDS
from ..outcome.model import SubjectKind


class SiteProfile(str, Enum):
    """What kind of place it is; it decides which checks can be declared (recipes/site_profiles.yaml)."""

    ON_PREMISES = "on_premises"
    COLOCATION = "colocation"
    CLOUD = "cloud"


class DriverOwner(str, Enum):
    """Who installs the GPU driver: the host (gate nodes) or the GPU Operator (gate gpu_stack)."""

    HOST = "host"
    OPERATOR = "operator"


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """One GPU host of the inventory.

    `sku` is a name or alias of recipes/hardware/; `node_name` is its Kubernetes node; `rack` may be empty where
    no facility check is declared. `hcas` are the names of its adapters for GPU traffic, rail by rail; empty: those of
    its SKU. `bmc` is the URL of its BMC's Redfish service, empty where the inventory states none.
    """

    name: str
    sku: str
    node_name: str
    rack: str = ""
    hcas: tuple[str, ...] = ()
    bmc: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SitePool:
    """One pool of GPU nodes: what is stated of it beside the site's criteria, and the labels of its nodes."""

    name: str
    criteria: dict[str, str] = field(default_factory=dict)
    node_selector: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """The site as the inventory describes it.

    `gates` is the scope of this run, `from_gate` where it is to start (empty: at its first gate); `capabilities` are
    the words that checks require (from the profile and the inventory), `missing` says why the profile lacks the others;
    `settings` maps a check id or gate id to its options; `check_dirs` are directories with checks of its own.
    """

    name: str
    profile: SiteProfile
    hosts: tuple[Host, ...]
    gates: tuple[str, ...] = GATE_IDS
    from_gate: str = ""
    capabilities: tuple[str, ...] = ()
    missing: dict[str, str] = field(default_factory=dict)
    driver_owner: DriverOwner = DriverOwner.HOST
    orchestrator: str = "kubernetes"
    minimum_nodes: int = 0
    criteria: dict[str, str] = field(default_factory=dict)
    settings: dict[str, dict[str, Any]] = field(default_factory=dict)
    waivers: tuple[Waiver, ...] = ()
    acceptances: tuple[Acceptance, ...] = ()
    quarantine: tuple[Quarantine, ...] = ()
    rehearsal: bool = False
    pools: tuple[SitePool, ...] = ()
    check_dirs: tuple[str, ...] = ()
    schema_version: int = 1

    @property
    def adds_nodes(self) -> bool | None:
        """Whether nodes are added to the cluster as pods need them, as it states; None where it says nothing."""
        stated = self.settings.get("cluster-autoscaling")
        return None if stated is None else stated.get("added", True) is not False

    @property
    def quarantined(self) -> frozenset[str]:
        """Names of the hosts set aside."""
        return frozenset(entry.node for entry in self.quarantine)

    @property
    def in_scope(self) -> tuple[Host, ...]:
        """The hosts that the gates are about: all but the quarantined ones."""
        quarantined = self.quarantined
        return tuple(host for host in self.hosts if host.name not in quarantined)

    @property
    def before_from_gate(self) -> tuple[str, ...]:
        """The gates in scope that are not run if they can be taken over from earlier runs."""
        return self.gates[: self.gates.index(self.from_gate)] if self.from_gate else ()

    @property
    def racks(self) -> tuple[str, ...]:
        """Names of the racks of all hosts, sorted. A quarantined host still draws power."""
        return tuple(sorted({host.rack for host in self.hosts if host.rack}))

    @property
    def without_equal(self) -> tuple[Host, ...]:
        """The hosts in scope whose SKU no other host of the site has, where there are several hosts."""
        counts = Counter(host.sku for host in self.hosts)
        alone = tuple(host for host in self.in_scope if counts[host.sku] == 1)
        return alone if len(self.hosts) > 1 else ()

    def expected_subjects(self, kind: SubjectKind) -> tuple[str, ...]:
        """Return the names of the subjects that a check per that kind must answer for.

        Raises:
            ValueError: subjects of that kind are not known from the inventory alone.
        """
        if kind is SubjectKind.NODE:
            return tuple(host.name for host in self.in_scope)
        if kind is SubjectKind.RACK:
            return self.racks
        if kind in (SubjectKind.SITE, SubjectKind.CLUSTER):
            return (self.name,)
        raise ValueError(f"the inventory does not list subjects of kind {kind.value}")
