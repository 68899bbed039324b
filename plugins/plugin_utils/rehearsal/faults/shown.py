# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which faults a cluster can show: one of RoCE changes nothing that a host with InfiniBand prints.

Numbers of hosts, and what only the site states, are left out: with fewer hosts a fault shows as well, and is found as
something else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...hardware.sku import Sku
from ...outcome.errors import BringupError, InputError, ProblemsError
from ..model.spec import Fault
from ..model.values import ClusterModel
from .catalogue import FaultDefinition

# So many parts are needed for one of them to be the odd one.
_ODD_ONE = 3
_FABRICS = ("infiniband", "roce", "efa")
DRA = "dra"


def words_of_model(model: ClusterModel, skus: Sequence[Sku]) -> dict[str, bool]:
    """Return by word what the hosts of a healthy cluster have; the README of the faults explains the words.

    Args:
        model: the cluster.
        skus: those of its hosts in the inventory.
    """
    sliced = any(gpu.mig for node in model.nodes for gpu in node.gpus)
    verbs = all(sku.fabric in ("infiniband", "roce") for sku in skus)
    return {
        **{fabric: any(sku.fabric == fabric for sku in skus) for fabric in _FABRICS},
        # A GPU in MIG mode uses no NVLink.
        "nvlink": not sliced and all(sku.nvlink_links for sku in skus),
        "nvswitch": all(sku.nvswitches for sku in skus),
        "nvlink_fabric": not sliced and all(sku.nvswitches or sku.nvlink_domain == "rack" for sku in skus),
        "rdma": verbs,
        "ibstat": verbs and all("ibstat" not in node.tools for node in model.nodes),
        "standby": model.infiniband.subnet_managers == "both",
        "three_adapters": all(len(node.hcas) >= _ODD_ONE for node in model.nodes),
        "two_gpus": all(len(node.gpus) > 1 for node in model.nodes),
        "chrony": all("chronyc" not in node.tools for node in model.nodes),
        "bare_metal": all(node.virtualisation == "none" for node in model.nodes),
        "pcie_switch": all(
            node.virtualisation == "none" and node.nic_view != "hidden" and (node.hcas or not node.gpus[0].nvlinks)
            for node in model.nodes
        ),
        "pcie_host_link": all(sku.nvlink_domain != "rack" for sku in skus),
        "imex": all("nvidia-imex" in node.services for node in model.nodes),
        "mig": not sliced and all(node.accelerator.mig for node in model.nodes),
        "ecc": not any("ecc_errors" in path for node in model.nodes for path in node.smi_xml),
    }


def gives_out_by_claims(overrides: Mapping[str, object]) -> bool:
    """Whether values of components let the DRA driver give out GPUs, so that gate gpu_stack asks for its slices."""
    found: object = overrides
    for key in ("nvidia-dra-driver-gpu", "resources", "gpus", "enabled"):
        found = found.get(key) if isinstance(found, Mapping) else None
    return found is True


def refuse_unshown(
    faults: Sequence[Fault],
    catalogue: Mapping[str, FaultDefinition],
    model: ClusterModel,
    hardware: Mapping[str, Sku],
    *,
    dra: bool,
) -> None:
    """Raise for faults that this cluster cannot show: a rehearsal with one would pass, and find nothing.

    Args:
        faults: those that were chosen; of a file of the user's own nothing is known.
        catalogue: the known faults.
        model: the healthy cluster.
        hardware: the SKU facts of its hosts.
        dra: whether GPUs are given out by claims.

    Raises:
        ProblemsError: every fault with the words that it needs and the cluster lacks.
    """
    skus = [hardware[node.sku] for node in model.nodes if node.kubernetes.member]
    there = {**words_of_model(model, skus), DRA: dra}
    problems: list[BringupError] = []
    for fault in faults:
        needs = catalogue[fault.id].needs if fault.id in catalogue else ()
        if lacks := [word for word in needs if not there.get(word, True)]:
            reason = f"needs {', '.join(lacks)}, which this cluster has not, so nothing would show it."
            hint = "choose a world or SKU that has it (WORLD=list), or another fault (FAULTS=list)"
            problems.append(InputError(f"FAULTS {fault.id!r}", reason, hint))
    if problems:
        raise ProblemsError("FAULTS", tuple(problems))
