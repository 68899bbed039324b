# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a stand-in chart consists of: the facts of standins.yaml as values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from ...outcome.errors import InputError
from ...runtime.strict import read_yaml

_FACTS = Path(__file__).with_name("standins.yaml")


@dataclass(frozen=True, slots=True)
class Crd:
    """One custom resource: `group`, `version`, `kind`, `plural`, `scope`, and whether its status is a subresource."""

    group: str
    version: str
    kind: str
    plural: str
    scope: str
    status: bool


@dataclass(frozen=True, slots=True)
class Workload:
    """One Deployment, DaemonSet or StatefulSet; `name`, `when` and `crashes_when` are Helm text.

    `reads` says where in the values what of its pods stands (nodeSelector, tolerations, affinity, priorityClassName,
    runtimeClassName), and how many there are (replicas). `selects` are labels of nodes that its pods want, `priority`
    is the priority class that its template fixes.
    """

    kind: str
    name: str
    containers: tuple[str, ...]
    labels: Mapping[str, str] = field(default_factory=dict)
    when: str = ""
    crashes_when: str = ""
    reads: Mapping[str, str] = field(default_factory=dict)
    selects: Mapping[str, str] = field(default_factory=dict)
    priority: str = ""


@dataclass(frozen=True, slots=True)
class Refusal:
    """What a chart does not render with: a Helm condition, and what it says."""

    when: str
    says: str


@dataclass(frozen=True, slots=True)
class StandIn:
    """What one chart creates, as standins.yaml has it."""

    crds: tuple[Crd, ...] = ()
    crds_in: str = "crds"
    crds_when: str = ""
    schemas: Mapping[str, str] = field(default_factory=dict)
    workloads: tuple[Workload, ...] = ()
    values: Mapping[str, Any] = field(default_factory=dict)
    templates: tuple[str, ...] = ()
    refuses: tuple[Refusal, ...] = ()
    kube_version: str = ""


def parse_crd(line: str) -> Crd:
    """Return a custom resource from `<group>/<version> <Kind> <plural> <scope> [status]`.

    Raises:
        InputError: the line has another form.
    """
    words = line.split()
    group, slash, version = words[0].rpartition("/") if words else ("", "", "")
    if (
        len(words) not in (4, 5)
        or not slash
        or words[3] not in ("Cluster", "Namespaced")
        or words[4:] not in ([], ["status"])
    ):
        raise InputError(f"stand-in CRD {line!r}", "not `group/version Kind plural Cluster|Namespaced [status]`.")
    return Crd(group, version, words[1], words[2], words[3], len(words) == 5)


def _workload(entry: Mapping[str, Any]) -> Workload:
    return Workload(
        kind=entry["kind"],
        name=entry["name"],
        containers=tuple(entry["containers"]),
        labels=entry.get("labels", {}),
        when=entry.get("when", ""),
        crashes_when=entry.get("crashes_when", ""),
        reads=_reads(entry.get("reads", {})),
        selects=entry.get("selects", {}),
        priority=entry.get("priority", ""),
    )


_POD_FIELDS = ("nodeSelector", "tolerations", "affinity", "priorityClassName")


def _reads(given: str | Mapping[str, str]) -> Mapping[str, str]:
    """Return where each field stands; a text is the one mapping that has all four, `.` for the values themselves."""
    if not isinstance(given, str):
        return given
    prefix = "" if given == "." else f"{given}."
    return {name: f"{prefix}{name}" for name in _POD_FIELDS}


@lru_cache(maxsize=1)
def load_stand_ins() -> Mapping[str, StandIn]:
    """Return every known stand-in by chart name and alias."""
    found: dict[str, StandIn] = {}
    for name, entry in read_yaml(_FACTS).items():
        stand_in = StandIn(
            crds=tuple(parse_crd(line) for line in entry.get("crds", [])),
            crds_in=entry.get("crds_in", "crds"),
            crds_when=entry.get("crds_when", ""),
            schemas=entry.get("schemas", {}),
            workloads=tuple(_workload(workload) for workload in entry["workloads"]),
            values=entry.get("values", {}),
            templates=tuple(entry.get("templates", [])),
            refuses=tuple(Refusal(**refusal) for refusal in entry.get("refuses", [])),
            kube_version=entry.get("kube_version", ""),
        )
        found.update(dict.fromkeys([name, *entry.get("aliases", [])], stand_in))
    return found


def stand_in_for(chart: str, stated: Sequence[Mapping[str, str]] = ()) -> StandIn:
    """Return the stand-in of a chart; one that we know nothing about gets the workloads (kind, name) that its registry
    entry states, else one Deployment named after its release."""
    known = load_stand_ins().get(chart)
    if known:
        return known
    if stated:
        return StandIn(workloads=tuple(Workload(entry["kind"], entry["name"], (entry["name"],)) for entry in stated))
    return StandIn(workloads=(Workload("Deployment", '{{ include "standin.fullname" . }}', (chart,)),))
