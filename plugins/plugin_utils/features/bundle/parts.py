# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A recipe as parts that another program applies, each a Helm release. Values are plain; secrets are kept apart from
them and are never in a bundle. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Any

from ...clients.helm.chart import chart_source
from ...clients.kube.objects import CRDS, NAMESPACES
from ...component_stack.facts import ReadyWhen, stack_facts
from ...component_stack.manifest import Manifest
from ...component_stack.model import MANAGED_BY_LABEL, Component, components_of
from ...outcome.errors import InputError
from ...recipe.merge import merged_values
from ...recipe.model import copied
from ...recipe.paths import leaves, lookup, shown
from ...recipe.secret_places import secret_paths
from ...recipe.yaml_dump import dump_yaml
from ...runtime.redaction import holds_mask, redact_data

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Withheld:
    """The values of a component, split: written values, withheld values, and the paths of the withheld ones.

    Both merged are the component's values. `masked`: the withheld values are unknown, because the recipe has them
    masked.
    """

    written: Json = field(default_factory=dict)
    secret: Json = field(default_factory=dict)
    places: tuple[str, ...] = ()
    masked: bool = False


def withheld(values: Mapping[str, Any]) -> Withheld:
    """Return the values with their secrets apart.

    A list is one value to Helm: with one secret in it the whole list is withheld.
    """
    data: Json = copied(dict(values))
    masked = [path for path, value in leaves(data, scalar_lists=True) if holds_mask(value)]
    found = {tuple(takewhile(lambda step: isinstance(step, str), path)) for path in (*secret_paths(data), *masked)}
    secret: Json = {}
    # A list in a secret has its own path.
    paths = sorted(path for path in found if not any(path[:end] in found for end in range(1, len(path))))
    for path in paths:
        value: Any = lookup(data, path)
        for step in reversed(path):
            value = {step: value}
        secret = merged_values(secret, value)
        above = lookup(data, path[:-1])
        del above[path[-1]]
    return Withheld(written=data, secret=secret, places=tuple(shown(path) for path in paths), masked=bool(masked))


# The label of releases of a bundle, in place of gate 4's: gate 4 leaves them alone, undeploy.sh removes them.
MARK = f"{MANAGED_BY_LABEL}=bundle"
# Every cluster has them.
_EVERYWHERE = ("default", "kube-system", "kube-public", "kube-node-lease")
# Helm's own limit for the name of a release (helm/helm, pkg/chartutil/validate_name.go).
_LONGEST_NAME = 53


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartUpstream:
    """The source of a chart: helm's reference, the repository (empty if the reference has it), the version."""

    reference: str
    repository: str
    version: str

    @property
    def name(self) -> str:
        """The chart's own name."""
        return self.reference.rpartition("/")[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class BundlePart:
    """One folder of a bundle, which becomes one Helm release.

    `upstream` is None for a chart that the bundle itself contains, made of `objects` and `definitions` (CRDs). `needs`
    are the folders that come first, `wave` is the length of the longest chain of them. `ready` is what the component
    reports when it is ready.
    """

    folder: str
    component: str
    release: str
    namespace: str
    upstream: ChartUpstream | None = None
    values: Withheld = field(default_factory=Withheld)
    objects: tuple[Json, ...] = ()
    definitions: tuple[Json, ...] = ()
    needs: tuple[str, ...] = ()
    wave: int = 0
    ready: tuple[ReadyWhen, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartRepository:
    """The place of the bundle for an engine: a Git repository, its revision, and the directory in it."""

    url: str = ""
    revision: str = ""
    path: str = ""

    def inside(self, name: str) -> str:
        """Return the path of a file of the bundle in the repository."""
        return f"{self.path}/{name}" if self.path else name


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """The content of a bundle: parts in deployment order, the namespaces that they need, and the recipe without
    secrets."""

    deployer: str
    parts: tuple[BundlePart, ...]
    namespaces: tuple[Json, ...]
    recipe: Json
    repository: ChartRepository = ChartRepository()

    @property
    def components(self) -> tuple[str, ...]:
        """The components in deployment order."""
        return tuple(dict.fromkeys(part.component for part in self.parts))

    @property
    def withholding(self) -> tuple[BundlePart, ...]:
        """The parts that need values which the bundle does not have."""
        return tuple(part for part in self.parts if part.values.places)


def bundle_of(recipe: Mapping[str, Any], deployer: str, repository: ChartRepository, mirror: str = "") -> Bundle:
    """Return the bundle of a hydrated recipe all of whose manifests are plain (component_stack/render.py).

    Args:
        recipe: the recipe.
        deployer: what applies it.
        repository: where it will be.
        mirror: the address in which charts are looked for instead of their own sources.

    Raises:
        ProblemsError: a component that gate 4 would not install either.
        InputError: a chart without a source, a component without objects, or a secret in a manifest.
    """
    components = components_of(recipe)
    parts: list[BundlePart] = []
    last: dict[str, str] = {}
    for component in components:
        needs = tuple(last[name] for name in component.depends_on)
        for part in _parts(component, mirror):
            wave = 1 + max((known.wave for known in parts if known.folder in needs), default=-1)
            parts.append(replace(part, folder=f"{len(parts) + 1:03}-{part.release}", needs=needs, wave=wave))
            needs = (parts[-1].folder,)
        last[component.name] = parts[-1].folder
    return Bundle(
        deployer=deployer,
        parts=tuple(parts),
        namespaces=_namespaces(components),
        recipe=_without_secrets(recipe, components),
        repository=repository,
    )


def _parts(component: Component, mirror: str) -> list[BundlePart]:
    """Return the parts of a component in their order."""
    for manifest in component.manifests:
        if redact_data(manifest.body) != manifest.body:
            reason = f"{manifest.title} ({manifest.file}) holds a secret, and a bundle holds none."
            hint = "make that object on the cluster by hand, and take its file out of the recipe"
            raise InputError(f"component {component.name}", reason, hint)
    before = [manifest for manifest in component.manifests if manifest.before]
    after = [manifest for manifest in component.manifests if not manifest.before]
    ready = stack_facts().ready_when.get(component.name, ())
    if not component.has_chart:
        found = [_local(component, component.name, component.manifests)]
    else:
        chart = BundlePart(
            folder="",
            component=component.name,
            release=component.name,
            namespace=component.namespace,
            upstream=upstream_of(component, mirror),
            values=withheld(component.values),
        )
        found = [_local(component, f"{component.name}-pre", before), chart]
        found.append(_local(component, f"{component.name}-post", after))
    kept = [part for part in found if part.upstream or part.objects or part.definitions]
    if not kept:
        reason = "has no chart, and no objects beside namespaces."
        raise InputError(f"component {component.name}", reason, "give it some, or switch it off")
    for part in kept:
        if len(part.release) > _LONGEST_NAME:
            reason = f"its release would be called {part.release}, and helm takes {_LONGEST_NAME} characters."
            raise InputError(f"component {component.name}", reason, "give it a shorter name in the recipe")
    # As gate 4 waits for it: after the chart, and once more after what follows the chart.
    return [
        replace(part, ready=() if part.release.endswith("-pre") and component.has_chart else ready) for part in kept
    ]


def _local(component: Component, release: str, manifests: Sequence[Manifest]) -> BundlePart:
    bodies = [manifest.body for manifest in manifests if manifest.body["kind"] != NAMESPACES.kind]
    return BundlePart(
        folder="",
        component=component.name,
        release=release,
        namespace=component.namespace,
        objects=tuple(body for body in bodies if body["kind"] != CRDS.kind),
        definitions=tuple(body for body in bodies if body["kind"] == CRDS.kind),
    )


def upstream_of(component: Component, mirror: str) -> ChartUpstream:
    """Return the source of a component's chart.

    Raises:
        InputError: the recipe names no source or no version.
    """
    # A mirror directory is local to this machine and means nothing elsewhere.
    address = mirror if "://" in mirror else ""
    source = chart_source(component.name, component.chart, component.version, component.source, address)
    options = dict(zip(source.options[::2], source.options[1::2], strict=True))
    return ChartUpstream(
        reference=source.reference, repository=options.get("--repo", ""), version=options.get("--version", "")
    )


def _namespaces(components: Iterable[Component]) -> tuple[Json, ...]:
    """Return every namespace that the components use, with the fields that manifests set, by name."""
    found: dict[str, Json] = {}
    for component in components:
        for name in component.namespaces:
            found.setdefault(name, {"apiVersion": "v1", "kind": NAMESPACES.kind, "metadata": {"name": name}})
        for manifest in component.manifests:
            if manifest.body["kind"] == NAMESPACES.kind:
                name = str(manifest.body["metadata"]["name"])
                found[name] = merged_values(found.get(name, {}), manifest.body)
    return tuple(found[name] for name in sorted(found) if name not in _EVERYWHERE or len(found[name]["metadata"]) > 1)


def _without_secrets(recipe: Mapping[str, Any], components: Iterable[Component]) -> Json:
    """Return the recipe as a bundle contains it: secrets masked, manifests in the form of our YAML writer."""
    plain = {component.name: component.manifests for component in components}
    entries = []
    for entry in recipe["componentRefs"]:
        items = []
        for item in entry.get("manifests") or ():
            when = str(item["when"])
            bodies = [
                manifest.body
                for manifest in plain[str(entry["name"])]
                if manifest.file == item["file"] and manifest.before == (when == "before")
            ]
            text = "".join(f"---\n{dump_yaml(body)}" for body in bodies)
            items.append({"when": when, "file": item["file"], "text": text, "rendered": True})
        entries.append({**entry, **({"manifests": items} if items else {})})
    masked: Json = redact_data({**recipe, "componentRefs": entries})
    return masked
