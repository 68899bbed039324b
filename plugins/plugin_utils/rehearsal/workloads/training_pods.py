# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The training program under torchrun: the log of each pod has the lines of its ranks. With FULL it really trains."""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path

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
from .training_job import TrainingJob
from .training_lines import TrainingLog, options_of

_PROGRAM, _BEGIN = "train.py", "begin.py"
_FOLDER = RECIPES / "workloads" / "training"
_MACHINES = re.compile(r"--nnodes[= ](\d+)")
_EACH = re.compile(r"--nproc-per-node[= ](\d+)")
_FAILED = 1
# Faults that the program itself can show.
_REAL = {"not-a-number": "nan", "wrong-when-hot": "digest"}
_IMAGE = "ImagePullBackOff"


def handles(pod: Json) -> bool:
    """Tell whether a pod starts our training program with torchrun."""
    names = {word.rsplit("/", 1)[-1] for word in words_of(pod)}
    return {_PROGRAM, _BEGIN} <= names


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
    outputs = {}
    for place, pod in enumerate(pods):
        said, code = [(STDOUT, line) for line in lines[place]], _exit_code(log)
        said += [(STDERR, line) for line in _complaints(run, log, place)]
        outputs[_name(pod)] = PodOutput(lines=tuple(said), exit_code=code, run_s=run_s)
    return outputs


def _exit_code(log: TrainingLog) -> int | None:
    """Return the exit code of every pod; None for pods that wait until they are removed."""
    if len(log.names) < len(log.nodes) or (log.broken and log.broken.gpu.training == "hangs"):
        return None
    return 0 if log.broken is None and log.model.stack.training_torch else _FAILED


def _complaints(run: TrainingJob, log: TrainingLog, place: int) -> list[str]:
    """Return what a pod writes to stderr: begin.py that waits or cannot load PyTorch, torchrun whose workers failed."""
    if place not in log.names:
        # As the C library says of a name that its resolver does not know.
        return [f"waiting for {run.env.get('MEETING', '')}: Name or service not known"]
    if not log.model.stack.training_torch:
        return ["Traceback (most recent call last):", "ModuleNotFoundError: No module named 'torch'"]
    return _summary(run, place) if _exit_code(log) == _FAILED else []


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
    # Where it really lies, which is the same for every checkout of a user: modules are compiled for a path.
    programs, port = Path(context.program("training", "python")).parents[1].resolve(), _free_port()
    each = run.places[0].gpus
    env = {
        # There is no core for every rank.
        "OMP_NUM_THREADS": "1",
        # Compiled modules are kept, or loading PyTorch takes twice as long; with the programs, not the recipes: the
        # next rehearsal has them, too.
        "PYTHONDONTWRITEBYTECODE": "",
        "PYTHONPYCACHEPREFIX": str(programs / "pycache"),
        "MEETING": "127.0.0.1",
        "GPUFLEET_REHEARSAL_RANK": _misbehaviour(run, context),
    }
    outputs = {}
    for place, pod in enumerate(pods):
        size = (f"--nnodes={len(pods)}", f"--nproc-per-node={each}", f"--master-port={port}", "--max-restarts=0")
        process = RealProcess(
            argv=(str(programs / "bin" / "python"), str(_FOLDER / _BEGIN), *size, str(_FOLDER / _PROGRAM), *options),
            env={**env, "JOB_COMPLETION_INDEX": str(place)},
        )
        outputs[_name(pod)] = PodOutput(process=process)
    return outputs


def _misbehaviour(run: TrainingJob, context: SimContext) -> str:
    """Return the fault that the program itself can show, `<rank>:<fault>`: a rank that is slow or computes NaN."""
    for place, where in enumerate(run.places):
        for gpu in context.model.node(where.node).gpus[: where.gpus]:
            rank = place * where.gpus + gpu.index
            if gpu.training in _REAL:
                return f"{rank}:{_REAL[gpu.training]}"
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
