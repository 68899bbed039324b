# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Parse the log of a run to a figure, or to the reason why there is none. Pure, fails closed."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import cache
from typing import Literal

from ...outcome.errors import InputError
from ...probe import nccl_debug, nccl_tests
from ...probe.error_lines import NAME, find_error
from ...probe.nccl_debug import NcclDebug
from ...probe.nccl_tests import NcclTest
from ...runtime.files import RECIPES
from ...runtime.process import left_out_of
from ...runtime.strict import decode, read_yaml
from ..benchmark.problem import Problem, launch_problem
from .model import ONE_RANK, Record, Run
from .pair_round import NOT_SPLIT
from .settings import FabricValidationSettings

# Why a run crashed or hung, from its log lines: recipes/nccl_failures.yaml.

_WARNING = re.compile(r"NCCL (?:WARN|ERROR|ABORT) (\S.*)")
_LONGEST = 300
# How verbs adapters appear in the log: `NET/IB : Using [0]mlx5_0:1/RoCE`.
_LAYER = re.compile(r"NET/IB : Using .*?:\d+/(IB|RoCE)\b")
# Messages of a shell, a container runtime or a loader at the end of a log. Lines of NCCL and of the launching script do
# not match.
_OTHER_PROGRAMS = re.compile(
    r"^(?!gpufleet: ).*(?:[Ee]xec format error|Segmentation fault|Bus error|Illegal instruction|core dumped"
    r"|error while loading shared libraries|Out of memory|oom-kill)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """One kind of failure; see the head of recipes/nccl_failures.yaml."""

    cause: str
    pattern: str
    hint: str
    sources: tuple[str, ...]
    layer: Literal["", "IB", "RoCE"] = ""
    beside: str = ""


@cache
def failures() -> tuple[Failure, ...]:
    """Return all known kinds of failure.

    Raises:
        InputError: the file is not valid.
    """
    path = RECIPES / "nccl_failures.yaml"
    return tuple(decode(Failure, entry, str(path)) for entry in read_yaml(path))


def known_failure(log: str) -> tuple[str, str]:
    """Return cause and deciding line of the first failure in the list that a log shows. Both empty: none."""
    lines = [line.strip() for line in log.splitlines()]
    layers = set(_LAYER.findall(log))
    for failure in failures():
        if failure.layer and layers and failure.layer not in layers:
            continue
        if failure.beside and not re.search(failure.beside, log, re.M):
            continue
        found = next((line for line in lines if re.search(failure.pattern, line)), "")
        if found:
            return failure.cause, found[-_LONGEST:]
    return "", ""


def first_warning(log: str) -> str:
    """Return the first warning of NCCL. Empty: there is none."""
    found = _WARNING.search(log)
    return found.group(1).strip()[:_LONGEST] if found else ""


def last_word(log: str) -> str:
    """Return the last line in which a program other than NCCL reports how it ended. Empty: there is none."""
    found = [line.strip() for line in log.splitlines() if "NCCL " not in line and _OTHER_PROGRAMS.match(line.strip())]
    return found[-1][:_LONGEST] if found else ""


def failure_hints() -> dict[str, str]:
    """Return what to do, by cause."""
    return {failure.cause: failure.hint for failure in failures()}


# The cause of the end is in the last lines. Earlier errors of name resolution may have been overcome.
_LAST_LINES = 40
# A line of the launching script of recipes/workloads/job-gang.yaml.j2 for each pod of a run that failed.
_LOCKED = re.compile(r"gpufleet: locked memory of (\S{1,253}) is (\d{1,20}|unlimited)$")
_NOT_SPLIT_TEXT = (
    "nccl-tests ran one communicator over all GPUs instead of one for each GPU of a host (its lines `Rank ... Group`), "
    "so that adapters were not measured by themselves"
)


def parse_run(record: Record, log: str, settings: FabricValidationSettings) -> Run:
    """Return a run with what its log contains, or with the problem because of which it has no figure."""
    # The missing part may have NCCL's lines about a rank.
    debug = None if left_out_of(log) else _debug(log)
    try:
        test: NcclTest | None = nccl_tests.parse(log)
        unreadable = ""
    except InputError as error:
        test, unreadable = None, error.reason
    problem = _problem(record, test, unreadable, log, settings)
    limits = {match.group(1): match.group(2) for line in log.splitlines() if (match := _LOCKED.match(line.strip()))}
    return Run(record=record, test=test, debug=debug, problem=problem, locked_memory=limits)


def _debug(log: str) -> NcclDebug | None:
    try:
        return nccl_debug.parse(log)
    except InputError:
        return None


def _problem(
    record: Record, test: NcclTest | None, unreadable: str, log: str, settings: FabricValidationSettings
) -> Problem | None:
    if test is not None and test.wrong:
        return Problem("wrong-results", f"{test.wrong} wrong values", bad=True)
    launch = launch_problem(record.state, record.reason)
    if launch:
        return Problem(*launch)
    reported = _reported(log) if record.state != "succeeded" and not (test and test.rows) else None
    if reported is not None:
        return reported
    if record.state == "timeout":
        rows = f"{len(test.rows)} sizes were done" if test else "no size was done"
        return _failed("run-hung", f"did not end in its time, {rows}", log, record.reason)
    failures = nccl_tests.failure_lines(log)
    if record.state != "succeeded" or record.exit_code not in (0, None) or failures:
        return _failed("run-crashed", "crashed", log, failures[0] if failures else record.reason)
    left_out = left_out_of(log)
    if left_out:
        return Problem("output-incomplete", left_out)
    if test is None:
        # How the run ended explains why there is no log at all.
        more = "" if log.strip() else f" {record.reason}"
        return Problem("output-incomplete", f"its output cannot be read: {unreadable}{more}"[:400])
    return _incomplete(record, test, settings)


def _reported(log: str) -> Problem | None:
    """Return the problem that the end of a log without any figure names.

    No host is to blame for it. None: it names none.
    """
    error = find_error("\n".join(log.splitlines()[-_LAST_LINES:]))
    if error is None:
        return None
    cause = "launcher-dns" if error.says == NAME else "shm-too-small"
    return Problem(cause, error.text)


def _failed(cause: str, what: str, log: str, words: str) -> Problem:
    """Return the problem of a run that crashed or hung, with the deciding line of its log.

    That line is of a known cause; otherwise NCCL's first warning; otherwise the program's own message.
    """
    known, line = known_failure(log)
    warning = first_warning(log)
    program = last_word(log)
    words = "; ".join(dict.fromkeys(text for text in (program, words) if text and text != line))
    more = f"; {words}" if words and (line or warning) else ""
    return Problem(known or cause, f"{what}: {line or warning or words}{more}"[:400])


def _split(record: Record, test: NcclTest) -> bool:
    """Return whether there was a communicator for every GPU of a host, each with one GPU of every host."""
    groups = Counter(rank.group for rank in test.ranks)
    hosts = len(record.hosts)
    return None not in groups and len(groups) == record.ranks // hosts and set(groups.values()) == {hosts}


def _incomplete(record: Record, test: NcclTest, settings: FabricValidationSettings) -> Problem | None:
    if record.exit_code is None:
        return Problem("output-incomplete", "how its launcher ended is not recorded")
    unnamed = [host for host in record.hosts if host not in record.hostnames.values()]
    if unnamed:
        return Problem("output-incomplete", f"how ranks call {', '.join(unnamed)} is not recorded")
    if not test.complete:
        return Problem("output-incomplete", f"its output ends without a footer after {len(test.rows)} sizes")
    if record.smallest < 1:
        return Problem("output-incomplete", "which size was the smallest is not recorded")
    # The footer is there, so the last size is the requested one, as far as the memory of the GPUs allowed.
    largest = settings.run.largest
    if test.rows and test.largest.size in settings.run.largest_sizes(record.ranks):
        largest = test.largest.size
    missing = test.missing_sizes(record.smallest, largest, settings.run.factor)
    if missing:
        return Problem("output-incomplete", f"{len(missing)} sizes are missing, {missing[0]} B the first")
    if test.rank_count != record.ranks:
        found = "no whole list of ranks" if test.rank_count is None else f"{test.rank_count} ranks"
        return Problem("output-incomplete", f"{found}, {record.ranks} were started")
    if record.phase == "adapters" and not _split(record, test):
        return Problem(NOT_SPLIT, _NOT_SPLIT_TEXT)
    if not test.validated:
        return Problem("not-validated", "the values were not checked (#wrong is N/A), so `0 OK` proves nothing")
    if test.out_of_bounds_ok is not True:
        return Problem("wrong-results", "values out of bounds", bad=True)
    if record.ranks < 2:
        return Problem(ONE_RANK, "one rank moves nothing, its bandwidth is no figure")
    return None
