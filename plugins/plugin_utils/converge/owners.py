# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""One owner for each part of a host: a part that is declared and owned by somebody else is an error that names both."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cache

from ..outcome.errors import BringupError, InputError
from ..runtime.recipe_files import RECIPES
from ..runtime.strict import decode_file
from .declaration import VARIABLE, Declaration
from .state import HostState


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerMark:
    """By what another owner of a part is seen; the fields are described in recipes/host_owners.yaml."""

    owner: str
    part: str
    leave: str
    source: str
    path: str = ""
    label: str = ""
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Owners:
    owners: tuple[OwnerMark, ...]


@cache
def load_owner_marks() -> tuple[OwnerMark, ...]:
    """Return the marks of all other owners.

    Raises:
        BringupError: the file is not what it must be.
    """
    return decode_file(_Owners, RECIPES / "host_owners.yaml").owners


def mark_paths() -> tuple[str, ...]:
    """Return the paths that the host is asked for, with `*` for any name."""
    return tuple(dict.fromkeys(mark.path for mark in load_owner_marks() if mark.path))


# What an operator that owns the driver brings with it.
_WITH_THE_DRIVER = ("driver", "nvlink", "container_toolkit")


def owner_problems(
    declared: Declaration, state: HostState, labels: Mapping[str, str], driver_owner: str
) -> list[BringupError]:
    """Return one problem for each declared part that somebody else owns."""
    return [*_site(declared, driver_owner), *_marks(declared, state, labels), *_settings(declared, state)]


def _site(declared: Declaration, driver_owner: str) -> Iterator[BringupError]:
    if driver_owner != "operator":
        return
    for part in (part for part in _WITH_THE_DRIVER if part in declared.parts):
        yield _conflict(part, "the GPU operator", "gpufleet_driver_owner is operator", "declare one of the two")


def _marks(declared: Declaration, state: HostState, labels: Mapping[str, str]) -> Iterator[BringupError]:
    for mark in load_owner_marks():
        if mark.part not in declared.parts:
            continue
        seen = [path for path in state.marks if mark.path and fnmatch(path, mark.path)]
        value = labels.get(mark.label) if mark.label else None
        if value is not None and (not mark.values or value in mark.values):
            seen.append(f"node label {mark.label}={value}")
        if seen:
            yield _conflict(mark.part, mark.owner, ", ".join(seen), mark.leave)


def _settings(declared: Declaration, state: HostState) -> Iterator[BringupError]:
    for key, value, path in (row for row in state.set_elsewhere if len(row) == 3):
        if key in declared.sysctl and " ".join(value.split()) != " ".join(declared.sysctl[key].split()):
            found = f"{path} sets {key} = {value} and is read after our file"
            yield _conflict("sysctl", f"the owner of {path}", found, f"take {key} out of one of the two")


def _conflict(part: str, owner: str, seen: str, leave: str) -> BringupError:
    return InputError(part, f"has two owners: {VARIABLE} declares it, and {owner} has it ({seen}).", leave)
