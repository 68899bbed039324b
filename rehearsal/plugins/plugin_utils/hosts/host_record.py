# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Location of a simulated host, and its data for the connection.

Every worker of Ansible imports this anew for every host, so it imports as little as possible.
"""

from __future__ import annotations

import json
from pathlib import Path

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import NotFoundError

SCHEMA_VERSION = 1


def host_directory(root: Path, name: str) -> Path:
    """Return the directory of one simulated host."""
    return root / "hosts" / name


def tools_path(root: Path, name: str) -> Path:
    """Return the directory with that host's tools, to be first on PATH (KWOK's ClusterExec)."""
    return host_directory(root, name) / "bin"


def read_host(root: Path, name: str) -> dict[str, object]:
    """Return the connection's data of a host: `reachable`, `name`.

    Raises:
        NotFoundError: there is no such host.
    """
    path = host_directory(root, name) / "host.json"
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        reason = f"no such host in the rehearsal at {root} ({error})."
        raise NotFoundError(f"simulated host {name!r}", reason, "make rehearse starts one") from None
    return dict(facts)
