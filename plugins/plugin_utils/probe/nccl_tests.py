# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Parsers of the output of nccl-tests and of its JSON file (`-J`): sizes, rates, wrong values, footer."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from ..outcome.errors import InputError
from .text import plain, unreadable

# Results of a run of nccl-tests, from either format: sizes, rates, wrong values, footer.


@dataclass(frozen=True, slots=True, kw_only=True)
class Half:
    """Out-of-place or in-place figures of one size, rates in GB/s.

    - `wrong`: number of wrong values, None without validation.
    - `error`: largest error, which very old releases print instead.
    - `per_process_us`: times of every process; outer index is the iteration (JSON only).
    """

    time_us: float
    algbw_gbps: float
    busbw_gbps: float
    wrong: int | None = None
    error: float | None = None
    per_process_us: tuple[tuple[float, ...], ...] = ()

    @property
    def validated(self) -> bool:
        """Whether nccl-tests validated the values."""
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
        """The halves that ran."""
        return tuple(half for half in (self.out_of_place, self.in_place) if half is not None)

    @property
    def busbw_gbps(self) -> float:
        """Bus bandwidth of the better half: what the machine can reach at that size."""
        return max(half.busbw_gbps for half in self.halves)


@dataclass(frozen=True, slots=True, kw_only=True)
class RankLine:
    """Location of a rank. `group` is its communicator of several parallel ones, None where old releases print none."""

    rank: int
    host: str
    device: int
    bus: str
    product: str
    group: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NcclTest:
    """One run. Fields of the footer are None if it is missing: then the run did not end properly."""

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
        """Whether every value of every size was validated. Without that `0 OK` in the footer proves nothing."""
        return all(half.validated for row in self.rows for half in row.halves)

    @property
    def wrong(self) -> int:
        """Number of wrong values, by the rows or by the footer, whichever is larger."""
        return max(sum(half.wrong or 0 for row in self.rows for half in row.halves), self.out_of_bounds or 0)

    @property
    def correct(self) -> bool:
        """Whether everything was validated and nothing was wrong."""
        return self.validated and self.wrong == 0 and self.out_of_bounds_ok is True

    @property
    def rank_count(self) -> int | None:
        """Number of ranks in the device list, None without a complete list."""
        numbers = {line.rank for line in self.ranks}
        return len(numbers) if numbers and numbers == set(range(len(numbers))) else None

    @property
    def largest(self) -> Row:
        """The last row of the largest size."""
        top = max(row.size for row in self.rows)
        return next(row for row in reversed(self.rows) if row.size == top)

    def at(self, size: int) -> Row | None:
        """Return the last row of that size."""
        return next((row for row in reversed(self.rows) if row.size == size), None)

    def missing_sizes(self, smallest: int, largest: int, factor: int = 2) -> tuple[int, ...]:
        """Return the sizes that such a run has to print and that are missing."""
        there, size, missing = {row.size for row in self.rows}, smallest, []
        while size <= largest:
            if size not in there:
                missing.append(size)
            size *= factor
        return tuple(missing)


# Parser of the output of nccl-tests (`all_reduce_perf` and the other tests), bare or with labels of srun and mpirun.
#
# The columns come from the table's own header, so that old tables (`error`), new ones (`#wrong`, `#iters`) and those of
# `-I` and `-S` are read in the same way. An incomplete row is an error and never left out.

TOOL = "nccl-tests"
_LABEL = re.compile(r"\s*(?:\[\d+,\d+\]<std(?:out|err)>:|\[?\d+\]?: |\[\d+\](?= ))")
_DEBUG = re.compile(r"\bNCCL (?:INFO|WARN|TRACE|ERROR|ABORT)\b")
_ROW = re.compile(r"\s*\d+\s+\d+\s+[A-Za-z]")
_RANK = re.compile(
    r"\s*#?\s*Rank\s+(\d+)\s+(?:Group\s+(\d+)\s+)?Pid\s+\d+\s+on\s+(\S+)\s+device\s+(\d+)\s+\[([^\]]*)\]\s+(.*?)\s*"
)
_OPTIONS = re.compile(r"#\s+nThread\s+\d+\s+nGpus\s+\d+\s+minBytes\s+(\d+)\s+maxBytes\s+(\d+)\s.*?validation:\s*(\d+)")
_TESTS_VERSION = re.compile(r"#\s+nccl-tests version (\S+)")
_NCCL_VERSION = re.compile(r"(?:^|\s)NCCL version (\d[\w.+-]*)")
_BOUNDS = re.compile(r"#\s+Out of bounds values\s*:\s*(\d+)\s+(OK|FAILED)\s*")
_AVERAGE = re.compile(r"#\s+Avg bus bandwidth\s*:\s*(\S+)(?:\s+(OK|FAILED))?\s*")
_NAME = re.compile(r"#\s+Collective test (starting|concluded):\s*(\S+)")
_FAILURE = re.compile(r"Test (?:(?:NCCL|CUDA) )?failure\b.*")


_RATES = {"time", "algbw", "busbw"}


def parse(text: str) -> NcclTest:
    """Return the results of the run.

    Raises:
        InputError: no table, no row, a second table, or an incomplete row. Lines that report a failure are its
            evidence.
    """
    lines = [line[label.end() if (label := _LABEL.match(line)) else 0 :] for line in plain(text).splitlines()]
    facts = _Facts()
    for line in lines:
        facts.read(line)
    return facts.result()


def failure_lines(text: str) -> tuple[str, ...]:
    """Return the lines in which the test reports a failure."""
    return tuple(match.group(0).strip()[:300] for line in text.splitlines() if (match := _FAILURE.search(line)))


class _Facts:
    """Collects the facts of a run line by line."""

    def __init__(self) -> None:
        self._columns: list[str] = []
        self._rows: list[Row] = []
        self._ranks: list[RankLine] = []
        self._found: dict[str, re.Match[str]] = {}
        self._collective = ""
        self._concluded = False
        self._failures: list[str] = []

    def read(self, line: str) -> None:
        if failure := _FAILURE.search(line):
            self._failures.append(failure.group(0).strip()[:300])
        if _DEBUG.search(line):
            self._remember("nccl", _NCCL_VERSION.search(line))
            if _ROW.match(line):
                raise unreadable(TOOL, line, "a row that is not mixed with NCCL's own lines (NCCL_DEBUG_FILE)")
        elif line.lstrip().startswith("#") or _RANK.fullmatch(line.strip()):
            # Some wrappers remove the `#` before the lines of ranks.
            self._read_comment(line.strip())
        elif _ROW.match(line):
            self._rows.append(_row(line, self._columns))
        else:
            self._remember("nccl", _NCCL_VERSION.search(line))

    def _read_comment(self, line: str) -> None:
        words = line.lstrip("#").split()
        if words[:2] == ["size", "count"]:
            if self._columns:
                raise unreadable(TOOL, "a second table", "the output of one run")
            self._columns = words
        elif rank := _RANK.fullmatch(line.strip()):
            number, group, host, device, bus, product = rank.groups()
            communicator = int(group) if group else None
            self._ranks.append(
                RankLine(rank=int(number), host=host, device=int(device), bus=bus, product=product, group=communicator)
            )
        elif name := _NAME.match(line):
            self._collective = name.group(2)
            self._concluded = self._concluded or name.group(1) == "concluded"
        else:
            self._remember("options", _OPTIONS.match(line))
            self._remember("tests", _TESTS_VERSION.match(line))
            self._remember("bounds", _BOUNDS.fullmatch(line))
            self._remember("average", _AVERAGE.fullmatch(line))

    def _remember(self, name: str, match: re.Match[str] | None) -> None:
        if match is not None:
            self._found.setdefault(name, match)

    def _group(self, name: str, number: int = 1) -> str | None:
        match = self._found.get(name)
        return match.group(number) if match else None

    def result(self) -> NcclTest:
        if not self._rows:
            found = "a table without rows" if self._columns else "no table"
            raise InputError(
                f"output of {TOOL}",
                f"found {found}, expected a row per size.",
                "read the whole log of the run",
                tuple(self._failures),
            )
        options, bounds, average = self._found.get("options"), self._group("bounds"), self._group("average")
        average_ok = self._group("average", 2)
        return NcclTest(
            rows=tuple(self._rows),
            collective=self._collective,
            tests_version=self._group("tests") or "",
            nccl_version=self._group("nccl") or "",
            ranks=tuple(self._ranks),
            min_bytes=int(options.group(1)) if options else None,
            max_bytes=int(options.group(2)) if options else None,
            validation=options.group(3) != "0" if options else None,
            out_of_bounds=int(bounds) if bounds else None,
            out_of_bounds_ok=self._group("bounds", 2) == "OK" if bounds else None,
            average_gbps=rate(average, "Avg bus bandwidth") if average else None,
            average_ok=average_ok == "OK" if average_ok else None,
            concluded=self._concluded,
            failures=tuple(self._failures),
        )


def rate(text: str, name: str) -> float:
    """Return a finite number that is not negative.

    Raises:
        InputError: it is none. A run prints `nan` when something was broken.
    """
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or value < 0:
        raise unreadable(TOOL, f"{name}: {text}", f"a number for {name}")
    return value


def _row(line: str, columns: list[str]) -> Row:
    if not columns:
        raise unreadable(TOOL, line, "the table's header before its rows")
    words = _fitted(line, columns)
    cut = [n for n, name in enumerate(columns) if name == "time"]
    if len(cut) != 2 or not all(set(half) >= _RATES for half in (columns[cut[0] : cut[1]], columns[cut[1] :])):
        raise unreadable(TOOL, " ".join(columns), "columns time, algbw and busbw twice")
    head = dict(zip(columns[: cut[0]], words[: cut[0]], strict=True))
    root = head.get("root", "")
    return Row(
        size=_whole(head["size"], "size"),
        count=_whole(head["count"], "count"),
        type=head.get("type", ""),
        redop=head.get("redop", ""),
        root=int(root) if re.fullmatch(r"-?\d+", root) else None,
        out_of_place=_half(columns[cut[0] : cut[1]], words[cut[0] : cut[1]]),
        in_place=_half(columns[cut[1] :], words[cut[1] :]),
    )


def _fitted(line: str, columns: list[str]) -> list[str]:
    """Return the words of a row, one per column. `redop` and `root` are blank for some operations."""
    words = line.split()
    if columns[-1].lower().startswith("time") and columns[-1] != "time" and len(words) > len(columns):
        # A time stamp of `-S` is a date and a time.
        words = [*words[: len(columns) - 1], " ".join(words[len(columns) - 1 :])]
    if "redop" in columns and 3 < len(words) < len(columns) and not words[3].isalpha():
        words.insert(3, "")
    if "root" in columns and len(words) < len(columns):
        words.insert(columns.index("root"), "")
    if len(words) != len(columns):
        raise unreadable(TOOL, line.strip(), f"{len(columns)} columns: {' '.join(columns)}")
    return words


def _half(columns: list[str], words: list[str]) -> Half:
    values = dict(zip(columns, words, strict=True))
    wrong, error = values.get("#wrong"), values.get("error")
    if wrong is None and error is None:
        raise unreadable(TOOL, " ".join(columns), "a column #wrong or error")
    return Half(
        time_us=rate(values["time"], "time"),
        algbw_gbps=rate(values["algbw"], "algbw"),
        busbw_gbps=rate(values["busbw"], "busbw"),
        wrong=None if wrong in (None, "N/A") else _whole(wrong, "#wrong"),
        error=None if error in (None, "N/A") else rate(error, "error"),
    )


def _whole(text: str | None, name: str) -> int:
    value = rate(text or "", name)
    if value != int(value):
        raise unreadable(TOOL, f"{name}: {text}", f"a whole number for {name}")
    return int(value)
