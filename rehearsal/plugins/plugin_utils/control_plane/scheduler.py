# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Configuration of the scheduler: one real scheduler serves every scheduler name that a workload may have."""

from __future__ import annotations

import json
from pathlib import Path

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.files import write_atomic

SCHEDULER_NAMES = ("default-scheduler", "volcano", "kai-scheduler")
"""Volcano and KAI cannot be built here. Their stand-ins turn their groups into PodGroups of the scheduler's own API."""


def write_configuration(path: Path, kubeconfig: Path) -> None:
    """Write the scheduler's configuration file."""
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(kubeconfig), "qps": 500, "burst": 1000},
        "leaderElection": {"leaderElect": False},
        "podInitialBackoffSeconds": 1,
        "podMaxBackoffSeconds": 3,
        "profiles": [{"schedulerName": name} for name in SCHEDULER_NAMES],
    }
    write_atomic(path, json.dumps(document, indent=1) + "\n", 0o600)
