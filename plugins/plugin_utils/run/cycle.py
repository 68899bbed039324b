# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A cycle of tests on idle nodes as part of a run: holds the cluster, ends what dead cycles left, runs and records."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from ..check.benchmark.plan import BenchmarkHost, placement, planned_hosts
from ..check.node_tests.registry import enabled_tests
from ..check.node_tests.settings import CONTINUOUS, ContinuousSettings
from ..check.node_tests.spec import NodeTest
from ..check.spec import ObserveContext
from ..clients.kube.cluster import Cluster
from ..clients.kube.connection import connection_from
from ..fleet.class_rules import figure_rules
from ..fleet.cycle import FleetCycle
from ..fleet.cycle_model import CycleLog, CycleWork, RunJobs, Stock
from ..fleet.free_nodes import OURS
from ..fleet.node_logs import NodeLogs
from ..fleet.node_use import NodeUse, Use
from ..outcome.errors import InputError
from ..remediation.policy import policy_of
from ..runtime.clock import Deadline, now_utc
from ..runtime.files import make_dirs
from ..runtime.interrupt import interruptible
from ..runtime.progress import Emit, Progress
from ..store.baselines import open_baselines
from ..store.place import place_of
from ..store.service import ServiceStore, open_service
from ..store.service_model import Cycle
from ..workload.keeping import working
from ..workload.launch import run_jobs
from ..workload.model import JobResult, JobSpec
from ..workload.namespace import TemporaryNamespace
from .after_cycle import Service, after_cycle, classified
from .class_limits import class_limits
from .class_references import class_references
from .cycle_place import CyclePlace, forget_dead
from .cycle_suite import CycleDone, save_cycle
from .cycle_work import with_cycle
from .decision import run_day
from .holding import claim_of_run, end_hold, take_hold
from .node_test_place import node_test_namespace
from .passive import TEST as PASSIVE
from .passive import passive_results
from .run import Run
from .site_nodes import limits_of, queue_nodes, uses_in_kubernetes
from .slurm_place import slurm_place

_NAME = "cycle"


def run_cycle(run: Run, options: Mapping[str, Any], emit: Emit) -> CycleDone:
    """Run one cycle to its end.

    Raises:
        HeldError: another controller works on the cluster.
        AbortedError: SIGTERM or SIGINT asked for the end; what ran is recorded as pending, and nothing is left behind.
        BringupError: the site, the history or the cluster does not answer.
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
        done = save_cycle(run, cycle, going.log, _number(options), emit)
        # What was found is written: what follows may fail on its own.
        after = after_cycle(store, cycle, service, now_s=time.time(), cluster=place.cluster, emit=emit)
        report = after.files.get("html")
        run.save_record(with_cycle(run.record, done.verdict, done.log, after.classes, report.name if report else ""))
    return replace(done, actions=after.actions, report=str(report or ""))


def _look_at_all(run: Run, options: Mapping[str, Any], context: ObserveContext, going: FleetCycle) -> None:
    """Judge what all hosts show, before anything is tested: it touches nobody's work."""
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
    """Write the end of the cycle, whatever it is."""
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
    """Return the tests of the cycle, each after its look at the cluster.

    Raises:
        InputError: one that is asked for is not enabled.
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
    hosts = planned_hosts(cluster, context, lambda *told: BenchmarkHost(**placement(*told)))
    uses = uses_in_kubernetes(cluster, context)
    # What we took out of service returns once it passes, so it has to be tested; its taints are tolerated.
    uses |= {name: NodeUse(name=name, use=Use.FREE) for name, use in uses.items() if use.use is Use.OURS}
    return Stock(queue_nodes(context, uses, {}), {host.name: host for host in hosts})


def _service(
    run: Run, options: Mapping[str, Any], tests: tuple[NodeTest, ...], settings: ContinuousSettings
) -> Service:
    record = run.record
    accepted = open_baselines(place_of(options["store"])).accepted_figures(
        run.site.name, rehearsal=record.rehearsal or run.site.rehearsal
    )
    passive = {PASSIVE: settings.passive_days} if options["passive"] and settings.passive else {}
    return Service(
        nodes={host.name: host.node_name or host.name for host in run.site.in_scope},
        tests=(*(test.id for test in tests), *passive),
        directory=run.path,
        limits=class_limits(tests, settings, passive),
        policy=policy_of(options["policy"]),
        racks={host.name: host.rack for host in run.site.in_scope if host.rack},
        references=class_references(run.site.in_scope, run.hardware, accepted, figure_rules()),
    )
