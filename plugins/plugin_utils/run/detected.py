# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The criteria that a snapshot says."""

from __future__ import annotations

from pathlib import Path

from ..outcome.wording import first_of
from ..recipe.criteria import parse_criteria
from ..recipe.detect import Detection, detect
from ..recipe.request import catalogue_of
from ..snapshot.criteria import cluster_facts
from ..snapshot.model import Snapshot


def detected(snapshot: Snapshot, recipe_data: tuple[Path, ...]) -> Detection:
    """Return the criteria that a snapshot says, each with its evidence.

    Raises:
        BringupError: the recipe data are wrong.
    """
    vocabulary = catalogue_of(recipe_data).vocabulary
    return detect(cluster_facts(snapshot), vocabulary, parse_criteria({}, vocabulary))


def criteria_lines(detection: Detection) -> list[str]:
    """Return a line for each criterion with its evidence, and one for each pool."""
    said = [f"{found.dimension}: {found.value or found.source} ({found.evidence})" for found in detection.findings]
    return said + [f"pool {pool.name}: {first_of(pool.nodes, 8)}" for pool in detection.pools]
