# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a resolved recipe depends on of the documents that it comes from: their merge rules, and the API that it has."""

from __future__ import annotations

from enum import Enum

RESULT_API = "aicr.nvidia.com/v1alpha1"


class Dialect(str, Enum):
    """The merge rules that a tree was written for, as its `tree.yaml` states or as its documents show.

    FIRST (upstream 0.11): overrides replace whole top-level keys, dependencyRefs and phases are replaced.
    CURRENT (upstream since mixins, and ours): overrides merge deep, dependencyRefs and phases are united.
    """

    FIRST = "first"
    CURRENT = "current"
