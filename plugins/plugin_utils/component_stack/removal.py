# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""From what is installed to the steps of a removal: what is removed, and in which order. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..clients.helm.helm import Release
from ..clients.kube.objects import CRDS, NAMESPACES
from .installation import Installed
from .model import Component
from .workloads import release_of

Json = dict[str, Any]
# Namespaces that belong to no component.
_OF_THE_CLUSTER = ("default", "gpufleet-system")
KEEP_ANNOTATION = "helm.sh/resource-policy"
_STAYS = ("foreign", "refuse")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ref:
    """One object to delete."""

    api_version: str
    kind: str
    name: str
    namespace: str = ""

    @property
    def title(self) -> str:
        """Its name in messages."""
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Holdings:
    """What a component has in the cluster.

    `custom` are custom resources of its release and its manifests. `after` and `before` are its other manifests that
    are ours. `crds` are the CRDs that it installed. `strangers` is by CRD the number of objects that belong to others.
    """

    custom: tuple[Ref, ...] = ()
    after: tuple[Ref, ...] = ()
    before: tuple[Ref, ...] = ()
    crds: tuple[str, ...] = ()
    strangers: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """What is removed of one component, in this order: `custom`, `after`, the release, `before`, `crds`.

    `action` is remove, absent, foreign (not ours, left alone) or refuse. `depends_on_it` are the components that must
    be gone first. `keeps_crds` is whether CRDs stay that helm would remove with the release.
    """

    component: str
    namespace: str
    action: str
    reason: str = ""
    hint: str = ""
    release: str = ""
    version: str = ""
    custom: tuple[Ref, ...] = ()
    after: tuple[Ref, ...] = ()
    before: tuple[Ref, ...] = ()
    crds: tuple[str, ...] = ()
    depends_on_it: tuple[str, ...] = ()
    keeps_crds: bool = True


def plan_removal(
    components: Collection[Component],
    installed: Installed,
    holdings: Mapping[str, Holdings],
    *,
    remove_crds: bool = False,
) -> tuple[Removal, ...]:
    """Return the steps of a removal: our releases that are not in the recipe, then its components in reverse order.

    Args:
        components: components of the recipe, in deployment order.
        installed: what is installed.
        holdings: what each component has, by name.
        remove_crds: whether CRDs are removed as well, and with them every object of their kinds.
    """
    named = {component.release for component in components}
    others = [
        release
        for key, release in sorted(installed.releases.items())
        if installed.is_ours(key) and key not in named and release.chart
    ]
    steps = [_without_recipe(release) for release in others]
    for component in reversed(list(components)):
        needed_by = tuple(entry.name for entry in components if component.name in entry.depends_on)
        have = holdings.get(component.name, Holdings())
        steps.append(_one(component, installed, have, remove_crds, needed_by))
    return tuple(steps)


def _without_recipe(release: Release) -> Removal:
    return Removal(
        component=release.name,
        namespace=release.namespace,
        action="remove",
        reason="ours, and no component of this recipe",
        release=f"{release.namespace}/{release.name}",
        version=release.chart_version,
    )


def _one(
    component: Component, installed: Installed, have: Holdings, remove_crds: bool, needed_by: tuple[str, ...]
) -> Removal:
    release = installed.releases.get(component.release) if component.has_chart else None
    own = (*have.custom, *have.after, *have.before)

    def made(action: str, reason: str = "", hint: str = "") -> Removal:
        takes = action == "remove"
        return Removal(
            component=component.name,
            namespace=component.namespace,
            action=action,
            reason=reason,
            hint=hint,
            release=component.release if takes and release else "",
            version=release.chart_version if release else "",
            custom=have.custom if takes else (),
            after=have.after if takes else (),
            before=have.before if takes else (),
            crds=have.crds if takes and remove_crds else (),
            depends_on_it=needed_by,
            keeps_crds=not remove_crds,
        )

    if release and not installed.is_ours(component.release):
        return made("foreign", f"release {component.release} is not ours and is left alone")
    worked_on = release and release.is_pending and release.status != "uninstalling"
    if release and worked_on and not installed.is_our_revision(component.release):
        reason = f"release {component.release} is {release.status}: another helm works on it or died while it did"
        return made("refuse", reason, f"helm history {component.name} -n {component.namespace}")
    if not release and not own and not (remove_crds and have.crds):
        return made("absent")
    reported = ", ".join(f"{count} of {name}" for name, count in sorted(have.strangers.items()) if count)
    word = "go with their definitions" if remove_crds else "stay, with nothing that looks after them"
    return made("remove", f"objects that are not ours {word}: {reported}" if reported else "")


def custom_refs(bodies: Iterable[Json], groups: Collection[str], namespace: str) -> tuple[Ref, ...]:
    """Return the custom resources among objects. Those that helm is to keep are left out.

    Args:
        bodies: the objects as in their manifests.
        groups: API groups of CRDs.
        namespace: namespace of the release, for objects without one.
    """
    return tuple(
        ref_of(body, namespace)
        for body in bodies
        if str(body.get("apiVersion", "")).rpartition("/")[0] in groups and not _kept(body)
    )


def ref_of(body: Mapping[str, Any], namespace: str) -> Ref:
    """Return the reference to an object. `namespace` is that of its component."""
    metadata = body["metadata"]
    return Ref(
        api_version=str(body["apiVersion"]),
        kind=str(body["kind"]),
        name=str(metadata["name"]),
        namespace=str(metadata.get("namespace") or namespace),
    )


def is_definition(body: Mapping[str, Any]) -> bool:
    """Tell whether an object is removed only on request: a CRD or a namespace."""
    return body.get("kind") in (CRDS.kind, NAMESPACES.kind)


def _kept(body: Mapping[str, Any]) -> bool:
    annotations = (body.get("metadata") or {}).get("annotations") or {}
    return annotations.get(KEEP_ANNOTATION) == "keep"


def definitions_in(bodies: Iterable[Json]) -> tuple[str, ...]:
    """Return the names of the CRDs among objects that helm removes with its release."""
    return tuple(str(body["metadata"]["name"]) for body in bodies if body.get("kind") == CRDS.kind and not _kept(body))


def is_own(obj: Mapping[str, Any], release: str) -> bool:
    """Tell whether an object belongs to this release or component (`namespace/name`)."""
    return release_of(obj) == release


def removable_namespaces(removals: Iterable[Removal], components: Collection[Component]) -> tuple[str, ...]:
    """Return the namespaces of removed components that no remaining component shares."""
    stays = {entry.namespace for entry in removals if entry.action in ("foreign", "refuse")}
    named = {name for component in components for name in component.namespaces}
    return tuple(sorted(n for n in named - stays if n not in _OF_THE_CLUSTER and not n.startswith("kube-")))


def removal_diff(removals: Iterable[Removal], namespaces: Iterable[str]) -> dict[str, str]:
    """Return the diff for `--diff`: the objects that exist and are removed, one a line."""
    lines: list[str] = []
    for entry in removals:
        lines += [f"{entry.component}: {ref.title}" for ref in (*entry.custom, *entry.after)]
        lines += [f"{entry.component}: release {entry.release} {entry.version}"] if entry.release else []
        lines += [f"{entry.component}: {ref.title}" for ref in entry.before]
        lines += [f"{entry.component}: {CRDS.kind} {name}" for name in entry.crds]
    lines += [f"Namespace {name}" for name in namespaces]
    text = "\n".join(lines) + "\n" if lines else ""
    return {"before": text, "after": "", "before_header": "of this recipe", "after_header": "removed"}


def removal_rows(removals: Iterable[Removal]) -> list[dict[str, Any]]:
    """Return one row for each component."""
    return [
        {
            "component": entry.component,
            "action": entry.action,
            "reason": f"{entry.reason}; {entry.hint}" if entry.hint else entry.reason,
            "objects": [ref.title for ref in (*entry.custom, *entry.after, *entry.before)]
            + [f"{CRDS.kind} {name}" for name in entry.crds],
        }
        for entry in removals
    ]


def removal_lines(removals: Collection[Removal], namespaces: Collection[str]) -> list[str]:
    """Return the last lines of a run that only shows what would be removed."""
    goes = [entry.component for entry in removals if entry.action == "remove"]
    lines = [f"{entry.action:8} {entry.component}: {entry.reason}" for entry in removals if entry.action in _STAYS]
    lines.append(f"would go {', '.join((*goes, *(f'namespace {name}' for name in namespaces))) or 'nothing'}")
    return [*lines, *kept_lines(removals)]


def kept_lines(removals: Collection[Removal]) -> list[str]:
    """Return the lines on what is left of removed components."""
    reported = [f"{entry.component}: {entry.reason}" for entry in removals if entry.action == "remove" and entry.reason]
    keeps = any(entry.action == "remove" and entry.release and entry.keeps_crds for entry in removals)
    hint = "-e gpufleet_remove_crds=true takes them away, with every object of their kinds"
    return [f"note     {text}" for text in reported] + ([f"stays    definitions; {hint}"] if keeps else [])
