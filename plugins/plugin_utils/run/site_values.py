# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a site says of its nodes, storage, registry and proxy, as values of the charts that read it; the rest is named.

Paths are data: recipes/registry.yaml (nodeScheduling) and recipes/site_paths.yaml. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from ..check.gpu_stack.settings import GpuStackSettings
from ..outcome.errors import NotFoundError
from ..recipe.merge import merged_values
from ..recipe.model import Catalogue
from ..recipe.paths import lookup, parse_path
from ..runtime.recipe_files import RECIPES
from ..runtime.strict import decode, read_yaml
from ..site.model import SitePool
from ..workload.tolerations import Toleration, tolerations_with

Values = Mapping[str, Any]
_EVERYTHING = {"operator": "Exists"}
# What charts tolerate by themselves, which a list of ours replaces.
_CONTROL_PLANE = Toleration(key="node-role.kubernetes.io/control-plane", effect="NoSchedule")


@dataclass(frozen=True, slots=True, kw_only=True)
class SitePaths:
    """Where one chart reads what; see the head of the file."""

    source: str
    storage_class: tuple[str, ...] = ()
    registry: tuple[str, ...] = ()
    pull_secrets: tuple[str, ...] = ()
    secret_names: tuple[str, ...] = ()
    proxy_env: tuple[str, ...] = ()
    proxy: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    components: dict[str, SitePaths]


@cache
def site_paths() -> dict[str, SitePaths]:
    """Return the paths by component.

    Raises:
        InputError: the file is not what it should be.
    """
    path = RECIPES / "site_paths.yaml"
    return decode(_File, read_yaml(path), str(path)).components


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteValues:
    """Values by component, and a line for every setting that some component of the recipe has no path for."""

    values: dict[str, dict[str, Any]]
    warnings: tuple[str, ...]


def site_values(
    settings: GpuStackSettings,
    values: Mapping[str, Values],
    stated: Mapping[str, Any],
    catalogue: Catalogue,
    pools: Sequence[SitePool] = (),
) -> SiteValues:
    """Return what the charts are given of what the site says; nothing where it says nothing.

    Args:
        settings: what the site says.
        values: component of the recipe to its merged values.
        stated: the site's own overrides, which are never overruled.
        catalogue: knows where a chart reads selectors and tolerations.
        pools: the site's, whose common labels select the nodes of what runs beside GPUs.

    Raises:
        InputError: a toleration has another form.
    """
    found: dict[str, dict[str, Any]] = {}
    pathless: dict[str, list[str]] = {}
    labels, everywhere = shared_labels(pools), list[str]()
    for name, own in values.items():
        entry = catalogue.registry.get(name)
        scheduling = (entry.data.get("nodeScheduling") or {}) if entry is not None else {}
        site = site_paths().get(name, SitePaths(source=""))
        asked = _asked(settings, own, scheduling, site)
        chosen = (scheduling.get("accelerated") or {}).get("nodeSelectorPaths") or ()
        if labels:
            asked["pools"] = [(path, dict(labels)) for path in chosen]
        elif chosen:
            everywhere.append(name)
        for setting, given in asked.items():
            if given is None:
                pathless.setdefault(setting, []).append(name)
                continue
            for path, value in given:
                found[name] = merged_values(found.get(name, {}), _nested(path, value))
    for name in found:
        over = stated.get(name)
        found[name] = merged_values(found[name], dict(over) if isinstance(over, Mapping) else {})
    warnings = [_warning(setting, names) for setting, names in sorted(pathless.items())]
    if everywhere and any(pool.node_selector for pool in pools):
        warnings.append(_one_selector(pools, everywhere))
    return SiteValues(values=found, warnings=tuple(warnings))


def shared_labels(pools: Sequence[SitePool]) -> dict[str, str]:
    """Return the labels that the nodes of every pool have: a chart is installed once, and takes one selector."""
    shared = (
        set(pools[0].node_selector.items()).intersection(*(pool.node_selector.items() for pool in pools[1:]))
        if pools
        else set()
    )
    return dict(sorted(shared))


Given = list[tuple[str, Any]]


def _asked(
    settings: GpuStackSettings, own: Values, scheduling: Mapping[str, Any], site: SitePaths
) -> dict[str, Given | None]:
    """Return, for every setting that the site states, paths and values for one component; None where it has no path."""
    system, gpus = scheduling.get("system") or {}, scheduling.get("accelerated") or {}
    asked: dict[str, Given | None] = {}
    if settings.system_selector:
        paths = system.get("nodeSelectorPaths") or ()
        # What runs only on GPU nodes has no other place.
        asked["system_selector"] = [(path, dict(settings.system_selector)) for path in paths] or _none(not gpus)
    if settings.system_tolerations:
        wanted = [*tolerations_with(settings.system_tolerations), _CONTROL_PLANE]
        asked["system_tolerations"] = _tolerated(system, wanted, own) or _none(not gpus)
    if settings.tolerations:
        given = _tolerated(gpus, list(tolerations_with(settings.tolerations)), own)
        for text in settings.tolerations:
            given += [(path, text) for path in gpus.get("taintStrPaths") or () if "=runtime-required" in text]
        if gpus:
            asked["tolerations"] = given
    if settings.storage_class and site.storage_class:
        there = [path for path in site.storage_class if _at(own, path.rpartition(".")[0]) is not None]
        asked["storage_class"] = [(path, settings.storage_class) for path in there]
    if settings.image_registry:
        asked["image_registry"] = [(path, settings.image_registry) for path in site.registry] or None
    if settings.pull_secrets:
        objects = [{"name": name} for name in settings.pull_secrets]
        secrets: Given = [(path, objects) for path in site.pull_secrets]
        secrets += [(path, list(settings.pull_secrets)) for path in site.secret_names]
        asked["pull_secrets"] = secrets or None
    if settings.proxy:
        asked["proxy"] = _proxied(settings.proxy, site, own) or None
    return asked


def _none(pathless: bool) -> Given | None:
    return None if pathless else []


def _tolerated(part: Mapping[str, Any], wanted: list[Toleration], own: Values) -> Given:
    """Return the tolerations that a chart gets: those of the recipe and those of the site; what the recipe says of all
    taints stays."""
    given: Given = []
    for path in part.get("tolerationPaths") or ():
        before = _at(own, path)
        listed = list(before) if isinstance(before, list) else []
        if _EVERYTHING in listed:
            continue
        given.append((path, [*listed, *(entry.body for entry in wanted if entry.body not in listed)]))
    return given


def _proxied(proxy: Mapping[str, str], site: SitePaths, own: Values) -> Given:
    given: Given = [(path, proxy[word]) for word, path in site.proxy.items() if proxy.get(word)]
    words = {f"{word}_proxy".upper(): text for word, text in proxy.items()}
    for path in site.proxy_env:
        before = [entry for entry in _at(own, path) or () if entry.get("name") not in words]
        given.append((path, [*before, *({"name": name, "value": text} for name, text in words.items())]))
    return given


def _at(values: Values, path: str) -> Any:
    try:
        return lookup(values, parse_path(path))
    except NotFoundError:
        return None


def _nested(path: str, value: Any) -> dict[str, Any]:
    made: Any = value
    for step in reversed(parse_path(path)):
        made = {str(step): made}
    return dict(made)


def _one_selector(pools: Sequence[SitePool], names: Iterable[str]) -> str:
    said = ((pool.name, ", ".join(f"{key}={text}" for key, text in pool.node_selector.items())) for pool in pools)
    labels = "; ".join(f"{name}: {text or 'none'}" for name, text in said)
    return (
        f"the pools' nodes have no label in common ({labels}), and a chart takes one selector: "
        f"{', '.join(sorted(names))} runs on every node with GPUs. Give node_selector of every pool one label that all "
        "have, or set the selector in gpufleet_overrides."
    )


def _warning(setting: str, names: Iterable[str]) -> str:
    listed = ", ".join(sorted(names))
    return (
        f"gpu_stack.{setting} is not handed to {listed}: where their charts read it is not recorded "
        "(recipes/registry.yaml, recipes/site_paths.yaml). Set it in gpufleet_overrides, or in the manifests."
    )
