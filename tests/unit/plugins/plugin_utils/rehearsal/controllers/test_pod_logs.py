# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who removes the object that says where the log of a pod lies."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.rehearsal.controllers.pod_programs import PodPrograms
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.rehearsal.workloads.pod_simulator import PodOutput


@pytest.mark.parametrize("labels", [{}, {"gpufleet.io/purpose": "test"}])
def test_the_namespace_of_a_test_takes_it_along_and_elsewhere_the_pod_does(
    labels: dict[str, str], tmp_path: Path
) -> None:
    metadata = {"name": "p", "namespace": "n", "uid": "u", "labels": labels}
    pod = {"metadata": metadata, "spec": {"containers": [{"name": "main"}]}}
    change = PodPrograms(tmp_path, lambda: None)._show(pod, PodOutput())
    owners = [owner["uid"] for owner in change.body["metadata"].get("ownerReferences", [])]
    assert owners == ([] if labels else ["u"])
    assert change.body["spec"]["logs"][0]["logsFile"] == str(tmp_path / "n" / "p.log")
