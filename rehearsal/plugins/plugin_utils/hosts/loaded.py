# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A simulated host after a load: the tools' later output is beside the earlier one.

<host>/out/hurt-by.txt            the program whose load does it, an empty line for none
<host>/out/loaded/                outputs that differ after it
<host>/run/gpu-node/loaded        mark that the load has run, which the tools check
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ..model.values import Gpu, Hca, Node

_MARK = "run/gpu-node/loaded"


def loaded_node(node: Node) -> Node:
    """Return the node in its state after the load."""
    return replace(
        node,
        gpus=tuple(_gpu(gpu) for gpu in node.gpus),
        hcas=tuple(_hca(hca) for hca in node.hcas),
        kernel_log=(*node.kernel_log, *node.log_under_load),
    )


def mark_loaded(host_directory: Path) -> None:
    """Switch the tools of a host to their output after the load."""
    mark = host_directory / _MARK
    mark.parent.mkdir(parents=True, exist_ok=True)
    mark.touch()


def _gpu(gpu: Gpu) -> Gpu:
    if gpu.under_load == "lost":
        return replace(gpu, presence="lost")
    return replace(gpu, nvlink_failures=gpu.nvlink_failures + 4) if gpu.under_load else gpu


def _hca(hca: Hca) -> Hca:
    if hca.under_load == "drops":
        return replace(hca, setup=replace(hca.setup, drops=hca.setup.drops + 311))
    return replace(hca, link_downed=hca.link_downed + 1) if hca.under_load else hca
