# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The recipe of a site: the result of its criteria, hardware, pools and settings on the catalogue, and what it
declares."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from ...check.gpu_stack.settings import GATE as GPU_STACK
from ...check.gpu_stack.settings import GpuStackSettings
from ...check.kit.settings_layers import settings_for
from ...component_stack.render import Renderer, rendered
from ...hardware.sku import Sku
from ...outcome.errors import InputError, NotFoundError, ProblemsError
from ...recipe.host_kinds import criteria_on, said_by
from ...recipe.hydrate import component_values
from ...recipe.merge import merged_values
from ...recipe.model import Catalogue, Component, installs
from ...recipe.output import RUN_FILE, FileText, dump, write_documents
from ...recipe.overrides import component_name, with_overrides
from ...recipe.paths import lookup, parse_path
from ...recipe.request import Answer, Request, answer, catalogue_of, request_of
from ...run.known_checks import checks_by_id
from ...run.not_reached import write_pending_suites
from ...run.run import Run, needs_recipe
from ...runtime.files import RECIPES
from ...runtime.progress import Emit
from ...runtime.redaction import redact_data
from ...runtime.strict import decode, read_yaml
from ...site.inventory import component_problems
from ...site.model import Site, SitePool
from ...workload.nodes import Toleration, tolerations_with
from .declared import take_benchmark_inputs, with_dra
from .owner_layer import driver_overrides, idle_overrides, replaced_layers
from .pool_layers import differing, pooled_answer, recipe_data_of

# What the SKUs of the inventory add to the recipe: criteria that are not configured, and values that count GPUs.

SLURM = "slinky-slurm"


def hardware_criteria(site: Site, hardware: Mapping[str, Sku], catalogue: Catalogue) -> dict[str, Any]:
    """Return the site's criteria, with those that all hardware in scope shares where a layer uses them.

    Raises:
        ProblemsError: a configured criterion that no host's hardware has, each with both sources.
    """
    known = [host for host in site.in_scope if host.sku in hardware]
    skus = ((hardware[host.sku], f"gpufleet_sku of host {host.name} is {host.sku}") for host in known)
    return criteria_on(said_by(skus), site.criteria, catalogue)


def gpu_counts(
    site: Site, hardware: Mapping[str, Sku], values: Mapping[str, Mapping[str, Any]], configured: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the overrides with which a Slurm worker requests the GPUs that a host has.

    Args:
        site: the site.
        hardware: SKU facts by name.
        values: component of the recipe to its merged values.
        configured: the site's own overrides, which take precedence.
    """
    counts = {hardware[host.sku].gpus for host in site.in_scope if host.sku in hardware}
    sets = (values.get(SLURM) or {}).get("nodesets") or {}
    if len(counts) != 1 or "slinky" not in sets or SLURM in configured:
        return {}
    gpus = counts.pop()
    worker = {"slurmd": {"resources": {"limits": {"nvidia.com/gpu": gpus}}}, "extraConfMap": {"Gres": [f"gpu:{gpus}"]}}
    return {SLURM: {"nodesets": {"slinky": worker}}} if merged_differs(sets["slinky"], worker) else {}


def merged_differs(known: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Return whether any value of the second mapping differs in the first, or is missing there."""
    for key, value in wanted.items():
        below = known.get(key)
        if isinstance(value, Mapping):
            if not isinstance(below, Mapping) or merged_differs(below, value):
                return True
        elif below != value:
            return True
    return False


# What a site configures about its nodes, storage, registry and proxy, as values of the charts that read it; settings
# that no chart reads are named. Paths are data: recipes/registry.yaml (nodeScheduling) and recipes/site_paths.yaml.
# Pure.

Values = Mapping[str, Any]
_EVERYTHING = {"operator": "Exists"}
# What charts tolerate by themselves, which a list of ours replaces.
_CONTROL_PLANE = Toleration(key="node-role.kubernetes.io/control-plane", effect="NoSchedule")


@dataclass(frozen=True, slots=True, kw_only=True)
class SitePaths:
    """The paths at which one chart reads each setting; see the head of the file."""

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
        InputError: the file does not have the expected form.
    """
    path = RECIPES / "site_paths.yaml"
    return decode(_File, read_yaml(path), str(path)).components


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteValues:
    """Values by component, and a line for every setting for which a component of the recipe has no path."""

    values: dict[str, dict[str, Any]]
    warnings: tuple[str, ...]


def site_values(
    settings: GpuStackSettings,
    values: Mapping[str, Values],
    configured: Mapping[str, Any],
    catalogue: Catalogue,
    pools: Sequence[SitePool] = (),
) -> SiteValues:
    """Return the chart values that follow from the site's settings; empty where it has none.

    Args:
        settings: the settings of the site.
        values: component of the recipe to its merged values.
        configured: the site's own overrides, which take precedence.
        catalogue: has the paths at which a chart reads selectors and tolerations.
        pools: the site's pools, whose common labels select the nodes of what runs beside GPUs.

    Raises:
        InputError: a toleration has another form, or a chart that needs a node selector has none.
    """
    found: dict[str, dict[str, Any]] = {}
    pathless: dict[str, list[str]] = {}
    labels, everywhere = shared_labels(pools), list[str]()
    for name, own in values.items():
        entry = catalogue.registry.get(name)
        scheduling = (entry.data.get("nodeScheduling") or {}) if entry is not None else {}
        site = site_paths().get(name, SitePaths(source=""))
        data = entry.data if entry is not None else {}
        requested = _requested(settings, own, scheduling, site) | _classes(settings, own, site, data)
        chosen = (scheduling.get("accelerated") or {}).get("nodeSelectorPaths") or ()
        if labels:
            requested["pools"] = [(path, dict(labels)) for path in chosen]
        elif chosen:
            everywhere.append(name)
        for setting, given in requested.items():
            if given is None:
                pathless.setdefault(setting, []).append(name)
                continue
            for path, value in given:
                found[name] = merged_values(found.get(name, {}), _nested(path, value))
    for name in found:
        over = configured.get(name)
        found[name] = merged_values(found[name], dict(over) if isinstance(over, Mapping) else {})
    for name, own in values.items():
        entry = catalogue.registry.get(name)
        if entry is not None and installs(own):
            after = merged_values(own, found.get(name, {}))
            _require_selectors(entry, after, configured.get(name))
            _refuse_shared_volumes(entry, after)
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


def _requested(
    settings: GpuStackSettings, own: Values, scheduling: Mapping[str, Any], site: SitePaths
) -> dict[str, Given | None]:
    """Return, for every configured setting, paths and values for one component; None where it has no path."""
    system, gpus = scheduling.get("system") or {}, scheduling.get("accelerated") or {}
    requested: dict[str, Given | None] = {}
    if settings.system_selector:
        paths = system.get("nodeSelectorPaths") or ()
        # What runs only on GPU nodes has no other place.
        requested["system_selector"] = [(path, dict(settings.system_selector)) for path in paths] or _none(not gpus)
    if settings.system_tolerations:
        wanted = [*tolerations_with(settings.system_tolerations), _CONTROL_PLANE]
        requested["system_tolerations"] = _tolerated(system, wanted, own) or _none(not gpus)
    if settings.tolerations:
        given = _tolerated(gpus, list(tolerations_with(settings.tolerations)), own)
        for text in settings.tolerations:
            given += [(path, text) for path in gpus.get("taintStrPaths") or () if "=runtime-required" in text]
        if gpus:
            requested["tolerations"] = given
    if settings.image_registry:
        requested["image_registry"] = [(path, settings.image_registry) for path in site.registry] or None
    if settings.pull_secrets:
        objects = [{"name": name} for name in settings.pull_secrets]
        secrets: Given = [(path, objects) for path in site.pull_secrets]
        secrets += [(path, list(settings.pull_secrets)) for path in site.secret_names]
        requested["pull_secrets"] = secrets or None
    if settings.proxy:
        requested["proxy"] = _proxied(settings.proxy, site, own) or None
    return requested


def _classes(
    settings: GpuStackSettings, own: Values, site: SitePaths, data: Mapping[str, Any]
) -> dict[str, Given | None]:
    """Return where the values request a volume, with the class for volumes of one pod and that for shared volumes."""
    requested: dict[str, Given | None] = {}
    for setting, wanted, paths in (
        ("storage_class", settings.storage_class, (*site.storage_class, *(data.get("storageClassPaths") or ()))),
        ("shared_storage_class", settings.shared_storage_class, data.get("sharedStorageClassPaths") or ()),
    ):
        if wanted and paths:
            there = [path for path in dict.fromkeys(paths) if _at(own, path.rpartition(".")[0]) is not None]
            requested[setting] = [(path, wanted) for path in there]
    return requested


_SAID_IN = {
    "system": "State gpufleet_settings: {gpu_stack: {system_selector: {LABEL: VALUE}}}.",
    "accelerated": "Give gpufleet_pools a node_selector, or set the value in gpufleet_overrides.",
}


def _require_selectors(entry: Component, values: Values, configured: Any) -> None:
    """Refuse a component whose registry entry needs a node selector that is not configured.

    A path that the site itself sets is its own decision, even where it is empty (NVIDIA/aicr, pkg/bundler/bundler.go:
    validateRequiredNodeSelectors).
    """
    own: Values = configured if isinstance(configured, Mapping) else {}
    keys = ("storageClassPaths", "sharedStorageClassPaths")
    has_class = any(_at(values, path) for key in keys for path in entry.data.get(key) or ())
    for part, hint in _SAID_IN.items():
        scheduling = (entry.data.get("nodeScheduling") or {}).get(part) or {}
        requested = scheduling.get("requireNodeSelector") or (
            has_class and scheduling.get("requireNodeSelectorIfStorageClassSet")
        )
        for path in scheduling.get("nodeSelectorPaths") or () if requested else ():
            if not _at(values, path) and _at(own, path) is None:
                reason = f"needs a node selector at {path}: on another node its volume would hold it there."
                raise InputError(f"component {entry.name}", reason, hint)


def _refuse_shared_volumes(entry: Component, values: Values) -> None:
    """Refuse volumes that users of Slurm share.

    The upstream tool writes their claims and mounts itself, beside the chart (NVIDIA/aicr, pkg/bundler). Without these,
    jobs would write to a directory of one node instead.
    """
    if entry.name != "slinky-slurm":
        return
    paths = entry.data.get("sharedStorageClassPaths") or ()
    for switch in dict.fromkeys(f"{path.partition('.')[0]}.enabled" for path in paths):
        if _at(values, switch) is True:
            reason = f"{switch} asks for shared volumes that the upstream tool writes itself; this release writes none."
            hint = (
                "Write the claims and their mounts as values of the chart, and set it to false in gpufleet_overrides."
            )
            raise InputError(f"component {entry.name}", reason, hint)


def _none(pathless: bool) -> Given | None:
    return None if pathless else []


def _tolerated(part: Mapping[str, Any], wanted: list[Toleration], own: Values) -> Given:
    """Return the tolerations of a chart: those of the recipe and those of the site.

    A toleration of the recipe for all taints stays.
    """
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
    reported = ((pool.name, ", ".join(f"{key}={text}" for key, text in pool.node_selector.items())) for pool in pools)
    labels = "; ".join(f"{name}: {text or 'none'}" for name, text in reported)
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


def resolve_recipe(run: Run, options: Mapping[str, Any], emit: Emit) -> tuple[str, ...]:
    """Resolve the recipe of the site into the run directory, all its manifests plain, and return warnings.

    Raises:
        BringupError: wrong criteria, an unsupported combination, wrong recipe data, or a component that cannot be built
            or rendered here.
    """
    site = run.site
    if not needs_recipe(site):
        return ()
    answered = answer_for(site, options, run.hardware)
    # The run directory is passed on, so its recipe has no secrets, in values or in what is rendered from them.
    recipe = rendered(redact_data(recipe_data_of(answered, site, run.hardware)), Renderer.of(options))
    path = run.path / RUN_FILE
    write_documents({path: FileText(text=dump(recipe, path))}, check_mode=False)
    run.reload()
    run.save_site(with_dra(site, run.recipe or {}))
    take_benchmark_inputs(run)
    # The components are known from here on, and whether GPUs are allocated by claim.
    write_pending_suites(run)
    emit(f"recipe: {len(answered.result.order)} components in order {', '.join(answered.result.order)}"[:190])
    return answered.warnings


def answer_for(site: Site, options: Mapping[str, Any], hardware: Mapping[str, Sku]) -> Answer:
    """Return the recipe for the site and its hardware.

    Raises:
        BringupError: wrong criteria, ones that contradict the hardware, an unsupported combination, wrong recipe data,
            or a waiver for a component that the recipe does not have.
    """
    configured = {"criteria": site.criteria, "recipe_data": options["recipe_data"], "overrides": options["overrides"]}
    request = request_of(configured)
    if site.pools:
        answered = _with_values_of(site, pooled_answer(site, request, hardware), request, hardware)
    else:
        criteria = hardware_criteria(site, hardware, catalogue_of(request.recipe_data))
        found = answer(replace(request, criteria=criteria))
        found = replace(found, warnings=(*found.warnings, *differing(site, hardware)))
        answered = _with_values_of(site, found, request, hardware)
    checks = checks_by_id(site.settings)
    problems = component_problems("gpufleet_waivers", site.waivers, checks, answered.result.order)
    problems += component_problems("gpufleet_acceptances", site.acceptances, checks, answered.result.order)
    if problems:
        raise ProblemsError("inventory and recipe", tuple(problems))
    return answered


def _with_values_of(site: Site, answered: Answer, request: Request, hardware: Mapping[str, Sku]) -> Answer:
    """Return the recipe with the driver owner of the site, and with as many GPUs as its hosts have."""
    catalogue = answered.catalogue
    values = {entry.name: component_values(entry, catalogue) for entry in answered.result.components}
    configured = {component_name(key, list(values), catalogue): value for key, value in request.overrides.items()}
    settings = settings_for(GpuStackSettings, GPU_STACK, site.settings.get(GPU_STACK, {}))
    reported = site_values(settings, values, configured, catalogue, site.pools)
    overrides = dict(reported.values)
    owned = driver_overrides(site.driver_owner, values, configured)
    for more in (owned, gpu_counts(site, hardware, values, configured)):
        for name, own in more.items():
            overrides[name] = merged_values(overrides.get(name, {}), own)
    replaced = replaced_layers(answered, request.recipe_data, site.driver_owner, owned)
    idle = idle_overrides(site.driver_owner, configured)
    warnings = (*answered.warnings, *reported.warnings, *replaced, *idle)
    if not overrides:
        return replace(answered, warnings=warnings)
    result = with_overrides(answered.result, catalogue, overrides, check=False)
    return replace(answered, result=result, warnings=warnings)
