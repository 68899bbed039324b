# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What follows a cycle of tests: every node gets its class, the policy of the site is carried out, the daily report is
written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ...check.dl_unit.rates import reference_of
from ...check.dl_unit.settings import ID as DL_UNIT
from ...clients.kube.cluster import Cluster
from ...hardware.sku import Sku
from ...outcome.errors import BringupError, InputError
from ...outcome.wording import first_of
from ...probe.dl_unit import RATES
from ...runtime.files import file_mode, make_dirs, write_atomic
from ...runtime.progress import Emit, silent
from ...runtime.redaction import redact
from ...site.model import Host
from ...store.records import Cycle, Figure, NodeClass
from ...store.service import FirstFigure, ServiceStore, add_first_figures, first_figures
from ...verdict.baseline import AcceptedFigure
from ...verdict.ceiling import CeilingLimits
from ...verdict.figures import SKU
from ..remediation.app import (
    CORDON,
    LABEL,
    OWNER,
    SLURM_DRAIN,
    WEBHOOK,
    OperatorActions,
    RemediationPolicy,
    RemediationSite,
    RemediationSteps,
    Turn,
    carry_out,
    label_nodes,
    notify,
    steps,
)
from ..waves.kubernetes import DrainLimits, KubernetesNodes
from ..waves.other_programs import Others
from ..waves.slurm import SlurmLimits, SlurmNodes
from .classify import Classified, classify
from .figures import ClassLimits, FigureRules, Reference, References, Word, figure_rules
from .node_history import DAY_S, repeat_offenders
from .report import (
    ServiceFacts,
    counted,
    coverage,
    node_lines,
    render_service_markdown,
    render_service_metrics,
    render_service_page,
)
from .slowdown import First, first_of_history

# Names that a test of an idle node and an accepted figure share (recipes/figures.yaml).
_STORAGE = "storage_io"
_STORAGE_FIGURES = ("sequential-write", "sequential-read", "random-read", "random-write")
# The loss that an accepted figure may have: twice the tolerance of check fabric-baseline is bad.
_LOSS = 0.05


def class_references(
    hosts: Iterable[Host], hardware: Mapping[str, Sku], accepted: Iterable[AcceptedFigure], rules: FigureRules
) -> References:
    """Return by node, test and figure what it has to reach. A figure accepted for a node takes precedence over a
    published one."""
    nodes, found = {host.name: host.sku for host in hosts}, dict[tuple[str, str, str], Reference]()
    limits = CeilingLimits()
    for node, sku in nodes.items():
        for rate, unit in RATES.items():
            best = reference_of(hardware.get(sku), rate)
            if best is not None:
                found[node, DL_UNIT, rate] = Reference(
                    speed=best, marginal=limits.marginal, bad=limits.bad, shown=f"{best:,.4g} {unit}",
                    source=f"the best that is published of {sku}",
                )  # fmt: skip
    for entry in accepted:
        figure = entry.figure
        test = DL_UNIT if figure.figure in RATES else _STORAGE if figure.figure in _STORAGE_FIGURES else ""
        if test and figure.node in nodes and figure.conditions.get(SKU) in _names(nodes[figure.node], hardware):
            made = _accepted(entry, test, rules)
            if made is not None:
                found[figure.node, test, figure.figure] = made
    return found


def _names(sku: str, hardware: Mapping[str, Sku]) -> tuple[str, ...]:
    """Return the names that a site may use for that SKU: its name and its aliases."""
    return (sku, hardware[sku].name) if sku in hardware else (sku,)


def _accepted(entry: AcceptedFigure, test: str, rules: FigureRules) -> Reference | None:
    figure, shared = entry.figure, rules.shared.get(test)
    try:
        speed = rules.speed(Figure(name=figure.figure, number=figure.value, unit=figure.unit))
    except InputError:
        return None
    loss = shared.tolerance if shared else _LOSS
    return None if not speed else Reference(
        speed=speed, marginal=1 - loss, bad=1 - min(2 * loss, 0.9), shown=f"{figure.value:,.4g} {figure.unit}",
        source=f"accepted by {entry.who} on {entry.accepted[:10]}, run {entry.run_id}",
    )  # fmt: skip


# What follows a cycle of tests: every node gets its class, the policy of the site is carried out, the daily report is
# written.

_WINDOWS = (30, 90)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContinuousService:
    """What is proven continuously, and where it is reported.

    `nodes`: every node of the site by its name there, with its name in Kubernetes or Slurm. `tests`: ids of the tests
    that each of them has to pass again. `directory`: where the daily report is written. `racks`: rack by node, where
    known. `rules`: which way figures are better. `limits`: the limits of all comparisons. `references`: what figures
    have to reach, beside their peers.
    """

    nodes: Mapping[str, str]
    tests: tuple[str, ...]
    directory: Path
    policy: RemediationPolicy = field(default_factory=RemediationPolicy)
    racks: Mapping[str, str] = field(default_factory=dict)
    rules: FigureRules = field(default_factory=figure_rules)
    limits: ClassLimits = field(default_factory=ClassLimits)
    references: References = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleEnd:
    """The outcome of a cycle.

    The class of every node, what was done (in check mode: would be done), why the breaker stopped it (empty: it did
    not), the files of the report by `html`, `markdown`, `metrics`, and the tests that suspects should repeat at once,
    as (node, test).
    """

    classes: tuple[NodeClass, ...]
    actions: tuple[str, ...] = ()
    stopped: str = ""
    files: Mapping[str, Path] = field(default_factory=dict)
    repeats: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Acted:
    """The actions by node, other actions, problems, why the breaker stops, and how many nodes we keep out of
    service."""

    by_node: Mapping[str, str] = field(default_factory=dict)
    besides: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    stopped: str = ""
    out: int = 0


def classified(store: ServiceStore, cycle: Cycle, service: ContinuousService, now_s: float) -> Classified:
    """Return the classes of the nodes from the current history. Suspects owe its `repeats`.

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
    service: ContinuousService,
    *,
    now_s: float,
    cluster: Cluster | None = None,
    check_mode: bool = False,
    emit: Emit = silent,
) -> CycleEnd:
    """Classify, act, report.

    Args:
        store: the open history of the service; classes and cordons are recorded there.
        cycle: the cycle that ended.
        service: nodes, tests, policy, directory of the report.
        now_s: seconds since the epoch.
        cluster: where labels, taints and cordons are set; None where the policy needs none.
        check_mode: nothing is changed or recorded but the report, which lists what would be done.
        emit: progress.

    Raises:
        BringupError: the history or the report cannot be written, or the policy needs a cluster and there is none.
    """
    if cluster is None and {CORDON, LABEL} & set(service.policy.acts):
        reported = (
            f"asks for {first_of(sorted({CORDON, LABEL} & set(service.policy.acts)), 2)}, and there is no cluster."
        )
        raise InputError("continuous policy acts", reported, "give a kubeconfig, or leave these acts out")
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


def _remember_firsts(store: ServiceStore, cycle: Cycle, service: ContinuousService, found: Classified) -> None:
    """Record what series began with, once they have as many samples as a reference takes."""
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
    store: ServiceStore, cycle: Cycle, service: ContinuousService, found: Classified, before: tuple[NodeClass, ...],
    cluster: Cluster | None, *, now_s: float, check_mode: bool,
) -> _Acted:  # fmt: skip
    """Carry out the policy. A failed action is reported, and does not stop classes or report from being written."""
    policy, besides, problems = service.policy, list[str](), list[str]()
    by_node, todo, out = dict[str, str](), RemediationSteps(), 0
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
        reported = f"webhook {'would tell' if check_mode else 'told'} of {len(news['nodes'])} nodes"
        (problems if failed else besides).append(f"webhook failed: {failed}" if failed else reported)
    return _Acted(
        by_node=by_node, besides=tuple(besides), problems=tuple(problems), stopped=todo.stopped, out=out
    )  # fmt: skip


def _hands(policy: RemediationPolicy, cluster: Cluster | None, names: Mapping[str, str]) -> OperatorActions | None:
    if CORDON in policy.acts and cluster is not None:
        # Its role reads nodes and no DaemonSets.
        others = Others(cluster, "allow", locks=False)
        return KubernetesNodes(cluster, OWNER, names, DrainLimits(), others=others)
    if SLURM_DRAIN in policy.acts:
        return SlurmNodes(OWNER, names, SlurmLimits(scontrol=policy.scontrol))
    return None


def _site(
    store: ServiceStore, cycle: Cycle, service: ContinuousService, found: Classified, hands: OperatorActions
) -> RemediationSite:
    recorded = store.open_cordons(cycle.site, rehearsal=cycle.rehearsal)
    ours = {node for node, cordon in recorded.items() if cordon.by.startswith(f"{OWNER}/")}
    cohorts: dict[str, set[str]] = {}
    for record in found.records.values():
        if record.known and record.known[-1].cohort:
            cohorts.setdefault(record.node, set()).add(record.known[-1].cohort)
    return RemediationSite(
        words={entry.node: entry.word for entry in found.classes}, out=hands.ours(tuple(service.nodes)), recorded=ours,
        elsewhere=set(recorded) - ours, cohorts=cohorts, in_a_row=found.in_a_row,
    )  # fmt: skip


def _news(
    cycle: Cycle, found: Classified, before: tuple[NodeClass, ...], by_node: Mapping[str, str], stopped: str
) -> dict[str, Any]:
    """Return the message to other systems: nodes that became bad or recovered; empty where nothing changed."""
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
    store: ServiceStore, cycle: Cycle, service: ContinuousService, found: Classified, before: tuple[NodeClass, ...],
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
        lemons={most: repeat_offenders(known, cordons, since_s, _utc(since_s)) for most, since_s in begins.items()},
    )  # fmt: skip


def _utc(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
