# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which packages of which version a host gets, in which transactions, and what is held afterwards."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ...outcome.errors import BringupError, InputError
from .declaration import Declaration
from .state import HostState, Named, PackageState, Part, named, nvlink_parts

# Parts that work with exactly one version of the driver, declared or not: those installed move along.
_EQUAL_PARTS: tuple[Part, ...] = ("fabric-manager", "nvsdm", "imex")
# The plugin of dnf that locks versions; an EL host has nothing else for it.
VERSION_LOCK = "python3-dnf-plugin-versionlock"
_EPOCH_AND_RELEASE = re.compile(r"^(?:\d+:)?(?P<upstream>[^-]+)(?:-[^-]*)?$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """One package at one version; with an empty `version` it takes what the repository has, and is not held."""

    name: str
    version: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageTransaction:
    """Packages that change at once.

    `title` is the purpose. `before` is installed on its own first. `stream` is the module stream of dnf to enable.
    `may_remove` is what the package manager may remove for it. `companions` are not requested, but where they come as
    dependencies they must have that version: a package manager takes the newest if a relation allows it.
    """

    title: str
    packages: tuple[Chosen, ...]
    before: str = ""
    stream: str = ""
    may_remove: tuple[str, ...] = ()
    companions: tuple[Chosen, ...] = ()


def wanted_sets(declared: Declaration, state: HostState, sku_services: Sequence[Part]) -> list[tuple[str, list[Named]]]:
    """Return the named sets of each transaction in order: adapters before the driver, which is built on them."""
    system, driver = state.system, declared.driver
    found: list[tuple[str, list[Named]]] = []
    if declared.ofed and declared.ofed.kind == "doca":
        found.append(("DOCA-OFED", [named("ofed", system, driver)]))
    if driver:
        parts: list[Part] = ["driver", *nvlink_parts(declared, sku_services, system.architecture)]
        found.append(("driver", [named(part, system, driver) for part in parts]))
    if declared.dcgm:
        parts = ["dcgm", "dcgm-proprietary"] if declared.dcgm.proprietary else ["dcgm"]
        found.append(("DCGM", [named(part, system, driver) for part in parts]))
    if declared.container_toolkit:
        found.append(("container toolkit", [named("container-toolkit", system, driver)]))
    if declared.time_source:
        part: Part = "chrony" if declared.time_source.kind == "chrony" else "ptp"
        found.append(("time source", [named(part, system, driver)]))
    return found


def package_names(declared: Declaration, state: HostState, sku_services: Sequence[Part]) -> tuple[str, ...]:
    """Return every name to query at the package manager."""
    names: dict[str, None] = {}
    for _title, sets in wanted_sets(declared, state, sku_services):
        for one in sets:
            names |= dict.fromkeys((*one.packages, *one.companions, *one.conflicts, *filter(None, [one.before])))
    for one in _undeclared_equal(declared, state):
        names |= dict.fromkeys(one.packages)
    if _is_locked(declared, state):
        names[VERSION_LOCK] = None
    return tuple(names)


def transactions(
    declared: Declaration, state: HostState, sku_services: Sequence[Part]
) -> tuple[tuple[PackageTransaction, ...], list[BringupError]]:
    """Return the transactions, and a problem for every package that the repositories do not have at that version."""
    found: list[PackageTransaction] = []
    problems: list[BringupError] = []
    for title, sets in wanted_sets(declared, state, sku_services):
        chosen: list[Chosen] = []
        looked_up: set[str] = set()
        for one in sets:
            for name in _names(one, declared, state):
                if name in looked_up:
                    continue
                looked_up.add(name)
                try:
                    chosen.append(_chosen(name, _version(one, name, declared), state))
                except BringupError as error:
                    problems.append(error)
        problems += _one_origin(title, chosen, state)
        first = next((one.before for one in sets if one.before and _offered(one.before, state)), "")
        found.append(
            PackageTransaction(
                title=title,
                packages=tuple(chosen),
                before=first,
                stream=next((f"nvidia-driver:{one.stream}" for one in sets if one.stream), ""),
                may_remove=tuple(name for one in sets for name in one.conflicts if name not in _requested(sets)),
                companions=tuple(_companions(sets, chosen, declared, state)),
            )
        )
    if _is_locked(declared, state) and not _offered(VERSION_LOCK, state):
        reason = "no repository of the host has it, and nothing else keeps versions there."
        problems.append(InputError(f"package {VERSION_LOCK}", reason, "mirror it; it is part of BaseOS"))
    if _is_locked(declared, state) and state.locks_off:
        reason = f"does not keep versions: {state.locks_off}."
        problems.append(InputError(f"package {VERSION_LOCK}", reason, "set it to what the package brings"))
    return tuple(found), problems


def held(found: Sequence[PackageTransaction]) -> tuple[Chosen, ...]:
    """Return the packages that are held at their version."""
    return tuple(package for one in found for package in one.packages if package.version)


def pinned(found: Sequence[PackageTransaction]) -> tuple[Chosen, ...]:
    """Return the packages that may only come at one version: those that are held, and their companions."""
    return (*held(found), *(package for one in found for package in one.companions if package.version))


def same_version(full: str, wanted: str) -> bool:
    """Whether a package version, with epoch and release of the packager, is the declared one."""
    match = _EPOCH_AND_RELEASE.match(full)
    return full == wanted or bool(match and match["upstream"] == wanted)


def _is_locked(declared: Declaration, state: HostState) -> bool:
    return state.family == "redhat" and any((declared.driver, declared.dcgm, declared.container_toolkit))


def _requested(sets: Sequence[Named]) -> set[str]:
    return {name for one in sets for name in one.packages}


def _names(one: Named, declared: Declaration, state: HostState) -> Iterator[str]:
    """Yield the packages of a set, its installed companions, and with the driver all others that must equal it."""
    coming = state.simulation.install if state.simulation else {}
    yield from one.packages
    yield from (name for name in one.companions if _package(name, state).installed or name in coming)
    if one.part == "driver":
        for other in _undeclared_equal(declared, state):
            yield from (name for name in other.packages if _package(name, state).installed)


def _companions(
    sets: Sequence[Named], chosen: Sequence[Chosen], declared: Declaration, state: HostState
) -> Iterator[Chosen]:
    names = {package.name for package in chosen}
    for one in sets:
        for name in (name for name in one.companions if name not in names):
            try:
                yield _chosen(name, _version(one, name, declared), state)
            except InputError:
                # Not every release has every companion.
                continue


def _undeclared_equal(declared: Declaration, state: HostState) -> Iterator[Named]:
    if declared.driver is None:
        return
    for part in _EQUAL_PARTS:
        try:
            yield named(part, state.system, declared.driver)
        except InputError:
            # There is no such package for that branch or processor, so none of it can be installed.
            continue


def _version(one: Named, name: str, declared: Declaration) -> str:
    if one.version == "newest" or name in one.newest:
        return ""
    own = declared.dcgm if one.part.startswith("dcgm") else declared.container_toolkit
    configured = own if one.version == "own" else declared.driver
    return configured.version if configured else ""


def _package(name: str, state: HostState) -> PackageState:
    return state.packages.get(name, PackageState())


def _offered(name: str, state: HostState) -> bool:
    package = _package(name, state)
    return bool(package.installed or package.available)


def _chosen(name: str, wanted: str, state: HostState) -> Chosen:
    package = _package(name, state)
    if not wanted:
        if _offered(name, state):
            return Chosen(name=name)
        raise InputError(f"package {name}", "no repository of the host has it.", _REPOSITORY)
    if same_version(package.installed, wanted):
        return Chosen(name=name, version=package.installed)
    for offer in package.available:
        if same_version(offer.version, wanted):
            return Chosen(name=name, version=offer.version)
    there = ", ".join(dict.fromkeys(offer.version for offer in package.available)) or "no version of it"
    raise InputError(
        f"package {name}", f"version {wanted} is not in the repositories of the host: {there}.", _REPOSITORY
    )


_REPOSITORY = "mirror the whole set of that version, or declare a version that the repositories have whole"


def _one_origin(title: str, chosen: Sequence[Chosen], state: HostState) -> list[BringupError]:
    """Return problems where packages of one version come from several repositories: packages of the same names from two
    repositories do not fit together."""
    sources = {
        package.name: {o.origin for o in _package(package.name, state).available if o.version == package.version}
        for package in chosen
        if package.version
    }
    requested = {name: origins for name, origins in sources.items() if origins}
    if not requested or set.intersection(*requested.values()):
        return []
    texts = (f"{name} from {', '.join(sorted(origins))}" for name, origins in requested.items())
    reason = f"would come from different repositories: {'; '.join(texts)}."
    return [InputError(title, reason, "leave one of these repositories out on the host, or mirror the set whole")]
