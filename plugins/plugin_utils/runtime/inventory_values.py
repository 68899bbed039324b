# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Variables of an inventory as plain values that can be written into another one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


class AsWritten(str):
    """A text whose templates Ansible is to evaluate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedInventory:
    """Parts of the rehearsal's inventory that a user configures.

    Args:
        group: name of the group of the GPU hosts.
        everywhere: variables of all hosts.
        hosts: by host, its own variables.
        groups: other groups, with their hosts.
    """

    group: str = "gpu_nodes"
    everywhere: Mapping[str, Any] = field(default_factory=dict)
    hosts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    groups: Mapping[str, Sequence[str]] = field(default_factory=dict)


def plain(value: Any) -> Any:
    """Return the value of a variable as plain data.

    Raises:
        TypeError: it has no type of YAML.
    """
    if isinstance(value, Mapping):
        return {plain(key): plain(item) for key, item in value.items()}
    if isinstance(value, AsWritten):
        return value
    if isinstance(value, str):
        # Drops what Ansible attaches to a text, such as its source.
        return "".join(value)
    if value is None or isinstance(value, bool):
        return value
    for kind in (int, float):
        if isinstance(value, kind):
            return kind(value)
    if isinstance(value, Sequence):
        return [plain(item) for item in value]
    # YAML turns text that looks like a date into one; the inventory gets its text.
    if hasattr(value, "isoformat"):
        return value.isoformat()
    raise TypeError(type(value).__name__)
