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

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.probe.slurm_jobs import SlurmJob
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.job import JobSpec
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.slurm_script import (
    SlurmWays,
    directory_of,
    ending_of,
    machine_of,
    machines_of,
    mark,
    no_container,
    no_program,
    pyxis_image,
    sbatch_words,
    script_of,
    whole_log,
)

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
    bare = SlurmWays(
        directory=Path("/shared"), containers="none", partition="gpu", account="ops", qos="low", reservation="r"
    )
    words = sbatch_words(SPEC, bare, "c1", None)
    assert {"--time=15", "--partition=gpu", "--account=ops", "--qos=low", "--reservation=r"} <= set(words)
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


PAIR = replace(
    SPEC, name="pair-1", nodes=("gpu02", "gpu10"), kind="gang-job", command=("/opt/all_reduce_perf", "-b", "8"),
    env={"NCCL_DEBUG": "INFO"},
)  # fmt: skip
BARE = SlurmWays(directory=Path("/shared"), containers="none")


def test_a_job_of_two_nodes_has_both_whole_and_a_name_with_its_run() -> None:
    words = sbatch_words(PAIR, BARE, "r1", 8)
    expected = {
        "--nodes=2", "--nodelist=gpu02,gpu10", "--ntasks-per-node=8", "--exclusive", "--gres=gpu:8",
        "--job-name=gpufleet-pair-1-r1", f"--comment={mark('r1')}", "--time=15",
    }  # fmt: skip
    assert expected <= set(words) and "--ntasks=1" not in words
    assert "--ntasks=1" in sbatch_words(replace(PAIR, nodes=("gpu02",)), BARE, "r1", 8)


_TOLD = """#!/bin/sh
case "$0" in */mpirun) echo "mpirun $SRUN_CPUS_PER_TASK ${SLURM_JOB_ID:-none} $*"; exit $CODE ;; esac
echo "srun $1 $2 $3 $4"
shift 4
export SLURMD_NODENAME=gpu02
"$@"
"""


@pytest.mark.parametrize("code", [0, 7])
def test_ranks_of_two_nodes_are_started_by_an_mpirun_that_slurm_helps(tmp_path: Path, code: int) -> None:
    for name in ("mpirun", "srun"):
        (tmp_path / name).write_text(_TOLD)
        (tmp_path / name).chmod(0o755)
    told = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}", "SLURM_JOB_ID": "41", "SLURM_CPUS_ON_NODE": "96", "CODE": str(code),
    }  # fmt: skip
    script = script_of(PAIR, BARE, "r1")
    ran = subprocess.run(["sh"], input=script, capture_output=True, text=True, env=told, check=False)
    body, said = whole_log(ran.stdout, "41")
    assert ran.returncode == said == code, ran
    look, has, locked, absent, mpirun = body.splitlines()
    assert look == "srun --mpi=none --nodes=2 --ntasks=2 --ntasks-per-node=1" and has.endswith(os.uname().nodename)
    assert machines_of(body, "41") == {"gpu02": os.uname().nodename.partition(".")[0]} and "locked memory" in locked
    # Slurm's variables stay: by them mpirun knows the nodes.
    assert mpirun.startswith("mpirun 96 41 --allow-run-as-root -np 16 --map-by ppr:8:node --bind-to numa ")
    assert mpirun.endswith("-x PYTHONDONTWRITEBYTECODE -x NCCL_DEBUG /opt/all_reduce_perf -b 8")
    found = no_program(body)
    assert absent.endswith("has no /opt/all_reduce_perf") and found is not None and found.state == "no-program"


def test_ranks_of_several_nodes_in_containers_are_started_by_srun() -> None:
    text = script_of(PAIR, WAYS, "c1")
    look, *words = [shlex.split(line) for line in re.findall(r"^srun (?:.|\n)*?(?=^srun|^rc=)", text, re.M)]
    assert look[:5] == ["srun", "--mpi=none", "--nodes=2", "--ntasks=2", "--ntasks-per-node=1"]
    assert look[-2:] == ["look.sh", "gpufleet.bringup"], "the image has the programs"
    ((*srun, _image, _mounts, _home, _root, _entry, _written, names, program, _b, _size),) = words
    assert srun == [
        "srun", "--nodes=2", "--ntasks=16", "--ntasks-per-node=8", "--cpus-per-task=$((SLURM_CPUS_ON_NODE / 8))",
        "--cpu-bind=none", "--kill-on-bad-exit=1", "--mpi=pmix",
    ]  # fmt: skip
    expected = "PYTHONDONTWRITEBYTECODE,NCCL_DEBUG,OMPI_MCA_btl,OMPI_MCA_pml,OMPI_MCA_coll"
    assert (names, program) == (f"--container-env={expected}", "/opt/all_reduce_perf")
    assert "export OMPI_MCA_btl=tcp,self" in text and "export MELLANOX_VISIBLE_DEVICES=all" in text


def test_a_stated_plugin_starts_the_ranks_of_one_node_as_well_and_nothing_else() -> None:
    stated = replace(BARE, mpi="pmi2")
    alone = replace(PAIR, nodes=("gpu02",))
    (line,) = re.findall(r"^srun [^\n]*", script_of(alone, stated, "c1"), re.M)
    assert shlex.split(line)[-4:] == ["--mpi=pmi2", "/opt/all_reduce_perf", "-b", "8"] and "--ntasks=8" in line
    assert "--ntasks-per-node=8" in sbatch_words(alone, stated, "c1", 8)
    assert "srun" not in script_of(SPEC, stated, "c1") and "--ntasks=1" in sbatch_words(SPEC, stated, "c1", 8)


# What Slurm 22.05, dash and bash print; what the scripts of this collection do.
@pytest.mark.parametrize(
    ("log", "words"),
    [
        ("gpufleet: n1 has no /opt/x\ngpufleet: n2 has no /opt/x\n", "/opt/x is not there on n1, n2"),
        ("/var/spool/slurmd/job00041/slurm_script: 4: srun: not found\n", "srun is not there"),
        ("ranks.sh: line 24: mpirun: command not found\n", "mpirun is not there"),
        (
            "slurmstepd-gpu01: error: execve(): /opt/x: No such file or directory\n"
            "srun: error: gpu01: task 0: Exited with exit code 2\n", "/opt/x is not there",
        ),
        (
            "srun: error: cannot find mpi plugin for mpi/a\nsrun: error: MPI: Unable to load any plugin\n"
            "srun: error: Invalid MPI type 'a', --mpi=list for acceptable types\n",
            "no such plugin (Invalid MPI type 'a'",
        ),
        ("the model said: gpufleet: n1 has no /opt/x\n", None),
        ("gpufleet: locked memory of n1 is 8192\n", None),
        ("srun: error: gpu01: task 0: Exited with exit code 2\n", None),
        ("", None),
    ],
)  # fmt: skip
def test_what_a_job_did_not_find_says_nothing_about_its_nodes(log: str, words: str | None) -> None:
    found = no_program(log)
    assert (found is None) is (words is None)
    assert found is None or (found.state == "no-program" and words is not None and words in found.reason), found


def test_machines_are_those_of_the_job() -> None:
    text = (
        "gpufleet.bringup: job 41 has gpu02 as n2.example\ngpufleet.bringup: job 40 has gpu03 as n3\nhas gpu04 as x\n"
    )
    assert machines_of(text, "41") == {"gpu02": "n2"} and machines_of("", "41") == {}


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
        (job("COMPLETED", restarts=1), "unknown"),
        (job("RUNNING", restarts=1), "unknown"),
        (job("A_STATE_OF_TOMORROW"), "unknown"),
    ],
)
def test_only_a_job_that_completed_on_its_node_succeeded(seen: SlurmJob, state: str) -> None:
    ending = ending_of(seen, "gpu02")
    assert ending is not None and ending.state == state and seen.state in ending.reason


def test_a_job_of_several_nodes_succeeded_on_all_of_them() -> None:
    for nodes, state in (("gpu02,gpu10", "succeeded"), ("gpu02", "unknown"), ("gpu02,gpu10,gpu11", "unknown")):
        ending = ending_of(job("COMPLETED", nodes=nodes), "gpu02,gpu10")
        assert ending is not None and ending.state == state


@pytest.mark.parametrize("state", ["PENDING", "CONFIGURING", "RUNNING", "COMPLETING", "STAGE_OUT"])
def test_a_job_that_goes_on_has_no_end(state: str) -> None:
    assert ending_of(job(state), "gpu02") is None
