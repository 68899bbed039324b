# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Observe training: run the training program over all hosts as a gang, and repeat a run that raises a suspicion."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from ...clients.kube.cluster import Cluster
from ...clients.kube.permission import Permission
from ...hardware.sku import Sku, sku_or_error
from ...outcome.codec import from_plain
from ...outcome.errors import InputError
from ...probe.error_lines import SHARED_MEMORY, ErrorLine, find_error
from ...probe.training_log import ESSENCE, PodLog, RankLog, Setup, essence_of, parse, torchrun_failures
from ...runtime.files import RECIPES
from ...runtime.process import left_out_of
from ...site.model import Host, Site
from ...verdict.majority import more_than_half
from ...workload.capacity import NodeCapacity
from ...workload.job import JobResult, JobSpec
from ..benchmark.network import connected_placement, gang_permissions, pod_network, port_filter, read_network
from ..benchmark.plan import device_class, placement, planned_hosts
from ..benchmark.problem import launch_problem
from ..benchmark.records import ended, kept_text, require_planned
from ..benchmark.run_loop import Benchmark
from ..fabric_validation.network import site_network
from ..kit.saved_settings import with_plan_settings
from ..spec import ObserveContext, Observer
from .analysis import STARTS, SkuCohort, cohorts_of, never_met, words
from .model import HostProblem, Plan, PlannedHost, PodRecord, Rank, Record, Results, Run, SavedObservation
from .settings import GATE, TrainingSettings

# Parse the logs of a run to ranks that can be judged, or to the reason why there are none. Pure, fails closed.

COMPLETES = "training-completed"
# Errors of ranks whose partner went away: another rank failed first.
_PARTNERS = ("DistBackendError", "DistNetworkError", "DistStoreError", "ConnectionError", "BrokenPipeError")
_PARTNER_WORDS = ("nccl", "gloo", "connection", "peer", "timed out", "socket", "store")
_OUT_OF_MEMORY = ("OutOfMemoryError", "MemoryError")
Pods = Mapping[str, PodLog]


def parse_run(record: Record, logs: Mapping[str, str], settings: TrainingSettings) -> Run:
    """Return a run with what its logs contain. `logs` has the log of every host that has one."""
    pods: dict[str, PodLog] = {}
    unreadable: dict[str, str] = {}
    for host, text in logs.items():
        try:
            # The missing lines may be those of a rank that failed.
            if left_out := left_out_of(text):
                unreadable[host] = left_out
            else:
                pods[host] = parse(text)
        except InputError as error:
            unreadable[host] = error.reason
    problem = _problem(record, pods, unreadable, logs, settings)
    blamed = problem.hosts if problem else ()
    judged = tuple(
        Rank(host=host, log=log)
        for host in record.hosts
        if host not in blamed and host in pods
        for log in pods[host].ranks
    )
    return Run(record=record, ranks=judged if problem is None or problem.partial else (), problem=problem, pods=pods)


def _problem(
    record: Record, pods: Pods, unreadable: Mapping[str, str], logs: Mapping[str, str], settings: TrainingSettings
) -> HostProblem | None:
    if record.state == "unschedulable":
        return _not_placed(record)
    launch = launch_problem(record.state, record.reason)
    if launch:
        return _launch(*launch, _named(record) or record.hosts)
    if record.state not in ("succeeded", "timeout", "failed"):
        return _ended("run-crashed", f"ended as {record.state!r}: {record.reason}", record.hosts)
    cut = [host for host in record.hosts if left_out_of(logs.get(host, ""))]
    if record.state != "succeeded" and cut:
        # The missing part may name the rank that failed first.
        text = f"{cut[0]}: {left_out_of(logs[cut[0]])}; the run ended as {record.state}: {record.reason}"
        return _ended("output-incomplete", text, record.hosts)
    if record.state != "succeeded" and not unreadable:
        problem = never_met(record, pods, logs)
        if problem is not None:
            return problem
    if record.state == "timeout":
        return _hung(record, pods, settings)
    if record.state != "succeeded":
        return _crashed(record, pods, logs)
    return _incomplete(record, pods, unreadable, settings)


def _launch(cause: str, text: str, hosts: Iterable[str], *, bad: bool = False) -> HostProblem:
    return HostProblem(cause=cause, text=text, check=STARTS, hosts=tuple(hosts), bad=bad)


def _named(record: Record) -> tuple[str, ...]:
    """Return the hosts whose pod the reason names: `train-1-2-x7 on gpu03: ImagePullBackOff`."""
    return tuple(pod.host for pod in record.pods if pod.node and f" on {pod.node}:" in f"{record.reason}:")


def _not_placed(record: Record) -> HostProblem:
    placed = {pod.host for pod in record.pods if pod.host}
    missing = [host for host in record.hosts if host not in placed]
    launch = launch_problem(record.state, record.reason)
    if launch and not placed:
        return _launch(*launch, record.hosts)
    text = (
        f"{len(placed)} of {len(record.hosts)} pods got their nodes and held the GPUs, "
        f"those for {words(missing)} did not: {record.reason}"
    )
    return _launch("half-placed", text[:400], missing, bad=True)


def _hung(record: Record, pods: Pods, settings: TrainingSettings) -> HostProblem:
    found = [(host, log) for host in record.hosts if host in pods for log in pods[host].ranks]
    absent = [(host, log) for host, log in found if log.stuck == "compute"]
    done = min((log.done for _host, log in found), default=0)
    if absent and len(absent) < len(found):
        gpus = [f"{host}/gpu{log.local_rank}" for host, log in absent]
        text = f"hung in step {done + 1}: {words(gpus)} never ended its own part, the others waited"
        return _ended("run-hung", text, [host for host, _log in absent], gpus)
    text = f"did not end in its time, after {done} steps: {record.reason}"
    if settings.run.load_s >= settings.run.timeout_s:
        text += f"; timeout_s ({settings.run.timeout_s:g}) is not longer than load_s ({settings.run.load_s:g})"
    return _ended("run-hung", text, record.hosts)


def _ended(
    cause: str, text: str, hosts: Iterable[str], gpus: Iterable[str] = (), *, partial: bool = False
) -> HostProblem:
    return HostProblem(
        cause=cause, text=text[:400], check=COMPLETES, hosts=tuple(dict.fromkeys(hosts)), gpus=tuple(gpus),
        partial=partial,
    )  # fmt: skip


def _crashed(record: Record, pods: Pods, logs: Mapping[str, str]) -> HostProblem:
    """Return the problem of the rank that failed first and by itself. The others fail because it went away."""
    short = {host: error.text for host, text in logs.items() if (error := _shared_memory(text))}
    if short:
        host, line = next(iter(short.items()))
        return _ended("shm-too-small", f"{host}: {line}", short)
    failures = [(log.failure, host, log) for host, pod in pods.items() for log in pod.ranks if log.failure]
    own = sorted((entry for entry in failures if not _of_partner(entry[0].kind, entry[0].text)), key=lambda e: e[0].at)
    if own:
        failure, host, log = own[0]
        cause = "out-of-memory" if failure.kind in _OUT_OF_MEMORY else "run-crashed"
        text = f"rank {log.rank} ended with {failure.kind} after {log.done} steps: {failure.text}"
        return _ended(cause, text, [host], [f"{host}/gpu{log.local_rank}"])
    killed = [pod for pod in record.pods if pod.exit_code and not any(f[1] == pod.host for f in failures)]
    for pod in killed:
        reported = torchrun_failures(logs.get(pod.host, ""))
        cause = "out-of-memory" if pod.reason == "OOMKilled" else "run-crashed"
        reason = f"{pod.reason}; {reported[0]}" if reported else pod.reason or record.reason
        return _ended(cause, f"its pod ended with exit code {pod.exit_code}: {reason}", [pod.host])
    failed = [pod.host for pod in record.pods if pod.exit_code]
    return _ended("run-crashed", f"crashed: {record.reason}", failed or record.hosts)


def _shared_memory(log: str) -> ErrorLine | None:
    found = find_error(log)
    return found if found and found.says == SHARED_MEMORY else None


def _of_partner(kind: str, text: str) -> bool:
    return kind in _PARTNERS or (kind == "RuntimeError" and any(word in text.lower() for word in _PARTNER_WORDS))


def _incomplete(
    record: Record, pods: Pods, unreadable: Mapping[str, str], settings: TrainingSettings
) -> HostProblem | None:
    first = {pod.host: pod for pod in reversed(record.pods)}
    wrong = {
        host: text
        for host in record.hosts
        if (text := _wrong(host, first.get(host), record, pods, unreadable, settings))
    }
    if wrong:
        host, text = next(iter(wrong.items()))
        more = f" (so on {len(wrong)} hosts)" if len(wrong) > 1 else ""
        whole = len(wrong) == len(record.hosts)
        return _ended("output-incomplete", f"{host}: {text}{more}", wrong, partial=not whole)
    found = [log for host in record.hosts for log in pods[host].ranks]
    numbers = sorted(log.rank for log in found)
    if numbers != list(range(record.world)):
        return _ended(
            "output-incomplete", f"ranks {words(map(str, numbers[:20]))} are not 0 to {record.world - 1}", record.hosts
        )
    if len({(log.version, log.done, len(log.windows), len(log.digests)) for log in found}) > 1:
        return _ended("output-incomplete", "ranks wrote different numbers of steps, windows or digests", record.hosts)
    return _unlike(record, pods)


def _unlike(record: Record, pods: Pods) -> HostProblem | None:
    """Return the problem of hosts whose ranks train another model than most, or with other libraries. None: none do."""
    setups = {host: Counter(essence_of(log.setup) for log in pods[host].ranks if log.setup) for host in record.hosts}
    kinds = sum(setups.values(), Counter[tuple[Any, ...]]())
    if len(kinds) <= 1:
        return None
    usual, count = kinds.most_common(1)[0]
    other = [host for host, mine in setups.items() if set(mine) != {usual}]
    hosts = list(record.hosts) if more_than_half(kinds) is None else other
    odd = next(kind for host in hosts for kind in setups[host] if kind != usual)
    pairs = zip(ESSENCE, odd, usual, strict=True)
    what = ", ".join(f"{name} {mine} and not {most}" for name, mine, most in pairs if mine != most)
    return _ended("setups-differ", f"ranks of {words(hosts)} do not train as {count} others do: {what}", hosts)


def _wrong(
    host: str,
    pod: PodRecord | None,
    record: Record,
    pods: Pods,
    unreadable: Mapping[str, str],
    settings: TrainingSettings,
) -> str:
    """Return what is missing in the output of a host. Empty: nothing."""
    if pod is None:
        return "there was no pod on it"
    if host in unreadable:
        return f"its log cannot be read: {unreadable[host]}"
    found: Sequence[RankLog] = pods[host].ranks if host in pods else ()
    if len(found) != record.gpus:
        return f"{len(found)} of {record.gpus} ranks wrote anything"
    for log in found:
        if log.done < settings.run.steps or not log.weights:
            return f"the lines of rank {log.rank} end after {log.done} of {settings.run.steps} steps"
        if log.setup is None or log.setup.world != record.world or log.setup.device != settings.run.device:
            expected = f"{settings.run.device}, {record.world} ranks"
            return f"rank {log.rank} reports {_setup_words(log.setup)}, expected {expected}"
    if pod.exit_code is None:
        return "with which exit code its pod ended is not known"
    return "" if pod.exit_code == 0 else f"its pod ended with exit code {pod.exit_code}"


def _setup_words(setup: Setup | None) -> str:
    return f"{setup.device}, {setup.world} ranks" if setup else "nothing"


PROGRAM = RECIPES / "workloads" / "training"


def observe(context: ObserveContext) -> SavedObservation:
    """Train and return all runs. Logs are saved as evidence.

    Raises:
        InputError: invalid settings.
        NotFoundError: a SKU has no hardware facts.
        BringupError: see Benchmark.observe.
    """
    found = TrainingBenchmark(context, context.settings_of(GATE, TrainingSettings)).observe()
    records = tuple(run.record for run in found.runs)
    return SavedObservation(plan=found.plan, records=records, made=len(records), leftovers=found.leftovers)


def restore(data: Any, run_dir: Path, site: Site) -> Results:
    """Return plan and runs, with the logs parsed again."""
    complete = with_plan_settings(data, TrainingSettings, GATE, site, run_dir)
    saved = from_plain(SavedObservation, complete, "observation training")
    require_planned(saved.plan.hosts, site, "observation training")
    saved.require_all("observation training")
    for record in saved.records:
        _require_pods(record)
    runs = tuple(parse_run(record, _logs(run_dir, record), saved.plan.settings) for record in saved.records)
    return Results(plan=saved.plan, runs=runs, leftovers=saved.leftovers)


def _require_pods(record: Record) -> None:
    """Refuse a run with two pods of the same index.

    Raises:
        InputError: it has such pods.
    """
    places = [pod.index for pod in record.pods]
    if len(set(places)) != len(places):
        reason = f"run {record.name} has the pods {', '.join(map(str, places))}, and each must have its own number."
        raise InputError("observation training", reason, "run the gate again")


def _logs(run_dir: Path, record: Record) -> dict[str, str]:
    return {pod.host: kept_text(run_dir, pod.log) for pod in record.pods if pod.log and (run_dir / pod.log).is_file()}


class TrainingBenchmark(Benchmark[Plan, SkuCohort, Run]):
    """The training program over the hosts of each SKU. SKUs run side by side."""

    gate = GATE
    name = "training"

    def __init__(self, context: ObserveContext, settings: TrainingSettings) -> None:
        super().__init__(context, total_s=settings.run.total_s, cleanup_s=settings.run.cleanup_s)
        self.settings = settings

    def make_plan(self, cluster: Cluster) -> Plan:
        """Return the open hosts with their adapters, and a model for each SKU."""
        network = read_network(cluster, self.context, site_network(self.context))
        # A single host needs no network.
        several = len(self.context.site.in_scope) > 1
        place = partial(connected_placement, network) if several else placement

        def planned(host: Host, sku: Sku, capacity: NodeCapacity) -> PlannedHost:
            return PlannedHost(**place(host, sku, capacity), hcas=network.ports(host, sku))

        hosts, settings, configured = planned_hosts(cluster, self.context, planned), self.settings, network.settings
        counts, several = Counter(host.sku for host in hosts), len(hosts) > 1
        return Plan(
            hosts=hosts,
            settings=settings,
            shapes={name: settings.shape_for(self.context.hardware[name], count) for name, count in counts.items()},
            rdma_resource=network.resource if several else "",
            rdma_count=configured.rdma_count,
            gang=settings.run.gang or network.gang,
            annotations=dict(configured.annotations) if several else {},
            env={**configured.env, **settings.run.env},
        )

    def permissions(self) -> tuple[Permission, ...]:
        return gang_permissions("torchrun", self.plan.open_hosts, self.plan.gang)

    def next_runs(self) -> list[SkuCohort]:
        """Return the cohorts for which another run could decide more."""
        cohorts = cohorts_of(Results(plan=self.plan, runs=tuple(self.runs)), self.context.hardware)
        return [cohort for cohort in cohorts if cohort.wants_more]

    def announce(self, wanted: Sequence[SkuCohort]) -> str:
        ranks = sum(len(cohort.open_hosts) * self._sku(cohort).gpus for cohort in wanted)
        attempt = max(len(cohort.runs) for cohort in wanted) + 1
        again = f", run {attempt} to confirm what the first showed" if attempt > 1 else ""
        return f"training: {ranks} ranks{again}"

    def job(self, want: SkuCohort) -> JobSpec:
        """Return one torchrun over all open hosts of a SKU."""
        plan, run, hosts = self.plan, self.settings.run, want.open_hosts
        network = pod_network(hosts, site_network(self.context), gang=plan.gang, fabric=self._sku(want).fabric)
        return JobSpec(
            name=f"train-{plan.skus.index(want.sku_name) + 1}-{len(want.runs) + 1}",
            nodes=tuple(host.node for host in hosts),
            gpus_per_node=self._sku(want).gpus,
            image=run.image,
            command=("/etc/program/train.py", *self._options(want)),
            env={**network["needs"].env, **self._environment(want)},
            kind="torchrun",
            timeout_s=run.timeout_s,
            pull_s=run.pull_s,
            schedule_s=run.schedule_s,
            queue=run.queue,
            device_class=device_class(*hosts),
            files={path.name: path.read_text(encoding="utf-8") for path in sorted(PROGRAM.glob("*.py"))},
            requests=run.requests,
            **network,
        )

    def read(self, want: SkuCohort, spec: JobSpec, result: JobResult) -> Run:
        """Save the log of every pod, which has the output of its host's ranks, and return the run."""
        owners = {host.node: host.name for host in want.open_hosts}
        pods, logs = [], {}
        for pod in result.pods:
            host = owners.get(pod.node, "")
            kept = self.evidence.keep(f"{spec.name}-{pod.index}.log", pod.log if host else "")
            if kept.path:
                logs[host] = kept.text
            pods.append(
                PodRecord(
                    host=host, node=pod.node, index=pod.index, exit_code=pod.exit_code, reason=pod.reason, log=kept.path
                )
            )
        record = Record(
            **ended(result, spec.command),
            name=spec.name,
            sku=want.sku_name,
            hosts=tuple(host.name for host in want.open_hosts),
            attempt=len(want.runs) + 1,
            gpus=spec.gpus_per_node,
            pods=tuple(pods),
        )
        return parse_run(record, logs, self.settings)

    def _sku(self, cohort: SkuCohort) -> Sku:
        return sku_or_error(self.context.hardware, cohort.sku_name)

    def _options(self, cohort: SkuCohort) -> tuple[str, ...]:
        run, shape = self.settings.run, self.plan.shapes[cohort.sku_name]
        options: Mapping[str, Any] = {
            **{name: value for name, value in asdict(shape).items() if name not in ("memory_mib", "learning_rate")},
            "learning-rate": shape.learning_rate, "steps": run.steps, "load-s": cohort.load_s, "seed": run.seed,
            "dtype": run.dtype, "device": run.device, "timeout-s": run.timeout_s, "stuck-s": run.stuck_s,
        }  # fmt: skip
        return tuple(word for name, value in options.items() for word in (f"--{name}", str(value)))

    def _environment(self, cohort: SkuCohort) -> dict[str, str]:
        # Devices in the order of nvidia-smi, so that a local rank has the number of its GPU.
        known = {
            "CUDA_DEVICE_ORDER": "PCI_BUS_ID", "OMP_NUM_THREADS": "8",
            # With a workspace of fixed size cuBLAS returns the same bits every time (its chapter on reproducibility).
            "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
        }  # fmt: skip
        hosts = cohort.open_hosts
        ports = port_filter(port for host in hosts for port in host.hcas) if len(hosts) > 1 else {}
        return {**known, **ports, **self.plan.env}


OBSERVER = Observer("training", Results, observe, restore, saved=SavedObservation)
