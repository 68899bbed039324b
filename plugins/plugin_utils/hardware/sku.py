# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""SKU facts: the parts of one model of GPU host, from recipes/hardware/."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from ..outcome.errors import BringupError, InputError, NotFoundError, ProblemsError
from ..runtime.strict import decode, nearest_hint, read_yaml
from .accelerator import (
    Accelerator,
    PublishedBusbw,
    PublishedOfKind,
    accelerator_or_error,
    beside,
    load_accelerators,
    unstated,
)

_HCA_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
Fabric = Literal["infiniband", "roce", "efa", "tcpx", "tcpxo", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sku:
    """One model of GPU host. A fact without a public source is None, never invented.

    - `gpu_product`: product name in `nvidia-smi`.
    - `gpu_product_label`: value of `nvidia.com/gpu.product` from GPU feature discovery.
    - `gpu_memory_mib`: total of the frame buffer in `nvidia-smi`.
    - `nvlink_links`: links of one GPU (0: none).
    - `nvswitches`: switch chips inside the host.
    - `nvlink_domain_gpus`: GPUs that reach each other over NVLink (72 in an NVL72 rack whose trays have 4; 0: none).
    - `compute_hcas`: network ports for GPU traffic, each at `hca_rate_gbps`.
    - `compute_adapters`: number of adapters, where the vendor counts adapters with several ports instead.
    - `rails_isolated`: an adapter reaches only those of its own rail, so the adapters of one host do not reach each
      other.
    - `hca_names`: names of those ports in the operating system, rail by rail. They decide where the host itself leaves
      open which of its adapters they are.
    - `power_max_w`, `heat_w`, `weight_kg`, `rack_units`: of the whole host.
    - `rack_hosts`, `rack_*`: hosts in a full rack, and its facts, for a rack system that is specified only as a whole.
    - `peak_tflops`: dense rates of one GPU.
    - `intra_node_busbw_gbps`: best published all_reduce bus bandwidth in GB/s within one NVLink domain, by algorithm
      (`ring`, `nvls`).
    - `published_busbw`: figures of several domains that contradict what follows from NICs and NVLink, or settle what
      does not follow from them. load_hardware adds those of its GPU model with as many adapters.
    - `accelerator`: name of a GPU model in recipes/accelerators/; load_hardware fills in `gpu`, its facts.
    - `settings`: settings of checks of hosts (gate nodes, BMCs) for this SKU, by check id, as in `gpufleet_settings`.
    """

    name: str
    title: str
    accelerator: str
    gpu_product: str
    gpu_product_label: str
    gpus: int
    gpu_memory_mib: int
    sources: tuple[str, ...]
    aliases: tuple[str, ...] = ()
    gpu_pci_id: str | None = None
    nvlink_links: int = 0
    nvlink_generation: int | None = None
    nvswitches: int | None = None
    nvlink_domain: Literal["node", "rack"] = "node"
    nvlink_domain_gpus: int = 0
    compute_hcas: int = 0
    hca_rate_gbps: int = 0
    compute_adapters: int | None = None
    hca_model: str | None = None
    hca_names: tuple[str, ...] = ()
    fabric: Fabric = "none"
    rails_isolated: bool = False
    pcie_generation: int | None = None
    pcie_width: int | None = None
    power_max_w: int | None = None
    weight_kg: float | None = None
    rack_units: int | None = None
    cooling: Literal["air", "liquid"] | None = None
    heat_w: int | None = None
    rack_hosts: int | None = None
    rack_power_max_w: int | None = None
    rack_heat_w: int | None = None
    rack_weight_kg: float | None = None
    peak_tflops: dict[str, float] = field(default_factory=dict)
    hbm_tb_per_s: float | None = None
    intra_node_busbw_gbps: dict[str, float] = field(default_factory=dict)
    published_busbw: tuple[PublishedBusbw, ...] = ()
    settings: dict[str, dict[str, Any]] = field(default_factory=dict)
    gpu: Accelerator | None = None

    def __post_init__(self) -> None:
        problem = _broken_rule(self)
        if problem:
            raise InputError(
                f"SKU {self.name!r}",
                problem,
                "correct its file below hardware/ (of the collection, or of your own recipes)",
            )

    @property
    def best_busbw_gbps(self) -> float | None:
        """Best published intra-node all_reduce bus bandwidth in GB/s, None if there is none."""
        return max(self.intra_node_busbw_gbps.values(), default=None)

    @property
    def nics(self) -> int:
        """Number of NICs for GPU traffic as the vendor counts them, each at `nic_gbps`."""
        return self.compute_adapters or self.compute_hcas

    @property
    def nic_gbps(self) -> float:
        """Rate of one NIC in Gb/s, all of its ports together."""
        return self.compute_hcas * self.hca_rate_gbps / self.nics if self.nics else 0.0

    @property
    def gpu_kind(self) -> Accelerator:
        """Facts of its GPU model. A SKU that was not loaded from files has only the name."""
        pattern = re.escape(self.gpu_product)
        return self.gpu or Accelerator(name=self.accelerator, title=self.gpu_product, product_pattern=pattern)

    @property
    def heat_max_w(self) -> int | None:
        """Heat of the host in W. Without a source it is the electrical maximum, all of which leaves as heat."""
        return self.heat_w if self.heat_w is not None else self.power_max_w

    @property
    def rack_heat_max_w(self) -> int | None:
        """Heat of a whole rack system in W, by the same rule."""
        return self.rack_heat_w if self.rack_heat_w is not None else self.rack_power_max_w


def _broken_rule(sku: Sku) -> str:
    if not sku.sources:
        return "sources is empty; every fact needs a public source."
    numbers = {
        "gpus": sku.gpus,
        "gpu_memory_mib": sku.gpu_memory_mib,
        "power_max_w": sku.power_max_w,
        "heat_w": sku.heat_w,
        "weight_kg": sku.weight_kg,
        "rack_units": sku.rack_units,
        "hbm_tb_per_s": sku.hbm_tb_per_s,
        "pcie_generation": sku.pcie_generation,
        "pcie_width": sku.pcie_width,
        "rack_hosts": sku.rack_hosts,
        "rack_power_max_w": sku.rack_power_max_w,
        "rack_heat_w": sku.rack_heat_w,
        "rack_weight_kg": sku.rack_weight_kg,
        **sku.peak_tflops,
        **sku.intra_node_busbw_gbps,
    }
    for name, number in numbers.items():
        if number is not None and number <= 0:
            return f"{name} is {number}, expected more than 0 (leave it out if it is not known)."
    if min(sku.compute_hcas, sku.hca_rate_gbps, sku.nvlink_links, sku.nvlink_domain_gpus, sku.nvswitches or 0) < 0:
        return "a count is negative."
    if (sku.compute_hcas == 0) != (sku.hca_rate_gbps == 0):
        return "compute_hcas and hca_rate_gbps must both be given or both be 0."
    if sku.compute_adapters is not None and (sku.compute_adapters < 1 or sku.compute_hcas % sku.compute_adapters):
        return f"compute_adapters is {sku.compute_adapters}, expected a part of {sku.compute_hcas} compute_hcas."
    wrong_figure = next((fact.problem for fact in sku.published_busbw if fact.problem), "")
    if wrong_figure:
        return wrong_figure
    wrong_names = hca_names_problem(sku.hca_names, sku.compute_hcas)
    if wrong_names:
        return f"hca_names {wrong_names}"
    if (sku.nvlink_links == 0) != (sku.nvlink_generation is None):
        return "nvlink_links and nvlink_generation must both be given or both be left out."
    return ""


def hca_names_problem(names: Sequence[str], ports: int) -> str:
    """Return what is wrong with configured names of adapters. Empty if there are none, or a valid one for each port."""
    if names and len(names) != ports:
        return f"has {len(names)} names, expected one for each of the {ports} ports for GPU traffic (compute_hcas)."
    wrong = [name for name in names if not _HCA_NAME.fullmatch(name)]
    if wrong:
        return f"has {wrong[0]!r}, expected names such as mlx5_2."
    twice = sorted({name for name in names if names.count(name) > 1})
    return f"has {', '.join(twice)} twice." if twice else ""


def load_hardware(directories: Sequence[Path]) -> dict[str, Sku]:
    """Return every SKU by name and by alias. A SKU of a later directory replaces one of the same name.

    GPU models are those of the collection and of accelerators/ beside each directory.

    Raises:
        ProblemsError: unreadable or invalid files, a name that is not the file's, names or aliases used twice, an
            unknown GPU model, a directory that is not there.
    """
    accelerators = load_accelerators(beside(directories))
    problems: list[BringupError] = []
    by_name: dict[str, Sku] = {}
    origin: dict[str, Path] = {}
    for directory in directories:
        for path in _files(directory, problems):
            sku = _read_sku(path, accelerators, problems)
            if sku is not None:
                by_name[sku.name], origin[sku.name] = sku, path
    found = _with_aliases(by_name, origin, problems)
    if problems:
        raise ProblemsError("hardware facts", tuple(problems))
    return found


def _files(directory: Path, problems: list[BringupError]) -> list[Path]:
    if not directory.is_dir():
        problems.append(NotFoundError(str(directory), "no such directory.", "correct the list of hardware directories"))
        return []
    return sorted([*directory.glob("*.yaml"), *directory.glob("*.yml")])


def _read_sku(path: Path, accelerators: Mapping[str, Accelerator], problems: list[BringupError]) -> Sku | None:
    try:
        data = read_yaml(path)
        if isinstance(data, dict) and "gpu" in data:
            raise InputError(f"{path}: gpu", "unknown key.", "state the kind of GPU in accelerators/ beside hardware/")
        sku = decode(Sku, data, str(path))
        if lacking := unstated(data):
            raise InputError(str(path), lacking, "state the size in bytes, and what kind of figure it is")
        gpu = accelerator_or_error(accelerators, sku.accelerator, f"{path}: accelerator")
    except ProblemsError as error:
        problems.extend(error.problems)
        return None
    except InputError as error:
        problems.append(error)
        return None
    if sku.name != path.stem:
        problems.append(InputError(f"{path}: name", f"is {sku.name!r}, expected {path.stem!r} as the file is named."))
        return None
    of_kind = (entry for entry in gpu.published_busbw if _is_of(sku, entry))
    figures = (*sku.published_busbw, *(figure for entry in of_kind for figure in entry.figures))
    return replace(sku, accelerator=gpu.name, gpu=gpu, published_busbw=figures)


def _is_of(sku: Sku, entry: PublishedOfKind) -> bool:
    per_gpu = sku.nics * sku.nic_gbps / sku.gpus
    return (sku.nvlink_domain_gpus, per_gpu) == (entry.domain_gpus, entry.net_gbps_per_gpu)


def _with_aliases(by_name: dict[str, Sku], origin: dict[str, Path], problems: list[BringupError]) -> dict[str, Sku]:
    found = dict(by_name)
    for name, sku in by_name.items():
        for alias in sku.aliases:
            if alias in found:
                other = found[alias].name
                reason = f"{alias!r} is also a name or alias of {other!r} ({origin[other]})."
                problems.append(InputError(f"{origin[name]}: aliases", reason, "give every alias once"))
            else:
                found[alias] = sku
    return found


def sku_or_error(hardware: Mapping[str, Sku], name: str) -> Sku:
    """Return the SKU of that name or alias.

    Raises:
        NotFoundError: no such SKU; the message names the nearest ones.
    """
    if name in hardware:
        return hardware[name]
    raise NotFoundError(f"SKU {name!r}", "not among the files below hardware/.", nearest_hint(name, hardware))
