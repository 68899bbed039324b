# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which installed packages are on every machine of this distribution: the essential ones and what those need.

Whatever else a program needs has to come along with it, even where this machine happens to have it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

_INSTALLED = "install ok installed"


def base_packages(status: str) -> dict[str, str]:
    """Return the packages of the base system by name, each with its paragraph of dpkg's status file.

    Args:
        status: the text of the status file.
    """
    paragraphs: dict[str, tuple[str, dict[str, str]]] = {}
    for text in status.split("\n\n"):
        fields = _fields(text)
        if fields.get("Status") == _INSTALLED:
            paragraphs.setdefault(fields["Package"], (text.strip("\n"), fields))
    installed = {name: fields for name, (_text, fields) in paragraphs.items()}
    providers = _providers(installed)
    waiting = [name for name, fields in installed.items() if fields.get("Essential") == "yes"]
    found = set(waiting)
    while waiting:
        for name in _needs(installed[waiting.pop()], installed, providers):
            if name not in found:
                found.add(name)
                waiting.append(name)
    return {name: paragraphs[name][0] for name in sorted(found)}


def _fields(paragraph: str) -> dict[str, str]:
    lines = (line.partition(":") for line in paragraph.splitlines() if not line[:1].isspace())
    return {name: value.strip() for name, _colon, value in lines}


def _providers(installed: Mapping[str, Mapping[str, str]]) -> dict[str, list[str]]:
    """Return who provides a virtual package; the one that every machine has comes first (mawk before gawk)."""
    found: dict[str, list[str]] = {}
    for name, fields in sorted(installed.items(), key=lambda item: (item[1].get("Priority") != "required", item[0])):
        for entry in fields.get("Provides", "").split(","):
            if entry.strip():
                found.setdefault(entry.split()[0], []).append(name)
    return found


def _needs(
    fields: Mapping[str, str], installed: Mapping[str, object], providers: Mapping[str, list[str]]
) -> Iterator[str]:
    """Yield one installed package for each dependency; a dependency of a foreign kind that nobody meets is left out."""
    for clause in f"{fields.get('Pre-Depends', '')},{fields.get('Depends', '')}".split(","):
        names = [words[0].partition(":")[0] for choice in clause.split("|") if (words := choice.split())]
        met = [
            name if name in installed else providers[name][0] for name in names if name in {**installed, **providers}
        ]
        yield from met[:1]
