# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""GPU models, one file each in recipes/accelerators/, and published bandwidths of healthy hosts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

from ..outcome.errors import BringupError, InputError, ProblemsError
from ..runtime.files import RECIPES
from ..runtime.strict import decode, nearest_hint, read_yaml

# Published bandwidths of healthy hosts: of one SKU, or of all hosts with such GPUs and adapters.


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedBusbw:
    """A published all_reduce bus bandwidth of healthy hosts.

    - `gbps`: GB/s at a size of `size_bytes`.
    - `domains`: number of NVLink domains (hosts, or racks where a domain is a rack).
    - `algorithm`: the NCCL algorithm; empty where the source does not name it.
    - `source`: who published it.
    - `phase`: `loop` for one host whose GPUs reach each other through its own adapters.

    `kind` is what the figure means:

    - plateau: at one size, of healthy hosts. Results are compared with it.
    - untuned: the same, with a choice of NCCL that is known to be slow. A result that reaches it is not bad, and not
      good.
    - gate: an acceptance limit. A result at or above it is not bad.
    - average: over all sizes, which tells nothing about what links carry. It is kept as a record and compared with
      nothing.
    """

    domains: int
    gbps: float
    source: str
    # Defaults for saved runs whose figures lack these fields.
    size_bytes: int = 0
    kind: Literal["plateau", "untuned", "gate", "average"] = "plateau"
    algorithm: Literal["", "ring", "hierarchical"] = ""
    phase: Literal["all", "loop"] = "all"

    @property
    def problem(self) -> str:
        """What is wrong with it; empty if nothing is."""
        if self.domains < 1 or self.gbps <= 0 or self.size_bytes < 0 or not self.source.strip():
            return f"published_busbw has {self}, expected domains and gbps above 0 and a source."
        return ""


def unstated(data: Any) -> str:
    """Return which figure of a hardware file lacks its size or kind; empty if none does.

    Args:
        data: content of the file.
    """
    entries = data.get("published_busbw") if isinstance(data, Mapping) else None
    for entry in entries if isinstance(entries, list) else ():
        for row in entry.get("figures", [entry]) if isinstance(entry, Mapping) else ():
            missing = [name for name in ("size_bytes", "kind") if not isinstance(row, Mapping) or not row.get(name)]
            if missing:
                return f"published_busbw has {row}, which lacks {' and '.join(missing)}."
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedOfKind:
    """Published figures of every SKU with this model of GPU, whoever sells the system.

    Such a SKU has `domain_gpus` GPUs in an NVLink domain, and adapters with `net_gbps_per_gpu` Gb/s for each GPU.
    """

    domain_gpus: int
    net_gbps_per_gpu: float
    figures: tuple[PublishedBusbw, ...]


# GPU models: one file each in recipes/accelerators/, or in accelerators/ of a private recipe directory.

DIRECTORY = "accelerators"


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """Latency in milliseconds: `base` with one request at a time, and `each` for every further concurrent request."""

    base: float
    each: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """Parameters of a GPU model for a rehearsal. Missing ones have defaults. No check reads them.

    - `printed`: facts that the simulated tools print, as in rehearsal/recipes/accelerators.yaml.
    - `training_efficiency`: share of the peak that training reaches.
    - `ttft_ms`, `tpot_ms`: time to first token and time per output token of an 8B model on one GPU.
    """

    printed: dict[str, Any] = field(default_factory=dict, hash=False)
    training_efficiency: float | None = None
    ttft_ms: Latency | None = None
    tpot_ms: Latency | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GemmFigure:
    """The best published GEMM rate of a board, with the dense peak of that board, both in TFLOP/s.

    Other boards of the same model, such as PCIe cards with less power, have another peak; the figure does not hold for
    them.
    """

    reached_tflops: float
    peak_tflops: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Accelerator:
    """One GPU model.

    - `product_pattern`: regular expression that is found in its product name (nvidia-smi, GPU feature discovery) and in
      no other model's.
    - `aliases`: other names of it in criteria and SKUs.
    - `nvls`: NVLink switches reduce for it.
    - `nvlink_rack`: there are racks with NVLink across their nodes.
    - `family`, `compute_capability`: as feature discovery writes them; only a rehearsal reads these two.
    - `ecc`, `row_remap`, `fabric_health`: its driver reports these in `nvidia-smi -q -x`, so that N/A or a missing
      element counts as no value.
    - `published_busbw`: bandwidths of systems with it, whoever sells them.
    - `gemm`: by data type the best published GEMM rate.
    """

    name: str
    title: str
    product_pattern: str
    aliases: tuple[str, ...] = ()
    family: str = "hopper"
    compute_capability: str = "9.0"
    mig: bool = False
    nvls: bool = False
    nvlink_rack: bool = False
    ecc: bool = False
    row_remap: bool = False
    fabric_health: bool = False
    published_busbw: tuple[PublishedOfKind, ...] = ()
    gemm: dict[str, GemmFigure] = field(default_factory=dict, hash=False)
    simulated: Simulated = Simulated()

    def __post_init__(self) -> None:
        wrong = next((fact.problem for of in self.published_busbw for fact in of.figures if fact.problem), "")
        if wrong:
            raise InputError(f"accelerator {self.name!r}", wrong, "correct the figure")
        try:
            re.compile(self.product_pattern)
        except re.error as error:
            reason = f"product_pattern is not a regular expression: {error}."
            raise InputError(f"accelerator {self.name!r}", reason, "correct the pattern") from None


def load_accelerators(directories: Iterable[Path] = ()) -> dict[str, Accelerator]:
    """Return every GPU model by name: the collection's and those of the directories, where a later one overrides.

    Raises:
        ProblemsError: unreadable or invalid files, a name that is not the file's, an alias that is used twice.
    """
    own = (RECIPES / DIRECTORY).resolve()
    more = dict.fromkeys(path.resolve() for path in directories if path.is_dir())
    return dict(_loaded((own, *(path for path in more if path != own))))


@cache
def _loaded(directories: tuple[Path, ...]) -> Mapping[str, Accelerator]:
    problems: list[BringupError] = []
    found: dict[str, Accelerator] = {}
    for path in (path for directory in directories for path in sorted(directory.glob("*.yaml"))):
        try:
            data = read_yaml(path)
            kind = decode(Accelerator, data, str(path))
            if lacking := unstated(data):
                raise InputError(str(path), lacking, "state the size in bytes, and what kind of figure it is")
        except ProblemsError as error:
            problems.extend(error.problems)
            continue
        except InputError as error:
            problems.append(error)
            continue
        if kind.name != path.stem:
            reason = f"is {kind.name!r}, expected {path.stem!r} as the file is named."
            problems.append(InputError(f"{path}: name", reason))
            continue
        found[kind.name] = kind
    words = [word for kind in found.values() for word in (kind.name, *kind.aliases)]
    problems += [
        InputError(f"accelerators: {word}", "is a name or alias of two kinds of GPU.", "give every word once")
        for word in sorted({word for word in words if words.count(word) > 1})
    ]
    if problems:
        raise ProblemsError("accelerators", tuple(problems))
    return found


def accelerator_or_error(known: Mapping[str, Accelerator], word: str, source: str) -> Accelerator:
    """Return the GPU model of that name or alias.

    Raises:
        InputError: there is none; the message names the nearest, and how to add a new one.
    """
    by_word = {alias: kind for kind in known.values() for alias in (*kind.aliases, kind.name)}
    if word in by_word:
        return by_word[word]
    hint = f"{nearest_hint(word, by_word)}; a new kind of GPU is one file in {DIRECTORY}/ beside hardware/"
    raise InputError(source, f"{word!r} is no kind of GPU.", hint)


def beside(hardware: Sequence[Path]) -> tuple[Path, ...]:
    """Return the directories of GPU models beside these directories of SKUs."""
    return tuple(directory.parent / DIRECTORY for directory in hardware)
