# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""How the end of a job becomes the result of a test: endings that prove nothing about the node, and common fields."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ...clients.kube.errors import mending
from ...outcome.model import Status
from ...runtime.redaction import redact
from ...store.records import NodeResult
from ...workload.job import JobResult
from ..benchmark.plan import BenchmarkHost
from ..benchmark.problem import launch_problem
from .spec import NodeTest

# States in which a test gave its place to others or never got one: nothing is wrong, and it is still to be run.
_STILL_TO_DO = ("preempted", "unschedulable", "held", "aborted")
_LONGEST = 500


def result_of(
    test: str, cycle_id: str, host: BenchmarkHost, job: JobResult, started_s: float, status: Status, **details: Any
) -> NodeResult:
    """Return a result with the fields that all tests fill in the same way; `details` are its other fields.

    Args:
        test: id of the test.
        cycle_id: the cycle.
        host: the node that was tested.
        job: how its job ended.
        started_s: when it began, in seconds since the epoch.
        status: as in CTRF.
        details: rating, cause, summary, cohort, parts, digests, figures.
    """
    details["summary"] = redact(str(details.get("summary", "")))[:_LONGEST]
    return NodeResult(
        cycle_id=cycle_id, node=host.name, test=test, started_s=started_s, duration_s=round(job.duration_s, 3),
        status=status, **details,
    )  # fmt: skip


def without_secrets(job: JobResult) -> JobResult:
    """Return how a job ended, without the secrets that its pods may have printed."""
    return replace(job, pods=tuple(replace(pod, log=redact(pod.log)) for pod in job.pods))


def read_job(test: NodeTest, cycle_id: str, host: BenchmarkHost, job: JobResult, started_s: float) -> NodeResult:
    """Return what a test reads from the end of its job. Where its reader fails, the result is `other`."""
    try:
        return test.read(cycle_id, host, job, started_s)
    except Exception as error:  # noqa: BLE001  # a failed reader proves nothing about the node
        return unreadable(test, cycle_id, host, job, started_s, error)


def unreadable(
    test: NodeTest, cycle_id: str, host: BenchmarkHost, job: JobResult, started_s: float, error: Exception
) -> NodeResult:
    """Return the result of a job whose end the reader of its test could not read."""
    text = f"what the test printed could not be read ({type(error).__name__}): {error}"
    return result_of(test.id, cycle_id, host, job, started_s, Status.OTHER, cause="unreadable", summary=text)


def log_of(job: JobResult) -> str:
    """Return the output of a job's launcher, else that of all of its pods."""
    return job.log or "\n".join(pod.log for pod in job.pods)


def without_result(
    test: str, cycle_id: str, host: BenchmarkHost, job: JobResult, started_s: float
) -> NodeResult | None:
    """Return the result of a job whose test never ran: `pending` where its place was taken or not given, else `other`.

    None where its test ran, or may have, so that its log has to be read.
    """
    problem = launch_problem(job.state, job.reason)
    if problem is None:
        return None
    status = Status.PENDING if job.state in _STILL_TO_DO else Status.OTHER
    cause, summary = problem
    mend = mending(summary) if cause == "launch-refused" else ""
    summary = f"{summary[: _LONGEST - len(mend) - 2]}; {mend}" if mend else summary
    return result_of(test, cycle_id, host, job, started_s, status, cause=cause, summary=summary)
