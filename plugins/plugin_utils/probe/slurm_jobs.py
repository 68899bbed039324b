# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Parsers of `scontrol show job <id>`, `scontrol show reservation` and `squeue`.

They give the state of one job, the list of jobs, and reserved nodes. scontrol starts each of its lines with a key, the
same from Slurm 17.11 to 25.11 (SchedMD/slurm, src/api/job_info.c: slurm_sprint_job_info). Names and comments are free
text of users, who may put line breaks into them. So the value of a repeated key is not trusted.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .text import plain, unreadable

TOOL, QUEUE_TOOL, RESERVATION_TOOL = "scontrol show job", "squeue", "scontrol show reservation"
# Id, user, state, reason, partitions, requested nodes, planned nodes. Free text comes last.
QUEUE_FORMAT = "%A|%U|%T|%r|%P|%n|%Y|%k"
_FIELDS = QUEUE_FORMAT.count("|") + 1
_JOB = re.compile(r"JobId=(\d{1,12})(?: [^\n]*)? JobName=([^\n]*)")
_LINES = {
    "user": re.compile(r"^\s+UserId=\S{0,255}\((\d{1,12})\) GroupId=", re.MULTILINE),
    "state": re.compile(r"^\s+JobState=([A-Z_]{2,64}) Reason=", re.MULTILINE),
    "reason": re.compile(
        r"^\s+JobState=[A-Z_]{2,64} Reason=([^\n]{0,400}?)(?: FailedNode=\S*)? Dependency=", re.MULTILINE
    ),
    "exit": re.compile(r"^\s+Requeue=\S+ [^\n]*ExitCode=(\d{1,5}:\d{1,5})(?=\s|$)", re.MULTILINE),
    "restarts": re.compile(r"^\s+Requeue=\S+ Restarts=(\d{1,9})(?=\s|$)", re.MULTILINE),
    "partition": re.compile(r"^\s+Partition=(\S{1,2000}) AllocNode:Sid=", re.MULTILINE),
    "nodes": re.compile(r"^\s+NodeList=(\S{0,2000})[ \t]*$", re.MULTILINE),
}
_COMMENT = re.compile(r"^\s+Comment=([^\n]*)$", re.MULTILINE)
_RESERVATION = re.compile(r"^ReservationName=(\S{1,255})(?=\s|$)", re.MULTILINE)
_RESERVED = re.compile(r"^\s+Nodes=(\S{0,20000}) NodeCnt=\d", re.MULTILINE)
_NOTHING = ("", "(null)", "None", "N/A")


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmJob:
    """One job.

    - `exit_code`, `signal`: how its script ended.
    - `nodes`: where it runs or ran; empty: nowhere.
    - `restarts`: how often Slurm restarted it.
    """

    job_id: str
    user: int
    state: str
    reason: str = ""
    exit_code: int = 0
    signal: int = 0
    partition: str = ""
    nodes: str = ""
    comment: str = ""
    restarts: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedJob:
    """A job as squeue lists it. `asked` and `planned` are node lists as Slurm writes them, empty for none."""

    job_id: str
    user: int
    state: str
    reason: str = ""
    partitions: frozenset[str] = frozenset()
    asked: str = ""
    planned: str = ""
    comment: str = ""


def parse(text: str, job_id: str) -> SlurmJob:
    """Return the job of `scontrol show job <id>`.

    Raises:
        InputError: it is not this job, there are several, or a line is missing or there twice.
    """
    clean = plain(text).strip("\n")
    head = _JOB.match(clean)
    if head is None or head.group(1) != job_id or "\nJobId=" in clean:
        raise unreadable(TOOL, clean[:80] or "nothing", f"`JobId={job_id}` and its lines, once")
    found: dict[str, str] = {}
    for key, pattern in _LINES.items():
        values = pattern.findall(clean)
        if len(values) != 1:
            raise unreadable(TOOL, f"{len(values)} lines that say the {key} of job {job_id}", "one")
        found[key] = values[0]
    comments = _COMMENT.findall(clean)
    if len(comments) > 1:
        raise unreadable(TOOL, f"{len(comments)} comments of job {job_id}", "one at most")
    exit_code, number = found["exit"].split(":")
    return SlurmJob(
        job_id=job_id, user=int(found["user"]), state=found["state"], reason=_reported(found["reason"]),
        exit_code=int(exit_code), signal=int(number), partition=found["partition"], nodes=_reported(found["nodes"]),
        comment=_reported(comments[0] if comments else ""), restarts=int(found["restarts"]),
    )  # fmt: skip


def parse_reservation(text: str, name: str) -> str:
    """Return the nodes of `scontrol show reservation <name>`, as Slurm writes a list; empty for none.

    Raises:
        InputError: it is not that reservation alone, or it does not list its nodes.
    """
    clean = plain(text)
    names, nodes = _RESERVATION.findall(clean), _RESERVED.findall(clean)
    if names != [name] or len(nodes) != 1:
        raise unreadable(
            RESERVATION_TOOL, clean.strip()[:80] or "nothing", f"ReservationName={name} and its Nodes, once"
        )
    return _reported(nodes[0])


def parse_queue(text: str) -> tuple[QueuedJob, ...]:
    """Return the jobs of `squeue -h -o QUEUE_FORMAT`; none if it printed nothing.

    A user's comment is cut at its first line break.

    Raises:
        InputError: its first line does not have that format.
    """
    lines = [line for line in plain(text).split("\n") if line.strip()]
    found = [_queued(line) for line in lines]
    if found and found[0] is None:
        raise unreadable(QUEUE_TOOL, lines[0][:80], f"a line as `squeue -h -o '{QUEUE_FORMAT}'` prints it")
    return tuple(job for job in found if job is not None)


def _queued(line: str) -> QueuedJob | None:
    words = line.split("|", _FIELDS - 1)
    if len(words) != _FIELDS or not (words[0].isdecimal() and words[1].isdecimal() and words[2]):
        return None
    job_id, user, state, reason, partitions, requested, planned, comment = map(_reported, words)
    return QueuedJob(
        job_id=job_id, user=int(user), state=state, reason=reason, partitions=frozenset(partitions.split(",")),
        asked=requested, planned=planned, comment=comment,
    )  # fmt: skip


def _reported(text: str) -> str:
    word = text.strip()
    return "" if word in _NOTHING else word
