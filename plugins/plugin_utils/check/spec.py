# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a check is: its specification, what it is given, and how it answers."""

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
from .kit.settings_layers import checked_settings, resolved, settings_for

if TYPE_CHECKING:
    from ..hardware.sku import Sku
    from ..verdict.baseline import AcceptedBaseline

T = TypeVar("T")
Seen = TypeVar("Seen")
_NAMES = 8


class Disturbance(str, Enum):
    """What a check may do to the cluster, the least first. Pods without GPUs take nothing from other tests, and their
    result depends on no load: they may be there beside those of another check. Jobs go through Slurm."""

    NOTHING = "nothing"
    HOST_COMMAND = "host command"
    PLAIN_PODS = "pods without GPUs"
    TEST_PODS = "test pods"
    TEST_JOBS = "test jobs"

    @property
    def makes_pods(self) -> bool:
        """Whether it takes a run that holds the cluster, or its hosts."""
        return self in (Disturbance.PLAIN_PODS, Disturbance.TEST_PODS, Disturbance.TEST_JOBS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a check is asked: the site, the resolved recipe (None: not known), and the names of its components (None:
    not known yet, and nothing is left out for what the recipe lacks)."""

    site: Site
    recipe: Mapping[str, Any] | None = None
    components: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What a check is not asked about: names of hosts or of its subjects, None for all of it, and why; no reason where
    there is nothing to say."""

    names: frozenset[str] | None
    reason: str = ""


class Applies(ABC):
    """A rule that says of what a check is asked."""

    __slots__ = ()

    @abstractmethod
    def left_out(self, subjects: tuple[str, ...], place: Place) -> LeftOut | None:
        """Return what is left out there, None for nothing; `subjects` are the names of all that it could be asked."""


@dataclass(frozen=True, slots=True)
class Capabilities(Applies):
    """A site with all of these words (recipes/site_profiles.yaml); `infiniband|roce` is one of several."""

    words: tuple[str, ...]

    def missing(self, site: Site) -> tuple[str, ...]:
        """Return the words that the site lacks."""
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
    """A recipe with one of these components."""

    names: tuple[str, ...]

    def left_out(self, subjects: tuple[str, ...], place: Place) -> LeftOut | None:
        del subjects
        if place.components is None or set(self.names) & set(place.components):
            return None
        return LeftOut(None, f"needs {' or '.join(self.names)}: the recipe has none")


@dataclass(frozen=True, slots=True)
class Promised(Applies):
    """The subjects of which the site or its recipe promises something; `unasked` says why there is none."""

    names: Callable[[Site, Mapping[str, Any] | None], tuple[str, ...]]
    unasked: str

    def left_out(self, subjects: tuple[str, ...], place: Place) -> LeftOut | None:
        if place.components is None:
            return None
        promised = self.names(place.site, place.recipe)
        return LeftOut(frozenset(subjects).difference(promised)) if promised else LeftOut(None, self.unasked)


@dataclass(frozen=True, slots=True)
class Equals(Applies):
    """Hosts that are measured with each other: the only host of its SKU is left out."""

    def left_out(self, subjects: tuple[str, ...], place: Place) -> LeftOut | None:
        del subjects
        alone = place.site.without_equal
        hosts = ", ".join(f"{host.name} is the only {host.sku}" for host in alone)
        reason = f"needs two hosts of one SKU: {hosts} here"
        return LeftOut(frozenset(host.name for host in alone), reason) if alone else None


@dataclass(frozen=True, slots=True)
class Bmc(Applies):
    """Hosts whose BMC the inventory names."""

    def left_out(self, subjects: tuple[str, ...], place: Place) -> LeftOut | None:
        del subjects
        unnamed = [host.name for host in place.site.in_scope if not host.bmc]
        reason = f"needs the address of the BMC: {first_of(unnamed, _NAMES)} without gpufleet_bmc"
        return LeftOut(frozenset(unnamed), reason) if unnamed else None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckSpec:
    """One check: one question with one answer per subject.

    Args:
        id: stable id, lower-case words and hyphens (`gpu-census`).
        gate: gate that declares it; see `needs_driver`.
        phase: phase of a validation that it belongs to (outcome/gates.py); empty: that of its gate.
        title: what it proves, a few words, for reports.
        per: kind of the subjects that must each get an answer.
        disturbs: what its observation does to the cluster.
        duration_s: typical seconds for the observation, for the plan.
        applies: the rules that say of what it is asked, those that leave all of it out first: `(needs("kubernetes"),)`.
        only_on: orchestrator of the sites that have this check; elsewhere nothing is said of it. Empty: every site.
        needs_driver: it needs the GPU driver: declared in gate nodes if the host owns it, in gpu_stack if the
            operator does.
        compares: it judges a host by what the others have, so that its pass among some says nothing of all.
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
        """Return the phase of a validation that has this check at that site, empty for one of the gates before, or
        that sites of this kind do not have."""
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
    """What a judgement may use beside the observation: only values, no connection, no clock.

    `gate` is the gate being judged; `hardware` are the facts of every SKU by its name; `recipe` is the resolved recipe
    (plain data, None before gate 4); `today` is the day of the run; `saved_settings` are the settings that were saved
    with the run, by gate or check id and name; `shared` has by host what it may share with others (rack, leaf, driver;
    collect/host_facts.py), in gates that compare hosts; `passed_phases` are phases of a validation that opened;
    `baseline` are the figures that were accepted when the run began, None in runs of before there were any;
    `in_service`: the nodes were accepted before and work for users, as in the passive checks of a cycle.
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
        """Return the settings of a gate or check, those of one SKU where a SKU states its own.

        Raises:
            InputError: a value that was saved or stated is wrong.
        """
        found = self._typed.get((key, sku))
        if found is None:
            own = self.hardware[sku].settings.get(key) if sku in self.hardware else None
            stated, saved = self.site.settings.get(key, {}), self.saved_settings.get(key)
            found = self._typed[key, sku] = settings_for(kind, key, stated, saved, own)
        return found

    def stated(self, key: str, name: str) -> Any:
        """Return the plain value of a setting of another gate in this run, None if there is no such setting."""
        return resolved(key, self.saved_settings.get(key), self.site.settings.get(key, {})).get(name)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObserveContext:
    """What an observer may use: the site, the run directory, credentials by name, progress.

    `connections` holds non-secret connection settings (`kubeconfig` path, `context`); `evidence` is where whole
    texts are kept; `saved_settings` are those of settings.json, by gate or check id and name; `holder` is the run that
    holds the cluster (workload/lease.py), empty outside of a run; `cluster_uid` is the UID of the cluster
    behind the connection, None for a gate that asks none; in `check_mode` this run has changed nothing and tests
    nothing; `roll` is the roll whose cordoned nodes are tested before they are given back, empty outside of one.
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
            ProblemsError: everything that is wrong with what the site states.
        """
        return checked_settings(kind, key, self.site.settings.get(key, {}), self.saved_settings.get(key))


@dataclass(frozen=True)
class Observer(Generic[Seen]):
    """Looks once for all checks that judge the same thing.

    Args:
        key: name of its observation, unique within a gate, and of the file that it is saved in.
        result: what judges get.
        observe: looks; what it returns is saved as JSON.
        restore: makes the result from the saved JSON, the run directory and the site.
        saved: the value object that is saved; what lacks a field of it is not restored.
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
    """A check as a whole: its specification, the observer that looks for it, and its pure judge of what was seen."""

    spec: CheckSpec
    observer: Observer[Seen]
    judge: Callable[[Seen, JudgeContext], tuple[Outcome, ...]]
