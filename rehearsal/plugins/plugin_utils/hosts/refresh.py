# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Switches simulated hosts to another model while their rehearsal is up."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from datetime import datetime
from pathlib import Path

from ..model.values import ClusterModel, Node
from . import dcgm
from .enclosure import lock_file
from .host_record import host_directory, read_host
from .prepare import HostWriter, RealTools

_PRINTED = ("bin", "out")


def refresh_hosts(
    before: ClusterModel, after: ClusterModel, root: Path, data: Path, fabric: RealTools | None
) -> list[str]:  # fmt: skip
    """Rewrite the tools' output on hosts that the model changed. Return the names of these hosts.

    Files that tasks wrote on a host stay, and so do the times in its logs. All of it changes at once between two
    commands of a host.

    Args:
        before: the current model.
        after: the new model.
        root: the rehearsal directory.
        data: the collection's rehearsal/recipes directory.
        fabric: the simulated InfiniBand fabric, if there is one.
    """
    shown = {node.name: (node, dcgm.domain(node, before.nodes)) for node in before.nodes}
    changed = []
    for node in after.nodes:
        domain = dcgm.domain(node, after.nodes)
        if shown[node.name] != (node, domain):
            _refresh(node, domain, root, data, fabric)
            changed.append(node.name)
    return changed


def _refresh(node: Node, domain: str, root: Path, data: Path, fabric: RealTools | None) -> None:
    home = host_directory(root, node.name)
    prepared = datetime.fromisoformat(str(read_host(root, node.name)["prepared"]))
    # Equal content stays the same file, so that kept outputs made from it remain valid.
    kept = [path for name in _PRINTED for path in (home / name).rglob("*") if path.is_file()]
    with tempfile.TemporaryDirectory(dir=root, prefix="refresh-") as place:
        HostWriter(Path(place), data, prepared, fabric, kept).write(node, domain)
        fresh = host_directory(Path(place), node.name)
        with open(lock_file(str(root), node.name), "wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            for name in _PRINTED:
                os.rename(home / name, fresh / f"{name}-before")
                os.rename(fresh / name, home / name)
            os.replace(fresh / "host.json", home / "host.json")
        shutil.rmtree(fresh)
