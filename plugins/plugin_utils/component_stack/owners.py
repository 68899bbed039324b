# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Owners of objects, and which objects belong to a component under any name: recipes/owners.yaml. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from ..runtime.files import RECIPES
from ..runtime.strict import decode, read_yaml
from .model import MANAGED_BY, MANAGED_BY_LABEL
from .workloads import release_of

Json = dict[str, Any]
_OLM = "ClusterServiceVersion"


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerMark:
    """The marks on objects of one kind of owner. The head of the file explains the fields."""

    id: str
    title: str
    source: str
    leave: str
    reconciles: bool
    label: str = ""
    annotation: str = ""
    owner_kind: str = ""
    manager: str = ""
    needs_kind: str = ""
    release: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentMarks:
    """What a component runs, registers and defines, under any release name."""

    source: str
    images: tuple[str, ...] = ()
    webhooks: tuple[str, ...] = ()
    api_services: tuple[str, ...] = ()
    crds: tuple[str, ...] = ()
    makes: dict[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """The whole file."""

    owners: tuple[OwnerMark, ...]
    components: dict[str, ComponentMarks]


@cache
def marks() -> Marks:
    """Read the marks.

    Raises:
        InputError: the file does not have the expected form.
    """
    path = RECIPES / "owners.yaml"
    return decode(Marks, read_yaml(path), str(path))


@dataclass(frozen=True, slots=True, kw_only=True)
class Objects:
    """The objects of a cluster that are searched.

    `registered` are webhook configurations and APIServices whose service exists. `crds` are names of CRDs.
    """

    workloads: tuple[Json, ...] = ()
    registered: tuple[Json, ...] = ()
    crds: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Existing:
    """An installation of a component that is not ours.

    `owner` is its owner, `release` its helm release (`namespace/name`, empty for none), `workloads` its controllers
    (`Deployment namespace/name`), and `seen` all objects by which it was recognised. `reconciles` is whether its owner
    would undo our changes. `leave` is how to make its owner give it up.
    """

    owner: str
    reconciles: bool
    leave: str
    release: str = ""
    version: str = ""
    namespaces: tuple[str, ...] = ()
    workloads: tuple[str, ...] = ()
    seen: tuple[str, ...] = ()


def existing_of(component: str, objects: Objects, ours: Iterable[str]) -> Existing | None:
    """Return the unmanaged installation of a component. None if there is none.

    Args:
        component: its name in the recipe.
        objects: the objects in the cluster.
        ours: our releases (`namespace/name`), whose objects do not count.
    """
    known, ours = marks().components.get(component), frozenset(ours)
    if known is None:
        return None
    workloads = [
        obj
        for obj in objects.workloads
        if _installs(obj) and not _is_ours(obj, ours) and any(_has_image(obj, image) for image in known.images)
    ]
    registered = [
        obj
        for obj in objects.registered
        if not _is_ours(obj, ours) and not _names(obj).isdisjoint({*known.webhooks, *known.api_services})
    ]
    found = [*workloads, *registered]
    if not found:
        return None
    first = found[0]
    mark, name = _owner(first, objects.crds)
    return Existing(
        owner=f"{mark.title} {name}" if mark else "somebody without a mark (kubectl apply, or helm template)",
        reconciles=bool(mark and mark.reconciles),
        leave=mark.leave if mark else "kubectl delete its objects first",
        release=_release(first),
        version=next((version for obj in workloads if (version := _version(obj))), ""),
        namespaces=tuple(sorted({obj["metadata"]["namespace"] for obj in workloads})),
        workloads=tuple(_title(obj) for obj in workloads),
        seen=tuple(_title(obj) for obj in found),
    )


def is_known(obj: Json) -> bool:
    """Tell whether a component of the file registers this webhook configuration or APIService."""
    names = _names(obj)
    return any(not names.isdisjoint({*known.webhooks, *known.api_services}) for known in marks().components.values())


def is_of_others(obj: Json, ours: Iterable[str], crds: Iterable[str]) -> bool:
    """Tell whether an object has the mark of an owner other than us.

    Args:
        obj: the object.
        ours: our releases (`namespace/name`).
        crds: names of the CRDs in the cluster.
    """
    return not _is_ours(obj, frozenset(ours)) and _owner(obj, frozenset(crds))[0] is not None


def release_owner(obj: Json) -> tuple[str, str]:
    """Return the helm release of an object, and the owner that installed it through helm. Each is empty for none."""
    owner, name = _owner(obj, frozenset())
    return _release(obj), f"{owner.title} {name}" if owner is not None and owner.id != "helm" else ""


def leftover_crds(component: str, objects: Objects) -> tuple[str, ...]:
    """Return those of the component's CRDs that are in the cluster."""
    known = marks().components.get(component)
    return tuple(name for name in known.crds if name in objects.crds) if known else ()


def _owner(obj: Mapping[str, Any], crds: frozenset[str]) -> tuple[OwnerMark | None, str]:
    for mark in marks().owners:
        if mark.needs_kind and mark.needs_kind not in crds:
            continue
        if mark.release == "without" and _release(obj):
            continue
        name = _marked(obj, mark)
        if name:
            return mark, name
    return None, ""


def _marked(obj: Mapping[str, Any], mark: OwnerMark) -> str:
    metadata = obj["metadata"]
    if mark.annotation:
        value = str((metadata.get("annotations") or {}).get(mark.annotation) or "")
        if value:
            return _release(obj) if mark.id == "helm" else value.partition(":")[0]
    labels = metadata.get("labels") or {}
    if mark.label and labels.get(mark.label):
        # Flux has the namespace in a second label.
        space = labels.get(f"{mark.label.removesuffix('/name')}/namespace", "")
        return f"{space}/{labels[mark.label]}".lstrip("/")
    if mark.owner_kind:
        for reference in metadata.get("ownerReferences") or ():
            if reference.get("kind") == mark.owner_kind:
                return str(reference.get("name"))
    if mark.manager and any(entry.get("manager") == mark.manager for entry in metadata.get("managedFields") or ()):
        return str(metadata["name"])
    return ""


def _installs(obj: Json) -> bool:
    """Tell whether an object was installed, and not made by an operator for one of its resources."""
    references = obj["metadata"].get("ownerReferences") or ()
    return all(reference.get("kind") == _OLM for reference in references if reference.get("controller"))


def _is_ours(obj: Json, ours: frozenset[str]) -> bool:
    labels = obj["metadata"].get("labels") or {}
    return labels.get(MANAGED_BY_LABEL) == MANAGED_BY or (bool(_release(obj)) and _release(obj) in ours)


def _release(obj: Mapping[str, Any]) -> str:
    annotations = obj["metadata"].get("annotations") or {}
    return release_of(obj) if annotations.get("meta.helm.sh/release-name") else ""


def _images(obj: Json) -> list[str]:
    pod = ((obj.get("spec") or {}).get("template") or {}).get("spec") or {}
    return [str(container.get("image") or "") for container in pod.get("containers") or ()]


def _has_image(obj: Json, wanted: str) -> bool:
    """Tell whether a container's image ends with these parts of a path. A mirror has other parts before them."""
    return any(is_image(image, wanted) for image in _images(obj))


def is_image(reference: str, wanted: str) -> bool:
    """Tell whether an image reference, without its tag, ends with these parts of a path."""
    path, _slash, last = reference.partition("@")[0].rpartition("/")
    return f"/{path}/{last.partition(':')[0]}".endswith(f"/{wanted}")


def _version(obj: Json) -> str:
    label = (obj["metadata"].get("labels") or {}).get("app.kubernetes.io/version")
    tags = (image.partition("@")[0].rpartition("/")[2].partition(":")[2] for image in _images(obj))
    return str(label or next((tag for tag in tags if tag), ""))


def _names(obj: Json) -> frozenset[str]:
    hooks = (str(hook.get("name")) for hook in obj.get("webhooks") or ())
    return frozenset((*hooks, str(obj["metadata"]["name"])))


def _title(obj: Json) -> str:
    metadata = obj["metadata"]
    place = f"{metadata['namespace']}/" if metadata.get("namespace") else ""
    return f"{obj['kind']} {place}{metadata['name']}"
