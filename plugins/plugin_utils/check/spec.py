# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a check is: its specification, what it is given, and the form of its results."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ..outcome.codec import from_plain
from ..outcome.gates import GATE_PHASE, STACK_GATE
from ..outcome.model import Outcome, SubjectKind
from ..outcome.wording import first_of
from ..runtime.progress import Emit, silent
from ..site.model import DriverOwner, Site
from .kit.settings_layers import checked_settings, resolved, settings_for, shipped

if TYPE_CHECKING:
    from ..hardware.sku import Sku
    from ..verdict.baseline import AcceptedBaseline

T = TypeVar("T")
Seen = TypeVar("Seen")
_NAMES = 8


class Disturbance(str, Enum):
    """What a check may do to the cluster, the least first.

    Pods without GPUs take nothing from other tests, and their result depends on no load, so they may run beside the
    pods of another check. Test jobs go through Slurm.
    """

    NOTHING = "nothing"
    HOST_COMMAND = "host command"
    PLAIN_PODS = "pods without GPUs"
    TEST_PODS = "test pods"
    TEST_JOBS = "test jobs"

    @property
    def makes_pods(self) -> bool:
        """Whether only a run that has reserved the cluster, or its hosts, may do this."""
        return self in (Disturbance.PLAIN_PODS, Disturbance.TEST_PODS, Disturbance.TEST_JOBS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What decides whether a check applies: the site, the resolved recipe, and the names of the recipe's components.

    `recipe` is None while it is not known. `components` is None while they are not known: then no check is left out for
    what the recipe lacks.
    """

    site: Site
    recipe: Mapping[str, Any] | None = None
    components: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What a check does not apply to: names of hosts or of its subjects, None for all of them, and why.

    `reason` is empty where there is nothing to report.
    """

    names: frozenset[str] | None
    reason: str = ""


class Applies(ABC):
    """A rule that decides what a check applies to."""

    __slots__ = ()

    @abstractmethod
    def left_out(self, subjects: tuple[str, ...], place: Place) -> LeftOut | None:
        """Return what is left out there, None for nothing; `subjects` are all names that the check could apply to."""


@dataclass(frozen=True, slots=True)
class Capabilities(Applies):
    """Applies to a site with all of these capabilities (recipes/site_profiles.yaml). `infiniband|roce` means one of
    them."""

    words: tuple[str, ...]

    def missing(self, site: Site) -> tuple[str, ...]:
        """Return the capabilities that the site lacks."""
        return tuple(word for word in self.words if not set(word.split("|")) & set(site.capabilities))

    def left_out(self, subjects: tuple[str, ...], place: Place) -> LeftOut | None:
        del subjects
        known = place.site.missing
        reasons = [
            f"needs {word.replace('|', ' or ')}: "
            + next((known[part] for part in word.split("|") if part in known), "the inventory has none")
            for word in self.missing(place.site)
        ]
        return LeftOut(None, "; ".join(reasons)) if reasons else None


def needs(*words: str) -> Capabilities:
    """Return the rule of a check that needs a site with all of these capabilities."""
    return Capabilities(words)


@dataclass(frozen=True, slots=True)
class Components(Applies):
    """Applies to a recipe with one of these components."""

    names: tuple[str, ...]

    def left_out(self, subjects: tuple[str, ...], place: Place) -> LeftOut | None:
        del subjects
        if place.components is None or set(self.names) & set(place.components):
            return None
        return LeftOut(None, f"needs {' or '.join(self.names)}: the recipe has none")


@dataclass(frozen=True, slots=True)
class Promised(Applies):
    """Applies to the subjects for which the site or its recipe makes a promise; `unasked` is the reason where none has
    one."""

    names: Callable[[Site, Mapping[str, Any] | None], tuple[str, ...]]
    unasked: str

    def left_out(self, subjects: tuple[str, ...], place: Place) -> LeftOut | None:
        if place.components is None:
            return None
        promised = self.names(place.site, place.recipe)
        return LeftOut(frozenset(subjects).difference(promised)) if promised else LeftOut(None, self.unasked)


@dataclass(frozen=True, slots=True)
class Equals(Applies):
    """Applies to hosts that can be measured against each other: the only host of its SKU is left out."""

    def left_out(self, subjects: tuple[str, ...], place: Place) -> LeftOut | None:
        del subjects
        alone = place.site.without_equal
        hosts = ", ".join(f"{host.name} is the only {host.sku}" for host in alone)
        reason = f"needs two hosts of one SKU: {hosts} here"
        return LeftOut(frozenset(host.name for host in alone), reason) if alone else None


@dataclass(frozen=True, slots=True)
class Bmc(Applies):
    """Applies to hosts whose BMC the inventory names."""

    def left_out(self, subjects: tuple[str, ...], place: Place) -> LeftOut | None:
        del subjects
        unnamed = [host.name for host in place.site.in_scope if not host.bmc]
        reason = f"needs the address of the BMC: {first_of(unnamed, _NAMES)} without gpufleet_bmc"
        return LeftOut(frozenset(unnamed), reason) if unnamed else None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckSpec:
    """One check: one question with one outcome per subject.

    Args:
        id: stable id, lower-case words and hyphens (`gpu-census`).
        gate: gate that declares it; see `needs_driver`.
        phase: phase of a validation that it belongs to (outcome/gates.py). Empty: that of its gate.
        title: what it proves, a few words, for reports.
        per: kind of the subjects that must each get an outcome.
        disturbs: what its observation does to the cluster.
        duration_s: typical seconds for the observation, for the plan.
        applies: the rules that decide what it applies to, those that leave all of it out first:
            `(needs("kubernetes"),)`.
        only_on: orchestrator of the sites that have this check; on other sites it is not mentioned. Empty: every site.
        needs_driver: it needs the GPU driver: declared in gate nodes if the host owns the driver, in gpu_stack if the
            operator does.
        compares: it judges a host against the other hosts, so a pass among some hosts proves nothing about all.
        causes: every cause slug that it can give to a failed outcome, for the docs and the fault matrix.
        settings: settings class of its own (see kit/settings.py), None if it has none.
    """

    id: str
    gate: str
    title: str
    per: SubjectKind
    phase: str = ""
    disturbs: Disturbance = Disturbance.NOTHING
    duration_s: float = 1.0
    applies: tuple[Applies, ...] = ()
    only_on: str = ""
    needs_driver: bool = False
    compares: bool = False
    causes: tuple[str, ...] = ()
    settings: type[Any] | None = None

    def gate_at(self, site: Site) -> str:
        """Return the gate that declares this check at that site."""
        moved = self.needs_driver and site.driver_owner is DriverOwner.OPERATOR
        return STACK_GATE if moved else self.gate

    def phase_at(self, site: Site) -> str:
        """Return the phase of a validation that has this check at that site.

        Empty for a check of the gates before any phase, and for one that sites of this kind do not have.
        """
        if self.only_on not in ("", site.orchestrator):
            return ""
        return self.phase or GATE_PHASE.get(self.gate_at(site), "")

    def disturbs_at(self, site: Site) -> Disturbance:
        """Return what its observation does to that site: Slurm starts jobs where Kubernetes starts pods."""
        by_slurm = site.orchestrator == "slurm" and self.disturbs is Disturbance.TEST_PODS
        return Disturbance.TEST_JOBS if by_slurm else self.disturbs

    @property
    def requires(self) -> tuple[str, ...]:
        """The site capabilities without which it is not declared."""
        return tuple(word for rule in self.applies if isinstance(rule, Capabilities) for word in rule.words)

    def missing_capabilities(self, site: Site) -> tuple[str, ...]:
        """Return the capabilities that the check requires and the site lacks; empty means it can be declared."""
        return Capabilities(self.requires).missing(site)


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeContext:
    """What a judge may use beside the observation: only values, no connection, no clock.

    Attributes:
        gate: the gate being judged.
        site: the site.
        today: the day of the run.
        hardware: the hardware facts of every SKU, by its name.
        recipe: the resolved recipe (plain data), None before gate 4.
        saved_settings: the settings that were saved with the run, by gate or check id and name.
        shared: what each host may share with others (rack, leaf, driver; collect/host_facts.py), by host; in gates that
            compare hosts.
        passed_phases: the phases of a validation whose verdict opens the next phase.
        baseline: the figures that were accepted when the run began, None if none were.
        in_service: the nodes were accepted before and work for users, as in the passive checks of a cycle.
    """

    gate: str
    site: Site
    today: date
    hardware: Mapping[str, Sku] = field(default_factory=dict)
    recipe: dict[str, Any] | None = None
    saved_settings: dict[str, dict[str, Any]] = field(default_factory=dict)
    shared: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    passed_phases: frozenset[str] = frozenset()
    baseline: AcceptedBaseline | None = None
    in_service: bool = False
    _typed: dict[tuple[str, str], Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def settings_of(self, key: str, kind: type[T], sku: str = "") -> T:
        """Return the settings of a gate or check, with the values of one SKU where that SKU has its own.

        Raises:
            InputError: a saved or configured value is wrong.
        """
        found = self._typed.get((key, sku))
        if found is None:
            own = self.hardware[sku].settings.get(key) if sku in self.hardware else None
            configured, saved = self.site.settings.get(key, {}), self.saved_settings.get(key)
            found = self._typed[key, sku] = settings_for(kind, key, configured, saved, own)
        return found

    def stated(self, key: str, name: str) -> Any:
        """Return the plain value of a setting of another gate in this run, None where only its class has a default."""
        return resolved(shipped(key), self.saved_settings.get(key), self.site.settings.get(key, {})).get(name)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObserveContext:
    """What an observer may use: the site, the run directory, credentials by name, progress.

    Attributes:
        site: the site.
        run_dir: the run directory, where complete tool output is saved as evidence.
        today: the day of the run.
        hardware: the hardware facts of every SKU, by its name.
        recipe: the resolved recipe.
        cluster_uid: UID of the cluster behind the connection, None for a gate that queries none.
        connections: non-secret connection settings (`kubeconfig` path, `context`).
        emit: reports progress.
        saved_settings: those of settings.json, by gate or check id and name.
        holder: the run that has the Lease of the cluster (workload/lease.py), empty outside of a run.
        check_mode: this run has changed nothing and tests nothing.
        roll: the rolling change whose cordoned nodes are tested before they are uncordoned, empty outside of one.
    """

    site: Site
    run_dir: Path
    today: date
    hardware: Mapping[str, Sku] = field(default_factory=dict)
    recipe: dict[str, Any] | None = None
    cluster_uid: str | None = None
    connections: dict[str, str] = field(default_factory=dict)
    emit: Emit = silent
    saved_settings: dict[str, dict[str, Any]] = field(default_factory=dict)
    holder: str = ""
    check_mode: bool = False
    roll: str = ""

    def settings_of(self, key: str, kind: type[T]) -> T:
        """Return the settings of a gate or check.

        Raises:
            ProblemsError: all problems of the values that the site configured.
        """
        return checked_settings(kind, key, self.site.settings.get(key, {}), self.saved_settings.get(key))


@dataclass(frozen=True)
class Observer(Generic[Seen]):
    """Observes once for all checks that judge the same data.

    Args:
        key: name of its observation, unique within a gate, and of the file that it is saved in.
        result: the type that judges take.
        observe: makes the observation; what it returns is saved as JSON.
        restore: makes the result from the saved JSON, the run directory and the site.
        saved: the value object that is saved. Data that lacks a field of it is not restored.
    """

    key: str
    result: type[Seen]
    observe: Callable[[ObserveContext], Any]
    restore: Callable[[Any, Path, Site], Seen]
    saved: type[Any] | None = None


def observer_of(key: str, result: type[Seen], observe: Callable[[ObserveContext], Seen]) -> Observer[Seen]:
    """Return an observer whose result is saved as it is."""

    def restore(data: Any, _run_dir: Path, _site: Site) -> Seen:
        return from_plain(result, data, f"observation {key}")

    return Observer(key, result, observe, restore, saved=result)


@dataclass(frozen=True)
class Check(Generic[Seen]):
    """A complete check: its specification, its observer, and the pure judge of the observation."""

    spec: CheckSpec
    observer: Observer[Seen]
    judge: Callable[[Seen, JudgeContext], tuple[Outcome, ...]]
