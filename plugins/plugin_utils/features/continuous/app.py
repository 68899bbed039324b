# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Where node tests run: in a namespace of their own, once the required rights are granted."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from ...check.benchmark.plan import BenchmarkHost, placement, planned_hosts
from ...check.benchmark.slurm import ways_of
from ...check.kit.tolerations import cluster_queue_of, tolerations_of
from ...check.node_tests.registry import enabled_tests
from ...check.node_tests.settings import CONTINUOUS, ContinuousSettings
from ...check.node_tests.spec import NodeTest
from ...check.spec import ObserveContext
from ...clients.kube.cluster import Cluster
from ...clients.kube.connection import connection_from
from ...component_stack.facts import stack_facts
from ...outcome.errors import InputError
from ...run.decision import run_day
from ...run.holding import WAIT, claim_of_run, end_hold, take_hold
from ...run.run import Run
from ...runtime.clock import Deadline, now_utc
from ...runtime.files import make_dirs
from ...runtime.interrupt import interruptible
from ...runtime.process import controller_pid
from ...runtime.progress import Emit, Progress
from ...store.baselines import open_baselines
from ...store.database import place_of
from ...store.records import Cycle
from ...store.service import ServiceStore, open_service
from ...workload.job import JobResult, JobSpec
from ...workload.jobs import job_namespace, run_jobs
from ...workload.lease import hold_hosts, working
from ...workload.namespace import BASIC, TemporaryNamespace, refuse_without
from ...workload.node_use import NodeUse, Use
from ...workload.nodes import Toleration
from ...workload.queue import PERMISSIONS as QUEUED
from ...workload.slurm_jobs import SlurmCommands, SlurmRunner
from ..remediation.app import policy_of
from .cycle import FleetCycle
from .cycle_record import CycleDone, CycleLog, CycleWork, NodeLogs, RunJobs, Stock, save_cycle, with_cycle
from .figures import ClassLimits, figure_rules
from .free_nodes import OURS
from .passive import TEST as PASSIVE
from .passive import passive_results
from .plan import limits_of, queue_nodes, uses_in_kubernetes, uses_in_slurm
from .service import ContinuousService, after_cycle, class_references, classified


def node_test_namespace(
    cluster: Cluster,
    context: ObserveContext,
    tests: Sequence[NodeTest],
    *,
    name: str,
    asked_by: str,
    tolerated: tuple[Toleration, ...] = (),
) -> AbstractContextManager[TemporaryNamespace]:
    """Return the namespace for these tests; everything in it is removed when the block is left, also after an error.

    Args:
        cluster: the cluster of the site.
        context: context of the run that holds the cluster.
        tests: the tests that will run there.
        name: part of the name of the namespace.
        asked_by: who needs the rights, for the message that names what is missing.
        tolerated: taints to tolerate beside those that the site tolerates.

    Raises:
        ForbiddenError: the user may not do what the tests need.
        BringupError: the API server does not respond.
    """
    queue, pods = cluster_queue_of(context), stack_facts().test_pods
    wanted = dict.fromkeys(permission for test in tests for permission in test.permissions())
    refuse_without(cluster, (*BASIC, *wanted, *(QUEUED if queue else ())), asked_by)
    return job_namespace(
        cluster, name, prefix=pods.namespace_prefix, priority=pods.priority, emit=context.emit,
        cleanup_s=context.settings_of(CONTINUOUS, ContinuousSettings).cleanup_s,
        tolerations=(*tolerations_of(context), *tolerated), holder=context.holder, cluster_queue=queue,
    )  # fmt: skip


# Where a cycle runs its tests, who gives the nodes work, and what dead cycles left in the history.

_DEAD_DAYS = 90


@dataclass(frozen=True, slots=True)
class CyclePlace:
    """Where a cycle runs. The place is already held for this cycle.

    It has the tests, the function that takes stock of the nodes, and `jobs`, the context within which tests run and
    which adds a note for everything that it leaves behind. `cluster` is None without Kubernetes.
    """

    context: ObserveContext
    tests: tuple[NodeTest, ...]
    stock: Callable[[], Stock]
    jobs: Callable[[list[str]], AbstractContextManager[RunJobs]]
    cluster: Cluster | None = None


def others(store: ServiceStore, cycle: Cycle) -> tuple[Cycle, ...]:
    """Return the cycles of the site beside this one that may have left something."""
    since = (datetime.now(UTC) - timedelta(days=_DEAD_DAYS)).strftime("%Y-%m-%dT%H:%M:%SZ")
    known = store.cycles(cycle.site, rehearsal=cycle.rehearsal, since=since)
    return tuple(other for other in known if other.cycle_id != cycle.cycle_id)


def forget_dead(
    store: ServiceStore, cycle: Cycle, emit: Emit, dead: Callable[[str], bool] = lambda _cycle_id: True
) -> None:
    """Release in the history what cycles of dead controllers still hold.

    Only the holder of the place tests there, and what dead runs left was removed. So nothing runs under the leases of
    other cycles any more. Leases of cycles that are not `dead` stay until they expire.
    """
    for lease in store.leases(cycle.site, rehearsal=cycle.rehearsal):
        if lease.cycle_id != cycle.cycle_id and dead(lease.cycle_id) and store.release(lease):
            emit(f"lease of {lease.test} on {lease.node} taken over from dead cycle {lease.cycle_id}")
    for other in others(store, cycle):
        if not other.ended and dead(other.cycle_id):
            store.end_cycle(other.cycle_id, now_utc(), "its controller died")


# A Slurm cluster as the place of a cycle: holds its hosts, cancels jobs of dead cycles, and defines how tests run. The
# hold is a lock of this controller. So only cycles of this controller whose runs are beside this one are known to be
# dead. Jobs and leases of any other cycle are left alone: they end by their time limits in Slurm.


def slurm_place(
    run: Run, options: Mapping[str, Any], store: ServiceStore, cycle: Cycle,
    context_of: Callable[[str], ObserveContext], emit: Emit,
) -> CyclePlace:  # fmt: skip
    """Hold the hosts, remove what dead cycles left, and return the place.

    Raises:
        HeldError: another run of this controller holds the hosts.
        InputError: a setting is missing, or a requested test is not enabled.
        BringupError: Slurm does not respond.
    """
    context = context_of(claim_of_run(run).holder)
    ways = ways_of(context.settings_of(CONTINUOUS, ContinuousSettings))
    tests = enabled_tests(context, options["tests"])
    commands = SlurmCommands(str(options["scontrol"]))
    wait_s = float(options.get("wait_s") or 0.0) if options.get("when_held") == WAIT else 0.0
    hold_hosts(claim_of_run(run), run.path, pid=controller_pid(), wait_s=wait_s, emit=emit)
    dead = {other.cycle_id for other in others(store, cycle) if _beside(run, other, cycle)}
    remains = commands.remove(dead, emit) if dead else ()
    if not remains:
        forget_dead(store, cycle, emit, dead.__contains__)
    for test in tests:
        test.look(None)

    @contextmanager
    def jobs(notes: list[str]) -> Iterator[RunJobs]:
        notes += remains
        yield SlurmRunner(commands, ways, cycle.cycle_id, emit).run

    def stock() -> Stock:
        # What we drained takes no jobs, not even ours: a person resumes it after its repair.
        uses = uses_in_slurm(commands.scontrol, context.site, context.hardware, ways.reservation)
        hosts = {host.name: BenchmarkHost(name=host.name, node=host.node, sku=host.sku) for host in run.site.in_scope}
        return Stock(queue_nodes(context, uses, {}), hosts)

    return CyclePlace(context, tests, stock, jobs)


def _beside(run: Run, other: Cycle, cycle: Cycle) -> bool:
    """Whether the lock that we hold was held by that cycle: it ran on this controller, and its run is beside ours."""
    run_id = other.cycle_id.rpartition("-cycle-")[0]
    return other.controller == cycle.controller and bool(run_id) and (run.path.parent / run_id).is_dir()


# The limits by which the nodes of a site are classified, from its settings. Where a gate judges the same figure, its
# limits are used.

# A result falls due after its days, and a queue takes its time: the queue itself becomes urgent at twice the days.
_STALE = 2.0


def class_limits(tests: Sequence[NodeTest], settings: ContinuousSettings, passive: Mapping[str, float]) -> ClassLimits:
    """Return the limits of classification.

    Args:
        tests: the tests of the cycle.
        settings: the settings of continuous validation.
        passive: how old results of passive checks may be, in days by test; every cycle makes new ones.
    """
    peers = {test.id: test.peers for test in tests if test.peers is not None}
    stale = {test.id: _STALE * test.common.days for test in tests}
    return ClassLimits(
        stale_by_test=stale | dict(passive),
        peers_by_test=peers,
        event_h=settings.event_h,
        congestion_h=settings.congestion_h,
    )


_NAME = "cycle"


def run_cycle(run: Run, options: Mapping[str, Any], emit: Emit) -> CycleDone:
    """Run one cycle to its end.

    Raises:
        HeldError: another controller works on the cluster.
        AbortedError: SIGTERM or SIGINT ended it. What ran is recorded as pending, and nothing is left behind.
        BringupError: the site, the history or the cluster does not respond.
    """
    slurm = run.site.orchestrator == "slurm"
    if not slurm:
        _require_kubernetes(run)
    store, cycle = _store(options), _begun(run, options)
    with ExitStack() as stack:
        stack.enter_context(interruptible(f"cycle {cycle.cycle_id}"))
        stack.callback(end_hold, run)
        stack.enter_context(working(run.path))
        place = (
            _slurm(run, options, store, cycle, emit) if slurm else _kubernetes(run, options, store, cycle, emit, stack)
        )
        context, tests = place.context, place.tests
        store.begin_cycle(cycle)
        settings = context.settings_of(CONTINUOUS, ContinuousSettings)
        service = _service(run, options, tests, settings)
        again = classified(store, cycle, service, time.time()).repeats
        work = CycleWork(
            cycle=cycle, store=store, tests={test.id: test for test in tests}, settings=settings,
            limits=limits_of(settings), stock=place.stock, logs=NodeLogs(log_dir_of(options)), again=frozenset(again),
            emit=emit, lease_now=store.clock_s,
        )  # fmt: skip
        going = FleetCycle(work)
        with _recorded(store, cycle, going.log):
            _look_at_all(run, options, context, going)
            if going.plan().batch:
                with place.jobs(going.log.notes) as run_jobs:
                    going.run(run_jobs, Deadline.after(settings.cycle_s))
        done = save_cycle(run, cycle, going.log, _number(options), log_dir_of(options), emit)
        # The results are written; what follows may fail on its own.
        after = after_cycle(store, cycle, service, now_s=time.time(), cluster=place.cluster, emit=emit)
        report = after.files.get("html")
        run.save_record(with_cycle(run.record, done.verdict, done.log, after.classes, report.name if report else ""))
    return replace(done, actions=after.actions, report=str(report or ""))


def _look_at_all(run: Run, options: Mapping[str, Any], context: ObserveContext, going: FleetCycle) -> None:
    """Judge what all hosts show before anything is tested. This does not disturb running work."""
    work = going.work
    if not (options["passive"] and work.settings.passive):
        return
    before = work.store.latest(work.cycle.site, rehearsal=work.cycle.rehearsal, whole=False)
    found = passive_results(run, context, work.cycle.cycle_id, before, work.logs, work.now())
    if not found:
        work.emit("passive checks: no host can be asked here, over SSH or in pods; continuous.passive: false says so")
    for result in found:
        going.add(result)


def _kubernetes(
    run: Run, options: Mapping[str, Any], store: ServiceStore, cycle: Cycle, emit: Emit, stack: ExitStack
) -> CyclePlace:
    """Hold the cluster, and return it as the place of the tests."""
    hold = take_hold(run, options, emit)
    if not hold.remains:
        forget_dead(store, cycle, emit)
    cluster = stack.enter_context(Cluster(connection_from(options)))
    context = test_context(run, options, emit, hold.holder)
    tests = chosen_tests(run, options, emit, hold.holder, cluster)

    @contextmanager
    def jobs(notes: list[str]) -> Iterator[RunJobs]:
        place = node_test_namespace(cluster, context, tests, name=_NAME, asked_by=CONTINUOUS, tolerated=OURS)
        with place as namespace:
            yield partial(_run_in, cluster, namespace)
        notes += namespace.leftovers

    return CyclePlace(context, tests, partial(_stock, cluster, test_context(run, options, emit, "")), jobs, cluster)


def _run_in(
    cluster: Cluster, namespace: TemporaryNamespace, specs: Sequence[JobSpec], progress: Progress, deadline: Deadline,
    on_result: Callable[[JobResult], None],
) -> None:  # fmt: skip
    run_jobs(cluster, namespace, specs, len(specs), progress, deadline, on_result=on_result)


def _slurm(run: Run, options: Mapping[str, Any], store: ServiceStore, cycle: Cycle, emit: Emit) -> CyclePlace:
    return slurm_place(run, options, store, cycle, partial(test_context, run, options, emit), emit)


@contextmanager
def _recorded(store: ServiceStore, cycle: Cycle, log: CycleLog) -> Iterator[None]:
    """Record the end of the cycle, however it ends."""
    try:
        yield
    except BaseException as error:
        store.end_cycle(cycle.cycle_id, now_utc(), f"ended before its time: {type(error).__name__} {error}".strip())
        raise
    store.end_cycle(cycle.cycle_id, now_utc(), "; ".join(log.notes))


def _store(options: Mapping[str, Any]) -> ServiceStore:
    if not options["store"]:
        hint = "state a file that outlives the run: gpufleet_store"
        raise InputError("history", "is not stated, and a cycle knows from it what was tested when.", hint)
    return open_service(place_of(options["store"]))


def _require_kubernetes(run: Run) -> None:
    if "kubernetes" not in run.site.capabilities:
        text = "has no Kubernetes, and its nodes get their work from nobody else."
        raise InputError(f"site {run.site.name}", text, "gpufleet_orchestrator: slurm, where Slurm gives them work")


def _number(options: Mapping[str, Any]) -> int:
    return int(options["number"])


def _begun(run: Run, options: Mapping[str, Any]) -> Cycle:
    record = run.record
    return Cycle(
        cycle_id=f"{record.run_id}-cycle-{_number(options):03}", site=run.site.name,
        rehearsal=record.rehearsal or run.site.rehearsal, started=now_utc(),
        controller=claim_of_run(run).controller,
    )  # fmt: skip


def test_context(run: Run, options: Mapping[str, Any], emit: Emit, holder: str) -> ObserveContext:
    connections = {name: str(options[name]) for name in ("kubeconfig", "context") if options.get(name)}
    return run.observe_context(run_day(run.record), emit, connections, holder)


def chosen_tests(
    run: Run, options: Mapping[str, Any], emit: Emit, holder: str, cluster: Cluster
) -> tuple[NodeTest, ...]:
    """Return the tests of the cycle, after each has looked at the cluster.

    Raises:
        InputError: a requested test is not enabled.
    """
    chosen = enabled_tests(test_context(run, options, emit, holder), options["tests"])
    for test in chosen:
        test.look(cluster)
    return chosen


def log_dir_of(options: Mapping[str, Any]) -> Path:
    path = Path(options["log_dir"]).expanduser().absolute()
    make_dirs(path)
    return path


def _stock(cluster: Cluster, context: ObserveContext) -> Stock:
    """Look at all nodes of the site."""
    hosts = planned_hosts(cluster, context, lambda *reported: BenchmarkHost(**placement(*reported)))
    uses = uses_in_kubernetes(cluster, context)
    # What we took out of service returns once it passes, so it has to be tested. Its taints are tolerated.
    uses |= {name: NodeUse(name=name, use=Use.FREE) for name, use in uses.items() if use.use is Use.OURS}
    return Stock(queue_nodes(context, uses, {}), {host.name: host for host in hosts})


def _service(
    run: Run, options: Mapping[str, Any], tests: tuple[NodeTest, ...], settings: ContinuousSettings
) -> ContinuousService:
    record = run.record
    accepted = open_baselines(place_of(options["store"])).accepted_figures(
        run.site.name, rehearsal=record.rehearsal or run.site.rehearsal
    )
    passive = {PASSIVE: settings.passive_days} if options["passive"] and settings.passive else {}
    return ContinuousService(
        nodes={host.name: host.node for host in run.site.in_scope},
        tests=(*(test.id for test in tests), *passive),
        directory=run.path,
        limits=class_limits(tests, settings, passive),
        policy=policy_of(options["policy"]),
        racks={host.name: host.rack for host in run.site.in_scope if host.rack},
        references=class_references(run.site.in_scope, run.hardware, accepted, figure_rules()),
    )
