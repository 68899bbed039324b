# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which supplies of a host stand in for each other: those that feed the same part of it.

A host of HPE has supplies for the system and others for the GPUs (spyroot/redfish_ctl, tests/hpe_fixtures), and a sum
over both says nothing of either. The site's word counts first, then the BMC's domains, then its groups of redundancy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from ...probe.redfish_power import POWER_DOMAIN, PowerSupply, Redundancy


@dataclass(frozen=True, slots=True, kw_only=True)
class Domain:
    """One part of a host with the supplies that are there for it; `name` is empty where they feed the whole host."""

    supplies: tuple[PowerSupply, ...]
    name: str = ""


def power_domains(
    supplies: Sequence[PowerSupply], groups: Sequence[Redundancy], stated: Mapping[str, Sequence[str]]
) -> tuple[Domain, ...]:
    """Return the parts of a host that have supplies of their own; one where all feed the whole.

    Args:
        supplies: those that are there.
        groups: what the BMC says of redundancy and of domains.
        stated: by the part's name patterns of the names of its supplies, empty if the site states none.

    Raises:
        LookupError: it is not told which supplies stand in for each other.
    """
    told = [group for group in groups if group.mode == POWER_DOMAIN]
    if stated:
        parts = {name: [supply for supply in supplies if matches(supply, stated[name])] for name in stated}
    elif told:
        parts = {group.name: _members(group, supplies) for group in told}
    else:
        return _by_groups(supplies, groups)
    return _parted(supplies, parts)


def matches(supply: PowerSupply, patterns: Sequence[str]) -> bool:
    """Tell whether a supply is meant by one of these patterns: of its name, or of the end of its path."""
    names = (supply.name, supply.path.rpartition("/")[2])
    return any(fnmatchcase(name, pattern) for pattern in patterns for name in names)


def _parted(supplies: Sequence[PowerSupply], parts: Mapping[str, Sequence[PowerSupply]]) -> tuple[Domain, ...]:
    for supply in supplies:
        of = sorted(name for name, members in parts.items() if supply in members)
        if len(of) != 1:
            raise LookupError(f"{supply.name} is told to feed {' and '.join(of) or 'no part of the host'}")
    if len(parts) == 1:
        return (Domain(supplies=tuple(supplies)),)
    # A part without a supply that is there stays a part: nothing feeds it.
    return tuple(Domain(name=name, supplies=tuple(members)) for name, members in parts.items())


def _by_groups(supplies: Sequence[PowerSupply], groups: Sequence[Redundancy]) -> tuple[Domain, ...]:
    """Return the parts by groups of redundancy: those that share a supply are one part."""
    parts: list[tuple[str, list[PowerSupply]]] = []
    for number, group in enumerate(groups):
        members = _members(group, supplies)
        if not members:
            if len(groups) > 1:
                text = (
                    f"the BMC has {len(groups)} groups of redundant supplies and does not say which supply is in which"
                )
                raise LookupError(text)
            continue
        name = group.name or f"group {number}"
        for other in [part for part in parts if any(member in members for member in part[1])]:
            parts.remove(other)
            members += [member for member in other[1] if member not in members]
            name = other[0]
        parts.append((name, members))
    if parts:
        lone = [supply.name for supply in supplies if not any(supply in members for _name, members in parts)]
        if lone:
            raise LookupError(f"{', '.join(lone)} is in none of the BMC's groups of redundant supplies")
        whole = Domain(supplies=tuple(supplies))
        return (whole,) if len(parts) == 1 else tuple(Domain(name=n, supplies=tuple(m)) for n, m in parts)
    watts = sorted({supply.capacity_w for supply in supplies if supply.capacity_w is not None})
    if len(watts) > 1:
        kinds = ", ".join(f"{value:g} W" for value in watts)
        raise LookupError(f"there are supplies of {kinds}, and the BMC does not say that they feed the same")
    return (Domain(supplies=tuple(supplies)),)


def _members(group: Redundancy, supplies: Sequence[PowerSupply]) -> list[PowerSupply]:
    """Return the supplies of a group; a pointer is written with and without its first stroke (`#/`, `#`)."""
    wanted = {path.replace("#/", "#") for path in group.members}
    return [supply for supply in supplies if supply.path.replace("#/", "#") in wanted]
