# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The components of a resolved recipe, and what is to be done about each, as plain values."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from ..outcome.errors import InputError, ProblemsError
from ..runtime.redaction import redact_data
from .manifest import BUILT, Manifest, manifests_of

MANAGED_BY_LABEL = "gpufleet.io/managed-by"
MANAGED_BY = "gpufleet.bringup"
DIGEST_LABEL = "gpufleet.io/digest"
# The revision that we were about to make. An upgrade by hand keeps the label and makes another revision.
REVISION_LABEL = "gpufleet.io/revision"
# Result of the installation in the run directory: the installer writes it, gate gpu_stack reads it.
INSTALL_RESULT = "component_stack.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """One component of the recipe: a Helm chart with its merged values, manifests before and after it, or only these.

    `depends_on` are the components that have to be ready before it.
    """

    name: str
    namespace: str
    chart: str
    version: str
    source: str
    values: dict[str, Any] = field(default_factory=dict)
    depends_on: tuple[str, ...] = ()
    manifests: tuple[Manifest, ...] = ()
    has_chart: bool = True

    @property
    def namespaces(self) -> frozenset[str]:
        """The namespaces in which its workloads may be."""
        named = (manifest.body["metadata"].get("namespace") for manifest in self.manifests)
        return frozenset((self.namespace, *(str(name) for name in named if name)))

    @property
    def release(self) -> str:
        """Helm's key of its release, `namespace/name`. Manifests without chart have the same key."""
        return f"{self.namespace}/{self.name}"

    @property
    def digest(self) -> str:
        """Digest over chart, version and values. The same digest means that the chart needs no change.

        Secrets are left out: it is a label that any user may read, and a short secret could be guessed from it.
        """
        content = json.dumps([self.chart.rpartition("/")[2], self.version, redact_data(self.values)], sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()[:32]


class Action(str, Enum):
    """What is to be done about a component. `foreign` is used as it is, `refuse` waits for a choice of the site."""

    INSTALL = "install"
    UPGRADE = "upgrade"
    ADOPT = "adopt"
    RECOVER = "recover"
    UNCHANGED = "unchanged"
    FOREIGN = "foreign"
    REFUSE = "refuse"
    PENDING = "pending"
    DOWNGRADE = "downgrade"
    SKIPS = "skips"

    @property
    def changes(self) -> bool:
        """Whether the action changes the cluster."""
        return self in (Action.INSTALL, Action.UPGRADE, Action.ADOPT, Action.RECOVER)

    @property
    def refused(self) -> bool:
        """Whether a person has to decide before anything can go on."""
        return self in (Action.PENDING, Action.DOWNGRADE, Action.REFUSE, Action.SKIPS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What is to be done about one component, and why.

    `owner` is the owner of the installation that is used in its place, `found_release` its helm release
    (`namespace/name`, empty for none) and `workloads` its controllers (`Deployment namespace/name`). `replaced` are
    workloads that are deleted before the upgrade, because helm cannot change them (`Deployment name`). `by_hand` is
    what was changed by hand in the release (drift.py).
    """

    component: str
    namespace: str
    action: Action
    wanted_version: str
    found_version: str = ""
    found_revision: int = 0
    take_over: bool = False
    reason: str = ""
    hint: str = ""
    owner: str = ""
    found_release: str = ""
    workloads: tuple[str, ...] = ()
    replaced: tuple[str, ...] = ()
    by_hand: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The steps in deployment order."""

    steps: tuple[Step, ...]
    schema_version: int = 1

    @property
    def changes(self) -> bool:
        """Whether any step changes the cluster."""
        return any(step.action.changes for step in self.steps)

    def step(self, component: str) -> Step:
        """Return the step for a component."""
        return next(step for step in self.steps if step.component == component)


def components_of(recipe: Mapping[str, Any]) -> tuple[Component, ...]:
    """Return the recipe's components in deployment order.

    Raises:
        ProblemsError: a component that we cannot install, an unknown or circular dependency, or an invalid order.
    """
    problems: list[InputError] = []
    found = [_component(entry, problems) for entry in recipe.get("componentRefs") or []]
    by_name = {component.name: component for component in found if component is not None}
    order = [str(name) for name in recipe.get("deploymentOrder") or []]
    if not problems:
        problems += _order_problems(by_name, order)
    if not found and not problems:
        problems.append(InputError("recipe", "has no components.", "resolve a recipe for this cluster"))
    if problems:
        raise ProblemsError("recipe", tuple(problems))
    return tuple(by_name[name] for name in order)


def _component(entry: Mapping[str, Any], problems: list[InputError]) -> Component | None:
    name = str(entry.get("name", ""))
    subject = f"component {name or '(no name)'}"
    kind = str(entry.get("type") or "Helm")
    built = kind == "Kustomize"
    if built and not any(item.get("when") == BUILT for item in entry.get("manifests") or ()):
        hint = "resolve the recipe with run_dir (preflight does), which builds it with kustomize, kubectl or the mirror"
        problems.append(InputError(subject, "is of type Kustomize and was not built.", hint))
        return None
    known = len(problems)
    manifests = manifests_of(entry, subject, problems)
    if len(problems) > known:
        return None
    only_files = bool(entry.get("manifests")) and not any(entry.get(key) for key in ("chart", "version", "source"))
    has_chart = not (built or only_files)
    missing = [key for key in ("name", "namespace", "version")[: 3 if has_chart else 2] if not entry.get(key)]
    if missing:
        problems.append(InputError(subject, f"lacks {', '.join(missing)}.", "resolve the recipe again"))
        return None
    return Component(
        name=name,
        namespace=str(entry["namespace"]),
        chart=str(entry.get("chart") or name),
        # Manifests have no version; their content is compared.
        version=str(entry.get("version") or "") if has_chart else "",
        source=str(entry.get("source") or ""),
        values=dict(entry.get("values") or {}),
        depends_on=tuple(str(ref) for ref in entry.get("dependencyRefs") or ()),
        manifests=manifests,
        has_chart=has_chart,
    )


def _order_problems(by_name: Mapping[str, Component], order: list[str]) -> list[InputError]:
    problems = []
    if sorted(order) != sorted(by_name):
        text = (
            f"deploymentOrder names {', '.join(order) or 'nothing'}; there are {', '.join(sorted(by_name)) or 'none'}."
        )
        return [InputError("recipe", text, "resolve the recipe again")]
    place = {name: number for number, name in enumerate(order)}
    for component in by_name.values():
        for needed in component.depends_on:
            if needed not in place:
                problems.append(InputError(f"component {component.name}", f"depends on {needed}, which is not there."))
            elif place[needed] >= place[component.name]:
                text = f"depends on {needed}, which comes later: a cycle or a wrong order."
                problems.append(InputError(f"component {component.name}", text, "correct dependencyRefs"))
    return problems
