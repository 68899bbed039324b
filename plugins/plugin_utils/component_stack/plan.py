# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""From what should be and what is to what is to be done. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cache

from ..clients.helm.helm import Release
from ..constraint.evaluate import Version, parse_version
from ..outcome.errors import InputError
from ..outcome.wording import first_of
from ..runtime.files import RECIPES
from ..runtime.strict import decode, read_yaml
from .chart_version import same_chart_version
from .installation import Installed
from .model import DIGEST_LABEL, Action, Component, Plan, Step
from .owners import Existing

# Rules for going from one version of a component to another: recipes/upgrades.yaml. Pure.


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule. The head of the file explains the fields."""

    source: str
    one_minor_at_a_time: bool = False
    releases: tuple[str, ...] = ()
    removed_below: str = ""
    at: str = ""
    replaced: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossing:
    """What a change of version needs.

    Args:
        skipped: minor versions to go through (`1.18`).
        removed: the component has to be removed first.
        replaced: workloads that are replaced (`Deployment name`).
        sources: the sources of these rules.
    """

    skipped: tuple[str, ...] = ()
    removed: bool = False
    replaced: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Upgrades:
    """The whole file: rules by component."""

    components: dict[str, tuple[Rule, ...]]


@cache
def upgrade_rules() -> Upgrades:
    """Read the rules.

    Raises:
        InputError: the file does not have the expected form.
    """
    path = RECIPES / "upgrades.yaml"
    return decode(Upgrades, read_yaml(path), str(path))


def crossing_of(component: str, found: str, wanted: str) -> Crossing:
    """Return what the change of a component from one version to another needs. Nothing where no rule applies.

    Args:
        component: its name.
        found: the installed version, as charts write it; a version that cannot be ordered needs nothing.
        wanted: the recipe's version.
    """
    old, new = _version(found), _version(wanted)
    if old is None or new is None:
        return Crossing()
    skipped: tuple[str, ...] = ()
    replaced: tuple[str, ...] = ()
    removed = False
    sources: list[str] = []
    for rule in upgrade_rules().components.get(component, ()):
        between = _minors_between(old, new) if rule.one_minor_at_a_time else _releases_between(old, new, rule.releases)
        breaks = bool(rule.removed_below) and _breaks(old, new, parse_version(rule.removed_below))
        crossed = rule.replaced if rule.at and _crosses(old, new, parse_version(rule.at)) else ()
        skipped, replaced, removed = (*skipped, *between), (*replaced, *crossed), removed or breaks
        sources += [rule.source] if between or crossed or breaks else []
    return Crossing(skipped=skipped, removed=removed, replaced=replaced, sources=tuple(sources))


def not_recorded(component: str, found: str, wanted: str) -> str:
    """Return why a change to which no rule applies is not known to be safe. Empty where rules were applied."""
    if not upgrade_rules().components.get(component):
        return "nothing is recorded about its upgrades"
    return "" if _version(found) and _version(wanted) else f"{found} and {wanted} cannot be put in an order"


def _minors_between(old: Version, new: Version) -> tuple[str, ...]:
    """Return the minor versions between two versions of one major. A downgrade has none."""
    major, minor, _patch = old.padded
    if new.padded[0] != major:
        return ()
    return tuple(f"{major}.{number}" for number in range(minor + 1, new.padded[1]))


def _releases_between(old: Version, new: Version, releases: tuple[str, ...]) -> tuple[str, ...]:
    """Return the releases (`25.3`) after that of the old version and before that of the new one."""
    first, last = old.padded[:2], new.padded[:2]
    return tuple(text for text in releases if first < parse_version(text).padded[:2] < last)


def _breaks(old: Version, new: Version, below: Version) -> bool:
    """Tell whether the minor version changes, in either direction, and one of both is below this version."""
    return old.padded[:2] != new.padded[:2] and (old.compare(below) < 0 or new.compare(below) < 0)


def _crosses(old: Version, new: Version, at: Version) -> bool:
    return (old.compare(at) < 0) != (new.compare(at) < 0)


def _version(text: str) -> Version | None:
    try:
        return parse_version(text)
    except InputError:
        return None


# The version of a component without chart.
_MANIFESTS = "manifests"
# Variables of users. The module's options have no prefix.
_DOWNGRADE = "gpufleet_gpu_stack_allow_downgrade"
_ADOPT = "gpufleet_gpu_stack_adopt"
_SKIPPED_MINORS = "gpufleet_gpu_stack_allow_skipped_minors"
_LOOK = "look with the rights of role gpufleet-gpu-stack-install"
# What may be done about an unmanaged installation.
ADOPT, USE, REFUSE = POLICIES = ("adopt", "use", "refuse")


def policies_of(
    components: Collection[Component], adopt: Collection[str], foreign: Mapping[str, str]
) -> dict[str, str]:
    """Return the policy for unmanaged installations, by component.

    Args:
        components: components of the recipe.
        adopt: names of components that may be taken over, the short form of a policy.
        foreign: policies by component.

    Raises:
        InputError: no such component or policy, or two policies for one component.
    """
    names = {component.name for component in components}
    for name, policy in foreign.items():
        if policy not in POLICIES:
            raise InputError(f"foreign: {name}", f"is {policy!r}.", f"give one of {', '.join(POLICIES)}")
        if name not in names:
            raise InputError(f"foreign: {name}", "is no component of the recipe.", f"it has {', '.join(sorted(names))}")
        if policy != ADOPT and name in adopt:
            raise InputError(f"foreign: {name}", f"is {policy}, and adopt names it too.", "take it out of one of them")
    return {**dict.fromkeys(adopt, ADOPT), **foreign}


def make_plan(
    components: Collection[Component],
    installed: Installed,
    *,
    policies: Mapping[str, str] | None = None,
    allow_downgrade: bool = False,
    allow_skipped_minors: bool = False,
) -> Plan:
    """Return what is to be done about each component.

    Args:
        components: the wanted components, in deployment order.
        installed: what is installed.
        policies: policy for unmanaged installations, by component (policies_of); others are refused.
        allow_downgrade: whether an older version than the installed one may replace it.
        allow_skipped_minors: whether minor versions may be skipped that the project requires to go through.
    """
    steps = []
    for component in components:
        policy = (policies or {}).get(component.name, REFUSE)
        step = _step(component, installed, policy, allow_downgrade)
        if step.action.changes and step.found_version:
            step = _by_rules(component, step, allow_skipped_minors)
        steps.append(replace(step, take_over=policy == ADOPT))
    return Plan(steps=tuple(steps))


def _step(component: Component, installed: Installed, policy: str, allow_downgrade: bool) -> Step:
    release = installed.releases.get(component.release)
    if release is None:
        return _absent(component, installed, policy)
    if release.is_pending and installed.is_our_revision(component.release):
        reason = f"release {component.release} is {release.status} since a run of ours died while helm worked on it"
        return _made(component, Action.RECOVER, release, reason)
    if release.is_pending:
        reason = f"release {component.release} is {release.status}: another helm works on it or died while it did"
        hint = f"helm history {component.name} -n {component.namespace}; then helm rollback {component.name} " + (
            f"-n {component.namespace}, or helm uninstall if it has only one revision"
        )
        return _made(component, Action.PENDING, release, reason, hint)
    if not installed.is_ours(component.release) and (step := _not_ours(component, installed, release, policy)):
        return step
    if not allow_downgrade and _is_older(component.version, release.chart_version):
        whose = "the other recipe's" if installed.by_recipe else "the installed"
        reason = f"the recipe wants {component.version}, older than {whose} {release.chart_version}"
        return _made(component, Action.DOWNGRADE, release, reason, f"correct the recipe, or set {_DOWNGRADE}")
    return _ours(component, installed, release, policy == ADOPT)


def _by_rules(component: Component, step: Step, allow_skipped_minors: bool) -> Step:
    """Apply the rules for the two versions to a step."""
    crossing = crossing_of(component.name, step.found_version, component.version)
    sources = "; ".join(crossing.sources)
    if crossing.removed:
        reason = f"from {step.found_version} to {component.version} all of it is to be removed first ({sources})"
        hint = (
            "playbook remove of the run that installed it, with gpufleet_remove_crds (every object of its kinds goes), "
            "then install"
        )
        return replace(step, action=Action.SKIPS, reason=reason, hint=hint)
    if crossing.skipped and not allow_skipped_minors:
        between = ", then ".join(crossing.skipped)
        reason = (
            f"{step.found_version} to {component.version} skips minor versions that are to be gone through ({sources})"
        )
        hint = f"install {between} first (overrides or a recipe directory pins the version), or set {_SKIPPED_MINORS}"
        return replace(step, action=Action.SKIPS, reason=reason, hint=hint)
    if crossing.replaced:
        warning = f"its selector changes, so {', '.join(crossing.replaced)} is deleted first ({sources})"
        return replace(step, reason=f"{step.reason}; {warning}", replaced=crossing.replaced)
    return step


# So many fields that were changed by hand are saved with the run.
_MOST_BY_HAND = 20
# The meaning of helm's states from which an upgrade is the way out. Helm upgrades failed and superseded releases.
_STATES = {
    "failed": "its last change did not succeed",
    "superseded": "a helm died after it had set the last revision aside",
    "uninstalled": "its history was kept",
}


def _state_text(release: Release) -> str:
    if release.status == "failed" and release.revision == 1:
        return "the release is failed: its first installation did not succeed"
    reported = _STATES.get(release.status)
    return f"the release is {release.status}" + (f": {reported}" if reported else "")


def _ours(component: Component, installed: Installed, release: Release, take_over: bool) -> Step:
    foreign = installed.foreign.get(component.release, ())
    if foreign and take_over:
        return _made(component, Action.ADOPT, release, f"{', '.join(foreign)} taken over as told")
    if not installed.is_ours(component.release):
        return _made(component, Action.ADOPT, release, "taken over as told")
    if release.status != "deployed":
        return _made(component, Action.UPGRADE, release, _state_text(release))
    if not same_chart_version(release.chart_version, component.version):
        return _made(component, Action.UPGRADE, release, "another version")
    if installed.labels[component.release].get(DIGEST_LABEL) != component.digest:
        return _made(component, Action.UPGRADE, release, "other values")
    if drift := installed.drift.get(component.release):
        step = _made(component, Action.UPGRADE, release, f"changed by hand: {first_of(drift, 3)}")
        return replace(step, by_hand=tuple(drift[:_MOST_BY_HAND]))
    if why := installed.unread.get(component.release):
        reason = f"whether it was changed by hand is not known: {why}"
        return _made(component, Action.UNCHANGED, release, reason, _LOOK)
    if foreign:
        reason = f"{', '.join(foreign)} was made by somebody else and is left alone"
        return _made(component, Action.UNCHANGED, release, reason, f"to take it over, add {component.name} to {_ADOPT}")
    return _made(component, Action.UNCHANGED, release)


def _not_ours(component: Component, installed: Installed, release: Release, policy: str) -> Step | None:
    """Return the step for an unmanaged release of our name. None where it is to be taken over."""
    if not component.has_chart:
        if policy == ADOPT:
            return None
        reason = f"objects of {component.release} were made by somebody else and are left alone"
        return _made(component, Action.FOREIGN, release, reason, _choice(component, "adopt them"))
    found = installed.existing.get(component.name) or _release_of_others(release)
    if policy == ADOPT and not found.reconciles:
        return None
    return _chosen(component, found, policy, release)


def _absent(component: Component, installed: Installed, policy: str) -> Step:
    if why := installed.unread.get(component.release):
        return _made(component, Action.UNCHANGED, None, f"whether it is there is not known: {why}", _LOOK)
    chart = component.chart.rpartition("/")[2]
    # Two GPU operators on one cluster break both, under any release name.
    others = installed.releases.values() if component.has_chart else ()
    other = next((release for release in others if release.chart == chart), None)
    if other and installed.is_ours(_key(other)):
        has = "the other recipe has" if installed.by_recipe else "a run of ours installed"
        reason = f"{has} it as release {_key(other)}, and the recipe wants {component.release}"
        hint = "take that name and namespace in the recipe, or remove that release first (playbook remove)"
        return _made(component, Action.REFUSE, other, reason, hint)
    found = installed.existing.get(component.name) or (_release_of_others(other) if other else None)
    if found is None:
        left = installed.leftovers.get(component.name, ())
        reason = f"definitions of an earlier installation are there: {', '.join(left)}" if left else ""
        return _made(component, Action.INSTALL, None, reason)
    return _chosen(component, found, policy, installed.releases.get(found.release) or other)


def _chosen(component: Component, found: Existing, policy: str, release: Release | None) -> Step:
    """Return the step for an unmanaged installation, by the policy of the site."""
    observed = first_of(found.seen, 3)
    version = (release.chart_version if release else "") or found.version
    what = f"{component.name} {version}".rstrip() + f" is already installed by {found.owner} ({observed})"
    made = _made(component, Action.REFUSE, release)
    # In another namespace it would stay beside ours in place of becoming ours.
    movable = not found.release and not found.reconciles and set(found.namespaces) <= {component.namespace}
    if policy == USE:
        wanted = component.version
        differs = f"; the recipe wants {wanted}" if wanted and not same_chart_version(version, wanted) else ""
        made = replace(made, action=Action.FOREIGN, reason=f"{what} and used as it is{differs}")
        made = replace(made, owner=found.owner, found_release=found.release, workloads=found.workloads)
    elif policy == ADOPT and movable:
        made = replace(made, action=Action.ADOPT, reason=f"{what}; taken over as told")
    elif policy == ADOPT and found.reconciles:
        reason = f"{what}, which would undo what we change, so it cannot be adopted"
        made = replace(made, reason=reason, hint=_choice(component, found.leave))
    elif policy == ADOPT:
        reason = (
            f"{what}, under another name or in another namespace than {component.release}, so ours would be a second"
        )
        made = replace(made, reason=reason, hint=_choice(component, found.leave))
    else:
        way = "adopt it" if movable or (found.release == component.release and not found.reconciles) else found.leave
        made = replace(made, reason=what, hint=_choice(component, way))
    return replace(made, found_version=version)


def _choice(component: Component, way: str) -> str:
    """Return the choices of a site, as settings."""
    name = component.name
    if way.startswith("adopt"):
        way = f"gpufleet_gpu_stack_foreign: {{{name}: adopt}} to take over"
    return f"gpufleet_gpu_stack_foreign: {{{name}: use}} to leave it and count it as installed; or {way}"


def _release_of_others(release: Release) -> Existing:
    key = _key(release)
    return Existing(
        owner=f"helm release {key}",
        reconciles=False,
        leave=f"set the component's name and namespace to {key} in the recipe and adopt it, or helm uninstall it",
        release=key,
        version=release.chart_version,
        namespaces=(release.namespace,),
        seen=(f"release {key}",),
    )


def _key(release: Release) -> str:
    return f"{release.namespace}/{release.name}"


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
        # Versions that cannot be ordered are different, never older.
        return False
