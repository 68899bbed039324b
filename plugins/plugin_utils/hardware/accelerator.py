# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Kinds of GPU: one file for each in recipes/accelerators/, and bandwidths that somebody published of healthy
hosts.
"""

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

# Bandwidths that somebody published of healthy hosts: of one SKU, or of all with such GPUs and adapters.


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedBusbw:
    """An all_reduce bus bandwidth that somebody published of healthy hosts, GB/s at a size of `size_bytes`.

    `domains` counts NVLink domains (hosts, or racks where a domain is a rack), `algorithm` is the kind that was used,
    empty where the source does not tell; `source` says who published it. `kind` says what the figure is:

    - plateau: at one size, of hosts that are well; figures are compared with it.
    - untuned: the same with a choice of NCCL's that is known to be slow; what reaches it is not bad, and not good.
    - gate: what somebody accepts; at or above it a figure is not bad.
    - average: over all sizes, which says nothing of what links carry; it is kept to be known and compared with nothing.

    `phase` is `loop` for one host whose GPUs reach each other through its own adapters.
    """

    domains: int
    gbps: float
    source: str
    # Of runs that were saved before figures said so.
    size_bytes: int = 0
    kind: Literal["plateau", "untuned", "gate", "average"] = "plateau"
    algorithm: Literal["", "ring", "hierarchical"] = ""
    phase: Literal["all", "loop"] = "all"

    @property
    def problem(self) -> str:
        """What is wrong with it, empty if nothing is."""
        if self.domains < 1 or self.gbps <= 0 or self.size_bytes < 0 or not self.source.strip():
            return f"published_busbw has {self}, expected domains and gbps above 0 and a source."
        return ""


def unstated(data: Any) -> str:
    """Return which figure of a file of facts does not say its size or what it is; empty if all do.

    Args:
        data: the content of the file, as it was read.
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
    """Figures of every SKU of a kind of GPU whose NVLink domains have `domain_gpus` GPUs and whose adapters have
    `net_gbps_per_gpu` Gb/s for each of them: they belong to the system and not to who sells it."""

    domain_gpus: int
    net_gbps_per_gpu: float
    figures: tuple[PublishedBusbw, ...]


# Kinds of GPU: one file for each in recipes/accelerators/, or in accelerators/ of a private recipe directory.

DIRECTORY = "accelerators"


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """Milliseconds with one request at a time, and more for each more."""

    base: float
    each: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """What a rehearsal needs to know of a kind of GPU; it has defaults for what is not stated. No check reads it.

    `printed` are facts that the simulated tools print, as in rehearsal/recipes/accelerators.yaml;
    `training_efficiency` is the part of its peak that training reaches; `ttft_ms` and `tpot_ms` are the time to the
    first token and the time of each more, of an 8B model on one GPU.
    """

    printed: dict[str, Any] = field(default_factory=dict, hash=False)
    training_efficiency: float | None = None
    ttft_ms: Latency | None = None
    tpot_ms: Latency | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GemmFigure:
    """The best published rate of products of matrices, of a board with that dense peak (TFLOP/s). Other boards of the
    same kind, PCIe cards with less power, have another peak, and nothing is said of them."""

    reached_tflops: float
    peak_tflops: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Accelerator:
    """One kind of GPU.

    `product_pattern` is a regular expression that is found in its product name (nvidia-smi, GPU feature discovery) and
    in that of no other kind; `aliases` are other words for it in criteria and SKUs; `nvls`: NVLink switches reduce for
    it; `nvlink_rack`: there are racks over whose nodes its NVLink reaches; `family` and `compute_capability` are as
    feature discovery writes them; only a rehearsal reads these two. `ecc`, `row_remap` and `fabric_health` say that its
    driver reports these in `nvidia-smi -q -x`, so that N/A or a missing element is no answer. `published_busbw` are
    bandwidths of systems with it, whoever sells them; `gemm` is by type the best published product of matrices.
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
    """Return every kind of GPU by name: the collection's own, then those of the directories, of which a later one wins.

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
    """Return the kind of GPU of that name or alias.

    Raises:
        InputError: there is none; names the nearest, and how to state a new one.
    """
    by_word = {alias: kind for kind in known.values() for alias in (*kind.aliases, kind.name)}
    if word in by_word:
        return by_word[word]
    hint = f"{nearest_hint(word, by_word)}; a new kind of GPU is one file in {DIRECTORY}/ beside hardware/"
    raise InputError(source, f"{word!r} is no kind of GPU.", hint)


def beside(hardware: Sequence[Path]) -> tuple[Path, ...]:
    """Return the directories of kinds of GPU that lie beside these directories of SKUs."""
    return tuple(directory.parent / DIRECTORY for directory in hardware)
