# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The training program under torchrun: the log of each pod has the lines of its ranks. With FULL it really trains."""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping, Sequence

from ...runtime.recipe_files import RECIPES
from .benchmark import rank_pod
from .performance import performance
from .pod_simulator import (
    STDERR,
    STDOUT,
    Json,
    PodGroup,
    PodOutput,
    PodSimulator,
    RealProcess,
    SimContext,
    env_of,
    words_of,
)
from .training_lines import TrainingJob, TrainingLog, options_of

_PROGRAM = "train.py"
_SOURCE = RECIPES / "workloads" / "training" / _PROGRAM
_MACHINES = re.compile(r"--nnodes\s+(\d+)")
_EACH = re.compile(r"--nproc-per-node\s+(\d+)")
_FAILED = 1
_IMAGE = "ImagePullBackOff"


def handles(pod: Json) -> bool:
    """Tell whether a pod starts our training program with torchrun."""
    words = words_of(pod)
    return "torchrun" in words and any(word.rsplit("/", 1)[-1] == _PROGRAM for word in words)


def simulate(group: PodGroup, context: SimContext) -> Mapping[str, PodOutput] | None:
    """Return the outputs once as many pods run as torchrun waits for."""
    words = words_of(group.pods[0])
    text = " ".join(words)
    machines, each = _MACHINES.search(text), _EACH.search(text)
    if machines is None or each is None or len(group.running) < int(machines.group(1)):
        return None
    at = next(n for n, word in enumerate(words) if word.rsplit("/", 1)[-1] == _PROGRAM)
    options, pods = words[at + 1 :], group.running
    without = [pod for pod in pods if not context.model.node(pod["spec"]["nodeName"]).training.image]
    if without:
        # The other pods wait for them and print nothing yet.
        return {_name(pod): PodOutput(exit_code=None, fault=_IMAGE if pod in without else "") for pod in pods}
    run = TrainingJob(
        name=group.name, places=tuple(rank_pod(pod, int(each.group(1))) for pod in pods), options=options_of(options),
        env=env_of(pods[0]),
    )  # fmt: skip
    if context.full is not None:
        return _for_real(run, pods, options, context)
    return _computed(run, pods, context)


def _computed(run: TrainingJob, pods: Sequence[Json], context: SimContext) -> Mapping[str, PodOutput]:
    data = performance()
    log = TrainingLog(run, context.model, context.skus, data, context.now.timestamp())
    lines = log.lines()
    run_s = data.run_s.base + data.run_s.per_node * len(pods)
    broken = log.broken
    outputs = {}
    for place, pod in enumerate(pods):
        code: int | None = 0
        said = [(STDOUT, line) for line in lines[place]]
        if broken is not None:
            code = None if broken.gpu.training == "hangs" else _FAILED
            said += [(STDERR, line) for line in _summary(run, place)] if code else []
        outputs[_name(pod)] = PodOutput(lines=tuple(said), exit_code=code, run_s=run_s)
    return outputs


def _summary(run: TrainingJob, place: int) -> list[str]:
    """Return the summary that torchrun prints about workers that failed."""
    rank = place * run.places[0].gpus
    return [
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
        "/etc/program/train.py FAILED",
        "Root Cause (first observed failure):",
        f"  rank      : {rank} (local_rank: 0)",
        "  exitcode  : 1 (pid: 61)",
    ]


def _for_real(
    run: TrainingJob, pods: Sequence[Json], options: Sequence[str], context: SimContext
) -> Mapping[str, PodOutput]:
    torchrun, port = context.program("training", "torchrun"), _free_port()
    each = run.places[0].gpus
    env = {
        # There is no core for every rank.
        "OMP_NUM_THREADS": "1",
        # Compiled modules are kept, or loading PyTorch takes twice as long.
        "PYTHONDONTWRITEBYTECODE": "",
        "GPUFLEET_REHEARSAL_RANK": _misbehaviour(run, context),
    }
    outputs = {}
    for place, pod in enumerate(pods):
        rendezvous = ("--master-addr", "127.0.0.1", "--master-port", str(port), "--max-restarts", "0")
        size = ("--nnodes", str(len(pods)), "--nproc-per-node", str(each), "--node-rank", str(place))
        process = RealProcess(argv=(torchrun, *size, *rendezvous, str(_SOURCE), *options), env=env)
        outputs[_name(pod)] = PodOutput(process=process)
    return outputs


def _misbehaviour(run: TrainingJob, context: SimContext) -> str:
    """Return the fault that the program itself can show, `<rank>:<fault>`: a rank that is slow or computes NaN."""
    for place, where in enumerate(run.places):
        for gpu in context.model.node(where.node).gpus[: where.gpus]:
            rank = place * where.gpus + gpu.index
            if gpu.training == "not-a-number":
                return f"{rank}:nan"
            if gpu.compute < 1.0:
                return f"{rank}:{1 / gpu.compute:g}"
    return ""


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _name(pod: Json) -> str:
    return str(pod["metadata"]["name"])


SIMULATOR = PodSimulator(name="training", handles=handles, simulate=simulate)
