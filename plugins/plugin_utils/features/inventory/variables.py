# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The variables that a user may set: every name that playbooks and roles read, and their specs.

The variables of a rehearsal are included where that collection is installed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from ...outcome.errors import InputError
from ...run.stats import STATS
from ...runtime.files import COLLECTION_ROOT, REHEARSAL, collection_root
from ...runtime.foreign_yaml import documents
from .app import HOST_VARIABLES

PREFIX = "gpufleet_"
_NAME = re.compile(rf"\b{PREFIX}[a-z0-9_]+")
# A name without our prefix that is read where the one with the prefix is not set.
_BESIDE = re.compile(rf"(?<![\w.])(?!{PREFIX})([a-z][a-z0-9_]+) \| default\(")
_READ = ("playbooks/*.yml", "playbooks/parts/*.yml", "roles/*/tasks/*.yml", "roles/*/defaults/*.yml")
_SPECS = "roles/{role}/meta/argument_specs.yml"


def _files(pattern: str) -> Iterator[Path]:
    """Yield the files of this collection, and of the rehearsal collection if it is installed."""
    for root in (COLLECTION_ROOT, collection_root(REHEARSAL)):
        yield from sorted(root.glob(pattern)) if root else ()


@cache
def options() -> dict[str, Mapping[str, Any]]:
    """Return the documented options of all roles."""
    found: dict[str, Mapping[str, Any]] = {}
    for path in _files(_SPECS.format(role="*")):
        for name, option in _options_of(path):
            # Where several roles describe one, the longest description counts.
            if len(option) > len(found.get(name, ())):
                found[name] = option
    return found


def role_options(role: str) -> dict[str, Mapping[str, Any]]:
    """Return the documented options of one role, of its entry point `main`."""
    return dict(_options_of(COLLECTION_ROOT / _SPECS.format(role=role), ("main",)))


def _options_of(path: Path, entries: Iterable[str] = ()) -> Iterator[tuple[str, Mapping[str, Any]]]:
    # Entry points of a role share their options by a merge key, which the strict reader refuses.
    from ...runtime.foreign_yaml import kubernetes_loader

    (data,) = documents(path.read_text(encoding="utf-8"), kubernetes_loader())
    for name, entry in data["argument_specs"].items():
        if not entries or name in entries:
            yield from (entry.get("options") or {}).items()


@cache
def _texts() -> str:
    """Return the text of every playbook and of the tasks of roles."""
    paths = (path for pattern in _READ for path in _files(pattern))
    return "\n".join(path.read_text(encoding="utf-8") for path in paths)


@cache
def known() -> frozenset[str]:
    """Return every name with our prefix that a playbook or a role reads or sets, and the variables of hosts."""
    return frozenset(_NAME.findall(_texts())) | {*options(), *HOST_VARIABLES, *STATS}


@cache
def former_names() -> dict[str, str]:
    """Return the new name of every variable that is still read by an old name without our prefix."""
    read = set(_BESIDE.findall(_texts()))
    return {name: PREFIX + name for name in sorted(read) if PREFIX + name in known()}


def unknown_names(where: str, names: Iterable[str]) -> Iterator[InputError]:
    """Yield an error for every name with our prefix that nothing reads.

    Args:
        where: where they are set, such as `extra variable` or `host gpu01`.
        names: the names of variables.
    """
    for name in sorted(names):
        if name.startswith(PREFIX) and name not in known():
            own = f"remove it; a variable of your own does not begin with {PREFIX}"
            hint = f"did you mean {meant(name)}?" if meant(name) else own
            yield InputError(name, f"is no variable of this collection ({where}), so nothing reads it.", hint)


@cache
def meant(name: str) -> str:
    """Return the variable that a misspelled name most likely means; empty where it is right, not ours, or none is
    close."""
    from difflib import get_close_matches

    if not name.startswith(PREFIX) or name in known():
        return ""
    bare = [name.removeprefix(PREFIX) for name in known() if name.startswith(PREFIX)]
    near = get_close_matches(name.removeprefix(PREFIX), bare, n=1, cutoff=0.6)
    return f"{PREFIX}{near[0]}" if near else ""


def renamed(names: Iterable[str]) -> dict[str, str]:
    """Return the new name of every variable that is set by an old name."""
    return {name: former_names()[name] for name in sorted(names) if name in former_names()}
