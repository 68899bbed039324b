# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Observations for a phase of a validation: readiness from a snapshot, the others by the observers of their checks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from ...check.declare import GatePlan
from ...check.observation import Observation, observe
from ...check.readiness.observe_snapshot import OBSERVER, SNAPSHOT, Taken, keep_snapshot
from ...check.registry import AnyObserver
from ...check.selection import PhaseDeclaration, limits_of
from ...check.site_checks import site_limit_s
from ...check.spec import Disturbance, ObserveContext
from ...check.validators.observe import Inputs, as_text, validator_observers
from ...clients.kube.cluster import Cluster
from ...clients.kube.connection import Connection
from ...clients.kube.identity import cluster_uid
from ...collect.provider_dumps import provider_readings
from ...collect.snapshot_place import read_snapshot
from ...outcome.errors import BringupError, DeadlineError, InputError
from ...outcome.gates import PHASE_GATES, READINESS
from ...run.observing import LONGER, Looking, limited, looking_meanwhile, needed_observers, observe_gate, refusing
from ...run.run import Run
from ...runtime.clock import Deadline, elapsed_text, moment_of
from ...snapshot.formats import parse_snapshot, to_upstream
from ...snapshot.measure import collectors_needed
from ...snapshot.model import Snapshot
from .requested import ValidationRequest, requested_of

_IN_CHECK_MODE = BringupError(
    "validators of the site", "make test pods, and this is check mode.", "run without --check"
)
# Clocks of two machines that follow a time server differ by less.
_CLOCKS_S = 300.0
NOT_TOLD = "the supplied snapshot does not say whether its cluster was a rehearsal, and no cluster was asked"
_AGAIN = "take one with playbook snapshot, or leave gpufleet_validate_snapshot out, which takes one"


def observe_readiness(
    run: Run,
    requested: ValidationRequest,
    context: ObserveContext,
    connection: Connection,
    helm: str,
    provider: Iterable[str] = (),
) -> Observation:
    """Take or read the snapshot and record that it was looked at. If that fails, the reason is recorded as well.

    Args:
        run: the run.
        requested: the request.
        context: what observers may use.
        connection: the cluster.
        helm: the program, for the releases.
        provider: `PART=FILE` of listings by the provider's tools (collect/provider_dumps.py); they take precedence over
            those of a supplied snapshot.
    """

    def look(_context: ObserveContext) -> Taken:
        listed = provider_readings(provider)
        source = requested.snapshot or "the cluster"
        if requested.snapshot:
            snapshot = supplied_snapshot(requested, connection)
            _tell_rehearsal(run, requested, snapshot)
        else:
            # One phase of several takes a snapshot, and only where none is supplied.
            from ..snapshot.app import take_snapshot

            # It is unknown what the site's validators read of it.
            only = None if requested.images else collectors_needed(run.recipe)
            snapshot = take_snapshot(connection, helm=helm, run_dir=_hosts_of(run), only=only)
        snapshot = replace(snapshot, provider={**snapshot.provider, **listed})
        return keep_snapshot(snapshot, run.path, source=source, installed=requested.installed)

    return observe(replace(OBSERVER, observe=look), READINESS, context)


def _tell_rehearsal(run: Run, requested: ValidationRequest, snapshot: Snapshot) -> None:
    """Mark the run as a rehearsal if the supplied snapshot is of one: without a cluster there is no other source."""
    if snapshot.of_rehearsal and not (run.record.rehearsal and run.site.rehearsal):
        run.mark_rehearsal()
    elif snapshot.of_rehearsal is None and requested.no_cluster and NOT_TOLD not in run.record.notes:
        run.save_record(replace(run.record, notes=(*run.record.notes, NOT_TOLD)))


def _hosts_of(run: Run) -> Path | None:
    """Return the run whose hosts were read, None if this run read none."""
    return run.path if (run.path / "evidence" / "hosts").is_dir() else None


def supplied_snapshot(requested: ValidationRequest, connection: Connection) -> Snapshot:
    """Return the supplied snapshot, if it is of this cluster and recent.

    A snapshot dated in the future would never grow old, so it is refused. Without a cluster there is nothing to compare
    it with, and the user vouches for it.

    Raises:
        InputError: it is of another cluster, does not name its cluster, is too old, or is dated in the future.
        BringupError: it cannot be read, or the identity of this cluster is unknown.
    """
    snapshot = read_snapshot(requested.snapshot, lambda: Cluster(connection))
    if requested.no_cluster:
        return snapshot
    place = f"snapshot {requested.snapshot}"
    with Cluster(connection) as cluster:
        here = cluster_uid(cluster)
    if not snapshot.cluster_uid:
        raise InputError(place, f"does not say of which cluster it is ({snapshot.made_by} does not record it).", _AGAIN)
    if snapshot.cluster_uid != here:
        text = f"is of cluster {snapshot.cluster_uid}, this is cluster {here or 'unknown'} (UID of kube-system)."
        raise InputError(place, text, _AGAIN)
    age_s = _age_s(snapshot.taken, place)
    if age_s > requested.max_age_s:
        text = f"was taken {elapsed_text(age_s)} ago, at most {elapsed_text(requested.max_age_s)} are allowed."
        raise InputError(place, text, f"{_AGAIN}; or allow more: gpufleet_snapshot_max_age")
    if age_s < -_CLOCKS_S:
        text = f"was taken at {snapshot.taken}, {elapsed_text(-age_s)} after the time here: nobody knows how old it is."
        raise InputError(place, text, f"{_AGAIN}; set the clocks of both machines by a time server")
    return snapshot


def _age_s(taken: str, place: str) -> float:
    try:
        moment = moment_of(taken)
    except ValueError:
        raise InputError(place, f"does not say when it was taken: {taken!r}.", _AGAIN) from None
    return (datetime.now(UTC) - (moment if moment.tzinfo else moment.replace(tzinfo=UTC))).total_seconds()


def observe_phase(
    run: Run,
    declaration: PhaseDeclaration,
    context_of: Callable[[str], tuple[ObserveContext, BringupError | None]],
    *,
    gate: str = "",
    check_mode: bool = False,
) -> list[Observation]:
    """Let the observers of a phase's checks look, each within its time limit.

    Observers that only read, and those whose pods take no GPU, run at once. Beside them those whose pods take GPUs run
    one after another.

    Args:
        run: the run.
        declaration: what the phase declares.
        context_of: returns the context of a gate, and why it must not be observed, if so.
        gate: only this gate of the phase, and with its last gate those of no phase; empty for all.
        check_mode: nothing that creates pods.
    """
    whole_s, by_check = limits_of(run.recipe, declaration.phase)
    deadline = _end_of_phase(run, whole_s, gate)
    requested, found, looking, one_by_one = requested_of(run), [], [], []
    for part in declaration.parts:
        if not _looks_now(declaration.phase, part.gate, gate) or not part.checks:
            continue
        context, refused = context_of(part.gate)
        limits = _observer_limits(part, by_check)

        def limit_s(observer: AnyObserver, limits: Mapping[str, float] = limits) -> float:
            left_s = max(deadline.left_s, 0.001) if deadline else 0.0
            configured = (left_s, limits.get(observer.key, 0.0), site_limit_s(observer))
            return min(filter(None, configured), default=0.0)

        here = replace(context, check_mode=check_mode)
        beside = [
            Looking(
                observer=observer, gate=part.gate, context=here, limit_s=limit_s(observer), pods=disturbs.makes_pods
            )
            for observer, disturbs in (needed_observers(part) if refused is None else ())
            if not disturbs.makes_pods or (disturbs is Disturbance.PLAIN_PODS and not check_mode)
        ]
        looking += beside
        one_by_one.append((_without(part, {entry.observer.key for entry in beside}), context, refused, limit_s))
    with looking_meanwhile(looking) as observed:
        for part, context, refused, limit_s in one_by_one:
            found += observe_gate(part, context, check_mode=check_mode, refused=refused, limit_s=limit_s)
        # Once in a phase, after the loads of its last gate.
        if declaration.images and gate in ("", PHASE_GATES[declaration.phase][-1]):
            context, refused = context_of(declaration.gates[-1])
            refused = refused or (_IN_CHECK_MODE if check_mode else None)
            found += _observe_validators(run, requested, declaration, context, refused, deadline)
    return [*found, *observed]


def _looks_now(phase: str, part: str, gate: str) -> bool:
    """Whether the checks of a gate are observed when this one of the phase is requested; empty: all are.

    Gates of no phase that a recipe names are observed with the last one, because they are never requested by
    themselves.
    """
    own = PHASE_GATES[phase]
    return gate in ("", part) or (gate == own[-1] and part not in own)


def _end_of_phase(run: Run, whole_s: float, gate: str) -> Deadline | None:
    """Return when a phase with so many seconds is over, None for one without a limit.

    A phase whose gates are separate tasks began when the phase before it was decided, which is in the record.
    """
    if not whole_s:
        return None
    gone_s = max(0.0, _age_s(run.record.updated, "record of the run")) if gate else 0.0
    return Deadline.after(max(whole_s - gone_s, 0.001))


def _observe_validators(
    run: Run,
    requested: ValidationRequest,
    declaration: PhaseDeclaration,
    context: ObserveContext,
    refused: BringupError | None,
    deadline: Deadline | None,
) -> list[Observation]:
    """Run the site's validators of a phase: those that disturb nothing at once, then the others one after another.

    They get the snapshot of readiness, in upstream's format, and the recipe of the run.
    """
    try:
        inputs = Inputs(
            snapshot=as_text(to_upstream(_snapshot_of(run))),
            recipe=as_text(run.recipe),
            run_id=run.path.name,
            node_selector=requested.node_selector,
        )
    except BringupError as error:
        refused, inputs = refused or error, Inputs(snapshot="", recipe="", run_id="", node_selector={})

    alone = [(validator,) for validator in declaration.images if validator.disturbs]
    beside = tuple(validator for validator in declaration.images if not validator.disturbs)
    seen = []
    for group in [beside, *alone]:
        left_s = deadline.left_s if deadline else 0.0
        timed = (
            tuple(replace(entry, timeout_s=min(entry.timeout_s, left_s)) for entry in group) if left_s > 0 else group
        )
        for observer in validator_observers(timed, declaration.phase, inputs):
            # The first of a group runs them all, and may have used the time up.
            problem = refused or _over(deadline)
            chosen = refusing(observer, problem) if problem else limited(observer, left_s)
            seen.append(observe(chosen, declaration.phase, context))
    return seen


def _snapshot_of(run: Run) -> Snapshot:
    path = run.path / SNAPSHOT
    try:
        return parse_snapshot(path.read_text(encoding="utf-8"), str(path))
    except OSError as error:
        raise InputError(str(path), f"cannot be read: {error.strerror}.", "run phase readiness again") from None


def _over(deadline: Deadline | None) -> BringupError | None:
    if deadline is None or deadline.left_s > 0:
        return None
    return DeadlineError("validators of the site", "were not run: the time of the phase is over.", LONGER)


def _without(part: GatePlan, keys: set[str]) -> GatePlan:
    """Return a plan without the checks of these observers."""
    return part.only({check.id for check in part.checks if check.observer.key not in keys})


def _observer_limits(part: GatePlan, by_check: Mapping[str, float]) -> dict[str, float]:
    """Return by observer the longest time limit of its checks; an observer with an unlimited check is left out."""
    found: dict[str, list[float]] = {}
    for check in part.checks:
        found.setdefault(check.observer.key, []).append(by_check.get(check.id, 0.0))
    return {key: max(limits) for key, limits in found.items() if all(limits)}
