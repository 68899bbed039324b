# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Runs test jobs: several at a time, never two on one node, each followed to its end and removed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ..clients.kube.cluster import Cluster
from ..runtime.clock import Deadline
from ..runtime.progress import Emit, Progress, silent
from .model import JobKind, JobResult, JobSpec, JobState, PodResult, PodRole
from .space import Space

__all__ = ["JobKind", "JobResult", "JobSpec", "JobState", "PodResult", "PodRole", "job_space", "run_jobs"]


@contextmanager
def job_space(
    cluster: Cluster, purpose: str, *, prefix: str, priority: int, cleanup_s: float = 60.0, emit: Emit = silent
) -> Iterator[Space]:
    """Yield an open space for jobs (see space.open_space); everything in it is gone at the end, however it ends."""
    raise NotImplementedError


def run_jobs(
    cluster: Cluster,
    space: Space,
    specs: Sequence[JobSpec],
    parallel: int,
    progress: Progress,
    deadline: Deadline,
) -> tuple[JobResult, ...]:
    """Return the result of every job, in the order of the specs; a job that fails does not stop the others.

    Args:
        cluster: where.
        space: open space of the run (job_space).
        specs: the jobs; those that share a node run one after the other.
        parallel: how many may run at once.
        progress: takes the progress lines.
        deadline: end of the whole run; what is not done then is `aborted`.

    Raises:
        BringupError: the cluster does not answer.
    """
    raise NotImplementedError
