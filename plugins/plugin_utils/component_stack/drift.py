# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What was changed by hand in a release of ours: values given to helm, and fields of its objects.

Helm keeps a release's labels on `helm upgrade --set`, and an edited object changes nothing about its release: neither
shows in helm's list. Values are compared with the recipe's. Of objects those fields count that the chart sets and that
kubectl wrote last, by the object's own managedFields. Fields of controllers, webhooks and autoscalers are theirs, and
helm would not remove fields that were added beside the chart's either.

For objects of manifests the server computes what applying them again would change, with its defaults and admission.
That also shows removed fields, which have no manager.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from ..clients.helm.helm import Helm
from ..clients.kube.cluster import FIELD_MANAGER, Cluster
from ..clients.kube.errors import ForbiddenError
from ..outcome.errors import InputError, NotFoundError
from ..runtime.foreign_yaml import PlainYamlError, documents
from ..runtime.pool import map_bounded
from .apply import applied_again
from .installation import Installed
from .manifest import Manifest
from .model import Component

Json = dict[str, Any]
_AT_ONCE = 8


def with_drift(
    helm: Helm, cluster: Cluster, components: Iterable[Component], found: Installed, *, looks_only: bool = False
) -> Installed:
    """Return what is installed, with the drift of our releases. It costs a few requests for each object.

    Args:
        helm: for values and manifests of releases.
        cluster: the cluster.
        components: components of the recipe.
        found: what is installed.
        looks_only: the caller changes nothing, so a release without permission to read it is `unread` and no error. A
            release whose record cannot be parsed is `unread` in either case.

    Raises:
        BringupError: helm or the API server does not answer.
    """
    ours = [
        component
        for component in components
        if component.release not in found.unread
        and found.is_ours(component.release)
        and component.release in found.releases
        and found.releases[component.release].status == "deployed"
    ]

    unread = dict(found.unread)

    def one(component: Component) -> tuple[str, tuple[str, ...]]:
        try:
            texts = _of_chart(helm, cluster, component) if component.has_chart else []
            for manifest in component.manifests:
                texts += [f"{manifest.title} {path}" for path in _of_manifest(cluster, component, manifest)]
        except ForbiddenError as error:
            if not looks_only:
                raise
            unread[component.release] = error.told
            return component.release, ()
        except InputError as error:
            # Nothing of ours is wrong: the run goes on, and reports that it could not look.
            unread[component.release] = f"{error.subject} {error.reason.rstrip('.')}"
            return component.release, ()
        return component.release, tuple(texts)

    return replace(found, drift=dict(map_bounded(one, ours, _AT_ONCE)), unread=unread)


def _of_chart(helm: Helm, cluster: Cluster, component: Component) -> list[str]:
    given = helm.values(component.name, component.namespace)
    texts = [f"value {path}" for path in different_values(component.values, given)]
    if not texts:
        manifest = helm.manifest(component.name, component.namespace)
        texts = [text for body in _objects(manifest, component.release) for text in _object(cluster, component, body)]
    return texts


def _of_manifest(cluster: Cluster, component: Component, manifest: Manifest) -> list[str]:
    observed = applied_again(cluster, component, manifest)
    if observed is None:
        return []
    live, again = observed
    return edited_fields(manifest.body, live) if again is None else changed_fields(manifest.body, live, again)


def changed_fields(wanted: Json, live: Json, again: Json) -> list[str]:
    """Return the fields that applying an object again would change. Fields that a controller wrote last are left out.

    Args:
        wanted: the manifest.
        live: the object as it is.
        again: the object as the server would have it after the manifest was applied again.
    """
    others = [
        entry.get("fieldsV1") or {}
        for entry in live["metadata"].get("managedFields") or ()
        if entry.get("manager") != FIELD_MANAGER and not str(entry.get("manager", "")).startswith("kubectl")
    ]
    found = {
        ".".join(path)
        for path in _changes(_content(live, wanted), _content(again, wanted), ())
        if not any(_covers(fields, path) for fields in others)
    }
    # In `found` a list is one field. Its edited parts replace it, also where a controller wrote another part.
    edited = set(edited_fields(wanted, live))
    return sorted(edited | {path for path in found if not _within(path, edited)})


def _within(path: str, edited: Iterable[str]) -> bool:
    return any(entry == path or entry.startswith((f"{path}.", f"{path}[")) for entry in edited)


def _content(body: Json, wanted: Json) -> Json:
    """Return the part of an object that is compared: no status, and only labels and annotations of the manifest.

    The server counts its changes in other annotations.
    """
    metadata, configured = body.get("metadata") or {}, wanted.get("metadata") or {}
    kept = {
        name: {key: (metadata.get(name) or {}).get(key) for key in configured.get(name) or {}}
        for name in ("labels", "annotations")
    }
    return {**{name: value for name, value in body.items() if name != "status"}, "metadata": kept}


def _changes(before: Any, after: Any, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    if isinstance(before, Mapping | None) and isinstance(after, Mapping | None) and (before or after):
        before, after = before or {}, after or {}
        for key in {*before, *after}:
            yield from _changes(before.get(key), after.get(key), (*path, key))
    elif before != after:
        yield path


def _covers(fields: Json, path: tuple[str, ...]) -> bool:
    for step in path:
        if f"f:{step}" not in fields:
            return False
        fields = fields[f"f:{step}"]
    return True


def different_values(wanted: Any, given: Any) -> list[str]:
    """Return the dotted paths at which two sets of values differ. A value of null counts as missing."""
    return sorted(_different(_without_nulls(wanted), _without_nulls(given), ""))


def _different(wanted: Any, given: Any, path: str) -> Iterator[str]:
    if isinstance(wanted, Mapping) and isinstance(given, Mapping):
        for key in {*wanted, *given}:
            yield from _different(wanted.get(key), given.get(key), f"{path}.{key}" if path else str(key))
    elif wanted != given and not (wanted in ({}, None) and given in ({}, None)):
        yield path


def _without_nulls(value: Any) -> Any:
    plain = json.loads(json.dumps(value, default=str))
    return _pruned(plain)


def _pruned(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _pruned(entry) for key, entry in value.items() if entry is not None}
    return value


def _object(cluster: Cluster, component: Component, body: Json) -> list[str]:
    title = f"{body['kind']} {body['metadata']['name']}"
    try:
        kind = cluster.kind(body["apiVersion"], body["kind"])
    except NotFoundError:
        return [f"{title} is gone"]
    namespace = str(body["metadata"].get("namespace") or component.namespace) if kind.namespaced else ""
    live = cluster.find(kind, body["metadata"]["name"], namespace)
    return [f"{title} is gone"] if live is None else [f"{title} {path}" for path in edited_fields(body, live)]


def edited_fields(wanted: Json, live: Json) -> list[str]:
    """Return the fields of an object that kubectl wrote last and that differ from the chart."""
    found: set[str] = set()
    for entry in live["metadata"].get("managedFields") or ():
        if str(entry.get("manager", "")).startswith("kubectl") and entry.get("subresource") in (None, "", "scale"):
            found.update(_edited(entry.get("fieldsV1") or {}, wanted, live, ""))
    return sorted(found)


def _edited(fields: Json, wanted: Any, live: Any, path: str) -> Iterator[str]:
    for key, inner in fields.items():
        kind, _colon, name = key.partition(":")
        if kind == "f" and isinstance(wanted, Mapping) and name in wanted:
            there = live.get(name) if isinstance(live, Mapping) else None
            place = f"{path}.{name}" if path else name
            if inner and isinstance(wanted[name], Mapping | list):
                yield from _edited(inner, wanted[name], there, place)
            elif _text(wanted[name]) != _text(there):
                yield place
        elif kind == "k":
            keys = json.loads(name)
            mine, theirs = _item(wanted, keys), _item(live, keys)
            if mine is not None:
                label = ",".join(str(value) for value in keys.values())
                yield from _edited(inner, mine, theirs, f"{path}[{label}]")


def _item(items: Any, keys: Json) -> Json | None:
    found = items if isinstance(items, list) else ()
    return next(
        (item for item in found if isinstance(item, dict) and all(item.get(key) == keys[key] for key in keys)), None
    )


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True) if isinstance(value, dict | list) else str(value)


def _objects(text: str, release: str) -> list[Json]:
    """Return the objects of a release's manifest.

    Raises:
        InputError: it cannot be read.
    """
    try:
        found = documents(text)
    except PlainYamlError as error:
        raise InputError(f"manifest of release {release}", f"is not YAML: {error}.") from None
    objects = [body for body in found if isinstance(body, dict) and isinstance(body.get("metadata"), dict)]
    return [body for body in objects if body.get("apiVersion") and body.get("kind") and body["metadata"].get("name")]
