# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What is recorded about going from one version of a component to another: recipes/upgrades.yaml. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from ..constraint.version import Version, parse_version
from ..outcome.errors import InputError
from ..runtime.recipe_files import RECIPES
from ..runtime.strict import decode, read_yaml


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule; see the head of the file."""

    source: str
    one_minor_at_a_time: bool = False
    releases: tuple[str, ...] = ()
    removed_below: str = ""
    at: str = ""
    replaced: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossing:
    """What a change of version needs: `skipped` minor versions to go through (`1.18`), workloads that are `replaced`
    (`Deployment name`), that all of it is `removed` first, and the `sources` that say so."""

    skipped: tuple[str, ...] = ()
    removed: bool = False
    replaced: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Upgrades:
    """The whole file: rules by component."""

    components: dict[str, tuple[Rule, ...]]


@cache
def upgrade_rules() -> Upgrades:
    """Return the rules.

    Raises:
        InputError: the file is not what it should be.
    """
    path = RECIPES / "upgrades.yaml"
    return decode(Upgrades, read_yaml(path), str(path))


def crossing_of(component: str, found: str, wanted: str) -> Crossing:
    """Return what the change of a component from one version to another needs, nothing where no rule applies.

    Args:
        component: its name.
        found: the installed version, as charts write it; one that cannot be ordered crosses nothing.
        wanted: the recipe's version.
    """
    old, new = _version(found), _version(wanted)
    if old is None or new is None:
        return Crossing()
    skipped: tuple[str, ...] = ()
    replaced: tuple[str, ...] = ()
    removed = False
    sources: list[str] = []
    for rule in upgrade_rules().components.get(component, ()):
        between = _minors_between(old, new) if rule.one_minor_at_a_time else _releases_between(old, new, rule.releases)
        breaks = bool(rule.removed_below) and _breaks(old, new, parse_version(rule.removed_below))
        crossed = rule.replaced if rule.at and _crosses(old, new, parse_version(rule.at)) else ()
        skipped, replaced, removed = (*skipped, *between), (*replaced, *crossed), removed or breaks
        sources += [rule.source] if between or crossed or breaks else []
    return Crossing(skipped=skipped, removed=removed, replaced=replaced, sources=tuple(sources))


def _minors_between(old: Version, new: Version) -> tuple[str, ...]:
    """Return the minor versions between two versions of one major, none on the way down."""
    major, minor, _patch = old.padded
    if new.padded[0] != major:
        return ()
    return tuple(f"{major}.{number}" for number in range(minor + 1, new.padded[1]))


def _releases_between(old: Version, new: Version, releases: tuple[str, ...]) -> tuple[str, ...]:
    """Return the releases (`25.3`) after the one of the old version and before that of the new one."""
    first, last = old.padded[:2], new.padded[:2]
    return tuple(text for text in releases if first < parse_version(text).padded[:2] < last)


def _breaks(old: Version, new: Version, below: Version) -> bool:
    """Tell whether the minor version changes, whichever way, and one of both is below that version."""
    return old.padded[:2] != new.padded[:2] and (old.compare(below) < 0 or new.compare(below) < 0)


def _crosses(old: Version, new: Version, at: Version) -> bool:
    return (old.compare(at) < 0) != (new.compare(at) < 0)


def _version(text: str) -> Version | None:
    try:
        return parse_version(text)
    except InputError:
        return None
