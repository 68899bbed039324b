# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The benchmark of a group of pods, read only from the pods: test, options and pods of the ranks."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from .pod_simulator import Json, env_of, words_of

TESTS = {
    "all_reduce_perf": "AllReduce",
    "all_gather_perf": "AllGather",
    "reduce_scatter_perf": "ReduceScatter",
    "alltoall_perf": "AlltoAll",
    "broadcast_perf": "Broadcast",
    "reduce_perf": "Reduce",
    "sendrecv_perf": "SendRecv",
}
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_SIZE = re.compile(r"(\d+)([KMGT]?)B?", re.I)
_RANKS = re.compile(r"(?:^|\s)-(?:np|n)\s+(\d+)\b")
_PER_NODE = re.compile(r"ppr:(\d+):node|(?:^|\s)-N\s+(\d+)\b|(?:^|\s)-npernode\s+(\d+)\b")
# Extended resources that add network adapters to a pod.
_ADAPTERS = re.compile(r"^(rdma/|networking\.gke\.io\.networks/|.*\b(hostdev|hca|efa|sriov|mlnx|rdma|gdr)\w*)", re.I)
GPU = "nvidia.com/gpu"
_DEVICES_OF = "devices.gke.io/container."
_EVERY_ADAPTER = 1 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class RankPod:
    """One pod with ranks, one per GPU.

    - `hostname`, `node`: its host name and its node.
    - `adapters`: number of requested network adapter units.
    - `daemon`: whether the daemon for TCP transports between GPUs runs beside the ranks.
    """

    hostname: str
    node: str
    gpus: int
    adapters: int
    daemon: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """One run of nccl-tests.

    - `per_process`: number of GPUs of one process (`-g`).
    - `slowest`: the time of the slowest rank is printed, not the mean (`-a 3`).
    """

    test: str
    places: tuple[RankPod, ...]
    smallest: int = 32 << 20
    largest: int = 32 << 20
    factor: int = 0
    step: int = 1 << 20
    iterations: int = 20
    warmup: int = 1
    validate: bool = True
    per_process: int = 1
    slowest: bool = False
    env: Mapping[str, str] = field(default_factory=dict)

    @property
    def collective(self) -> str:
        """NCCL's name of the operation."""
        return TESTS[self.test]

    @property
    def ranks(self) -> int:
        """Number of ranks, one per GPU."""
        return sum(place.gpus for place in self.places)

    @property
    def split(self) -> str:
        """Split of the ranks by NCCL_TESTS_SPLIT; empty without one.

        With `MOD` each communicator has one GPU per node, with `DIV` it is one node.
        """
        words = self.env.get("NCCL_TESTS_SPLIT", "").replace("%", "MOD ").replace("/", "DIV ").upper().split()
        whole = len(words) == 2 and words[1].isdecimal() and int(words[1]) == self.places[0].gpus
        return words[0] if whole and words[0] in ("MOD", "DIV") else ""

    @property
    def communicator_ranks(self) -> int:
        """Number of ranks of each communicator."""
        each = self.places[0].gpus
        return {"MOD": self.ranks // each, "DIV": each}.get(self.split, self.ranks)

    def group(self, rank: int) -> int:
        """Return the communicator of a rank."""
        each = self.places[0].gpus
        return {"MOD": rank % each, "DIV": rank // each}.get(self.split, 0)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Sizes of the rows."""
        found, size = [], self.smallest
        while size <= self.largest:
            found.append(size)
            size = size * self.factor if self.factor > 1 else size + self.step
        return tuple(found)


def named_test(words: Sequence[str]) -> str:
    """Return the name of the test in a command; empty without one."""
    return next((word.rsplit("/", 1)[-1] for word in words if word.rsplit("/", 1)[-1] in TESTS), "")


def benchmark_of(launcher: Json, members: Sequence[Json]) -> Benchmark | None:
    """Return the benchmark that a launcher starts on its members (pods with GPUs, in order of their ranks).

    None if it starts none, and while it needs more machines than there are members.
    """
    words = words_of(launcher)
    test = named_test(words)
    if not test:
        return None
    at = next(n for n, word in enumerate(words) if word.rsplit("/", 1)[-1] == test)
    options = _options(words[at + 1 :])
    per_process = int(options.get("g", options.get("ngpus", "1")))
    processes, per_node = _process_counts(" ".join(words[:at]), len(members), per_process)
    machines = -(-processes // per_node)
    if machines > len(members):
        return None
    places = tuple(rank_pod(pod, per_node * per_process) for pod in members[:machines])
    factor = int(options.get("f", options.get("stepfactor", "0")))
    smallest = _bytes(options.get("b", options.get("minbytes", "32M")))
    return Benchmark(
        test=test, places=places, smallest=max(smallest, 4), factor=factor,
        largest=_bytes(options.get("e", options.get("maxbytes", "32M"))),
        step=max(_bytes(options.get("i", options.get("stepbytes", "1M"))), 4),
        iterations=int(options.get("n", options.get("iters", "20"))),
        warmup=int(options.get("w", options.get("warmup_iters", "1"))),
        validate=options.get("c", options.get("check", "1")) != "0", per_process=per_process,
        slowest=options.get("a", options.get("average", "1")) == "3", env=_environment(launcher),
    )  # fmt: skip


def _process_counts(text: str, members: int, per_process: int) -> tuple[int, int]:
    """Return the number of processes, in total and per machine, from the arguments of mpirun; 1 without mpirun."""
    if "mpirun" not in text and "mpiexec" not in text:
        return 1, 1
    ranks, per_node = _RANKS.search(text), _PER_NODE.search(text)
    each = next((int(word) for word in per_node.groups() if word), 1) if per_node else 0
    total = int(ranks.group(1)) if ranks else max(1, each) * members
    return total, each or -(-total // max(1, members))


def _options(words: Sequence[str]) -> dict[str, str]:
    found, name = {}, ""
    for word in words:
        if word.startswith("-") and not word[1:].isdecimal():
            name, _mark, value = word.lstrip("-").partition("=")
            found[name] = value
        elif name:
            found[name], name = word, ""
    return found


def _bytes(text: str) -> int:
    match = _SIZE.fullmatch(text)
    return int(match.group(1)) * _UNITS[match.group(2).upper()] if match else 0


def rank_pod(pod: Json, gpus: int) -> RankPod:
    """Return a pod as the place of that many ranks."""
    spec = pod["spec"]
    hostname = spec["nodeName"] if spec.get("hostNetwork") else spec.get("hostname") or pod["metadata"]["name"]
    return RankPod(
        hostname=hostname, node=spec.get("nodeName", ""), gpus=gpus, adapters=_adapter_units(spec), daemon=_daemon(pod)
    )


def _daemon(pod: Json) -> bool:
    """Return whether a container beside the ranks gets the GPU devices by annotation, and stays.

    That is the daemon of TCPX(O) (GoogleCloudPlatform/container-engine-accelerators, gpudirect-tcpxo/best-practice.md).
    """
    spec = pod["spec"]
    beside = [c for c in spec.get("initContainers") or [] if c.get("restartPolicy") == "Always"]
    annotations = pod["metadata"].get("annotations") or {}
    return any(f"{_DEVICES_OF}{c['name']}" in annotations for c in (*beside, *(spec.get("containers") or [])[1:]))


def _adapter_units(spec: Json) -> int:
    """Return the number of requested adapter units of a pod. A privileged pod has all of them."""
    units = 0
    for container in spec.get("containers") or []:
        limits = (container.get("resources") or {}).get("limits") or {}
        units += sum(int(value) for name, value in limits.items() if _ADAPTERS.match(name) and str(value).isdecimal())
        if (container.get("securityContext") or {}).get("privileged"):
            return _EVERY_ADAPTER
    return units


def _environment(pod: Json) -> dict[str, str]:
    found = env_of(pod)
    words = words_of(pod)
    for before, word in pairwise(words):
        if before == "-x" and "=" in word:
            name, _mark, value = word.partition("=")
            found[name] = value
    return found
