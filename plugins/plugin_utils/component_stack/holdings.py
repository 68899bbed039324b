# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Reads what each component has in the cluster, for its removal, and what of others would be removed with it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from ..clients.helm.helm import Helm
from ..clients.kube.cluster import Cluster
from ..clients.kube.objects import CRDS, Kind
from ..outcome.errors import BringupError, NotFoundError, UnavailableError
from ..runtime.foreign_yaml import documents
from .apply import own_manifests
from .install import Installer
from .installation import Installed
from .model import Component
from .owners import is_of_others, marks
from .removal import Holdings, Ref, custom_refs, definitions_in, is_definition, is_own, ref_of
from .transitions import AtRisk
from .workloads import release_of

Json = dict[str, Any]


def holdings_of(
    helm: Helm,
    cluster: Cluster,
    components: Collection[Component],
    installed: Installed,
    *,
    mirror: str = "",
    remove_crds: bool = False,
) -> dict[str, Holdings]:
    """Return what each component has that is ours, by name.

    Args:
        helm: helm.
        cluster: the cluster.
        components: components of the recipe.
        installed: what is installed.
        mirror: mirror of charts, for the CRDs in them.
        remove_crds: whether CRDs are to be removed; only then charts are read for theirs.

    Raises:
        BringupError: helm or the API server does not answer, or a chart does not exist.
    """
    there = {str(metadata["name"]): release_of({"metadata": metadata}) for metadata in cluster.list_metadata(CRDS)}
    installer = Installer(helm, cluster, mirror)
    return {component.name: _one(installer, component, installed, there, remove_crds) for component in components}


def _one(
    installer: Installer, component: Component, installed: Installed, there: Mapping[str, str], remove_crds: bool
) -> Holdings:
    names = frozenset(there)
    ours = frozenset(key for key in installed.releases if installed.is_ours(key))
    # Objects of our other releases are removed with those, before these CRDs or beside them.
    going = {component.release, *(key for key in ours if not installed.releases[key].is_pending)}
    # Helm does not mark the CRDs of a chart's crds/: without the release only the chart shows which ones they were.
    left = component.has_chart and component.release not in installed.releases
    left = left and component.name not in installed.existing
    cluster, chart = installer.cluster, component.has_chart and component.release in ours
    text = installer.helm.manifest(component.name, component.namespace) if chart else ""
    bodies = _bodies(text, component.name)
    groups = {name.partition(".")[2] for name in names}
    own = own_manifests(cluster, component)
    plain = [manifest for manifest in own if not is_definition(manifest.body)]
    custom = custom_refs([*bodies, *(manifest.body for manifest in plain)], groups, component.namespace)
    refs = {manifest.title: ref_of(manifest.body, component.namespace) for manifest in plain}
    after = [refs[m.title] for m in plain if not m.before and refs[m.title] not in custom]
    before = [refs[m.title] for m in plain if m.before and refs[m.title] not in custom]
    crds = {*definitions_in(bodies), *(definitions_in(manifest.body for manifest in own))}
    if chart and not remove_crds:
        known = marks().components.get(component.name)
        crds |= set(known.crds) if known else set()
    if remove_crds and (chart or left):
        brought = installer.helm.crds(installer.request(component, 0), cluster.version())
        crds |= set(definitions_in(_bodies(brought, component.name)))
        # CRDs with the mark of the release that helm left: an earlier removal kept them, or the chart asks for it.
        crds |= {name for name, release in there.items() if release == component.release}
        ours |= {component.release}
    strangers: dict[str, int] = {}
    for name in sorted(crds & names):
        definition = cluster.find(CRDS, name)
        if definition is None or is_of_others(definition, ours, names):
            crds.discard(name)
            continue
        kind = _kind_of(definition)
        found = [metadata for metadata in cluster.list_metadata(kind) if not _is_made(metadata)]
        others = [metadata for metadata in found if not any(is_own({"metadata": metadata}, key) for key in going)]
        titles = _of_others(others, component.name, name)
        if left and titles:
            crds.discard(name)
            continue
        strangers[name] = len(titles)
        if remove_crds:
            custom += tuple(ref for metadata in others if (ref := _ref(kind, metadata)) not in custom)
    return Holdings(
        custom=custom,
        after=tuple(after),
        before=tuple(before),
        crds=tuple(sorted(crds & names)),
        strangers=strangers,
    )


def at_risk(helm: Helm, cluster: Cluster, going: Mapping[str, str]) -> dict[str, AtRisk]:
    """Return the objects of others that go with components that are removed, by component.

    It needs permission to list releases and each kind of object. What may not be listed is `unknown`, never none.

    Args:
        helm: for the manifest of each release.
        cluster: the cluster.
        going: the releases to remove (`namespace/name`), by component.
    """
    return {name: _at_risk(helm, cluster, name, going) for name in going}


def _at_risk(helm: Helm, cluster: Cluster, component: str, going: Mapping[str, str]) -> AtRisk:
    namespace, _slash, release = going[component].partition("/")
    known = marks().components.get(component)
    definitions, unknown = set(known.crds) if known else set(), []
    try:
        bodies = _bodies(helm.manifest(release, namespace), component)
        definitions |= {str(body["metadata"]["name"]) for body in bodies if body.get("kind") == CRDS.kind}
    except BringupError as error:
        unknown.append(_reported(error))
    if not definitions:
        # A release does not list what the chart has in crds/.
        unknown.append("which definitions it has is not recorded, and its release brings none")
    objects: dict[str, tuple[str, ...]] = {}
    for definition in sorted(definitions):
        try:
            found = [metadata for metadata in _all_of(cluster, definition) if not _is_made(metadata)]
        except BringupError as error:
            unknown.append(_reported(error))
            continue
        others = [each for each in found if not any(is_own({"metadata": each}, key) for key in going.values())]
        objects[definition] = tuple(sorted(_of_others(others, component, definition)))
    return AtRisk(objects=objects, unknown="; ".join(unknown))


def _of_others(objects: Collection[Json], component: str, definition: str) -> set[str]:
    """Return the names of objects of a CRD, without those that the component makes itself."""
    known = marks().components.get(component)
    titles = {f"{each.get('namespace', '')}/{each['name']}".lstrip("/") for each in objects}
    return titles.difference(known.makes.get(definition, ()) if known else ())


def _all_of(cluster: Cluster, definition: str) -> list[Json]:
    """Return the metadata of all objects of a CRD, through its served versions. None of them is served: no objects.

    This needs no permission to read CRDs.
    """
    plural, _dot, group = definition.partition(".")
    for version in cluster.served_versions(group):
        try:
            return cluster.list_metadata(Kind(f"{group}/{version}", "", plural))
        except NotFoundError:
            continue
    return []


def _reported(error: BringupError) -> str:
    return f"{error.subject}: {error.reason.rstrip('.')}"


def _bodies(text: str, component: str) -> list[Json]:
    try:
        return [body for body in documents(text) if isinstance(body, dict) and body.get("metadata")]
    except ValueError as error:
        raise UnavailableError(
            f"component {component}", f"its release is not YAML: {error}.", "helm get manifest"
        ) from None


def _kind_of(definition: Mapping[str, Any]) -> Kind:
    spec = definition["spec"]
    version = next(entry["name"] for entry in spec["versions"] if entry.get("storage"))
    namespaced = spec.get("scope") == "Namespaced"
    return Kind(f"{spec['group']}/{version}", spec["names"]["kind"], spec["names"]["plural"], namespaced)


def _is_made(metadata: Mapping[str, Any]) -> bool:
    """Tell whether a controller made an object for another one, and so removes it with that one."""
    return any(reference.get("controller") for reference in metadata.get("ownerReferences") or ())


def _ref(kind: Kind, metadata: Mapping[str, Any]) -> Ref:
    return Ref(
        api_version=kind.api_version, kind=kind.kind, name=metadata["name"], namespace=metadata.get("namespace", "")
    )
