# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A cycle of tests on idle nodes as part of a run: holds the cluster, ends what dead cycles left, runs and records."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from ..check.benchmark.plan import BenchmarkHost, placement, planned_hosts
from ..check.benchmark.slurm import ways_of
from ..check.node_tests.registry import enabled_tests
from ..check.node_tests.settings import CONTINUOUS, ContinuousSettings
from ..check.node_tests.spec import NodeTest
from ..check.spec import ObserveContext
from ..clients.kube.cluster import Cluster
from ..clients.kube.connection import connection_from
from ..fleet.class_rules import ClassLimits, FigureRules, Word, figure_rules
from ..fleet.classify import Classified, classify
from ..fleet.cycle import FleetCycle
from ..fleet.cycle_model import CycleLog, CycleWork, RunJobs, Stock
from ..fleet.free_nodes import OURS
from ..fleet.kube_drain import DrainLimits
from ..fleet.kube_nodes import KubernetesNodes
from ..fleet.lemons import lemons
from ..fleet.node_logs import NodeLogs
from ..fleet.others import Others
from ..fleet.series import References
from ..fleet.slurm_drain import SlurmLimits, SlurmNodes
from ..fleet.standing import DAY_S
from ..outcome.errors import BringupError, InputError
from ..outcome.wording import first_of
from ..remediation.carry_out import (
    CORDON,
    LABEL,
    OWNER,
    SLURM_DRAIN,
    WEBHOOK,
    Hands,
    Policy,
    Site,
    Steps,
    Turn,
    carry_out,
    label_nodes,
    notify,
    policy_of,
    steps,
)
from ..report.service import (
    ServiceFacts,
    counted,
    coverage,
    node_lines,
    render_service_markdown,
    render_service_metrics,
    render_service_page,
)
from ..runtime.clock import Deadline, now_utc
from ..runtime.files import file_mode, make_dirs, write_atomic
from ..runtime.interrupt import interruptible
from ..runtime.process import controller_pid
from ..runtime.progress import Emit, Progress, silent
from ..runtime.redaction import redact
from ..store.baselines import open_baselines
from ..store.database import place_of
from ..store.records import Cycle, NodeClass
from ..store.service import FirstFigure, ServiceStore, add_first_figures, first_figures, open_service
from ..verdict.drift import First, first_of_history
from ..workload.job import JobResult, JobSpec
from ..workload.jobs import run_jobs
from ..workload.lease import hold_hosts, working
from ..workload.namespace import TemporaryNamespace
from ..workload.node_use import NodeUse, Use
from ..workload.slurm_jobs import SlurmCommands, SlurmRunner
from .class_references import class_references
from .cycle_suite import CycleDone, save_cycle, with_cycle
from .decision import run_day
from .holding import WAIT, claim_of_run, end_hold, take_hold
from .node_test_place import node_test_namespace
from .passive import TEST as PASSIVE
from .passive import passive_results
from .run import Run
from .site_nodes import limits_of, queue_nodes, uses_in_kubernetes, uses_in_slurm

# What follows a cycle of tests: every node gets its class, the policy of the site is carried out, the daily report is
# written.

_WINDOWS = (30, 90)


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """What is proven continuously, and where it is told.

    `nodes`: every node of the site by its name there, with its name in Kubernetes or Slurm; `tests`: ids of the tests
    that each of them has to pass again; `directory`: where the daily report is written; `racks`: of the nodes that have
    one; `rules`: which way figures are better; `limits`: of all comparisons; `references`: what figures are held
    against beside their equals.
    """

    nodes: Mapping[str, str]
    tests: tuple[str, ...]
    directory: Path
    policy: Policy = field(default_factory=Policy)
    racks: Mapping[str, str] = field(default_factory=dict)
    rules: FigureRules = field(default_factory=figure_rules)
    limits: ClassLimits = field(default_factory=ClassLimits)
    references: References = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleEnd:
    """What came of it: the class of every node, what was done (in check mode: would be done), why the breaker stopped
    it (empty: it did not), the files of the report by `html`, `markdown`, `metrics`, and the tests that suspects should
    repeat at once, as (node, test)."""

    classes: tuple[NodeClass, ...]
    actions: tuple[str, ...] = ()
    stopped: str = ""
    files: Mapping[str, Path] = field(default_factory=dict)
    repeats: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Acted:
    """What was done by node, what besides, what could not be done, why the breaker holds, how many are out by us."""

    by_node: Mapping[str, str] = field(default_factory=dict)
    besides: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    stopped: str = ""
    out: int = 0


def classified(store: ServiceStore, cycle: Cycle, service: Service, now_s: float) -> Classified:
    """Return what the nodes are taken for by what is remembered now; its `repeats` are owed by suspects.

    Raises:
        BringupError: the history cannot be read.
    """
    since_s = now_s - service.limits.history_days * DAY_S
    results = store.results(cycle.site, rehearsal=cycle.rehearsal, since_s=since_s, tests=service.tests)
    firsts = {
        (row.node, row.test, row.cohort, row.part, row.name): First(row.middle, row.spread, row.results)
        for row in first_figures(store, cycle.site, rehearsal=cycle.rehearsal)
    }
    return classify(
        cycle.cycle_id,
        tuple(service.nodes),
        service.tests,
        results,
        now_s,
        service.rules,
        service.limits,
        service.racks,
        service.references,
        firsts,
    )


def after_cycle(
    store: ServiceStore,
    cycle: Cycle,
    service: Service,
    *,
    now_s: float,
    cluster: Cluster | None = None,
    check_mode: bool = False,
    emit: Emit = silent,
) -> CycleEnd:
    """Classify, act, report.

    Args:
        store: the open history of the service; classes and cordons are recorded there.
        cycle: the one that ended.
        service: nodes, tests, policy, directory of the report.
        now_s: seconds since the epoch.
        cluster: where labels, taints and cordons are set; None where the policy asks for none.
        check_mode: nothing is changed or recorded but the report, which says so; what would be done is said.
        emit: progress.

    Raises:
        BringupError: the history or the report cannot be written, or the policy needs a cluster that was not given.
    """
    if cluster is None and {CORDON, LABEL} & set(service.policy.acts):
        said = f"asks for {first_of(sorted({CORDON, LABEL} & set(service.policy.acts)), 2)}, and there is no cluster."
        raise InputError("continuous policy acts", said, "give a kubeconfig, or leave these acts out")
    found = classified(store, cycle, service, now_s)
    if not check_mode:
        store.add_classes(found.classes)
        _remember_firsts(store, cycle, service, found)
    before = _before(store, cycle, now_s)
    acted = _act(store, cycle, service, found, before, cluster, now_s=now_s, check_mode=check_mode)
    classes = tuple(replace(entry, action=acted.by_node.get(entry.node, "")) for entry in found.classes)
    if not check_mode:
        store.add_classes(entry for entry in classes if entry.action)
    found = replace(found, classes=classes)
    facts = _facts(store, cycle, service, found, before, acted, now_s=now_s, check_mode=check_mode)
    files = write_report(facts, service.directory)
    done = (f"{node}: {text}" for node, text in sorted(acted.by_node.items()))
    actions = (*done, *acted.besides, *acted.problems)
    counts = ", ".join(f"{number} {word.value}" for word, number in facts.words.items())
    for line in (f"{len(classes)} nodes: {counts}", *found.cohorts[:5], *actions[:20]):
        emit(redact(line))
    return CycleEnd(
        classes=classes, actions=actions, stopped=acted.stopped, files=files, repeats=found.repeats
    )  # fmt: skip


def _remember_firsts(store: ServiceStore, cycle: Cycle, service: Service, found: Classified) -> None:
    """Write what series began with, once they have as many samples as a reference takes."""
    limits, rows = service.limits.drift, list[FirstFigure]()
    kept = first_figures(store, cycle.site, rehearsal=cycle.rehearsal)
    known = {(row.node, row.test, row.cohort, row.part, row.name) for row in kept}
    every = (series for record in found.records.values() for series in record.series)
    for series in (series for series in every if series.first_key not in known):
        first = first_of_history(series.speeds, limits)
        if first is not None and first.count == limits.most:
            node, test, cohort, part, name = series.first_key
            rows.append(FirstFigure(
                node=node, test=test, cohort=cohort, part=part, name=name, middle=first.middle, spread=first.spread,
                results=first.count, since_s=series.began_s,
            ))  # fmt: skip
    add_first_figures(store, cycle.site, rows, rehearsal=cycle.rehearsal)


def write_report(facts: ServiceFacts, directory: Path) -> dict[str, Path]:
    """Write the daily report and return its files.

    Raises:
        BringupError: the directory cannot be written.
    """
    make_dirs(directory)
    texts = {
        "html": ("continuous.html", render_service_page(facts)),
        "markdown": ("continuous.md", render_service_markdown(facts)),
        "metrics": ("continuous.prom", render_service_metrics(facts)),
    }
    for name, text in texts.values():
        write_atomic(directory / name, text, file_mode(directory))
    return {kind: directory / name for kind, (name, _text) in texts.items()}


def _before(store: ServiceStore, cycle: Cycle, now_s: float) -> tuple[NodeClass, ...]:
    known = store.classes(cycle.site, rehearsal=cycle.rehearsal, since=_utc(now_s - _WINDOWS[0] * DAY_S))
    return tuple(entry for entry in known if entry.cycle_id != cycle.cycle_id)


def _act(
    store: ServiceStore, cycle: Cycle, service: Service, found: Classified, before: tuple[NodeClass, ...],
    cluster: Cluster | None, *, now_s: float, check_mode: bool,
) -> _Acted:  # fmt: skip
    """Carry out the policy. What cannot be done is said, and keeps neither classes nor report from being written."""
    policy, besides, problems = service.policy, list[str](), list[str]()
    by_node, todo, out = dict[str, str](), Steps(), 0
    try:
        if cluster is not None and LABEL in policy.acts:
            words = {entry.node: entry.word for entry in found.classes}
            changed = label_nodes(cluster, words, service.nodes, dry_run=check_mode)
            if changed:
                besides.append(f"label {'would be' if check_mode else 'was'} set on {len(changed)} nodes")
        hands = _hands(policy, cluster, service.nodes)
        if hands is not None:
            site = _site(store, cycle, service, found, hands)
            todo = steps(site, policy)
            reasons = {entry.node: "; ".join(entry.reasons[:2]) for entry in found.classes}
            turn = Turn(site=cycle.site, rehearsal=cycle.rehearsal, cycle_id=cycle.cycle_id, now=_utc(now_s))
            by_node = carry_out(todo, reasons, hands, store, turn, check_mode=check_mode)
            out = len(site.out if check_mode else hands.ours(tuple(service.nodes)))
    except BringupError as error:
        problems.append(f"the policy could not be carried out: {redact(str(error))}")
    news = _news(cycle, found, before, by_node, todo.stopped)
    if WEBHOOK in policy.acts and news:
        failed = "" if check_mode else notify(policy, news)
        told = f"webhook {'would tell' if check_mode else 'told'} of {len(news['nodes'])} nodes"
        (problems if failed else besides).append(f"webhook failed: {failed}" if failed else told)
    return _Acted(
        by_node=by_node, besides=tuple(besides), problems=tuple(problems), stopped=todo.stopped, out=out
    )  # fmt: skip


def _hands(policy: Policy, cluster: Cluster | None, names: Mapping[str, str]) -> Hands | None:
    if CORDON in policy.acts and cluster is not None:
        # Its role reads nodes and no DaemonSets.
        others = Others(cluster, "allow", locks=False)
        return KubernetesNodes(cluster, OWNER, names, DrainLimits(), others=others)
    if SLURM_DRAIN in policy.acts:
        return SlurmNodes(OWNER, names, SlurmLimits(scontrol=policy.scontrol))
    return None


def _site(store: ServiceStore, cycle: Cycle, service: Service, found: Classified, hands: Hands) -> Site:
    recorded = store.open_cordons(cycle.site, rehearsal=cycle.rehearsal)
    ours = {node for node, cordon in recorded.items() if cordon.by.startswith(f"{OWNER}/")}
    cohorts: dict[str, set[str]] = {}
    for record in found.records.values():
        if record.known and record.known[-1].cohort:
            cohorts.setdefault(record.node, set()).add(record.known[-1].cohort)
    return Site(
        words={entry.node: entry.word for entry in found.classes}, out=hands.ours(tuple(service.nodes)), recorded=ours,
        elsewhere=set(recorded) - ours, cohorts=cohorts, in_a_row=found.in_a_row,
    )  # fmt: skip


def _news(
    cycle: Cycle, found: Classified, before: tuple[NodeClass, ...], by_node: Mapping[str, str], stopped: str
) -> dict[str, Any]:
    """Return what another system is told: nodes that became bad or are so no more; nothing where nothing is new."""
    last = {entry.node: entry.word for entry in before}
    bad = Word.BAD.value
    new = [entry for entry in found.classes if (entry.word == bad) != (last.get(entry.node) == bad)]
    if not new and not stopped:
        return {}
    nodes = [
        {"node": entry.node, "class": entry.word, "was": last.get(entry.node, ""), "reasons": list(entry.reasons),
         "action": by_node.get(entry.node, "")}
        for entry in new
    ]  # fmt: skip
    about = {"site": cycle.site, "rehearsal": cycle.rehearsal, "cycle": cycle.cycle_id}
    return {"kind": "gpufleet.continuous", **about, "stopped": stopped, "nodes": nodes}


def _facts(
    store: ServiceStore, cycle: Cycle, service: Service, found: Classified, before: tuple[NodeClass, ...],
    acted: _Acted, *, now_s: float, check_mode: bool,
) -> ServiceFacts:  # fmt: skip
    lines = node_lines(found, service.tests, before, now_s)
    known = [result for record in found.records.values() for result in record.known]
    cordons = store.cordons(cycle.site, rehearsal=cycle.rehearsal)
    begins = {most: now_s - most * DAY_S for most in _WINDOWS}
    days = {test: service.limits.fresh_days(test) for test in service.tests}
    return ServiceFacts(
        site=cycle.site, rehearsal=cycle.rehearsal, cycle_id=cycle.cycle_id, written=_utc(now_s), now_s=now_s,
        check_mode=check_mode, words=counted(lines),
        coverage=coverage(tuple(service.nodes), days, found.records, now_s), lines=lines,
        told=found.cohorts, problems=acted.problems,
        stopped=acted.stopped, out=acted.out,
        lemons={most: lemons(known, cordons, since_s, _utc(since_s)) for most, since_s in begins.items()},
    )  # fmt: skip


def _utc(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


# Where a cycle runs its tests, whoever gives the nodes work, and what dead cycles left in the history.

_DEAD_DAYS = 90


@dataclass(frozen=True, slots=True)
class CyclePlace:
    """What a cycle is told of its place, which is held by then: its tests, how stock is taken, and `jobs`, within which
    tests are run and which adds to the notes what it leaves; `cluster` is None where there is no Kubernetes."""

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
    """End what cycles of dead controllers left in the history.

    Whoever holds the place is the only one that tests there, and what dead runs left was removed: so nothing runs any
    more under the leases of others. The leases of cycles that are not `dead` stay until they run out.
    """
    for lease in store.leases(cycle.site, rehearsal=cycle.rehearsal):
        if lease.cycle_id != cycle.cycle_id and dead(lease.cycle_id) and store.release(lease):
            emit(f"lease of {lease.test} on {lease.node} taken over from dead cycle {lease.cycle_id}")
    for other in others(store, cycle):
        if not other.ended and dead(other.cycle_id):
            store.end_cycle(other.cycle_id, now_utc(), "its controller died")


# A cluster of Slurm as the place of a cycle: holds its hosts, ends jobs of dead cycles, and says how tests are run.
# The hold is a lock of this controller. So only cycles of this controller whose runs lie beside this one are known to
# be dead; jobs and leases of any other are left alone, and end by the time limits that they have in Slurm.


def slurm_place(
    run: Run, options: Mapping[str, Any], store: ServiceStore, cycle: Cycle,
    context_of: Callable[[str], ObserveContext], emit: Emit,
) -> CyclePlace:  # fmt: skip
    """Hold the hosts, remove what dead cycles left, and return the place.

    Raises:
        HeldError: another run of this controller holds the hosts.
        InputError: a setting is missing, or a test is asked for that is not enabled.
        BringupError: Slurm does not answer.
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
        # What we drained takes no jobs, ours neither: a person resumes it after its repair.
        uses = uses_in_slurm(commands.scontrol, context.site, context.hardware, ways.reservation)
        hosts = {
            host.name: BenchmarkHost(name=host.name, node=host.node_name or host.name, sku=host.sku)
            for host in run.site.in_scope
        }
        return Stock(queue_nodes(context, uses, {}), hosts)

    return CyclePlace(context, tests, stock, jobs)


def _beside(run: Run, other: Cycle, cycle: Cycle) -> bool:
    """Tell whether the lock that we hold was held by that cycle: it ran here, and its run lies beside ours."""
    run_id = other.cycle_id.rpartition("-cycle-")[0]
    return other.controller == cycle.controller and bool(run_id) and (run.path.parent / run_id).is_dir()


# By which limits the nodes of a site are classified, from its settings: those of gates where both judge.

# A result falls due after its days, and a queue takes its time: the queue itself becomes urgent at twice the days.
_STALE = 2.0


def class_limits(tests: Sequence[NodeTest], settings: ContinuousSettings, passive: Mapping[str, float]) -> ClassLimits:
    """Return the limits of classification.

    Args:
        tests: those of the cycle.
        settings: of continuous validation.
        passive: how old the results of passive checks may be, by test; they are made by every cycle.
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
        done = save_cycle(run, cycle, going.log, _number(options), log_dir_of(options), emit)
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
