# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The clusters of a fleet from a directory of files, one cluster a file."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from ...outcome.errors import BringupError, InputError, NotFoundError, ProblemsError
from ...outcome.wording import first_of
from ...runtime.strict import decode_file
from ..inventory.variables import unknown_names

# The variable of an inventory whose files have problems: Ansible makes a warning of them, above pages of others.
UNREAD = "_gpufleet_cluster_files"
SUFFIXES = (".yml", ".yaml")
KUBERNETES, SLURM = "kubernetes", "slurm"
# Names of Ansible groups are made from it: it has only characters that they may have, except the hyphen.
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")
_RANGE = re.compile(r"\[(\d+):(\d+)\]")
_MOST_IN_A_RANGE = 10_000
# Ansible's own host, and the host of a fleet that represents none of its clusters.
_RESERVED = ("all", "localhost", "ungrouped")
# The variables that a key of the file sets, so that `vars` may not set them again.
KEYS = {
    "gpufleet_kubeconfig": "kubeconfig",
    "gpufleet_orchestrator": "orchestrator",
    "gpufleet_criteria": "criteria",
    "gpufleet_profile": "profile",
    "gpufleet_driver_owner": "driver_owner",
    "gpufleet_run_dir": "run_dir",
    "gpufleet_sku": "sku",
    "gpufleet_rack": "racks",
}
# Set by who begins a run, or by the inventory of a fleet.
_NOT_OF_A_CLUSTER = ("gpufleet_run", "gpufleet_cluster", "gpufleet_group")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rack:
    """A rack: its hosts, with ranges as `gpu[01:08]`, and their SKU where it differs from that of the cluster."""

    hosts: tuple[str, ...]
    sku: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFile:
    """A cluster as configured in its file. Empty fields are left to the cluster's own inventory, or to the release.

    `inventory` is the path of the cluster's own inventory; without it `racks` and `hosts` name its hosts, of `sku`.
    `kubeconfig`, `slurm_conf`, `inventory` and `run_dir` are paths, relative to the directory of the file. `vars` are
    more variables of its runs.
    """

    name: str
    ring: str = ""
    site: str = ""
    owners: tuple[str, ...] = ()
    orchestrator: Literal["kubernetes", "slurm"] | None = None
    kubeconfig: str = ""
    slurm_conf: str = ""
    criteria: dict[str, Any] = field(default_factory=dict)
    profile: str = ""
    driver_owner: Literal["host", "operator"] | None = None
    inventory: str = ""
    sku: str = ""
    racks: dict[str, Rack] = field(default_factory=dict)
    hosts: tuple[str, ...] = ()
    run_dir: str = ""
    vars: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterHost:
    """A GPU host of a cluster: its name there and its variables, including those of its connection."""

    name: str
    variables: dict[str, Any]

    @property
    def sku(self) -> str:
        """Its SKU; empty where it is not configured, or is computed by a template."""
        return _plain(self.variables.get("gpufleet_sku"))

    @property
    def rack(self) -> str:
        """Its rack; empty as for the SKU."""
        return _plain(self.variables.get("gpufleet_rack"))


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnInventory:
    """The content of a cluster's own inventory: its GPU hosts, and its variables for all hosts, templates
    unresolved."""

    hosts: tuple[ClusterHost, ...]
    variables: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A cluster of a fleet, checked: its file with all paths absolute, and its GPU hosts.

    `site_name` is the name in its reports, whatever its own inventory has. `orchestrator` and `kubeconfig` are those of
    its own inventory where the file has none.
    """

    file: Path
    stated: ClusterFile
    hosts: tuple[ClusterHost, ...]
    site_name: str
    orchestrator: str
    kubeconfig: str

    @property
    def name(self) -> str:
        """Its name."""
        return self.stated.name

    @property
    def variables(self) -> dict[str, Any]:
        """The variables that its runs get from the file; only those that the file sets."""
        configured = self.stated
        found = {
            "gpufleet_site_name": self.site_name,
            "gpufleet_kubeconfig": configured.kubeconfig,
            "gpufleet_orchestrator": configured.orchestrator,
            "gpufleet_criteria": configured.criteria,
            "gpufleet_profile": configured.profile,
            "gpufleet_driver_owner": configured.driver_owner,
            "gpufleet_run_dir": configured.run_dir,
        }
        return {**configured.vars, **{name: value for name, value in found.items() if value}}


Reader = Callable[[Path], OwnInventory]


def read_clusters(
    directory: Path, runs: Path, read_inventory: Reader, *, besides: Sequence[Path] = ()
) -> list[Cluster]:
    """Return the clusters of a directory, by name.

    Args:
        directory: where the files are.
        runs: the directory in which each cluster without a configured one has a directory for its runs.
        read_inventory: reads a cluster's own inventory.
        besides: files of the directory that describe no cluster.

    Raises:
        NotFoundError: there is no such directory, or no file of a cluster in it.
        ProblemsError: every problem of every file.
    """
    files = [path for path in _files(directory) if path.resolve() not in {other.resolve() for other in besides}]
    if not files:
        hint = f"write a file for each cluster, such as {directory / 'lab1.yml'}"
        raise NotFoundError(str(directory), f"has no file of a cluster (*{', *'.join(SUFFIXES)}).", hint)
    problems: list[BringupError] = []
    clusters = []
    for path in files:
        try:
            configured = _with_paths(decode_file(ClusterFile, path), path.parent, runs)
        except BringupError as error:
            problems += error.problems if isinstance(error, ProblemsError) else [error]
            continue
        own, found = None, list(_problems(configured, path))
        if configured.inventory and not found:
            try:
                own = read_inventory(Path(configured.inventory))
            except BringupError as error:
                found.append(InputError(f"{path}: inventory", f"{error.subject}: {error.reason}", error.hint))
        cluster = _cluster(configured, own, path)
        # The values of its own inventory are unknown where that cannot be read.
        found += _of_both(cluster, own) if own is not None or not configured.inventory else ()
        problems += found
        clusters.append(cluster)
    problems += _shared(clusters)
    if problems:
        raise ProblemsError(str(directory), tuple(problems))
    return sorted(clusters, key=lambda cluster: cluster.name)


def group_name(kind: str, *names: str) -> str:
    """Return the Ansible group for a cluster, ring, site and so on: only letters, digits and underscores."""
    return "_".join((kind, *(re.sub(r"[^A-Za-z0-9_]", "_", name) for name in names)))


def expanded(pattern: str) -> tuple[str, ...]:
    """Return the hosts of `gpu[01:08]`, the notation of Ansible inventories; a name without a range is itself.

    Raises:
        InputError: a range that ends before it begins or is too long, or other brackets.
    """
    found = _RANGE.search(pattern)
    if found is None:
        if "[" in pattern or "]" in pattern or not pattern.strip() or pattern != pattern.strip():
            raise InputError(pattern, "is no name of a host.", "write gpu01, or a range of numbers as gpu[01:08]")
        return (pattern,)
    first, last = int(found[1]), int(found[2])
    if not 0 <= last - first < _MOST_IN_A_RANGE:
        reason = f"has a range from {first} to {last}; expected 1 to {_MOST_IN_A_RANGE} hosts."
        raise InputError(pattern, reason, "correct the range")
    before, after = pattern[: found.start()], pattern[found.end() :]
    names = (f"{before}{number:0{len(found[1])}}{after}" for number in range(first, last + 1))
    return tuple(host for name in names for host in expanded(name))


def _files(directory: Path) -> list[Path]:
    if not directory.is_dir():
        raise NotFoundError(
            str(directory), "is no directory.", "name the directory of the files of your clusters (path)"
        )
    found = (path for path in directory.iterdir() if path.suffix in SUFFIXES and not path.name.startswith("."))
    return sorted(path for path in found if path.is_file())


def _with_paths(configured: ClusterFile, here: Path, runs: Path) -> ClusterFile:
    def path(text: str) -> str:
        return os.path.normpath((here / Path(text).expanduser()).absolute()) if text else ""

    return replace(
        configured,
        kubeconfig=path(configured.kubeconfig),
        slurm_conf=path(configured.slurm_conf),
        inventory=path(configured.inventory),
        run_dir=path(configured.run_dir) or path(str(runs.absolute() / configured.name)),
    )


def _problems(configured: ClusterFile, path: Path) -> Iterator[InputError]:
    """Yield what is wrong with a file by itself."""
    if not _NAME.fullmatch(configured.name) or configured.name in _RESERVED:
        reason = (
            f"is {configured.name!r}, expected small letters, digits and hyphens, and none of {', '.join(_RESERVED)}."
        )
        yield InputError(f"{path}: name", reason, f"name: {path.stem.lower()}")
    own = configured.inventory
    for key in ("racks", "hosts", "sku"):
        if own and getattr(configured, key):
            yield InputError(
                f"{path}: {key}", "is stated beside inventory, which has the hosts.", f"remove {key}, or inventory"
            )
    if not own and not configured.racks and not configured.hosts:
        yield InputError(
            f"{path}: hosts", "missing: the cluster has no host.", "add racks, hosts, or inventory (a path)"
        )
    if own and not Path(own).exists():
        yield InputError(f"{path}: inventory", f"{own} does not exist.", "correct the path")
    yield from _host_problems(configured, path)
    for name in sorted(configured.vars):
        if name in KEYS:
            yield InputError(f"{path}: vars.{name}", "has a key of its own.", f"state {KEYS[name]} instead")
        elif name in _NOT_OF_A_CLUSTER or name.startswith("gpufleet_fleet_"):
            yield InputError(f"{path}: vars.{name}", "is no variable of one cluster.", "remove it")
    for error in unknown_names("vars", configured.vars):
        yield InputError(f"{path}: vars.{error.subject}", error.reason, error.hint)


def _host_problems(configured: ClusterFile, path: Path) -> Iterator[InputError]:
    seen: dict[str, str] = {}
    parts = {f"racks.{name}": (rack.hosts, rack.sku) for name, rack in configured.racks.items()}
    for place, (patterns, sku) in {**parts, "hosts": (configured.hosts, "")}.items():
        if patterns and not sku and not configured.sku:
            yield InputError(
                f"{path}: sku", f"missing: the hosts of {place} have none.", "sku: dgx-h100, or that of yours"
            )
        if not patterns and place != "hosts":
            yield InputError(f"{path}: {place}.hosts", "is empty.", f"name its hosts, or remove {place}")
        for pattern in patterns:
            try:
                names = expanded(pattern)
            except InputError as error:
                yield InputError(f"{path}: {place}", f"{error.subject!r} {error.reason}", error.hint)
                continue
            for name in names:
                if name in seen:
                    yield InputError(f"{path}: {place}", f"has {name}, which {seen[name]} has as well.", "name it once")
                seen.setdefault(name, place)


def _of_both(cluster: Cluster, own: OwnInventory | None) -> Iterator[InputError]:
    """Yield what is missing in both a file and the cluster's own inventory."""
    configured, path = cluster.stated, cluster.file
    slurm = cluster.orchestrator == SLURM
    if not slurm and not cluster.kubeconfig:
        reason = "missing: whatever kubeconfig the controller has would be taken for this cluster."
        yield InputError(f"{path}: kubeconfig", reason, "kubeconfig: PATH, or orchestrator: slurm")
    if slurm and not configured.slurm_conf:
        reason = "missing: whatever Slurm the controller belongs to would be taken for this cluster."
        yield InputError(f"{path}: slurm_conf", reason, "slurm_conf: /etc/slurm/slurm.conf, or where it is")
    if configured.slurm_conf and not slurm:
        yield InputError(f"{path}: slurm_conf", "is stated, and orchestrator is not slurm.", "orchestrator: slurm")
    if own is not None and not own.hosts:
        group = own.variables.get("gpufleet_group") or "gpu_nodes"
        reason = f"{configured.inventory} has no host in group {group}, or cannot be read."
        yield InputError(f"{path}: inventory", reason, f"see ansible-inventory -i {configured.inventory} --graph")


def _shared(clusters: Iterable[Cluster]) -> Iterator[InputError]:
    """Yield what two clusters share and must not: the tests of one would be taken for those of the other."""
    clusters = list(clusters)
    for what in ("name", "site_name", "kubeconfig", "slurm_conf", "inventory", "run_dir"):
        by_value: dict[str, list[Cluster]] = {}
        for cluster in clusters:
            # The kubeconfig of its own inventory counts as well.
            value = getattr(cluster if what in ("site_name", "kubeconfig") else cluster.stated, what)
            by_value.setdefault(value, []).append(cluster)
        for value, found in by_value.items():
            # Two clusters of one name share the directory of runs for that reason alone.
            names = {c.name for c in found} if what in ("run_dir", "site_name") else {c.file for c in found}
            if value and len(names) > 1:
                others = first_of([c.file.name for c in found[1:]], 3)
                key = "vars.gpufleet_site_name" if what == "site_name" else what
                yield InputError(
                    f"{found[0].file}: {key}", f"{value} is that of {others} as well.", "state one of its own"
                )


def _cluster(configured: ClusterFile, own: OwnInventory | None, path: Path) -> Cluster:
    variables = own.variables if own is not None else {}
    return Cluster(
        file=path,
        stated=configured,
        hosts=own.hosts if own is not None else tuple(_hosts(configured)),
        # Two clusters with copies of one inventory would be one site: one history, one row of fleet-status.
        site_name=str(configured.vars.get("gpufleet_site_name") or configured.name),
        orchestrator=configured.orchestrator or _plain(variables.get("gpufleet_orchestrator")) or KUBERNETES,
        # A template counts as a distinct path, whatever its value.
        kubeconfig=configured.kubeconfig or str(variables.get("gpufleet_kubeconfig") or ""),
    )


def _hosts(configured: ClusterFile) -> Iterator[ClusterHost]:
    for place, rack in [*configured.racks.items(), ("", Rack(hosts=configured.hosts))]:
        about = {"gpufleet_sku": rack.sku or configured.sku, "gpufleet_rack": place}
        for pattern in rack.hosts:
            try:
                names = expanded(pattern)
            except InputError:
                continue
            for name in names:
                yield ClusterHost(name=name, variables={key: value for key, value in about.items() if value})


def _plain(value: Any) -> str:
    """Return the text of a variable; empty for a template, whose value is unknown before a run."""
    text = "" if value is None else str(value)
    return "" if "{{" in text or "{%" in text else text
