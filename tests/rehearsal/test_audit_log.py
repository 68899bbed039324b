# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What of an audit log counts as a disturbance of users."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from audit_log import IDENTITY, changes, disturbances


@pytest.mark.parametrize(
    ("verb", "about", "found", "by_policy"),
    [
        ("delete", {"resource": "pods", "namespace": "default", "name": "training"}, True, True),
        ("create", {"resource": "pods", "namespace": "default", "name": "x", "subresource": "eviction"}, True, True),
        ("delete", {"resource": "namespaces", "name": "default"}, True, True),
        ("patch", {"resource": "nodes", "name": "gpu01"}, True, False),
        ("create", {"resource": "pods", "namespace": "gpufleet-cycle-1f2e3d", "name": "job"}, False, False),
        ("get", {"resource": "pods", "namespace": "default", "name": "x", "subresource": "exec"}, True, True),
        ("get", {"resource": "pods", "namespace": "gpu-operator", "name": "x", "subresource": "exec"}, False, False),
        ("delete", {"resource": "namespaces", "name": "gpufleet-cycle-1f2e3d"}, False, False),
    ],
)  # fmt: skip
def test_what_counts_as_a_disturbance(
    tmp_path: Path, verb: str, about: dict[str, str], found: bool, by_policy: bool
) -> None:
    event = {"user": {"username": IDENTITY}, "verb": verb, "requestURI": "/api/v1", "objectRef": about}
    looks = event | {"verb": "list", "objectRef": about | {"subresource": ""}}
    dry = event | {"requestURI": "/api/v1?dryRun=All"}
    others = event | {"user": {"username": "gpufleet-admin"}}
    (tmp_path / "audit.log").write_text("".join(f"{json.dumps(line)}\n" for line in (looks, dry, others, event)))
    seen = changes(tmp_path / "audit.log")
    assert seen == [event]
    assert (bool(disturbances(seen)), bool(disturbances(seen, nodes=True))) == (found, by_policy)
