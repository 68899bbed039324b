# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""One run of nccl-tests from the first line to the exit code, with its table and its log. Pure."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import Sku

from ..model.values import ClusterModel
from .benchmark import Benchmark
from .nccl_lines import NcclLog, Rank, ranks_of, uses_nvls
from .performance import Performance, performance
from .physics import SOCKET, Communicator, Host, Machine, choose, find_host, share, time_us
from .pod_simulator import STDERR, STDOUT

# Output of nccl-tests: devices, table and footer, column by column.

_REDUCING = ("AllReduce", "ReduceScatter", "Reduce")
_ROOTED = ("Broadcast", "Reduce")
_SPREAD = ("AllGather", "ReduceScatter", "AlltoAll")


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One row: times out of place and in place in microseconds, and wrong values; None without validation."""

    size: int
    out_of_place_us: float
    in_place_us: float
    wrong: int | None


def heading(run: Benchmark, ranks: Sequence[Rank], data: Performance) -> list[str]:
    """Return the lines before NCCL starts."""
    step = f"{run.factor}(factor)" if run.factor > 1 else f"{run.step}(bytes)"
    versions, code = data.versions, data.versions.nccl_code
    lines = [
        f"# nccl-tests version {versions.nccl_tests} nccl-headers={code} nccl-library={code}",
        f"# Collective test starting: {run.test}",
        f"# nThread 1 nGpus {run.per_process} minBytes {run.smallest} maxBytes {run.largest} step: {step} "
        f"warmup iters: {run.warmup} iters: {run.iterations} agg iters: 1 validation: {int(run.validate)} graph: 0",
        "#",
        "# Using devices",
    ]
    for rank in ranks:
        bus = rank.gpu.pci.rsplit(".", 1)[0]
        where = f"{rank.host.place.hostname:>10} device {rank.local:2d} [{bus}] {rank.gpu.product}"
        lines.append(f"#  Rank {rank.number:2d} Group {run.group(rank.number):2d} Pid {rank.pid:6d} on {where}")
    return [*lines, "#"]


def columns() -> list[str]:
    """Return the header of the table."""
    halves = "     time   algbw   busbw #wrong"
    units = "     (us)  (GB/s)  (GB/s)       "
    return [
        "#" + " " * 62 + "out-of-place" + " " * 23 + "in-place          ",
        "#       size         count      type   redop    root" + halves + halves,
        "#        (B)    (elements)                          " + units + units,
    ]


def row_parts(run: Benchmark, row: Measured) -> tuple[str, str, str]:
    """Return the three pieces in which a row is printed: before the runs, and after each half."""
    count = row.size // 4
    if run.collective in _SPREAD:
        count = max(1, count // run.communicator_ranks)
    operation = "sum" if run.collective in _REDUCING else "none"
    root = 0 if run.collective in _ROOTED else -1
    head = f"{row.size:12d}  {count:12d}  {'float':>8}  {operation:>6}  {root:6d}"
    return head, _half(run, row.size, row.out_of_place_us, row.wrong), _half(run, row.size, row.in_place_us, row.wrong)


def _half(run: Benchmark, size: int, time: float, wrong: int | None) -> str:
    algorithm, bus = bandwidths(run, size, time)
    text = f"{time:7.0f}" if time >= 10000 else f"{time:7.1f}" if time >= 100 else f"{time:7.2f}"
    return f"  {text}  {algorithm:6.2f}  {bus:6.2f}  {'N/A' if wrong is None else wrong:>5}"


def bandwidths(run: Benchmark, size: int, time: float) -> tuple[float, float]:
    """Return algorithm and bus bandwidth in GB/s."""
    algorithm = size / time / 1e3
    return algorithm, algorithm * share(run.collective, run.communicator_ranks)


def footer(run: Benchmark, rows: Sequence[Measured]) -> list[str]:
    """Return the lines after the table."""
    wrong = sum(1 for row in rows if row.wrong) * 2
    rates = [bandwidths(run, row.size, time)[1] for row in rows for time in (row.out_of_place_us, row.in_place_us)]
    return [
        f"# Out of bounds values : {wrong} {'FAILED' if wrong else 'OK'}",
        f"# Avg bus bandwidth    : {sum(rates) / len(rates):g} ",
        "#",
        f"# Collective test concluded: {run.test}",
        "",
    ]


# One run of nccl-tests from the first line to the exit code. Pure: the same run gives the same output.

_FAILED, _NCCL_FAILED = 1, 3
_WRONG_FROM = 1 << 16
_RULE = "-" * 74
_MPIRUN = (
    "mpirun detected that one or more processes exited with non-zero status, thus causing",
    "the job to be terminated. The first process to do so was:",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutput:
    """Result of a run: lines of the launcher by stream, exit code (None: it never ends), duration."""

    lines: tuple[tuple[str, str], ...]
    exit_code: int | None
    run_s: float


def simulate_run(run: Benchmark, model: ClusterModel, skus: Mapping[str, Sku], name: str) -> RunOutput:
    """Return the output and the end of a run.

    Args:
        run: the benchmark and its pods.
        model: the cluster, with its faults.
        skus: SKU facts by name.
        name: seeds the noise, so that a run repeated under another name differs a little.

    Raises:
        KeyError: a pod is on a node that the model does not have.
    """
    data = performance()
    nccl_run = _NcclRun(run, model, skus, name, data)
    run_s = data.run_s.base + data.run_s.per_node * len(run.places)
    return nccl_run.simulate(run_s)


class _NcclRun:
    def __init__(
        self, run: Benchmark, model: ClusterModel, skus: Mapping[str, Sku], name: str, data: Performance
    ) -> None:
        self.run, self.data = run, data
        sku = skus[model.node(run.places[0].node).sku]
        names = sorted(node.name for node in model.nodes)
        self.hosts = [
            find_host(place, names.index(place.node), model, sku.nvlink_generation, sku.fabric, run.env, data)
            for place in run.places
        ]
        if len({host.node.unit for host in self.hosts}) > 1:
            self.hosts = [_tapered(host, model.infiniband.taper) for host in self.hosts]
        self.ranks = ranks_of(self.hosts)
        per_node = run.places[0].gpus
        nvls = uses_nvls(sku.gpu_kind, per_node, run.env, data)
        domains = domains_of(self.hosts, sku.nvlink_domain == "rack" and not run.split, run.env)
        nvls = nvls or uses_nvls(sku.gpu_kind, per_node * max(map(len, domains)), run.env, data)
        in_switches = sku.nvswitches != 0 or len(domains) < len(self.hosts)
        self.communicators = communicators_of(self.hosts, nvls and in_switches, run.env, run.split, domains)
        sharp = model.infiniband.sharp if self._asks_for_sharp(sku.fabric, domains) else ""
        if sharp == "ready":
            self.communicators = [replace(communicator, sharp=True) for communicator in self.communicators]
        self.published = _published(run, model, self.hosts)
        seed = f"{model.seed}/{name}/{run.test}"
        self.draw = random.Random(seed)
        self.log = NcclLog(self.ranks, run.env, data, nvls, seed, domains, sharp)
        # With NCCL_DEBUG_FILE (or on stderr) NCCL does not write between the columns of a row.
        self.debug = run.env.get("NCCL_DEBUG_FILE", "")
        self.out: list[tuple[str, str]] = []

    def _asks_for_sharp(self, fabric: str, domains: Sequence[Sequence[Host]]) -> bool:
        """Return whether NCCL's plugin requests SHARP jobs: if enabled, and between nodes that all have InfiniBand."""
        requested = self.run.env.get("NCCL_COLLNET_ENABLE") == "1" and fabric == "infiniband" and not self.run.split
        return requested and len(domains) > 1 and all(host.adapters for host in self.hosts)

    def simulate(self, run_s: float) -> RunOutput:
        self._say(heading(self.run, self.ranks, self.data))
        self._debug(self.log.version())
        self._debug(self.log.init())
        broken = self._broken()
        if broken:
            return RunOutput(lines=tuple(self.out), exit_code=broken, run_s=run_s)
        rows = self._measure()
        states = {host.node.performance.benchmark for host in self.hosts}
        stop = len(rows) // 2 if "hangs" in states or "crashes" in states else len(rows)
        self._table(rows[:stop])
        if "hangs" in states:
            return RunOutput(lines=tuple(self.out), exit_code=None, run_s=run_s)
        if "crashes" in states:
            self._crash("crashes")
            return RunOutput(lines=tuple(self.out), exit_code=_NCCL_FAILED, run_s=run_s)
        self._say(footer(self.run, rows))
        code = self._conclude(rows)
        if "truncated" in states:
            del self.out[len(self.out) * 4 // 5 :]
            stream, text = self.out[-1]
            self.out[-1] = (stream, text[: len(text) // 2])
        return RunOutput(lines=tuple(self.out), exit_code=code, run_s=run_s)

    def _say(self, lines: Sequence[str]) -> None:
        self.out += [(STDOUT, line) for line in lines]

    def _debug(self, lines: Sequence[str]) -> None:
        if self.debug in ("", "stdout", "/dev/stdout"):
            self._say(lines)
        elif self.debug in ("stderr", "/dev/stderr"):
            self.out += [(STDERR, line) for line in lines]

    def _measure(self) -> list[Measured]:
        drift = self._noise(self.data.noise.run)
        wrong = any(not rank.gpu.computes_right for rank in self.ranks)
        rows = []
        for size in self.run.sizes:
            base = self._time_us(size) * drift
            bad = max(1, size // 4 // 1_000_000) if wrong and size >= _WRONG_FROM else 0
            rows.append(
                Measured(
                    size=size,
                    out_of_place_us=base * self._noise(self.data.noise.row),
                    in_place_us=base * self._noise(self.data.noise.row),
                    wrong=bad if self.run.validate else None,
                )
            )
        return rows

    def _time_us(self, size: int) -> float:
        # Several communicators run at the same time. nccl-tests prints the mean of all ranks, or the longest (`-a 3`).
        times = []
        for communicator in self.communicators:
            algorithm, _protocol = self._choice(size, communicator)
            times.append(time_us(self.run.collective, size, algorithm, communicator, self.data))
        return (max(times) if self.run.slowest else sum(times) / len(times)) * self._scale

    @cached_property
    def _scale(self) -> float:
        """Factor on the computed time of an operation, where a source publishes this site's bandwidth."""
        if not self.published or len(self.communicators) > 1:
            return 1.0
        size, whole = self.run.largest, self.communicators[0]
        computed_us = time_us(self.run.collective, size, self._choice(size, whole)[0], whole, self.data)
        return size * share(self.run.collective, whole.ranks) / (self.published * 1e3) / computed_us

    def _choice(self, size: int, communicator: Communicator) -> tuple[str, str]:
        return choose(self.run.collective, size, communicator, self.run.env.get("NCCL_ALGO", ""))

    def _noise(self, deviation: float) -> float:
        return 1.0 + max(-3.0, min(3.0, self.draw.gauss(0.0, 1.0))) * deviation

    def _table(self, rows: Sequence[Measured]) -> None:
        self._say(["#", *columns()])
        algorithms: set[str] = set()
        for row in rows:
            algorithm, protocol = self._choice(row.size, self.communicators[0])
            fresh = (
                []
                if algorithms
                else self.log.connect({self._choice(s, self.communicators[0])[0] for s in self.run.sizes})
            )
            algorithms.add(algorithm)
            chosen = self.log.choice(self.run.collective, row.size, algorithm, protocol)
            self._row(row, [*fresh, *chosen], chosen)

    def _row(self, row: Measured, first: Sequence[str], second: Sequence[str]) -> None:
        """Print a row in three pieces. Lines of rank 0 on the same stream go between them."""
        head, out_of_place, in_place = row_parts(self.run, row)
        if self.debug in ("", "stdout", "/dev/stdout") and (first or second):
            pieces = [head + (first[0] if first else ""), *first[1:]]
            pieces += [out_of_place + (second[0] if second else ""), *second[1:], in_place]
            self._say(pieces)
            return
        self._debug([*first, *second])
        self._say([head + out_of_place + in_place])

    def _broken(self) -> int:
        """Return the exit code of a run that cannot start (required network missing, memory not lockable), else 0."""
        wanted = self.run.env.get("NCCL_NET", "")
        for rank in self.ranks:
            if wanted and wanted.lower() not in ("socket",) and rank.host.network == SOCKET:
                self._debug(rank.warning("net.cc:345", f"Failed to initialize any NET plugin: NCCL_NET={wanted}"))
                self._fail(rank, "internal error - please report this issue to the NCCL developers")
                return _NCCL_FAILED
            gets = rank.host.node.performance
            limited = not (gets.memory_lock and gets.memory_registers) and bool(rank.host.adapters)
            if limited and len(self.hosts) > 1:
                self._say(["#", *columns()])
                text = "Call to ibv_reg_mr_iova2 failed with error Cannot allocate memory"
                self._debug(rank.warning("misc/ibvwrap.cc:213", text))
                self._fail(rank, "unhandled system error (run with NCCL_DEBUG=INFO for details)")
                return _NCCL_FAILED
        return 0

    def _crash(self, word: str) -> None:
        rank = next(rank for rank in self.ranks if rank.host.node.performance.benchmark == word)
        self._debug(rank.warning("misc/strongstream.cc:395", "Cuda failure 'an illegal memory access was encountered'"))
        self._fail(rank, "unhandled cuda error (run with NCCL_DEBUG=INFO for details)")

    def _fail(self, rank: Rank, words: str) -> None:
        host = rank.host.place.hostname
        self._say([f"{host}: Test NCCL failure common.cu:1036 '{words} / '"])
        self._say([f" .. {host} pid {rank.pid}: Test failure common.cu:891"])
        self._mpirun(rank, _NCCL_FAILED)

    def _mpirun(self, rank: Rank, code: int) -> None:
        lines = [
            _RULE,
            *_MPIRUN,
            "",
            f"  Process name: [[4021,1],{rank.number}]",
            f"  Exit code:    {code}",
            _RULE,
        ]
        self.out += [(STDERR, line) for line in lines]

    def _conclude(self, rows: Sequence[Measured]) -> int:
        if not any(row.wrong for row in rows):
            return 0
        host = self.ranks[0].host.place.hostname
        self._say([f" .. {host} pid {self.ranks[0].pid}: Test failure common.cu:1127"])
        self._mpirun(self.ranks[0], _FAILED)
        return _FAILED


def _published(run: Benchmark, model: ClusterModel, hosts: Sequence[Host]) -> float:
    """Return the published bus bandwidth of such a run, 0 without one.

    It holds for all adapters and NCCL's own choice.
    """
    reported = model.nccl.busbw_gbps
    alike = run.env.get("NCCL_ALGO", "") == model.nccl.algorithm and "NCCL_P2P_DISABLE" not in run.env
    alike = alike and not run.split and run.env.get("NCCL_MNNVL_ENABLE") != "0"
    whole = all(len(host.adapters) == len(host.node.hcas) for host in hosts) or len(hosts) == 1
    if not reported or not whole or not alike or run.collective != "AllReduce":
        return 0.0
    slowest = min(_part_of(host, model) for host in hosts)
    return reported.get(str(len(hosts)), reported.get("*", 0.0)) * slowest


def _part_of(host: Host, model: ClusterModel) -> float:
    """Return the share of a host's speed that its faults leave."""
    node = host.node
    rails = [rail.goodput for rail in model.rails[: len(node.hcas)]]
    adapters = [hca.goodput for hca in host.adapters]
    links = [gpu.nvlinks_up / gpu.nvlinks for gpu in node.gpus if gpu.nvlinks]
    return min([node.performance.network, node.performance.nvlink, *rails, *adapters, *links])


def _tapered(host: Host, taper: float) -> Host:
    """Return a host as hosts below other leaves reach it."""
    speeds = tuple(speed / taper for speed in host.machine.adapters_gb_per_s)
    return replace(host, machine=replace(host.machine, adapters_gb_per_s=speeds))


def domains_of(hosts: Sequence[Host], rack_wide: bool, env: Mapping[str, str]) -> list[list[Host]]:
    """Return the hosts by NVLink domain: each alone, or those of a rack if NCCL uses its NVLink."""
    if not rack_wide or env.get("NCCL_MNNVL_ENABLE") == "0" or env.get("NCCL_P2P_DISABLE") == "1":
        return [[host] for host in hosts]
    racks: dict[str, list[Host]] = {}
    for host in hosts:
        racks.setdefault(host.node.rack, []).append(host)
    return list(racks.values())


def _joined(hosts: Sequence[Host]) -> Machine:
    """Return the hosts of one NVLink domain as a single machine, as NCCL treats them."""
    machines = [host.machine for host in hosts]
    slowest = {name: min(m.local_gb_per_s[name] for m in machines) for name in machines[0].local_gb_per_s}
    return Machine(
        gpus=sum(machine.gpus for machine in machines), local_gb_per_s=slowest,
        adapters_gb_per_s=tuple(speed for machine in machines for speed in machine.adapters_gb_per_s),
    )  # fmt: skip


def communicators_of(
    hosts: Sequence[Host], nvls: bool, env: Mapping[str, str], split: str = "", domains: Sequence[Sequence[Host]] = ()
) -> list[Communicator]:
    """Return the communicators of a run: one, or those of NCCL_TESTS_SPLIT (`MOD`: a GPU per node, `DIV`: a node)."""
    machines = tuple(_joined(domain) for domain in domains or [[host] for host in hosts])
    direct = not (env.get("NCCL_P2P_DISABLE") == "1" and env.get("NCCL_SHM_DISABLE") == "1")
    if split == "MOD":
        each = range(machines[0].gpus)
        return [Communicator(machines=tuple(_rail(m, n) for m in machines), nvls=False) for n in each]
    if split == "DIV":
        return [Communicator(machines=(machine,), nvls=nvls, direct=direct) for machine in machines]
    return [Communicator(machines=machines, nvls=nvls, direct=direct)]


def _rail(machine: Machine, number: int) -> Machine:
    """Return one GPU of a machine with its share of the adapters.

    With more adapters than GPUs it has several, with fewer a part of one.
    """
    adapters, gpus = machine.adapters_gb_per_s, machine.gpus
    if not adapters:
        return replace(machine, gpus=1)
    if len(adapters) < gpus:
        own: tuple[float, ...] = (adapters[number * len(adapters) // gpus] * len(adapters) / gpus,)
    else:
        each = len(adapters) // gpus
        own = adapters[number * each : (number + 1) * each]
    return replace(machine, gpus=1, adapters_gb_per_s=own)
