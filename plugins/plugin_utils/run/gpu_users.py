# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which pods use the GPUs of which host, read when the cluster is held, for what loads hosts."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..clients.kube.cluster import Cluster
from ..runtime.files import RUN, write_atomic
from ..site.model import Site
from ..workload.capacity import gpu_users

FILE = "gpu_users.json"


def save_gpu_users(cluster: Cluster, site: Site, run_dir: Path) -> Mapping[str, Sequence[str]]:
    """Write the pods that use GPUs by host, and return them.

    Raises:
        BringupError: the API server does not respond.
    """
    by_node = gpu_users(cluster)
    found = {host.name: by_node[host.node_name] for host in site.in_scope if by_node.get(host.node_name)}
    write_atomic(run_dir / FILE, json.dumps(found) + "\n")
    return found


def guard_of(run_dir: Path, host: str, *, disturb: bool) -> dict[str, Any]:
    """Return what module host_probe needs before it loads a host (module_utils/node_tools.run_tools)."""
    try:
        users = json.loads((run_dir / FILE).read_text(encoding="utf-8")).get(host, [])
    except FileNotFoundError:
        # A site without cluster: processes are looked for on the host.
        users = []
    record = json.loads((run_dir / RUN).read_text(encoding="utf-8"))
    owner = {"run": record.get("run_id", ""), "controller": socket.gethostname(), "command": record.get("command", "")}
    return {"owner": owner, "in_use": [f"pod {name}" for name in users], "disturb": disturb}
