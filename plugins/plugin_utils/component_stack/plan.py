# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""From what should be and what is to what is to be done. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from ..clients.helm.helm import Release
from ..constraint.version import parse_version
from ..outcome.errors import InputError
from .model import DIGEST_LABEL, MANAGED_BY, MANAGED_BY_LABEL, REVISION_LABEL, Action, Component, Plan, Step

# What stands for the version of a component that has no chart.
_MANIFESTS = "manifests"


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """What is installed: helm's releases, and the labels of each release by `namespace/name`.

    A component that is only manifests counts as a release, and a release whose manifests are not applied as the recipe
    says is `incomplete`. `foreign` are objects of manifests that somebody else made; `drift` is what
    was changed by hand in a release of ours.
    """

    releases: Mapping[str, Release] = field(default_factory=dict)
    labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    foreign: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    drift: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def is_ours(self, key: str) -> bool:
        """Whether we installed or adopted that release."""
        return self.labels.get(key, {}).get(MANAGED_BY_LABEL) == MANAGED_BY

    def is_our_revision(self, key: str) -> bool:
        """Whether the newest revision of that release is one that we made."""
        return self.is_ours(key) and self.labels[key].get(REVISION_LABEL) == str(self.releases[key].revision)


def make_plan(
    components: Collection[Component],
    installed: Installed,
    *,
    adopt: Collection[str] = (),
    allow_downgrade: bool = False,
) -> Plan:
    """Return what is to be done about each component.

    Args:
        components: what should be, in deployment order.
        installed: what is.
        adopt: names of components whose foreign release we may take over.
        allow_downgrade: whether an older version than the installed one may be put in its place.
    """
    steps = []
    for component in components:
        step = _step(component, installed, adopt, allow_downgrade)
        steps.append(replace(step, take_over=component.name in adopt))
    return Plan(steps=tuple(steps))


def _step(component: Component, installed: Installed, adopt: Collection[str], allow_downgrade: bool) -> Step:
    release = installed.releases.get(component.release)
    if release is None:
        return _absent(component, installed)
    if release.is_pending and installed.is_our_revision(component.release):
        reason = f"release {component.release} is {release.status} since a run of ours died while helm worked on it"
        return _made(component, Action.RECOVER, release, reason)
    if release.is_pending:
        reason = f"release {component.release} is {release.status}: another helm works on it or died while it did"
        hint = f"helm history {component.name} -n {component.namespace}; then helm rollback {component.name} " + (
            f"-n {component.namespace}, or helm uninstall if it has only one revision"
        )
        return _made(component, Action.PENDING, release, reason, hint)
    if not installed.is_ours(component.release) and component.name not in adopt:
        reason = f"release {component.release} was installed by somebody else and is left alone"
        return _made(component, Action.FOREIGN, release, reason, f"to take it over, add {component.name} to adopt")
    if not allow_downgrade and _is_older(component.version, release.chart_version):
        reason = f"the recipe wants {component.version}, older than the installed {release.chart_version}"
        return _made(component, Action.DOWNGRADE, release, reason, "correct the recipe, or set allow_downgrade")
    return _ours(component, installed, release, component.name in adopt)


def _ours(component: Component, installed: Installed, release: Release, take_over: bool) -> Step:
    foreign = installed.foreign.get(component.release, ())
    if foreign and take_over:
        return _made(component, Action.ADOPT, release, f"{', '.join(foreign)} taken over as told")
    if not installed.is_ours(component.release):
        return _made(component, Action.ADOPT, release, "taken over as told")
    if release.status != "deployed":
        return _made(component, Action.UPGRADE, release, f"the release is {release.status}")
    if release.chart_version != component.version:
        return _made(component, Action.UPGRADE, release, "another version")
    if installed.labels[component.release].get(DIGEST_LABEL) != component.digest:
        return _made(component, Action.UPGRADE, release, "other values")
    if drift := installed.drift.get(component.release):
        more = f" and {len(drift) - 3} more" if len(drift) > 3 else ""
        return _made(component, Action.UPGRADE, release, f"changed by hand: {', '.join(drift[:3])}{more}")
    if foreign:
        reason = f"{', '.join(foreign)} was made by somebody else and is left alone"
        return _made(component, Action.UNCHANGED, release, reason, f"to take it over, add {component.name} to adopt")
    return _made(component, Action.UNCHANGED, release)


def _absent(component: Component, installed: Installed) -> Step:
    chart = component.chart.rpartition("/")[2]
    # Two GPU operators on one cluster break both, whatever their releases are called.
    others = installed.releases.values() if component.has_chart else ()
    other = next((release for release in others if release.chart == chart), None)
    if other is None:
        return _made(component, Action.INSTALL, None)
    where = f"{other.namespace}/{other.name}"
    reason = f"chart {chart} is already installed as release {where} and is left alone"
    hint = f"set the component's name and namespace to {where} in the recipe and adopt it, or uninstall that release"
    return _made(component, Action.FOREIGN, other, reason, hint)


def _made(component: Component, action: Action, release: Release | None, reason: str = "", hint: str = "") -> Step:
    return Step(
        component=component.name,
        namespace=component.namespace,
        action=action,
        wanted_version=component.version or _MANIFESTS,
        found_revision=release.revision if release else 0,
        found_version=(release.chart_version or _MANIFESTS) if release else "",
        reason=reason,
        hint=hint,
    )


def _is_older(wanted: str, found: str) -> bool:
    try:
        return parse_version(wanted).compare(parse_version(found)) < 0
    except InputError:
        # Versions that cannot be ordered are told apart, never ranked.
        return False
