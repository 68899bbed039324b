# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The fault catalogue, recipes/rehearsal/faults/: what can be broken, and which check must find it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ...outcome.errors import InputError
from ...runtime.strict import decode, read_yaml
from ..model.spec import Change, SubjectWord


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """The one outcome that a fault must lead to: what `check` of `gate` says about the fault's subject or its node."""

    gate: str
    check: str
    cause: str
    status: Literal["failed", "other", "passed"] = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultDefinition:
    """One entry of the catalogue. `earlier`: what a gate before finds of it where that is in scope; `needs`: words
    that a world must offer for it (see worlds.catalogue.offers), beside the gate that finds it."""

    id: str
    kind: SubjectWord
    description: str
    expect: Expected
    patch: tuple[Change, ...]
    earlier: Expected | None = None
    needs: tuple[str, ...] = ()

    def fits(self, offered: frozenset[str]) -> bool:
        """Whether it can be put into a world that offers these words."""
        return {self.expect.gate, *self.needs} <= offered


@dataclass(frozen=True, slots=True, kw_only=True)
class _Catalogue:
    faults: tuple[FaultDefinition, ...]


def load_catalogue(directory: Path) -> dict[str, FaultDefinition]:
    """Return every fault by id, in the order of the files and in each of its entries.

    Args:
        directory: the collection's recipes/rehearsal directory.

    Raises:
        InputError: there is no file, one cannot be read, an entry is not valid, or an id is there twice.
    """
    path = directory / "faults"
    files = sorted(path.glob("*.yaml"))
    if not files:
        raise InputError(str(path), "holds no fault catalogue (*.yaml).", "install the collection again")
    entries = [fault for file in files for fault in decode(_Catalogue, {"faults": read_yaml(file)}, str(file)).faults]
    found = {entry.id: entry for entry in entries}
    if len(found) != len(entries):
        twice = sorted({entry.id for entry in entries if sum(other.id == entry.id for other in entries) > 1})
        raise InputError(str(path), f"ids given twice: {', '.join(twice)}.", "give every fault an id of its own")
    return found


def catalogue_table(catalogue: dict[str, FaultDefinition]) -> str:
    """Return the catalogue as text for a terminal: id, what it hits, the check that finds it, description."""
    rows = [("FAULT", "HITS", "FOUND BY", "WHAT IS BROKEN")]
    for fault in catalogue.values():
        found_by = f"{fault.expect.gate}/{fault.expect.check}"
        rows.append(
            (fault.id, fault.kind, found_by if fault.expect.status != "passed" else "nobody", fault.description)
        )
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = ["  ".join([*(row[n].ljust(widths[n]) for n in range(3)), row[3]]) for row in rows]
    usage = "FAULTS=id | id@gpu03 | id@gpu03/gpu5 | id,id@rack-a1 | file.yaml"
    return "\n".join([*lines, "", usage, ""])


def catalogue_page(catalogue: dict[str, FaultDefinition]) -> str:
    """Return docs/reference/faults.md."""
    lines = [
        "<!-- Generated from recipes/rehearsal/faults/ (make reference). -->",
        "# Faults of a rehearsal",
        "",
        "`make rehearse FAULTS=<what>` breaks the simulated hardware before the gates look at it. A fault without a",
        "subject hits one at random. `FAULTS=list` prints this list. While a rehearsal is up,",
        "`make rehearse-faults` sets and lifts faults ([rehearsal.md](../rehearsal.md)).",
        "",
        "| `FAULTS=` | breaks |",
        "| --- | --- |",
        "| `gpu-lost` | one GPU, drawn at random |",
        "| `gpu-lost@gpu03` | one GPU of that node |",
        "| `gpu-lost@gpu03/gpu5` | that GPU |",
        "| `gpu-lost,hca-down@gpu01` | both |",
        "| `my-faults.yaml` | every entry of a file: `id`, `kind`, `subject` and `patch` as in the cluster model |",
        "",
        "| fault | hits | what is broken | found by | as | cause |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for fault in catalogue.values():
        expect = fault.expect
        found = f"`{expect.gate}` / `{expect.check}`" if expect.status != "passed" else "nobody: it must pass"
        cause = f"`{expect.cause}`" if expect.cause else ""
        lines.append(f"| `{fault.id}` | {fault.kind} | {fault.description} | {found} | {expect.status} | {cause} |")
    return "\n".join([*lines, ""])
