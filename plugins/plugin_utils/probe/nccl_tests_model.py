# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a run of nccl-tests reported, whichever way it was printed: sizes, rates, wrong values, footer."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Half:
    """Out-of-place or in-place figures of one size; rates in GB/s.

    `wrong` counts wrong values, None where nothing was validated; `error` is the largest error that very old
    releases print instead. `per_process_us` are times of every process, outer index the iteration (JSON only).
    """

    time_us: float
    algbw_gbps: float
    busbw_gbps: float
    wrong: int | None = None
    error: float | None = None
    per_process_us: tuple[tuple[float, ...], ...] = ()

    @property
    def validated(self) -> bool:
        """Whether nccl-tests compared the values with what they must be."""
        return self.wrong is not None or self.error is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One size in bytes."""

    size: int
    count: int
    type: str
    redop: str
    root: int | None
    out_of_place: Half | None
    in_place: Half | None

    @property
    def halves(self) -> tuple[Half, ...]:
        """The halves that were run."""
        return tuple(half for half in (self.out_of_place, self.in_place) if half is not None)

    @property
    def busbw_gbps(self) -> float:
        """The better of both halves: what the machine can do at that size."""
        return max(half.busbw_gbps for half in self.halves)


@dataclass(frozen=True, slots=True, kw_only=True)
class RankLine:
    """Where a rank ran; `group` is its communicator of several that ran at once, None where old releases name none."""

    rank: int
    host: str
    device: int
    bus: str
    product: str
    group: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NcclTest:
    """One run. Fields of the footer are None where it is missing: then the run did not end as it should."""

    rows: tuple[Row, ...]
    collective: str = ""
    tests_version: str = ""
    nccl_version: str = ""
    ranks: tuple[RankLine, ...] = ()
    min_bytes: int | None = None
    max_bytes: int | None = None
    validation: bool | None = None
    out_of_bounds: int | None = None
    out_of_bounds_ok: bool | None = None
    average_gbps: float | None = None
    average_ok: bool | None = None
    concluded: bool = False
    failures: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether both lines of the footer are there and nothing failed after the table."""
        return self.out_of_bounds is not None and self.average_gbps is not None and not self.failures

    @property
    def validated(self) -> bool:
        """Whether every value of every size was checked; `0 OK` in the footer proves nothing without."""
        return all(half.validated for row in self.rows for half in row.halves)

    @property
    def wrong(self) -> int:
        """Wrong values, by the rows or by the footer, whichever is more."""
        return max(sum(half.wrong or 0 for row in self.rows for half in row.halves), self.out_of_bounds or 0)

    @property
    def correct(self) -> bool:
        """Whether everything was validated and nothing was wrong."""
        return self.validated and self.wrong == 0 and self.out_of_bounds_ok is True

    @property
    def rank_count(self) -> int | None:
        """Number of ranks by the device list, None without one (or with parts of one)."""
        numbers = {line.rank for line in self.ranks}
        return len(numbers) if numbers and numbers == set(range(len(numbers))) else None

    @property
    def largest(self) -> Row:
        """The row of the largest size, the last of them."""
        top = max(row.size for row in self.rows)
        return next(row for row in reversed(self.rows) if row.size == top)

    def at(self, size: int) -> Row | None:
        """Return the last row of that size."""
        return next((row for row in reversed(self.rows) if row.size == size), None)

    def missing_sizes(self, smallest: int, largest: int, factor: int = 2) -> tuple[int, ...]:
        """Return the sizes that such a run must print and that are not there."""
        there, size, missing = {row.size for row in self.rows}, smallest, []
        while size <= largest:
            if size not in there:
                missing.append(size)
            size *= factor
        return tuple(missing)
