# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Parser of `fi_info`: what libfabric offers, by provider, fabric and domain. One device is several entries."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .text import plain, unreadable

TOOL = "fi_info"
_PROVIDER = re.compile(r"provider: (\S{1,80})")
_FIELD = re.compile(r"\s+(\w{1,40}): (\S.{0,200})")
_NEEDED = ("fabric", "domain", "version", "type", "protocol")


@dataclass(frozen=True, slots=True)
class FabricEntry:
    """One entry; entries of the same `domain` are ways to use one device."""

    provider: str
    fabric: str
    domain: str
    version: str
    kind: str
    protocol: str


def parse(text: str) -> tuple[FabricEntry, ...]:
    """Return the entries in the tool's order.

    Raises:
        InputError: no entry, one that lacks a field or has one twice, or a line of another kind.
    """
    blocks: list[tuple[str, dict[str, str]]] = []
    for line in plain(text).splitlines():
        if match := _PROVIDER.fullmatch(line.rstrip()):
            blocks.append((match.group(1), {}))
        elif line.strip():
            field = _FIELD.fullmatch(line.rstrip())
            if field is None or not blocks or field.group(1) in blocks[-1][1]:
                raise unreadable(TOOL, line, "`provider: efa`, and below it each field once")
            blocks[-1][1][field.group(1)] = field.group(2)
    if not blocks:
        raise unreadable(TOOL, text[:80], "at least one provider")
    return tuple(_entry(provider, fields) for provider, fields in blocks)


def _entry(provider: str, fields: dict[str, str]) -> FabricEntry:
    missing = [name for name in _NEEDED if name not in fields]
    if missing:
        raise unreadable(TOOL, f"provider {provider} without {', '.join(missing)}", "every field of an entry")
    return FabricEntry(provider, *(fields[name] for name in _NEEDED))
