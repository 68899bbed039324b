# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The training program itself, on two processes of the CPU: its real lines go the way of the gate, good and bad."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from rehearsal_harness import ROOT, left_behind, rehearse
from training_fleet import TrainingFleet

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.training_acceptance.analysis import flop_per_token
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.training_acceptance.model import (
    PodRecord,
    Record,
    Results,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.training_acceptance.observe_training import (
    parse_run,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import load_hardware
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.probe.training_log import RankLog, Setup, parse
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.substitution.replacements import (
    training_settings,
)

pytestmark = pytest.mark.drawn(1, of="programs over PyTorch", whole=True)

PROGRAM = ROOT / "recipes" / "workloads" / "training"
SETTINGS = {**training_settings(1, full=True), "steps": 40, "load_s": 0.0}
LIMIT_S = 400


@pytest.fixture(scope="session")
def torch() -> Path:
    """The programs of requirement set training, installed if they are not."""
    subprocess.run([ROOT / "tools" / "setup_full", "training"], check=True)
    return (ROOT / ".cache" / "full-training").resolve() / "bin"


@dataclass
class Trained:
    """A run of two ranks on one host: its log and how it ended."""

    log: str
    exit_code: int

    def judged(self, **more: float) -> tuple[TrainingFleet, Results]:
        """Return what the gate makes of it, with other settings beside those of this machine."""
        h100 = load_hardware([ROOT / "recipes" / "hardware"])["dgx-h100"]
        fleet = TrainingFleet(
            hosts=("here",),
            hardware={"two": replace(h100, name="two", gpus=2)},
            sku="two",
            settings={**SETTINGS, **more},
        )
        record = Record(
            name="train-1-1", sku="two", hosts=("here",), attempt=1, gpus=2, reason="as it did",
            state="succeeded" if self.exit_code == 0 else "failed",
            pods=(PodRecord(host="here", node="here", index=0, exit_code=self.exit_code),),
        )  # fmt: skip
        plan = fleet.plan()
        return fleet, Results(plan=plan, runs=(parse_run(record, {"here": self.log}, plan.settings),))

    def findings(self) -> list[tuple[str, str, str]]:
        fleet, results = self.judged()
        return [(check, cause, status) for check, cause, status, _who in fleet.findings(results)]


def ranks_of(log: str) -> tuple[RankLog, ...]:
    return parse(log).ranks


def begin(torch: Path, log: Path, misbehaviour: str = "", *more: str) -> subprocess.Popen[bytes]:
    """Start two ranks; what they write goes to a file."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    shape = SETTINGS["shape"]
    options = [f"--{name.replace('_', '-')}={value}" for name, value in shape.items()]
    options += ["--device=cpu", "--dtype=float32", f"--steps={SETTINGS['steps']}", *more]
    size = ["--nnodes=1", "--nproc-per-node=2", f"--master-port={port}", "--max-restarts=0"]
    env = {
        **os.environ, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "",
        "PYTHONPYCACHEPREFIX": str(torch.parent / "pycache"), "GPUFLEET_REHEARSAL_RANK": misbehaviour,
        "MEETING": "127.0.0.1", "JOB_COMPLETION_INDEX": "0",
    }  # fmt: skip
    words = [torch / "python", PROGRAM / "begin.py", *size, PROGRAM / "train.py", *options]
    with log.open("wb") as file:
        return subprocess.Popen(words, env=env, stdout=file, stderr=file)


def train(torch: Path, log: Path, misbehaviour: str = "", *more: str) -> Trained:
    """Train to the end."""
    with begin(torch, log, misbehaviour, *more) as process:
        code = process.wait(LIMIT_S)
    return Trained(log.read_text(encoding="utf-8"), code)


def test_a_healthy_run_passes_the_gate(torch: Path, tmp_path: Path) -> None:
    done = train(torch, tmp_path / "log", "", "--accumulate=2")
    assert done.exit_code == 0, done.log[-3000:]
    fleet, results = done.judged()
    assert fleet.findings(results) == []
    first, second = ranks_of(done.log)
    assert (first.rank, second.rank, len(first.steps)) == (0, 1, 40)
    assert first.weights == second.weights
    assert first.setup is not None and first.setup.matmul_parameters == 2 * 12 * 128**2 + 128 * 128
    assert {step.tokens for step in first.steps} == {2 * 4 * 64}
    # Each rank learns from data of its own.
    assert [step.loss for step in first.steps] != [step.loss for step in second.steps]
    assert all(step.compute_s + (step.data_s or 9) < step.step_time_s for step in (*first.steps, *second.steps))
    assert list(parse(done.log).phases) == ["started", "resolved", "loaded"]
    assert {(d.gemm, d.attention) for rank in (first, second) for d in rank.digests} == {
        (first.digests[0].gemm, first.digests[0].attention)
    }
    assert {digest.wrong_rows for rank in (first, second) for digest in rank.digests} == {0}
    assert first.steps[-1].loss < 0.5 * first.steps[0].loss
    (mfu,) = [o for o in fleet.outcomes(results) if o.check == "training-mfu"]
    print(mfu.summary, mfu.expected[0].arithmetic)


@pytest.mark.long("a load of its own length; the lines of one are judged in test_long_load.py of the unit tests")
def test_a_load_goes_on_until_its_time_is_over_and_all_ranks_end_at_the_same_step(torch: Path, tmp_path: Path) -> None:
    load_s = 15.0
    done = train(torch, tmp_path / "log", "", f"--load-s={load_s}")
    assert done.exit_code == 0, done.log[-3000:]
    first, second = ranks_of(done.log)
    assert first.done == second.done > 40 and first.load_s >= load_s
    assert [(w.first, w.count) for w in first.windows] == [(w.first, w.count) for w in second.windows]
    assert len(first.windows) >= 2 and len(first.digests) == len(second.digests) >= 3
    assert sum(state.samples for state in first.states) > 10
    # What is told soon after the line before it may hold no sample, and then it tells nothing.
    assert all((state.clock_mhz and state.reasons == {}) or not state.samples for state in first.states)
    fleet, results = done.judged()
    assert fleet.findings(results) == []


@pytest.mark.drawn(1, of="faults of a rank")
def test_wrong_arithmetic_of_one_rank_is_found_although_all_learn_the_same(torch: Path, tmp_path: Path) -> None:
    done = train(torch, tmp_path / "log", "1:digest")
    fleet, results = done.judged()
    assert fleet.findings(results) == [("training-digest", "digest-changes", "failed", "here")]
    (told,) = [o for o in fleet.outcomes(results) if o.cause == "digest-changes"]
    assert told.subjects[1].name == "here/gpu1"
    assert len({rank.weights for rank in ranks_of(done.log)}) == 1


def test_a_name_that_nobody_resolves_is_waited_for_and_told(torch: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    env = {**os.environ, "MEETING": "train-1-1-0.ranks.invalid", "JOB_COMPLETION_INDEX": "1"}
    with log.open("wb") as file:
        process = subprocess.Popen([torch / "python", PROGRAM / "begin.py"], env=env, stdout=file, stderr=file)
    with process:
        deadline = time.monotonic() + 60
        while "waiting for" not in log.read_text(encoding="utf-8") and time.monotonic() < deadline:
            time.sleep(0.1)
        process.kill()
    text = log.read_text(encoding="utf-8")
    assert list(parse(text).phases) == ["started"]
    assert "waiting for train-1-1-0.ranks.invalid" in text


@pytest.mark.drawn(1, of="faults of a rank")
def test_a_slow_rank_is_found_although_all_steps_take_the_same_time(torch: Path, tmp_path: Path) -> None:
    done = train(torch, tmp_path / "log", "1:20")
    # Two ranks of one machine are alike enough for less tolerance than many are.
    fleet, results = done.judged(peer_marginal=0.3, peer_bad=0.5)
    assert fleet.findings(results) == [("training-stragglers", "slow-gpu", "failed", "here")]
    (told,) = [o for o in fleet.outcomes(results) if o.cause == "slow-gpu"]
    assert {m.name: m.value for m in told.measured}["slowest GPU"] == "here/gpu1"
    steps = [sum(step.step_time_s for step in log.steps[10:]) for log in ranks_of(done.log)]
    assert steps[0] == pytest.approx(steps[1], rel=0.1)


@pytest.mark.drawn(1, of="faults of a rank")
def test_a_loss_that_is_no_number_is_followed_to_its_rank(torch: Path, tmp_path: Path) -> None:
    done = train(torch, tmp_path / "log", "1:nan")
    assert done.exit_code == 0
    fleet, results = done.judged()
    assert fleet.findings(results) == [("training-loss", "loss-not-finite", "failed", "here")]
    (told,) = [o for o in fleet.outcomes(results) if o.cause == "loss-not-finite"]
    assert told.subjects[1].name == "here/gpu1" and "step 21" in told.summary
    # With its gradients it reaches the others one step later.
    assert [str(step.loss) for step in ranks_of(done.log)[0].steps[20:22]][1] == "nan"


@pytest.mark.drawn(1, of="faults of a rank")
def test_a_rank_that_is_killed(torch: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    with begin(torch, log, "", "--steps=100000") as process:
        deadline = time.monotonic() + LIMIT_S
        while '"step":5,' not in log.read_text(encoding="utf-8") and time.monotonic() < deadline:
            assert process.poll() is None, log.read_text(encoding="utf-8")[-3000:]
            time.sleep(0.2)
        (victim,) = [pid for pid in _children(process.pid) if b"RANK=1" in _environment(pid)]
        os.kill(victim, signal.SIGKILL)
        code = process.wait(LIMIT_S)
    ended = Trained(log.read_text(encoding="utf-8"), code)
    assert ended.findings() == [("training-completed", "run-crashed", "other")]


def _children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(word) for task in tasks for word in task.read_text().split()]


def _environment(pid: int) -> list[bytes]:
    return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")


COUNT_FLOP = """
import argparse, json, sys
sys.path.insert(0, sys.argv[1])
import torch, train
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode
for device, shape in json.loads(sys.argv[2]).items():
    with torch.device(device):
        model = train.Transformer(argparse.Namespace(**shape))
        tokens = torch.zeros((shape["batch"], shape["sequence"]), dtype=torch.long)
        with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
            model(tokens).float().mean().backward()
    print(json.dumps({"flop": counter.get_total_flops(), "matmul_parameters": model.matmul_parameters}))
"""
SHAPES = {
    "cpu": {"layers": 3, "hidden": 192, "heads": 4, "sequence": 256, "batch": 1, "vocabulary": 512},
    "meta": {"layers": 8, "hidden": 4096, "heads": 32, "sequence": 2048, "batch": 1, "vocabulary": 8192},
}


def test_the_formula_counts_what_pytorch_counts(torch: Path) -> None:
    """On the CPU it is really computed; the shape of an H100 is counted without memory for it."""
    done = subprocess.run(
        [torch / "python", "-c", COUNT_FLOP, str(PROGRAM), json.dumps(SHAPES)],
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(torch.parent / "pycache")},
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    for (device, shape), line in zip(SHAPES.items(), done.stdout.splitlines(), strict=True):
        counted = json.loads(line)
        setup = Setup(
            world=1, device=device, device_name="", uuid="", backend="", torch="", joined=0.0, dtype="", accumulate=1,
            parameters=0, matmul_parameters=counted["matmul_parameters"],
            **{name: value for name, value in shape.items() if name != "heads"},
        )  # fmt: skip
        ours = shape["batch"] * shape["sequence"] * flop_per_token(setup)
        assert ours == pytest.approx(counted["flop"], rel=0.05), device
        print(f"{device}: ours / counted = {ours / counted['flop']:.4f}")


@pytest.mark.long("PyTorch and AIPerf are installed for it; the program itself runs in the tests above")
def test_full_runs_the_program_from_the_gate_to_the_verdict(torch: Path, tmp_path: Path) -> None:
    """One simulated host with four GPUs, so four real ranks, whose lines the gate reads from its pod."""
    subprocess.run([ROOT / "tools" / "setup_full"], check=True)
    gates = ["gpu_stack", "training_acceptance"]
    try:
        run = rehearse(tmp_path, rehearsal_nodes=1, rehearsal_sku="pcie-a10", rehearsal_full=True, gates=gates)
        assert run.rc == 0, run.output[-3000:]
        assert run.findings() == []
        (log,) = (run.run_dir / "evidence" / "training_acceptance").glob("train-*.log")
        ranks = ranks_of(log.read_text(encoding="utf-8"))
        assert [rank.rank for rank in ranks] == [0, 1, 2, 3]
        assert {rank.setup.backend for rank in ranks if rank.setup} == {"gloo"}
    finally:
        assert left_behind(tmp_path) == []
