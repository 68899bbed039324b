# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A test as a job of Slurm: what sbatch is told, what the script does, and what each end of it means."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.fleet.slurm_script import (
    SlurmWays,
    directory_of,
    ending_of,
    mark,
    pyxis_image,
    sbatch_words,
    script_of,
    whole_log,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.probe.slurm_jobs import SlurmJob
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.model import JobSpec

SPEC = JobSpec(
    name="dl-unit-1", nodes=("gpu02",), gpus_per_node=8, image="nvcr.io/nvidia/pytorch:25.08-py3",
    command=("python3", "/etc/program/dl_unit.py", "--gpus=8"), env={"A": "b c"}, kind="plain-job", timeout_s=890.0,
    pull_s=1800.0, schedule_s=60.0,
)  # fmt: skip
WAYS = SlurmWays(directory=Path("/shared"))


def job(state: str, **more: Any) -> SlurmJob:
    return SlurmJob(job_id="41", user=990, state=state, **{"nodes": "gpu02", **more})


def test_a_job_has_the_whole_node_comes_last_and_ends_by_itself() -> None:
    words = sbatch_words(SPEC, WAYS, "c1", 8)
    assert {"--exclusive", "--no-requeue", "--nice=10000", "--nodelist=gpu02", "--gres=gpu:8"} <= set(words)
    # 890 s of test and 1800 s of image are 45 minutes; it may wait a minute before them.
    assert "--time=45" in words and "--deadline=now+2761" in words and f"--comment={mark('c1')}" in words
    assert not [word for word in words if word.startswith(("--partition", "--account", "--qos"))]
    bare = SlurmWays(directory=Path("/shared"), containers="none", partition="gpu", account="ops", qos="low")
    words = sbatch_words(SPEC, bare, "c1", None)
    assert {"--time=15", "--partition=gpu", "--account=ops", "--qos=low"} <= set(words)
    assert not [word for word in words if word.startswith("--gres")]


def test_the_image_is_started_by_pyxis_with_the_program_in_its_place() -> None:
    text = script_of(SPEC, WAYS, "c1")
    assert "'--container-image=nvcr.io#nvidia/pytorch:25.08-py3'" in text
    assert "--container-mounts=/shared/c1/dl-unit-1:/etc/program:ro" in text
    assert '--cpus-per-task="$SLURM_CPUS_ON_NODE"' in text and "export A='b c'" in text


@pytest.mark.parametrize(
    ("image", "name"),
    [
        ("nvcr.io/nvidia/pytorch:1", "nvcr.io#nvidia/pytorch:1"), ("host:5000/a:1", "host:5000#a:1"),
        ("nvcr.io#nvidia/pytorch:1", "nvcr.io#nvidia/pytorch:1"), ("/images/a.sqsh", "/images/a.sqsh"),
        ("pytorch/pytorch:2", "pytorch/pytorch:2"), ("alpine", "alpine"),
    ],
)  # fmt: skip
def test_images_by_the_names_of_pyxis(image: str, name: str) -> None:
    assert pyxis_image(image) == name


@pytest.mark.parametrize(("code", "rc"), [("import sys; print('hello')", 0), ("import sys; sys.exit(3)", 3)])
def test_the_script_says_last_how_its_command_ended(tmp_path: Path, code: str, rc: int) -> None:
    ways = SlurmWays(directory=tmp_path, containers="none")
    directory = directory_of(SPEC, ways, "c1")
    directory.mkdir(parents=True)
    (directory / "dl_unit.py").write_text(code)
    told = {"PATH": os.environ["PATH"], "SLURM_JOB_ID": "41"}
    script = script_of(SPEC, ways, "c1")
    ran = subprocess.run(["sh"], input=script, capture_output=True, text=True, env=told, check=False)
    assert ran.returncode == rc
    assert whole_log(ran.stdout, "41") == ("hello\n" if rc == 0 else "", rc)


@pytest.mark.parametrize(
    "text", ["", "hello\n", "gpufleet.bringup: job 42 ended with 0\n", "gpufleet.bringup: job 41 ended with 0\nmore\n",
             "gpufleet.bringup: job 41 ended with"],
)  # fmt: skip
def test_a_log_without_its_last_line_is_not_whole(text: str) -> None:
    assert whole_log(text, "41") == (text, None)


@pytest.mark.parametrize(
    ("seen", "state"),
    [
        (job("COMPLETED"), "succeeded"),
        (job("COMPLETED", exit_code=1), "unknown"),
        (job("COMPLETED", signal=9), "unknown"),
        (job("COMPLETED", nodes="gpu03"), "unknown"),
        (job("COMPLETED", nodes=""), "unknown"),
        (job("FAILED", exit_code=1), "failed"),
        (job("FAILED", exit_code=1, nodes="gpu03"), "unknown"),
        (job("OUT_OF_MEMORY", signal=125), "failed"),
        (job("TIMEOUT"), "timeout"),
        (job("NODE_FAIL"), "lost-node"),
        (job("BOOT_FAIL"), "lost-node"),
        (job("PREEMPTED"), "preempted"),
        (job("CANCELLED"), "preempted"),
        (job("SUSPENDED"), "preempted"),
        (job("DEADLINE"), "unschedulable"),
        (job("REQUEUED"), "unknown"),
        (job("SPECIAL_EXIT"), "unknown"),
        (job("A_STATE_OF_TOMORROW"), "unknown"),
    ],
)
def test_only_a_job_that_completed_on_its_node_succeeded(seen: SlurmJob, state: str) -> None:
    ending = ending_of(seen, "gpu02")
    assert ending is not None and ending.state == state and seen.state in ending.reason


@pytest.mark.parametrize("state", ["PENDING", "CONFIGURING", "RUNNING", "COMPLETING", "STAGE_OUT"])
def test_a_job_that_goes_on_has_no_end(state: str) -> None:
    assert ending_of(job(state), "gpu02") is None
