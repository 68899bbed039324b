# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which pods a drain waits for: a controller that tolerates the cordon comes again however often it is evicted."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.waves.kubernetes import stays

EVERYTHING = {"operator": "Exists"}
CORDON = {"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"}
OTHER = {"key": "nvidia.com/gpu", "operator": "Exists"}
GPU = {"resources": {"limits": {"nvidia.com/gpu": "8"}}}


@pytest.mark.parametrize(
    ("uid", "spec", "expected"),
    [
        ("new", {"tolerations": [EVERYTHING]}, True),
        ("new", {"tolerations": [OTHER, CORDON]}, True),
        # It was there when the drain began.
        ("old", {"tolerations": [EVERYTHING]}, False),
        # It was placed before the cordon was seen.
        ("new", {"tolerations": [OTHER]}, False),
        ("new", {}, False),
        # It works on the GPUs.
        ("new", {"tolerations": [EVERYTHING], "containers": [GPU]}, False),
        ("new", {"tolerations": [EVERYTHING], "resourceClaims": [{"name": "gpu"}]}, False),
    ],
)
def test_who_stays(uid: str, spec: dict[str, Any], expected: bool) -> None:
    assert stays({"metadata": {"uid": uid}, "spec": spec}, {"old"}) is expected
