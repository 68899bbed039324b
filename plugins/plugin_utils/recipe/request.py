# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""One query of a user, from directories and texts to a recipe. The Ansible plugins use it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..outcome.errors import InputError
from .criteria import ANY, Criteria, parse_criteria
from .installable import not_installable
from .merge import merged_values
from .model import Catalogue, RecipeResult
from .policy import Unsupported, require_supported
from .resolve import resolve
from .tree import Signature, catalogue_directories, signature_of

if TYPE_CHECKING:
    from .detect import ClusterFacts, Detection
    from .pools import Pool, PooledRecipe


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is requested: criteria, directories of private recipe data, overrides, and the policy for unsupported ones.

    With the facts of a cluster, criteria that are not stated are detected. With SKUs of hosts, they follow from these;
    private SKUs are in `sku_data`. Loaded catalogues are saved in the directory `kept`.
    """

    criteria: Mapping[str, Any]
    recipe_data: tuple[Path, ...] = ()
    overrides: Mapping[str, Any] = field(default_factory=dict)
    profiles: Mapping[str, str] = field(default_factory=dict)
    facts: ClusterFacts | None = None
    unsupported: Unsupported = Unsupported.ERROR
    check_overrides: bool = True
    skus: tuple[str, ...] = ()
    sku_data: tuple[Path, ...] = ()
    kept: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The recipe, its catalogue, warnings for the user, the detection, and the pools if there are any."""

    result: RecipeResult
    catalogue: Catalogue
    warnings: tuple[str, ...] = ()
    detection: Detection | None = None
    pools: PooledRecipe | None = None


def request_of(options: Mapping[str, Any]) -> Request:
    """Return the request for the options of a module or the arguments of a lookup."""
    overrides = _plain(options, "overrides")
    if options.get("set"):
        from .overrides import as_mapping

        overrides = merged_values(overrides, as_mapping(options["set"]))
    recipe_data = tuple(Path(text) for text in options.get("recipe_data") or ())
    return Request(
        criteria=_plain(options, "criteria"),
        recipe_data=recipe_data,
        sku_data=recipe_data,
        overrides=overrides,
        facts=facts_of(options),
        profiles={str(name): str(value) for name, value in _plain(options, "profiles").items()},
        unsupported=Unsupported(options.get("unsupported") or Unsupported.ERROR.value),
        check_overrides=bool(options.get("check_overrides", True)),
        skus=tuple(str(name) for name in options.get("skus") or ()),
    )


def facts_of(options: Mapping[str, Any]) -> ClusterFacts | None:
    """Return the cluster facts among the options, None if there are none. A null is not known.

    Raises:
        InputError: a wrong type, or a node without name.
    """
    data = _plain(options, "facts")
    if not data:
        return None
    from ..outcome.codec import from_plain
    from .detect import ClusterFacts

    nodes = [{key: value for key, value in node.items() if value is not None} for node in data.get("nodes") or ()]
    return from_plain(ClusterFacts, {"server_version": data.get("server_version") or "", "nodes": nodes}, "facts")


def _plain(options: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return an option without the classes in which Ansible wraps texts, which no YAML writer knows."""
    try:
        text = json.dumps(options.get(name) or {}, ensure_ascii=False, allow_nan=False)
        text.encode("utf-8")
        data: dict[str, Any] = json.loads(text)
    except (TypeError, ValueError) as error:
        raise InputError(name, f"holds something that is no plain data: {error}.") from None
    return data


_loaded: dict[tuple[Path, ...], tuple[Signature, Catalogue]] = {}


def catalogue_of(recipe_data: Sequence[Path], kept: Path | None = None) -> Catalogue:
    """Return the catalogue for directories of private data. A loaded one is reused until a file changes.

    With a directory `kept` it may have been loaded by another process.
    """
    directories = catalogue_directories(recipe_data)
    signature = signature_of(directories)
    known = _loaded.get(directories)
    if known is None or known[0] != signature:
        known = (signature, _kept_or_loaded(directories, kept, signature))
        _loaded[directories] = known
    return known[1]


def _kept_or_loaded(directories: tuple[Path, ...], kept: Path | None, signature: Signature) -> Catalogue:
    if kept is None:
        from .load import load_catalogue

        return load_catalogue(directories)
    from .kept import kept_or_loaded

    return kept_or_loaded(directories, kept, signature)


def answer(request: Request) -> Answer:
    """Return the requested recipe.

    Raises:
        ProblemsError: the data, the criteria or the overrides are wrong, or the SKUs contradict the criteria.
        NotFoundError: no such SKU.
        InputError: the combination is not supported and the policy is error.
    """
    catalogue = catalogue_of(request.recipe_data, request.kept)
    configured = request.criteria
    if request.skus:
        from .host_kinds import criteria_of_skus

        configured = criteria_of_skus(request.skus, configured, catalogue, request.sku_data)
    criteria = parse_criteria(configured, catalogue.vocabulary)
    detection: Detection | None = None
    reported: tuple[str, ...] = ()
    if request.facts is not None:
        from .detect import detect
        from .support import relaxed

        detection = detect(request.facts, catalogue.vocabulary, criteria)
        criteria = relaxed(detection.criteria, catalogue, detection.detected)
        reported = detection_warnings(detection, criteria)
    result = resolve(criteria, catalogue, request.profiles)
    warnings = (*catalogue.warnings, *reported, *require_supported(result, catalogue, request.unsupported))
    if request.overrides:
        from .overrides import with_overrides

        result = with_overrides(result, catalogue, request.overrides, check=request.check_overrides)
    warnings = (*warnings, *not_installable(result))
    return Answer(result=result, catalogue=catalogue, warnings=warnings, detection=detection)


def detection_warnings(detection: Detection, criteria: Criteria) -> tuple[str, ...]:
    """Return warnings: stated values that differ from detected ones, detected values left out, and differing nodes."""
    messages = []
    for found in detection.findings:
        if found.overruled:
            reported = f"the cluster says {found.detected} ({found.evidence})"
            messages.append(f"criteria {found.dimension}: {found.value} is stated and counts; {reported}.")
        elif found.source == "detected" and criteria.get(found.dimension) == ANY:
            reported = f"{found.value} was detected ({found.evidence})"
            messages.append(f"criteria {found.dimension}: {reported}, but no layer honours it; it is left out.")
    if detection.pools:
        names = "; ".join(f"{pool.name}: {', '.join(pool.nodes[:8])}" for pool in detection.pools)
        messages.append(f"criteria: the GPU nodes differ, so they are several pools ({names}). State them as pools.")
    return tuple(messages)


def answer_pools(
    request: Request, pools: Sequence[Mapping[str, Any]]
) -> tuple[PooledRecipe, Catalogue, tuple[str, ...]]:
    """Return one recipe for several pools. The request's criteria apply to all pools that do not state their own.

    Raises:
        InputError: overrides are given, or a pool is not supported and the policy is error.
    """
    if request.overrides:
        raise InputError("overrides", "cannot be given together with pools.", "Put them into a private overlay.")
    from .pools import resolve_pools

    catalogue = catalogue_of(request.recipe_data)
    made = [_pool(pool, request.criteria, catalogue) for pool in pools]
    recipe = resolve_pools(made, catalogue)
    warnings = [w for _p, result in recipe.pools for w in require_supported(result, catalogue, request.unsupported)]
    return recipe, catalogue, (*catalogue.warnings, *warnings)


def _pool(data: Mapping[str, Any], common: Mapping[str, Any], catalogue: Catalogue) -> Pool:
    from .pools import Pool

    name = str(data.get("name") or "")
    shared = parse_criteria(common, catalogue.vocabulary).to_dict()
    own = parse_criteria(data.get("criteria") or {}, catalogue.vocabulary, f"pool {name}").to_dict()
    selector = {str(key): str(value) for key, value in (data.get("node_selector") or {}).items()}
    return Pool(name=name, criteria=_criteria({**shared, **own}, catalogue), node_selector=selector)


def _criteria(configured: Mapping[str, Any], catalogue: Catalogue) -> Criteria:
    return parse_criteria(configured, catalogue.vocabulary)
