# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a catalogue offers: its combinations, components and criteria, as plain data for people and tools."""

from __future__ import annotations

from typing import Any

from .criteria import ANY
from .model import Catalogue
from .resolve import matching_leaves
from .support import supported_combinations


def listing(catalogue: Catalogue) -> dict[str, Any]:
    """Return every supported combination with its layer, every component with its version, every criteria value."""
    return {
        "combinations": [
            {
                "criteria": criteria.to_dict(),
                "overlays": [layer.name for layer in matching_leaves(criteria, catalogue)],
            }
            for criteria in supported_combinations(catalogue)
        ],
        "components": [
            {
                "name": name,
                "chart": entry.default("helm", "defaultChart"),
                "version": entry.default("helm", "defaultVersion") or entry.default("kustomize", "defaultTag"),
                "source": entry.default("helm", "defaultRepository") or entry.default("kustomize", "defaultSource"),
            }
            for name, entry in sorted(catalogue.registry.items())
        ],
        "criteria": {
            name: sorted(catalogue.vocabulary.dimensions[name].values - {ANY}) for name in catalogue.vocabulary.names
        },
    }
