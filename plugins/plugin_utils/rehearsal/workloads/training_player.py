# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The training program under torchrun: every pod has the lines of its own ranks. With FULL it really trains."""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping, Sequence

from ...runtime.recipe_files import RECIPES
from .benchmark import place_of
from .performance import performance
from .player import STDERR, STDOUT, Cast, Json, Part, Player, Process, Scene, env_of, words_of
from .training_lines import Course, Training, options_of

_PROGRAM = "train.py"
_SOURCE = RECIPES / "workloads" / "training" / _PROGRAM
_MACHINES = re.compile(r"--nnodes\s+(\d+)")
_EACH = re.compile(r"--nproc-per-node\s+(\d+)")
_FAILED = 1
_IMAGE = "ImagePullBackOff"


def knows(pod: Json) -> bool:
    """Tell whether a pod starts our training program with torchrun."""
    words = words_of(pod)
    return "torchrun" in words and any(word.rsplit("/", 1)[-1] == _PROGRAM for word in words)


def perform(cast: Cast, scene: Scene) -> Mapping[str, Part] | None:
    """Return the parts once as many pods run as the ranks of each wait for."""
    words = words_of(cast.pods[0])
    text = " ".join(words)
    machines, each = _MACHINES.search(text), _EACH.search(text)
    if machines is None or each is None or len(cast.running) < int(machines.group(1)):
        return None
    at = next(n for n, word in enumerate(words) if word.rsplit("/", 1)[-1] == _PROGRAM)
    options, pods = words[at + 1 :], cast.running
    without = [pod for pod in pods if not scene.model.node(pod["spec"]["nodeName"]).training.image]
    if without:
        # The others wait for it, and say nothing yet.
        return {_name(pod): Part(exit_code=None, fault=_IMAGE if pod in without else "") for pod in pods}
    run = Training(
        name=cast.name, places=tuple(place_of(pod, int(each.group(1))) for pod in pods), options=options_of(options),
        env=env_of(pods[0]),
    )  # fmt: skip
    if scene.full is not None:
        return _for_real(run, pods, options, scene)
    return _computed(run, pods, scene)


def _computed(run: Training, pods: Sequence[Json], scene: Scene) -> Mapping[str, Part]:
    data = performance()
    course = Course(run, scene.model, scene.skus, data, scene.now.timestamp())
    lines = course.lines()
    run_s = data.run_s.base + data.run_s.per_node * len(pods)
    broken = course.broken
    parts = {}
    for place, pod in enumerate(pods):
        code: int | None = 0
        said = [(STDOUT, line) for line in lines[place]]
        if broken is not None:
            code = None if broken.gpu.training == "hangs" else _FAILED
            said += [(STDERR, line) for line in _summary(run, place)] if code else []
        parts[_name(pod)] = Part(lines=tuple(said), exit_code=code, run_s=run_s)
    return parts


def _summary(run: Training, place: int) -> list[str]:
    """What torchrun says at the end about workers that failed."""
    rank = place * run.places[0].gpus
    return [
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
        "/etc/program/train.py FAILED",
        "Root Cause (first observed failure):",
        f"  rank      : {rank} (local_rank: 0)",
        "  exitcode  : 1 (pid: 61)",
    ]


def _for_real(run: Training, pods: Sequence[Json], options: Sequence[str], scene: Scene) -> Mapping[str, Part]:
    torchrun, port = scene.program("training", "torchrun"), _free_port()
    each = run.places[0].gpus
    env = {
        "OMP_NUM_THREADS": "1",
        # A core for every rank there is not; compiled modules are kept, or loading PyTorch takes twice as long.
        "PYTHONDONTWRITEBYTECODE": "",
        "GPUFLEET_REHEARSAL_RANK": _misbehaviour(run, scene),
    }
    parts = {}
    for place, pod in enumerate(pods):
        meeting = ("--master-addr", "127.0.0.1", "--master-port", str(port), "--max-restarts", "0")
        size = ("--nnodes", str(len(pods)), "--nproc-per-node", str(each), "--node-rank", str(place))
        process = Process(argv=(torchrun, *size, *meeting, str(_SOURCE), *options), env=env)
        parts[_name(pod)] = Part(process=process)
    return parts


def _misbehaviour(run: Training, scene: Scene) -> str:
    """What the program itself can rehearse: a rank that is slow, or computes no number."""
    for place, where in enumerate(run.places):
        for gpu in scene.model.node(where.node).gpus[: where.gpus]:
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


PLAYER = Player(name="training", knows=knows, play=perform)
