# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The merge rules of the documents that a recipe is resolved from, and the API version of the result."""

from __future__ import annotations

from enum import Enum

# API versions of results and snapshots that the upstream tool (NVIDIA/aicr) reads, newest first, with that of a
# ComponentRegistry beside them. Its docs/integrator/data-extension.md and docs/user/deprecations.md: 0.22 and all from
# 1.0 on read the first, 0.13 to 0.22 the second, 0.11 and 0.12 the third. Each refuses the others.
UPSTREAM_APIS = {
    "aicr.run/v1": "aicr.run/v1beta1",
    "aicr.run/v1alpha2": "aicr.run/v1alpha2",
    "aicr.nvidia.com/v1alpha1": "aicr.nvidia.com/v1alpha1",
}
RESULT_API = next(iter(UPSTREAM_APIS))


class Dialect(str, Enum):
    """The merge rules that a tree was written for. Its `tree.yaml` states them, or its documents show them.

    FIRST (upstream 0.11): overrides replace whole top-level keys, dependencyRefs and phases are replaced.
    CURRENT (upstream since mixins, and ours): overrides merge deep, dependencyRefs and phases are united.
    """

    FIRST = "first"
    CURRENT = "current"
