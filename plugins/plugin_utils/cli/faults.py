# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The command faults: what a rehearsal can break."""

from __future__ import annotations

from argparse import Namespace
from fnmatch import fnmatchcase
from typing import Any

from ..outcome.errors import NotFoundError
from ..recipe.nearest import nearest
from ..runtime.files import gate_files
from ..runtime.strict import read_yaml
from .answer import formatted, write, write_lines

_SHOWN = ("id", "kind", "description", "expect")


def faults(arguments: Namespace) -> int:
    """Print the faults whose id matches a pattern, or whose id or description has the word.

    Raises:
        NotFoundError: none matches; with the nearest id.
    """
    known = [entry for path in gate_files("faults.yaml") for entry in read_yaml(path)]
    found = [entry for entry in known if _matches(entry, arguments.pattern)]
    if not found:
        near = nearest(arguments.pattern, [entry["id"] for entry in known])
        hint = f"did you mean {near}?" if near else "gpufleet faults lists all"
        raise NotFoundError(f"fault {arguments.pattern}", f"is none of the {len(known)} faults.", hint)
    if arguments.format in (None, "text"):
        write_lines(_lines(found))
    else:
        write(formatted([{key: entry[key] for key in _SHOWN if key in entry} for entry in found], arguments.format))
    return 0


def _matches(entry: dict[str, Any], pattern: str | None) -> bool:
    if not pattern:
        return True
    word, name = pattern.casefold(), entry["id"]
    return fnmatchcase(name, word) or word in name or word in entry["description"].casefold()


def _lines(found: list[dict[str, Any]]) -> list[str]:
    rows = [(entry["id"], _found_by(entry), entry["description"]) for entry in found]
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    return [f"{name:{widths[0]}}  {by:{widths[1]}}  {reported}" for name, by, reported in rows]


def _found_by(entry: dict[str, Any]) -> str:
    expected = entry.get("expect") or {}
    return "/".join(str(expected[key]) for key in ("gate", "check") if expected.get(key)) or "-"
