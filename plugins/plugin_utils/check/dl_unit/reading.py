# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the log of the DL unit test proves about one host, without other hosts. Pure, fails closed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from ...outcome.errors import InputError
from ...probe.dl_unit import DlUnitLog, GpuTest, parse
from ...probe.error_lines import last_line
from ...verdict.majority import LEAST, Majority, majority
from ...workload.job import JobResult
from ..benchmark.problem import Problem, launch_problem

_TOLD = 3
HINTS = {
    "arithmetic-wrong": "this GPU computes wrong, silently: take it out of service; `dcgmi diag -r 4` on the host",
    "copy-wrong": "data is changed on its way to this GPU or in its memory: take it out of service; `dcgmi diag -r 4`",
    "digest-changes": "this GPU computes wrong now and then: take it out of service; `dcgmi diag -r 4` on the host",
    "reference-differs": "this GPU computes wrong, silently: take it out of service; `dcgmi diag -r 4` on the host",
    "digest-differs": "this GPU computes wrong, silently: take it out of service; `dcgmi diag -r 4` on the host",
    "libraries-wrong": "so many GPUs are not wrong at once: look at the image (PyTorch, CUDA, cuBLAS) and the driver",
    "digests-unlike": "equal GPUs with one image give equal bits: compare GPU part numbers, driver and image",
    "gpu-missing": "`nvidia-smi -L` on the host; a GPU that fell off the bus shows in `dmesg` as XID 79",
    "no-gpu-visible": "the image needs PyTorch with CUDA, and the container runtime must hand GPUs over",
    "gpu-hung": "`nvidia-smi` on the host, `dmesg` for XIDs; or raise timeout_s",
    "gpu-crashed": "read the error; `dmesg` on the host for XIDs",
    "run-failed": "read the log of the pod",
    "run-timeout": "read the log of the pod: which GPU did not end; or raise timeout_s",
    "no-output": "read the log of the pod; the image needs PyTorch 2.4 or newer",
}


@dataclass(frozen=True, slots=True)
class GpuProblem(Problem):
    """What is wrong with a host's test; `slots` are the GPUs to blame, empty where they are not known."""

    slots: tuple[int, ...] = ()


def read_host(
    result_state: str,
    reason: str,
    log: str,
    gpus: int | None,
    judge: Callable[[DlUnitLog], GpuProblem | None] | None = None,
) -> tuple[DlUnitLog | None, GpuProblem | None]:
    """Return the parsed log of the program, and the problem of the log or the run. Either may be None.

    Args:
        result_state: how the job ended, as in JobResult.
        reason: why it ended so.
        log: the log of its pod.
        gpus: how many GPUs the host has; None: the caller compares the number later.
        judge: returns the problem of a complete log; default: problem_of.
    """
    launch = launch_problem(result_state, reason)
    if launch is not None:
        return None, GpuProblem(*launch)
    try:
        found = parse(log)
    except InputError as error:
        return None, _no_log(result_state, reason, log, error)
    if gpus is not None and found.gpus != gpus:
        return None, other_count(found, gpus)
    problem = (judge or problem_of)(found)
    if problem is None and result_state != "succeeded":
        problem = GpuProblem("run-failed", f"all GPUs came to their end, and the pod failed: {reason}"[:400])
    return found, problem


def other_count(log: DlUnitLog, gpus: int) -> GpuProblem:
    """Return the problem of a log that has another number of GPUs than the host."""
    return GpuProblem("no-output", f"the program tested {log.gpus} GPUs, the SKU has {gpus}")


def log_of(result: JobResult) -> str:
    """Return the log of the one pod of a job."""
    return result.pods[0].log if result.pods else ""


def problem_of(log: DlUnitLog) -> GpuProblem | None:
    """Return the worst problem of a host's GPUs, a wrong result before a missing one.

    Without one, GPUs of one kind are compared with each other.
    """
    return own_problem_of(log) or _unlike(log.tests)


def own_problem_of(log: DlUnitLog) -> GpuProblem | None:
    """Return the worst problem that any GPU shows by itself: against known results, the CPU's, and its own
    repetitions."""
    tests = log.tests
    exact = {test.slot: _first_wrong(test, copies=False) for test in tests}
    copies = {test.slot: _first_wrong(test, copies=True) for test in tests}
    apart = {test.slot: _first_error(test) for test in tests}
    changing = {test.slot: f"gave other bits of {names_of(test.changing)} when it was repeated" for test in tests}
    changing = {slot: text if tests[slot].changing else "" for slot, text in changing.items()}
    return (
        _wrong("arithmetic-wrong", exact)
        or _wrong("copy-wrong", copies)
        or _wrong("reference-differs", apart)
        or blamed("digest-changes", _only(changing))
        or _ended_early(tests)
    )


def _wrong(cause: str, found: Mapping[int, str]) -> GpuProblem | None:
    """Return the problem of wrong GPUs. All GPUs of a host are not wrong at once: then the software they use is."""
    wrong = _only(found)
    if len(wrong) == len(found) >= LEAST:
        return GpuProblem("libraries-wrong", f"all {len(found)} GPUs are wrong: each {next(iter(wrong.values()))}")
    return blamed(cause, wrong)


def blamed(cause: str, found: Mapping[int, str]) -> GpuProblem | None:
    """Return the problem of the GPUs to blame, given what each did by slot; None where there is none."""
    if not found:
        return None
    reported = "; ".join(f"gpu{slot} {text}" for slot, text in list(found.items())[:_TOLD])
    return GpuProblem(cause, reported, bad=True, slots=tuple(found))


def _only(found: Mapping[int, str]) -> dict[int, str]:
    return {slot: text for slot, text in found.items() if text}


def _first_wrong(test: GpuTest, *, copies: bool) -> str:
    for name, count in test.wrong.items():
        if (name == "copies") is copies:
            what = (
                f"got {count} bytes of copies wrong" if copies else f"got {count} rows of {name} wrong, which is known"
            )
            return what
    return ""


def _first_error(test: GpuTest) -> str:
    for name, reference in test.out_of_tolerance.items():
        return f"differs from the CPU by {reference.error:.3g} in {name}, {reference.tolerance:g} is the tolerance"
    return ""


def _ended_early(tests: tuple[GpuTest, ...]) -> GpuProblem | None:
    early = {test.slot: test.failure for test in tests if test.failure}
    if not early:
        return None
    slot, failure = next(iter(early.items()))
    text = f"gpu{slot}: {failure.kind}{f' in {failure.doing}' if failure.doing else ''}: {failure.text}"[:400]
    unseen = [slot for slot, found in early.items() if found.kind == "LookupError" and found.doing == "start"]
    if len(unseen) == len(tests):
        return GpuProblem("no-gpu-visible", text)
    if unseen:
        # Which of them is gone is not known: the remaining GPUs are numbered anew.
        return GpuProblem("gpu-missing", f"{len(unseen)} of {len(tests)} GPUs are not there; {text}", bad=True)
    cause = "gpu-hung" if failure.kind == "Stuck" else "gpu-crashed"
    return GpuProblem(cause, text, slots=tuple(early))


def _unlike(tests: tuple[GpuTest, ...]) -> GpuProblem | None:
    """Compare the GPUs of one kind in a host with each other."""
    kinds: dict[tuple[str, ...], dict[int, str]] = {}
    for test in tests:
        if test.identity is not None:
            kinds.setdefault(test.identity.kind, {})[test.slot] = test.digest
    for digests in kinds.values():
        found = majority(digests)
        if found is None or not (found.minority or found.split):
            continue
        if found.split:
            text = f"{found.total} GPUs gave so many digests that at most {found.agreeing} agree"
            return GpuProblem("digests-unlike", text)
        usual = next(tests[slot] for slot, digest in digests.items() if digest == found.usual)
        reported = {slot: unlike_most(tests[slot], usual, found) for slot in found.minority}
        return blamed("digest-differs", reported)
    return None


def differing(test: GpuTest, usual: GpuTest) -> tuple[str, ...]:
    """Return the operations for which a GPU gave another digest."""
    return tuple(name for name, digest in test.digests.items() if usual.digests.get(name) != digest)


def unlike_most(test: GpuTest, usual: GpuTest, found: Majority[Any, str]) -> str:
    """Return the text of what a GPU computed differently from most."""
    return f"gave other bits of {names_of(differing(test, usual))} than {found.agreeing} of {found.total} GPUs"


def names_of(names: Collection[str]) -> str:
    """Return the operations as a text."""
    return ", ".join(sorted(names))


def _no_log(state: str, reason: str, log: str, error: InputError) -> GpuProblem:
    if state == "timeout":
        return GpuProblem("run-timeout", f"it did not end in time: {reason}"[:400])
    reported = f"; the last line is {last}" if (last := last_line(log)) else "; the log is empty"
    cause = "run-failed" if state == "failed" else "no-output"
    return GpuProblem(cause, f"{error.reason} {reason}{reported}"[:400])
