# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Burn-in: the tests of nodes, all hosts at once and round after round, until each host was under load long enough.

Every result is on the disk before the next step begins, so an interrupted run goes on where it was. A host on which a
test failed gets no further load: its evidence is worth more.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...check.benchmark.plan import BenchmarkHost, placement, planned_hosts
from ...check.burn_in.burn_in_soak import SPEC, TOO_SHORT, SoakSettings
from ...check.burn_in.dcgm_round import DCGM, diagnose, refuse_without_operator
from ...check.burn_in.model import ROUNDS, Soak, SoakResult
from ...check.node_tests.dl_unit import LOADED, DlUnit
from ...check.node_tests.pair_spec import PairTest, refuse_pairs
from ...check.node_tests.reading import log_of, read_job, without_secrets
from ...check.node_tests.spec import NodeTest
from ...check.spec import ObserveContext
from ...clients.kube.cluster import Cluster
from ...clients.kube.connection import connection_from
from ...outcome.codec import dumps, load, to_plain
from ...outcome.decisions import Quarantine
from ...outcome.errors import InputError
from ...outcome.gates import BURN_IN
from ...outcome.model import Status
from ...outcome.wording import count, first_of
from ...run.holding import end_hold, take_hold
from ...run.observing import observe_gate
from ...run.run import Run
from ...runtime.clock import Deadline, elapsed_text, hours_text, part_of_hours
from ...runtime.files import write_atomic
from ...runtime.interrupt import interruptible
from ...runtime.progress import Emit, Progress
from ...runtime.text import extra_variable
from ...site.model import Site
from ...store.records import NodeResult
from ...verdict.gate import Blocking, GateVerdict
from ...verdict.run import VERB_BURN_IN, RunRecord, Work, WorkRow, with_site
from ...workload.job import JobResult
from ...workload.jobs import run_jobs
from ...workload.lease import working
from ...workload.namespace import TemporaryNamespace
from ..continuous.app import chosen_tests, log_dir_of, node_test_namespace, test_context
from ..continuous.cycle_record import NodeLogs
from ..validation.phases import decide_phase, declared_phase
from ..validation.requested import requested_of

# What a burn-in did, as the verdict of its run: every host, how long it was under load, and why it ended. Pure.

VERB = VERB_BURN_IN
_HEAD = ("host", "end", "under load", "tests", "reason")
# A simulated host reports at once that it was under load for the requested time.
_SIMULATED = ("host", "end", "under load (simulated)", "tests", "reason")
_SHOWN = 3


def with_burn_in(record: RunRecord, done: Soak, verdict: GateVerdict, directory: Path) -> RunRecord:
    """Return the record with the result of a burn-in, by the verdict of its phase; `directory` is that of its run."""
    on_hold = _by_host(done, verdict)
    ends = {host: on_hold[host].status if host in on_hold else verdict.status for host in done.hosts}
    if on_hold:
        # Only the named hosts did not pass.
        ends |= {host: Status.PASSED for host in done.hosts if host not in on_hold}
    counts = Counter(end.value for end in ends.values())
    # An earlier interruption does not affect what it found since.
    return replace(record, problem="", interrupted="", work=Work(
        verb=VERB, head=_SIMULATED if record.rehearsal else _HEAD,
        rows=tuple(_row(done, host, ends[host], on_hold) for host in done.hosts),
        sentence=_sentence(done, counts, on_hold, verdict), passed=verdict.opens_next, failed=not verdict.opens_next,
        again=_again(verdict, on_hold, directory), counts=dict(counts),
    ))  # fmt: skip


def _by_host(done: Soak, verdict: GateVerdict) -> dict[str, Blocking]:
    """Return the first reason against each host; a reason about no host is against all of them."""
    found: dict[str, Blocking] = {}
    for entry in verdict.blocking:
        named = {subject.node for subject in entry.subjects} & set(done.hosts)
        for host in named or ({entry.subject} & set(done.hosts)) or done.hosts:
            found.setdefault(host, entry)
    return found


def _again(verdict: GateVerdict, on_hold: Mapping[str, Blocking], directory: Path) -> str:
    """Return the arguments to go on: missing hours are added; after a failure a new one begins, only with the hosts
    that did not pass."""
    if {entry.cause for entry in verdict.blocking} == {TOO_SHORT}:
        return extra_variable("gpufleet_burn_in_run", str(directory)).removeprefix("-e ")
    return extra_variable("gpufleet_burn_in_nodes", ",".join(on_hold)).removeprefix("-e ") if on_hold else ""


def _row(done: Soak, host: str, end: Status, on_hold: Mapping[str, Blocking]) -> WorkRow:
    reason = f"{on_hold[host].check}: {on_hold[host].cause}" if host in on_hold else done.note or "-"
    tests = f"{len(done.of_host(host))} in {count(done.rounds, 'round')}"
    hours = part_of_hours(done.soaked_s(host) / 3600, done.hours)
    return WorkRow(cells=(host, end.value, hours, tests, reason), good=end is Status.PASSED)


def _sentence(done: Soak, counts: Counter[str], on_hold: Mapping[str, Blocking], verdict: GateVerdict) -> str:
    text = f"{counts[Status.PASSED.value]} of {len(done.hosts)} hosts passed {hours_text(done.hours)} under load"
    names = [f"{host} ({entry.check}: {entry.cause})" for host, entry in on_hold.items()]
    if names:
        return f"{text}; {first_of(names, _SHOWN)}"
    return text if verdict.opens_next else f"{text}; {verdict.message}"


_NAME = "burn-in"
# Image pulls, pauses and rounds that were given back to users take extra time.
_LONGEST = 3.0
_LEAST_S = 1800.0
# Steps in a row in which no host made progress.
_MOST_IDLE = 3


def soak(run: Run, options: Mapping[str, Any], emit: Emit) -> Soak:
    """Load the hosts until their hours are over, and return the result. Earlier rounds of this run count.

    Raises:
        HeldError: another controller works on the cluster.
        AbortedError: SIGTERM or SIGINT ended it; what was done is kept.
        BringupError: the cluster does not respond, or does not allow the tests.
    """
    refuse_without_kubernetes(run.site)
    with ExitStack() as stack:
        stack.enter_context(interruptible("burn-in"))
        stack.callback(end_hold, run)
        stack.enter_context(working(run.path))
        hold = take_hold(run, options, emit)
        cluster = stack.enter_context(Cluster(connection_from(options)))
        context = test_context(run, options, emit, hold.holder)
        tests = _of_one_node(chosen_tests(run, options, emit, hold.holder, cluster), options)
        done = begun(run, context, tests)
        _load_by(tests, context)
        if done.leftovers:
            # Taking the cluster removes what dead runs left; what remains of it is reported again.
            done = replace(done, leftovers=tuple(hold.remains))
            keep(run.path, done)
        if not any(map(done.still_to_do, done.hosts)):
            return done
        limit = Deadline.after(max(_LEAST_S, done.hours * 3600 * _LONGEST))
        place = node_test_namespace(cluster, context, tests, name=_NAME, asked_by=_NAME)
        with told_what_is_left(run.path, place) as namespace:
            work = Soaking(run.path, context, cluster, namespace, tests, NodeLogs(log_dir_of(options)), limit, emit)
            work.until_done(done)
        return load(Soak, run.path / ROUNDS)


def _of_one_node(tests: Sequence[NodeTest], options: Mapping[str, Any]) -> tuple[NodeTest, ...]:
    """Return the tests without pair tests, which a site enables for its cycles.

    Raises:
        InputError: one of them is requested by name.
    """
    if options["tests"]:
        refuse_pairs(tests, "a burn-in")
    return tuple(test for test in tests if not isinstance(test, PairTest))


def narrow(run: Run, names: Sequence[str], *, keep: bool) -> None:
    """Limit the burn-in of this run to these hosts; with `keep` the record has it.

    Raises:
        InputError: one is not in scope, or the burn-in was begun with others, which would be left without a result.
    """
    path = run.path / ROUNDS
    begun_with = load(Soak, path).hosts if path.is_file() else tuple(names)
    if set(begun_with) != set(names):
        text = f"names {', '.join(names)}, and the burn-in in {run.path} was begun with {', '.join(begun_with)}."
        raise InputError(
            "gpufleet_burn_in_nodes", text, "leave it out, or begin a new one without gpufleet_burn_in_run"
        )
    site = of_nodes(run.site, names)
    if not keep:
        run.site = site
    elif site != run.site:
        run.save_site(site)
        note = f"this burn-in is of {first_of(list(names), _SHOWN)} alone (gpufleet_burn_in_nodes)"
        run.save_record(replace(with_site(run.record, site), notes=(*run.record.notes, note)))


def of_nodes(site: Site, names: Sequence[str]) -> Site:
    """Return the site with every other host set aside; unchanged where no host is named.

    Raises:
        InputError: one is not in its scope.
    """
    if not names:
        return site
    aside, there = site.quarantined, [host.name for host in site.in_scope]
    for name in names:
        if name not in there:
            reason = "is quarantined." if name in aside else "is not in the inventory."
            hint = (
                "take it out of gpufleet_quarantine first" if name in aside else f"there are {first_of(there, _SHOWN)}"
            )
            raise InputError(f"gpufleet_burn_in_nodes {name!r}", reason, hint)
    # They stay hosts of the site: its cabling plan names them.
    others = tuple(
        Quarantine(node=name, reason="not in this burn-in", ticket="gpufleet_burn_in_nodes", who="playbook burn_in")
        for name in there
        if name not in names
    )
    return replace(site, quarantine=(*site.quarantine, *others), minimum_nodes=0)


def refuse_without_kubernetes(site: Site) -> None:
    """Refuse a site where no pod can be started, and name its scheduler.

    Raises:
        InputError: the nodes belong to Slurm, or to no scheduler.
    """
    if site.orchestrator == "kubernetes" and "kubernetes" in site.capabilities:
        return
    if site.orchestrator == "slurm":
        raise over_slurm(site.name)
    hint = "load its nodes by gate nodes instead: gpufleet_set=dcgm-diag.level=4"
    raise InputError(f"site {site.name}", "it has no Kubernetes, and a burn-in loads hosts by pods.", hint)


def over_slurm(site: str) -> InputError:
    """Return the refusal of a site whose nodes are scheduled by Slurm; no choice of gates helps."""
    hint = "drain the nodes in Slurm and load them by gate nodes instead: gpufleet_set=dcgm-diag.level=4"
    return InputError(f"site {site}", "Slurm gives its nodes work, and a burn-in loads hosts by pods.", hint)


@contextmanager
def told_what_is_left(
    directory: Path, place: AbstractContextManager[TemporaryNamespace]
) -> Iterator[TemporaryNamespace]:
    """Yield the namespace. What it leaves in the cluster is written to the rounds, however the burn-in ends."""
    leftovers: list[str] = []
    try:
        with place as namespace:
            leftovers = namespace.leftovers
            yield namespace
    finally:
        path = directory / ROUNDS
        if leftovers and path.is_file():
            keep(directory, replace(load(Soak, path), leftovers=tuple(leftovers)))


def keep(directory: Path, done: Soak) -> None:
    """Write the rounds into the directory of their run."""
    write_atomic(directory / ROUNDS, dumps(to_plain(done)))


def begun(run: Run, context: ObserveContext, tests: Sequence[NodeTest]) -> Soak:
    """Return the burn-in of this run so far; a new one if there is none.

    Raises:
        InputError: there are no tests, or the one that was begun had others.
    """
    settings = context.settings_of(SPEC.id, SoakSettings)
    refuse_without_operator(context.site, settings.dcgm_level)
    hours, path = settings.hours, run.path / ROUNDS
    load_s = settings.load_s if any(isinstance(test, DlUnit) for test in tests) else 0.0
    names = (*(test.id for test in tests), *((DCGM,) if settings.dcgm_level else ()))
    if not names:
        raise InputError("burn-in", "has no test to run.", "enable one: gpufleet_settings: {dl_unit: {enabled: true}}")
    if not path.is_file():
        hosts = tuple(host.name for host in context.site.in_scope)
        return Soak(hours=hours, tests=names, hosts=hosts, load_s=load_s, directory=str(run.path))
    found = load(Soak, path)
    if found.tests != names:
        text = f"was begun with {', '.join(found.tests)}, and now there are {', '.join(names)}."
        raise InputError(str(path), text, "go on with the same tests, or begin a new run")
    # The rules are those of its begin: time of pods is never taken for time under load.
    return replace(found, hours=hours, note="", directory=str(run.path))


def _load_by(tests: Sequence[NodeTest], context: ObserveContext) -> None:
    settings = context.settings_of(SPEC.id, SoakSettings)
    for test in tests:
        if isinstance(test, DlUnit):
            test.keep_at_work(settings.load_s, settings.load_share)


@dataclass(frozen=True, slots=True)
class Soaking:
    """A burn-in in progress."""

    directory: Path
    context: ObserveContext
    cluster: Cluster
    namespace: TemporaryNamespace
    tests: Sequence[NodeTest]
    logs: NodeLogs
    limit: Deadline
    emit: Emit

    def until_done(self, done: Soak) -> Soak:
        """Make rounds until every host is done, and keep each result as it arrives."""
        idle = 0
        while left := tuple(filter(done.still_to_do, done.hosts)):
            reason = self._over(idle)
            if reason:
                return self._kept(replace(done, note=reason))
            before = {host: done.missing(host) for host in left}
            done = self._kept(replace(done, rounds=done.rounds + 1))
            for test in self.tests:
                done = self._step(done, test)
            done = self._diagnosed(done)
            idle = idle + 1 if all(done.missing(host) == was for host, was in before.items()) else 0
            self._tell(done)
        return self._kept(done)

    def _over(self, idle: int) -> str:
        if self.limit.left_s <= 0:
            return f"its time was over after {elapsed_text(self.limit.limit_s)}"
        return f"no host came further in {idle} rounds" if idle >= _MOST_IDLE else ""

    def _diagnosed(self, done: Soak) -> Soak:
        """End the round with DCGM's diagnostic if the site wants that."""
        level = self.context.settings_of(SPEC.id, SoakSettings).dcgm_level
        hosts = [host for host in done.hosts if done.still_to_do(host)]
        if not level or not hosts:
            return done
        found = diagnose(self.context, level, done.rounds, hosts)
        for entry in found:
            if entry.status is not Status.PASSED:
                self.emit(f"{entry.status.value} {DCGM} on {entry.host}: {entry.summary}")
        return self._kept(replace(done, results=(*done.results, *found)))

    def _step(self, done: Soak, test: NodeTest) -> Soak:
        """Run one test at once on all hosts that are not done."""
        hosts = {host.name: host for host in self._hosts()}
        results, specs, owners = list(done.results), [], {}
        for place, name in enumerate(filter(done.still_to_do, done.hosts)):
            host = hosts.get(name)
            unfit = test.unfit(host) if host else ""
            unready = "" if unfit else self._unready(test, host)
            if host is None or unfit or unready:
                status = Status.SKIPPED if unfit else Status.OTHER
                cause = "" if unfit else "not-ready"
                results.append(SoakResult(
                    host=name, test=test.id, round=done.rounds, status=status, seconds=0.0, cause=cause,
                    summary=unfit or unready,
                ))  # fmt: skip
                continue
            spec = test.job(f"{test.id.replace('_', '-')}-{done.rounds}-{place}", host)
            specs.append(spec)
            owners[spec.name] = host
        done = self._kept(replace(done, results=tuple(results)))
        if not specs:
            return done
        progress = Progress(self.emit)
        for job in run_jobs(self.cluster, self.namespace, specs, len(specs), progress, self.limit):
            results.append(self._read(done, test, owners[job.name], job))
        return self._kept(replace(done, results=tuple(results)))

    def _hosts(self) -> tuple[BenchmarkHost, ...]:
        return tuple(planned_hosts(self.cluster, self.context, lambda *reported: BenchmarkHost(**placement(*reported))))

    def _unready(self, test: NodeTest, host: BenchmarkHost | None) -> str:
        if host is None:
            return "it is not in the cluster"
        return host.closed or test.unready(host)

    def _read(self, done: Soak, test: NodeTest, host: BenchmarkHost, job: JobResult) -> SoakResult:
        """Return the result of a job. The first run of a test on a host counts no time: it mostly pulls its image."""
        clean, started_s = without_secrets(job), time.time() - job.duration_s
        found = read_job(test, f"{_NAME}-{done.rounds}", host, clean, started_s)
        before = [entry for entry in done.of_host(host.name) if entry.test == test.id]
        first = not any(entry.status is Status.PASSED for entry in before)
        log, parts = "", test.blamed(host, clean) if found.status is Status.FAILED else ()
        if found.status is not Status.PASSED:
            # A reader of the summary does not know where logs are kept.
            kept = self.logs.keep(test.id, host.name, started_s, log_of(clean))
            log = str(self.logs.directory / kept) if kept else ""
            self.emit(f"{found.status.value} {test.id} on {host.name}: {found.summary}")
        return SoakResult(
            host=host.name, test=test.id, round=done.rounds, status=found.status,
            seconds=0.0 if first else found.duration_s, loaded_s=_loaded_s(found), cause=found.cause,
            summary=found.summary, log=log, parts=parts,
        )  # fmt: skip

    def _kept(self, done: Soak) -> Soak:
        keep(self.directory, done)
        return done

    def _tell(self, done: Soak) -> None:
        left = [host for host in done.hosts if done.still_to_do(host)]
        least = min((done.soaked_s(host) for host in left), default=0.0)
        reported = f"{len(left)} of {len(done.hosts)} hosts left, the last at {part_of_hours(least / 3600, done.hours)}"
        self.emit(f"burn-in, round {done.rounds}: {reported if left else 'all hosts are through'}")


def _loaded_s(found: NodeResult) -> float:
    """Return how long every GPU of the node was under load: the shortest time, 0 where a GPU reports none."""
    loaded = {figure.part: figure.number for figure in found.figures if figure.name == LOADED}
    known = len(loaded) == len(found.parts) and bool(loaded)
    return min(loaded.values()) if known else 0.0


def planned(run: Run, options: Mapping[str, Any], emit: Emit) -> Soak:
    """Return the burn-in so far, without a hold and without running anything.

    Raises:
        BringupError: the cluster does not respond, or a requested test is not enabled.
    """
    refuse_without_kubernetes(run.site)
    with Cluster(connection_from(options)) as cluster:
        tests = _of_one_node(chosen_tests(run, options, emit, "", cluster), options)
    return begun(run, test_context(run, options, emit, ""), tests)


def decide_burn_in(run: Run, options: Mapping[str, Any], emit: Emit) -> tuple[Soak, GateVerdict]:
    """Judge the rounds and the readings around them, and record the verdict of the phase.

    Raises:
        BringupError: nothing could be written.
    """
    context = test_context(run, options, emit, "")
    for part in declared_phase(run, requested_of(run), BURN_IN).parts:
        observe_gate(part, context, check_mode=False)
    verdict = decide_phase(run, BURN_IN)
    emit(f"burn-in: {verdict.status.value}. {verdict.message}")
    path = run.path / ROUNDS
    done = load(Soak, path) if path.is_file() else Soak(hours=1.0, tests=(), hosts=())
    run.save_record(with_burn_in(run.record, done, verdict, run.path))
    run.save_whole_suite()
    return done, verdict
