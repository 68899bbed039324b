# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One job of Slurm and the list of all: what each release prints, and what users may write into it."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.probe import slurm_jobs

# Slurm 22.05, of Debian's packages; later releases have further lines.
JOB = """JobId=41 JobName=gpufleet-dl-unit-1
   UserId=gpufleet(990) GroupId=gpufleet(990) MCS_label=N/A
   Priority=4294891758 Nice=10000 Account=(null) QOS=(null)
   JobState=COMPLETED Reason=None Dependency=(null)
   Requeue=0 Restarts=0 BatchFlag=1 Reboot=0 ExitCode=0:0
   RunTime=00:00:03 TimeLimit=00:15:00 TimeMin=N/A
   Partition=main AllocNode:Sid=bastion:4711
   ReqNodeList=gpu02 ExcNodeList=(null)
   NodeList=gpu02
   BatchHost=gpu02
   Comment=gpufleet.bringup:r1-cycle-001
   StdOut=/shared/r1-cycle-001/dl-unit-1/job.log
"""


def test_a_job_is_read_by_the_begin_of_its_lines() -> None:
    job = slurm_jobs.parse(JOB, "41")
    assert (job.user, job.state, job.reason, job.exit_code, job.signal) == (990, "COMPLETED", "", 0, 0)
    assert (job.partition, job.nodes, job.comment) == ("main", "gpu02", "gpufleet.bringup:r1-cycle-001")


def test_a_job_of_25_05_and_one_that_waits() -> None:
    text = JOB.replace(
        "JobState=COMPLETED Reason=None", "JobState=PENDING Reason=Nodes required are DOWN FailedNode=gpu01"
    )
    text = text.replace("   NodeList=gpu02\n   BatchHost=gpu02\n", "   NodeList=\n   SchedNodeList=gpu[01-04]\n")
    job = slurm_jobs.parse(text + "   TresPerNode=gres/gpu:8\n   SubmitLine=sbatch --parsable\n", "41")
    assert (job.state, job.reason, job.nodes) == ("PENDING", "Nodes required are DOWN", "")
    failed = slurm_jobs.parse(JOB.replace("ExitCode=0:0", "ExitCode=7:9"), "41")
    assert (failed.exit_code, failed.signal) == (7, 9)


@pytest.mark.parametrize(
    "text",
    [
        "", "slurm_load_jobs error: Invalid job id specified", JOB.replace("JobId=41", "JobId=42"), JOB + "\n" + JOB,
        JOB.replace("JobState=COMPLETED", "JobState="), JOB.replace("ExitCode=0:0", ""),
        JOB.replace("   NodeList=gpu02\n", ""),
        JOB.replace("r1-cycle-001\n   StdOut", "x\n   JobState=COMPLETED Reason=None Dependency=(null)\n   StdOut"),
        JOB + "   Comment=gpufleet.bringup:r2-cycle-001\n",
    ],
)  # fmt: skip
def test_what_is_not_this_job_once_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="scontrol show job"):
        slurm_jobs.parse(text, "41")


# Slurm 22.05, of Debian's packages.
RESERVATION = """ReservationName=visitors StartTime=2026-11-30T05:20:35 EndTime=2026-11-30T05:30:35 Duration=00:10:00
   Nodes=gpu[01-02] NodeCnt=2 CoreCnt=16 Features=(null) PartitionName=(null) Flags=SPEC_NODES
   TRES=cpu=16
   Users=root Groups=(null) Accounts=(null) Licenses=(null) State=ACTIVE BurstBuffer=(null) Watts=n/a
   MaxStartDelay=(null)
"""


def test_a_reservation_says_which_nodes_it_has() -> None:
    assert slurm_jobs.parse_reservation(RESERVATION, "visitors") == "gpu[01-02]"
    none = RESERVATION.replace("Nodes=gpu[01-02] NodeCnt=2", "Nodes= NodeCnt=0")
    assert slurm_jobs.parse_reservation(none, "visitors") == ""


@pytest.mark.parametrize(
    "text",
    [
        "", "No reservations in the system", RESERVATION.replace("=visitors", "=visitors2"), RESERVATION * 2,
        RESERVATION.replace("   Nodes=gpu[01-02] NodeCnt=2", "  "),
    ],
)  # fmt: skip
def test_what_is_not_that_reservation_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="scontrol show reservation"):
        slurm_jobs.parse_reservation(text, "visitors")


@given(st.integers(0, len(JOB)), st.text(max_size=40))
def test_a_cut_job_never_succeeded_elsewhere(at: int, junk: str) -> None:
    for text in (JOB[:at], JOB[:at] + junk):
        with contextlib.suppress(InputError):
            assert slurm_jobs.parse(text, "41").user == 990


def test_the_queue_has_every_job_and_free_text_is_last() -> None:
    text = "41|990|PENDING|Resources|main,big|gpu[01-02]|gpu01|a|b\n42|0|RUNNING|None|main||(null)|(null)\n"
    first, second = slurm_jobs.parse_queue(text)
    assert (first.job_id, first.user, first.reason, first.partitions) == ("41", 990, "Resources", {"main", "big"})
    assert (first.asked, first.planned, first.comment) == ("gpu[01-02]", "gpu01", "a|b")
    assert (second.reason, second.planned, second.comment) == ("", "", "")
    assert slurm_jobs.parse_queue("\n") == ()
    assert slurm_jobs.parse_queue(f"{text}rest of a comment\n") == (first, second)


@pytest.mark.parametrize("text", ["squeue: error", "JOBID|USER|STATE|x|y|z|a|b", "1|0|RUNNING"])
def test_what_is_no_list_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="squeue"):
        slurm_jobs.parse_queue(text)
