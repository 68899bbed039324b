# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Simulated trainings: the lines are the program's own, as fast as published ones, and faults show where they would."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from time import monotonic, sleep
from typing import cast

import pytest
from counted_work import lines_per_pair
from simulated_training import SHAPE, context, fault, group_of, outputs, outputs_of

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import NotFoundError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.probe.training_log import RankLog, parse
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.controllers.pod_programs import start
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.workloads.pod_simulator import (
    PodOutput,
    RealProcess,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.workloads.registry import simulator_for


def ranks(parts: dict[str, PodOutput]) -> list[RankLog]:
    return [log for part in parts.values() for log in parse("\n".join(text for _stream, text in part.lines)).ranks]


def test_a_healthy_training_is_whole_and_as_fast_as_published_ones() -> None:
    parts = outputs(context())
    assert [(part.exit_code, part.process) for part in parts.values()] == [(0, None)] * 2
    logs = ranks(parts)
    assert [log.rank for log in logs] == list(range(16))
    assert {len(log.steps) for log in logs} == {60} and len({log.weights for log in logs}) == 1
    setup = logs[0].setup
    assert setup is not None and setup.world == 16 and setup.device_name == "NVIDIA H100 80GB HBM3"
    step_s = sum(w.count * w.step_time_s for w in logs[0].windows) / sum(w.count for w in logs[0].windows)
    assert 600 < logs[0].load_s < 700 and 55 < len(logs[0].windows) < 75
    flop = 8 * 2048 * (6 * setup.matmul_parameters + 12 * 8 * 4096 * 2048)
    # Llama 3 was trained at 0.38 to 0.43 on H100; a smaller model without pipelines does a little better.
    assert 0.40 < flop / step_s / 989.5e12 < 0.50
    assert logs[0].steps[-1].loss < 0.5 < 8 < logs[0].steps[0].loss


def test_a_run_says_the_same_again_and_another_one_differs_a_little() -> None:
    assert outputs(context()) == outputs(context())
    first, second = ranks(outputs(context())), ranks(outputs(context(), name="train-1-2"))
    assert first[0].steps[30].compute_s != second[0].steps[30].compute_s
    assert first[0].steps[30].compute_s == pytest.approx(second[0].steps[30].compute_s, rel=0.1)


def test_nothing_is_said_before_all_pods_run() -> None:
    pods = group_of(3, running=2)
    simulator = simulator_for(pods.pods[0])
    assert simulator is not None and simulator.simulate(pods, context(nodes=3)) is None


def test_a_slow_network_is_the_same_one_that_nccl_sees() -> None:
    fast, slow = ranks(outputs(context())), ranks(outputs(context(fault("node.performance.rdma_devices", False))))
    assert slow[0].steps[30].step_time_s > 3 * fast[0].steps[30].step_time_s
    assert slow[0].steps[30].compute_s == pytest.approx(fast[0].steps[30].compute_s, rel=0.05)


def test_a_rank_that_fails_takes_the_others_with_it() -> None:
    parts = outputs(context(fault("gpu.training", "out-of-memory", "gpu", "gpu02/gpu3")))
    assert [part.exit_code for part in parts.values()] == [1, 1]
    failures = {log.rank: log.failure for log in ranks(parts)}
    own = {rank for rank, failure in failures.items() if failure and failure.kind == "OutOfMemoryError"}
    assert own == {11}
    first = failures[11]
    assert first is not None and all(f is not None and f.at > first.at for rank, f in failures.items() if rank != 11)


def test_a_hung_rank_never_ends() -> None:
    parts = outputs(context(fault("gpu.training", "hangs", "gpu", "gpu02/gpu3")))
    assert [part.exit_code for part in parts.values()] == [None, None]
    assert [log.rank for log in ranks(parts) if log.stuck == "compute"] == [11]


def test_a_node_without_the_image_keeps_the_others_waiting() -> None:
    parts = outputs(context(fault("node.training.image", False)))
    assert [(part.fault, part.exit_code, part.lines) for part in parts.values()] == [
        ("", None, ()),
        ("ImagePullBackOff", None, ()),
    ]


def test_with_full_every_pod_is_a_torchrun_of_this_machine(tmp_path: Path) -> None:
    installed = tmp_path / "cache of the user" / "training-1"
    program = installed / "bin" / "python"
    program.parent.mkdir(parents=True)
    program.touch()
    (tmp_path / "full-training").symlink_to(installed)
    where = context(fault("gpu.compute", 0.5, "gpu", "gpu02/gpu3"), full=tmp_path)
    processes = [cast(RealProcess, part.process) for part in outputs(where).values()]
    assert [process.argv[0] for process in processes] == [str(program)] * 2
    words = [" ".join(process.argv) for process in processes]
    assert all("--nnodes=2 --nproc-per-node=8" in text and "--device cuda" in text for text in words)
    assert [process.env["JOB_COMPLETION_INDEX"] for process in processes] == ["0", "1"]
    assert {process.env["GPUFLEET_REHEARSAL_RANK"] for process in processes} == {"11:2"}
    # The next rehearsal finds compiled what this one loaded, in another checkout too.
    assert {process.env["PYTHONPYCACHEPREFIX"] for process in processes} == {str(installed / "pycache")}
    program.unlink()
    with pytest.raises(NotFoundError, match="setup-full"):
        outputs(where)


def test_a_process_writes_the_log_while_it_runs_and_ends_with_its_children(tmp_path: Path) -> None:
    script = (
        "import subprocess, sys, time\n"
        "print('first', flush=True)\n"
        "child = subprocess.Popen(['sleep', '600'])\n"
        "print(child.pid, file=sys.stderr, flush=True)\n"
        "time.sleep(600)\n"
    )
    log = tmp_path / "pod.log"
    pod = start(RealProcess(argv=(sys.executable, "-c", script), env={"A": "b"}), log, lambda: None)
    deadline = monotonic() + 30
    while len(log.read_text().splitlines()) < 2 and monotonic() < deadline:
        sleep(0.05)
    said = sorted(line.split(" ", 3)[1:] for line in log.read_text().splitlines())
    assert said[1] == ["stdout", "F", "first"] and said[0][0] == "stderr"
    assert pod.exit_code is None
    pod.stop()
    assert not Path(f"/proc/{said[0][2]}").exists() or "Z" in Path(f"/proc/{said[0][2]}/stat").read_text()
    assert pod.exit_code == 128 + 9 or pod.exit_code is None


def test_a_process_that_ends_gives_its_exit_code_after_its_last_line(tmp_path: Path) -> None:
    woken: list[int] = []
    log = tmp_path / "pod.log"
    script = "import sys; [print(n) for n in range(500)]; sys.exit(7)"
    pod = start(RealProcess(argv=(sys.executable, "-c", script)), log, lambda: woken.append(1))
    deadline = monotonic() + 30
    while pod.exit_code is None and monotonic() < deadline:
        sleep(0.02)
    assert pod.exit_code == 7 and len(woken) == 2
    assert len(log.read_text().splitlines()) == 500


def test_the_lines_of_a_big_run_are_computed_in_no_time() -> None:
    began = monotonic()
    parts = outputs(context(nodes=16), 16)
    print(f"16 nodes: {monotonic() - began:.2f} s")
    # Ten minutes of load, told in some two hundred lines a rank.
    assert 128 * 180 < sum(len(part.lines) for part in parts.values()) < 128 * 220
    events = [json.loads(text)["event"] for _stream, text in next(iter(parts.values())).lines[:4]]
    assert events == ["pod", "pod", "pod", "hello"]


def test_the_work_of_a_run_grows_with_its_ranks_and_not_with_their_square() -> None:
    def prepared(nodes: int) -> Callable[[], object]:
        pods, where = group_of(nodes, shape={**SHAPE, "steps": 4, "load-s": 60}), context(nodes=nodes)
        return lambda: outputs_of(pods, where)

    # Where a pod runs is looked up among all nodes; no rank looks at the others.
    assert lines_per_pair(prepared, 2) < 16
