# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A test as a job of Slurm: what sbatch is told, what the script does, and what each end of it means."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.fleet.slurm_jobs import (
    SlurmWays,
    directory_of,
    ending_of,
    machine_of,
    mark,
    no_container,
    pyxis_image,
    sbatch_words,
    script_of,
    whole_log,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.probe.slurm_jobs import SlurmJob
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.job import JobSpec

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


def words_of_step(spec: JobSpec) -> list[str]:
    (line,) = re.findall(r"^srun (?:.|\n)*?(?=^rc=)", script_of(spec, WAYS, "c1"), re.M)
    return shlex.split(line)


def test_the_image_is_started_by_pyxis_as_a_pod_would_be() -> None:
    words = words_of_step(SPEC)
    assert words == [
        "srun", "--ntasks=1", "--cpus-per-task=$SLURM_CPUS_ON_NODE", "--mpi=none",
        "--container-image=nvcr.io#nvidia/pytorch:25.08-py3",
        "--container-mounts=/shared/c1/dl-unit-1:/etc/program:ro", "--no-container-mount-home",
        "--no-container-remap-root", "--no-container-entrypoint", "--container-writable",
        "--container-env=PYTHONDONTWRITEBYTECODE,A", "python3", "/etc/program/dl_unit.py", "--gpus=8",
    ]  # fmt: skip
    text = script_of(SPEC, WAYS, "c1")
    assert "export A='b c'" in text and "export NVIDIA_VISIBLE_DEVICES=all" in text
    assert "export MELLANOX_VISIBLE_DEVICES=void" in text


def test_ranks_get_the_adapters_and_their_environment() -> None:
    spec = replace(SPEC, kind="gang-job", command=("/opt/all_reduce_perf", "-b", "8"), env={"NCCL_DEBUG": "INFO"})
    words = words_of_step(spec)
    names = "PYTHONDONTWRITEBYTECODE,NCCL_DEBUG"
    assert words[-6:] == ["ranks.sh", "8", names, "/opt/all_reduce_perf", "-b", "8"]
    assert "export MELLANOX_VISIBLE_DEVICES=all" in script_of(spec, WAYS, "c1")


def test_a_volume_is_mounted_and_text_of_several_lines_is_no_name_for_the_image() -> None:
    spec = replace(
        SPEC, gpus_per_node=0, data={"hostPath": {"path": "/mnt/all"}}, env={"JOBS": "a\nb", "STORAGE_VOLUME": "/data"}
    )
    words = words_of_step(spec)
    assert "--container-mounts=/shared/c1/dl-unit-1:/etc/program:ro,/mnt/all:/data" in words
    assert any(word.startswith("--container-env=") and "JOBS" not in word for word in words)
    text = script_of(spec, WAYS, "c1")
    assert "export NVIDIA_VISIBLE_DEVICES=void" in text and "export STORAGE_VOLUME=/data" in text
    bare = script_of(spec, SlurmWays(directory=Path("/shared"), containers="none"), "c1")
    assert "export STORAGE_VOLUME=/mnt/all" in bare and "srun" not in bare


@pytest.mark.parametrize(
    "source", [{"nfs": {"server": "a", "path": "/b"}}, {"hostPath": {"path": "b"}}, {"hostPath": {"path": "/a:b"}},
               {"hostPath": {"path": "/a/../b"}}, {"hostPath": "/a"}],
)  # fmt: skip
def test_a_volume_that_is_no_directory_of_the_nodes_is_refused(source: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="hostPath"):
        script_of(replace(SPEC, data=source), WAYS, "c1")


_MPIRUN = """#!/bin/sh
echo "mpirun $*"
env | grep -c -E '^(SLURM|PMI)' || true
exit $CODE
"""


@pytest.mark.parametrize("code", [0, 7])
def test_ranks_are_started_once_for_every_gpu_without_slurm_in_sight(tmp_path: Path, code: int) -> None:
    (tmp_path / "mpirun").write_text(_MPIRUN)
    (tmp_path / "mpirun").chmod(0o755)
    spec = replace(SPEC, kind="gang-job", command=("all_reduce_perf", "-b", "8 G"), env={"NCCL_DEBUG": "INFO"})
    told = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}", "SLURM_JOB_ID": "41", "SLURM_NODELIST": "gpu02", "PMIX_RANK": "0",
        "PMI_SIZE": "1", "CODE": str(code),
    }  # fmt: skip
    script = script_of(spec, SlurmWays(directory=tmp_path, containers="none"), "c1")
    ran = subprocess.run(["sh"], input=script, capture_output=True, text=True, env=told, check=False)
    body, said = whole_log(ran.stdout, "41")
    assert ran.returncode == said == code, ran
    lines = body.splitlines()
    assert lines[0].startswith("mpirun --allow-run-as-root -np 8 --host localhost:8 --map-by ppr:8:node ")
    assert lines[0].endswith("-x PYTHONDONTWRITEBYTECODE -x NCCL_DEBUG all_reduce_perf -b 8 G") and lines[1] == "0"
    name = machine_of(ran.stdout, "41")
    assert name == os.uname().nodename.partition(".")[0]
    assert (len(lines) == 2) is (code == 0)
    assert code == 0 or lines[2].startswith(f"gpufleet: locked memory of {name} is ")


# What srun of Slurm 22.05 prints without Pyxis, and what Pyxis 0.24 with Enroot 4.1 prints in it.
@pytest.mark.parametrize(
    ("log", "state"),
    [
        ("srun: unrecognized option '--container-image=a'\nTry \"srun --help\" for more information\n", "refused"),
        ("srun: unrecognized option '--container-env=A'\nTry \"srun --help\" for more information\n", "refused"),
        ("pyxis: importing docker image: a\nslurmstepd: error: pyxis: failed to import docker image: a\n", "image"),
        ("slurmstepd-gpu03: error: pyxis: failed to create container filesystem for image: /a.sqsh\n", "image"),
        ("slurmstepd: error: pyxis: container start failed with error code: 1\n", "image"),
        ("pyxis: importing docker image: a\npyxis: imported docker image: a\nKilled\n", None),
        ("the model printed: slurmstepd: error: pyxis: failed to import docker image\n", None),
        ("", None),
    ],
)
def test_a_container_that_was_never_there_says_nothing_about_the_node(log: str, state: str | None) -> None:
    found = no_container(log)
    assert (found.state if found else None) == state


def test_a_log_says_by_what_name_its_machine_goes() -> None:
    ours = "gpufleet.bringup: job 41"
    text = f"slurmd: note\n{ours} runs on n1.example.org\nfine\n{ours} ended with 0\n"
    assert machine_of(text, "41") == "n1" and machine_of(text, "42") == machine_of("", "41") == ""
    assert whole_log(text, "41") == ("slurmd: note\n\nfine\n", 0)


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
