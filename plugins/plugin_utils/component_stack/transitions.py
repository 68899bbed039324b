# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What an upgrade does to each component, from one recipe or from what is installed to another recipe. Pure.

The actions are those of gate 4's plan (plan.py), so the two cannot differ.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from ..clients.helm.helm import Release
from ..snapshot.model import Snapshot
from .chart_version import same_chart_version
from .installation import Installed
from .model import DIGEST_LABEL, MANAGED_BY, MANAGED_BY_LABEL, Action, Component, Step
from .owners import is_image, marks
from .plan import crossing_of, make_plan, not_recorded, upgrade_rules
from .versions import Support, Versions, supported_on

# The fields that make up the content of a component without chart.
_CONTENT = ("source", "path", "tag", "preManifestFiles", "manifestFiles", "values")


class Verdict(StrEnum):
    """What an upgrade does to a component.

    Attributes:
        ADDED: it is installed for the first time.
        REMOVED: the recipe does not have it any more.
        SAME: it has the same version; values are not compared.
        SAFE: gate 4 upgrades it, and no recorded rule applies between the versions.
        MANUAL: it can be done, but needs a person, or its work stops meanwhile.
        BLOCKED: gate 4 refuses it with the current settings.
        UNKNOWN: nothing is recorded, or what is installed is not known.
    """

    ADDED = "added"
    REMOVED = "removed"
    SAME = "same"
    SAFE = "safe"
    MANUAL = "manual"
    BLOCKED = "blocked"
    UNKNOWN = "unknown"

    @property
    def needs_person(self) -> bool:
        """Whether a person has to look before gate 4 is run."""
        return self in (Verdict.MANUAL, Verdict.BLOCKED, Verdict.UNKNOWN)


@dataclass(frozen=True, slots=True, kw_only=True)
class AtRisk:
    """Objects of others (`namespace/name`) that are removed with a component's CRDs, by CRD.

    `unknown` is why the objects, or more of them, are not known.
    """

    objects: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    unknown: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """What an upgrade does to one component, from version `found` to version `wanted`.

    `removed_first`: it is removed before the new version is installed. `support` is whether the project of the wanted
    version supports a requested version of Kubernetes, with `support_reason`; empty if none was requested. `release`
    is the release that is removed (`namespace/name`), and `at_risk` are the objects of others that go with it.
    """

    component: str
    verdict: Verdict
    found: str = ""
    wanted: str = ""
    reason: str = ""
    hint: str = ""
    sources: tuple[str, ...] = ()
    removed_first: bool = False
    release: str = ""
    at_risk: AtRisk | None = None
    support: str = ""
    support_reason: str = ""

    @property
    def settled(self) -> bool:
        """Whether gate 4 can be run without a look before."""
        return not self.verdict.needs_person and self.support != Support.NOT_MET


def components_in(recipe: Mapping[str, Any]) -> tuple[Component, ...]:
    """Return the enabled components of a recipe in the form of recipe/query.py, in deployment order."""
    entries = recipe["components"]
    names = dict.fromkeys([*(name for name in recipe["deploymentOrder"] if name in entries), *entries])
    return tuple(_component(name, entries[name]) for name in names if entries[name]["enabled"])


def _component(name: str, entry: Mapping[str, Any]) -> Component:
    built = entry.get("type") == "Kustomize"
    has_chart = not built and any(entry.get(key) for key in ("chart", "version", "source"))
    return Component(
        name=name,
        namespace=str(entry.get("namespace") or ""),
        chart=str(entry.get("chart") or name),
        version=str(entry.get("version") or "") if has_chart else "",
        source=str(entry.get("source") or ""),
        values=dict(entry["values"]) if has_chart else {key: entry.get(key) for key in _CONTENT},
        has_chart=has_chart,
    )


def installed_by(components: Collection[Component]) -> Installed:
    """Return what is installed after a run of ours installed these components and nothing else."""
    releases = {
        each.release: Release(each.name, each.namespace, 1, "deployed", _chart(each), each.version)
        for each in components
    }
    labels = {each.release: {MANAGED_BY_LABEL: MANAGED_BY, DIGEST_LABEL: each.digest} for each in components}
    return Installed(releases=releases, labels=labels, by_recipe=True)


def installed_in(snapshot: Snapshot) -> Installed:
    """Return what is installed by a snapshot. It has neither values nor the revisions that our runs made."""
    releases = {
        key: Release(key.partition("/")[2], key.partition("/")[0], 0, found.status, found.chart, found.version)
        for key, found in snapshot.releases.items()
    }
    ours = {
        key: {MANAGED_BY_LABEL: MANAGED_BY} for key, found in snapshot.releases.items() if found.owner == MANAGED_BY
    }
    return Installed(releases=releases, labels=ours)


def not_seen(components: Collection[Component], snapshot: Snapshot) -> dict[str, tuple[str, str]]:
    """Return why a snapshot does not show the state of a component, and what to do, by name."""
    found = {component.name: _not_seen(component, snapshot) for component in components}
    return {name: reported for name, reported in found.items() if reported is not None}


def _not_seen(component: Component, snapshot: Snapshot) -> tuple[str, str] | None:
    hint = "take a snapshot that sees it"
    if not snapshot.whole("releases"):
        observed = snapshot.collectors["releases"]
        return (
            f"what is installed is not known: {observed.reason or 'its releases were not looked at'}",
            observed.hint or hint,
        )
    if not component.has_chart:
        return "it is manifests, and a snapshot has Helm releases alone", "gate 4 in check mode tells (--check --diff)"
    charts = {release.chart for release in snapshot.releases.values()}
    known = marks().components.get(component.name)
    if component.release in snapshot.releases or _chart(component) in charts or not (known and known.images):
        return None
    observed, none = snapshot.collectors["workloads"], "there is no Helm release of it"
    if not snapshot.whole("workloads"):
        return f"{none}, and whether something else runs it is not known: {observed.reason}", observed.hint or hint
    if there := runs_without_release(component.name, snapshot):
        return f"{none}, and {there} runs its image: whose that is, a snapshot does not say", "look whose it is"
    return None


def runs_without_release(component: str, snapshot: Snapshot) -> str:
    """Return the Deployment of a component that belongs to no Helm release. Empty if there is none.

    Argo CD renders charts itself and leaves no release (docs/user-guide/helm.md: "Helm is only used to inflate charts
    with helm template"). Neither do OLM and add-ons of a cloud.
    """
    known = marks().components.get(component)
    images = known.images if known else ()
    for title, workload in sorted(snapshot.workloads.items()):
        runs = (reference for listed in workload.images.values() for reference in listed)
        if title.startswith("Deployment ") and any(is_image(image, wanted) for image in runs for wanted in images):
            return title
    return ""


def transitions(
    components: Collection[Component],
    installed: Installed,
    unseen: Mapping[str, tuple[str, str]] | None = None,
    kubernetes: str = "",
    recorded: Versions | None = None,
) -> tuple[Transition, ...]:
    """Return what the upgrade does to each component: those of the recipe in order, then those that it drops.

    Args:
        components: the wanted components.
        installed: what is installed.
        unseen: by component, why its state is not known, and what to do about that (not_seen).
        kubernetes: requested version of Kubernetes, empty for none.
        recorded: records of versions.

    Raises:
        InputError: the version of Kubernetes is invalid.
    """
    found = []
    for component, step in zip(components, make_plan(components, installed).steps, strict=True):
        made = _unseen(component, unseen[component.name]) if unseen and component.name in unseen else None
        made = made or _transition(component, step, installed)
        if kubernetes and component.version:
            record = (recorded or Versions()).components.get(component.name)
            support, why = supported_on(record, component.version, kubernetes)
            made = replace(made, support=support.value, support_reason=why)
        found.append(made)
    return (*found, *_removed(components, installed))


def _unseen(component: Component, why: tuple[str, str]) -> Transition:
    reason, hint = why
    made = Transition(component=component.name, verdict=Verdict.UNKNOWN, wanted=component.version)
    return replace(made, reason=reason, hint=hint)


def _transition(component: Component, step: Step, installed: Installed) -> Transition:
    made = Transition(
        component=component.name,
        verdict=Verdict.UNKNOWN,
        found=step.found_version,
        wanted=step.wanted_version,
        reason=step.reason,
        hint=step.hint,
    )
    if step.action is Action.INSTALL:
        return replace(made, verdict=Verdict.ADDED)
    if step.action in (Action.DOWNGRADE, Action.REFUSE):
        return replace(made, verdict=Verdict.BLOCKED)
    release = installed.releases[component.release]
    crossing = crossing_of(component.name, release.chart_version, component.version)
    if step.action is Action.SKIPS:
        made = replace(made, sources=crossing.sources)
        if not crossing.removed:
            return replace(made, verdict=Verdict.BLOCKED)
        return replace(made, verdict=Verdict.MANUAL, removed_first=True, release=component.release)
    if release.status != "deployed":
        return replace(made, hint=step.hint or f"see what runs: helm history {release.name} -n {release.namespace}")
    if component.has_chart and release.chart != _chart(component):
        reason = f"release {component.release} is of chart {release.chart or '(not known)'}, not {_chart(component)}"
        return replace(made, reason=reason, hint="look what it is, and what its project says of going on from it")
    if step.action is Action.UNCHANGED or (component.has_chart and _same_version(component, release)):
        # The digest also covers the version as it is written, and a snapshot has no digest.
        known = DIGEST_LABEL in installed.labels[component.release] and release.chart_version == component.version
        reported = step.reason if known else ""
        return replace(made, verdict=Verdict.SAME, reason=reported)
    if step.replaced:
        hint = "choose a time at which its pods may stop: gate 4 deletes these, then upgrades"
        return replace(made, verdict=Verdict.MANUAL, hint=hint, sources=crossing.sources)
    if not component.has_chart:
        reason = "its manifests differ, and nothing is recorded about their upgrades"
        return replace(made, reason=reason, hint="see what differs: gpufleet diff")
    if why := not_recorded(component.name, step.found_version, step.wanted_version):
        return replace(made, reason=why, hint="read what its project says of the versions between")
    sources = tuple(dict.fromkeys(rule.source for rule in upgrade_rules().components[component.name]))
    return replace(made, verdict=Verdict.SAFE, reason="nothing that is recorded lies between", sources=sources)


def _same_version(component: Component, release: Release) -> bool:
    return bool(component.version) and same_chart_version(release.chart_version, component.version)


def _removed(components: Collection[Component], installed: Installed) -> list[Transition]:
    """Return our releases that are no component of the recipe. One whose component only moves is reported there."""
    named = {component.release for component in components}
    has = "the other recipe has it" if installed.by_recipe else "a run of ours installed it"
    moved = {_chart(each) for each in components if each.has_chart and each.release not in installed.releases}
    return [
        Transition(
            component=release.name,
            verdict=Verdict.REMOVED,
            found=release.chart_version,
            reason=f"{has}, and the recipe does not have it: gate 4 leaves it where it is",
            hint="take it away with the tasks file component (gpufleet_component_state: absent), or leave it",
            release=key,
        )
        for key, release in sorted(installed.releases.items())
        if installed.is_ours(key) and key not in named and not (release.chart_version and release.chart in moved)
    ]


def _chart(component: Component) -> str:
    return component.chart.rpartition("/")[2]
