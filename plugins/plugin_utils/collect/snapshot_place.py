# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Storage of snapshots: files, HTTPS addresses, ConfigMaps (`cm://namespace/name`, several of them for a large one).

The first ConfigMap has the digest and names the others. If it is small enough it also has the keys that an upstream
tool reads (`snapshot.yaml`, `format`, `timestamp`).
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..clients.kube.cluster import Cluster
from ..clients.kube.objects import CONFIG_MAPS
from ..outcome.errors import InputError
from ..recipe.dialect import RESULT_API
from ..runtime.files import PRIVATE_FILE, write_atomic
from ..snapshot.formats import parse_snapshot, to_text, to_upstream
from ..snapshot.model import Snapshot

# An API server takes 1 MiB of data in a ConfigMap (Kubernetes API reference, ConfigMap). The head has other keys, too.
PART_BYTES = 900_000
LABEL = "gpufleet.io/snapshot"
# Longest name of a ConfigMap, and longest value of a label (Kubernetes documentation, "Object Names and IDs" and
# "Labels and Selectors"). A part has the snapshot's name, ten digits of its digest and its number.
_LONGEST_NAME, _LONGEST_LABEL = 253, 63
_OF_PART = 15
_FORMAT = "gpufleet-snapshot/1"
_CM = re.compile(r"cm://(?P<namespace>[a-z0-9.-]+)/(?P<name>[a-z0-9.-]+)")
_UPSTREAM = "snapshot.yaml"
# Upstream names the key by its format (pkg/serializer/configmap.go).
_THEIRS = (_UPSTREAM, "snapshot.json")
_RECIPE = "recipe.yaml"
Json = dict[str, Any]
Connect = Callable[[], Cluster]


def is_config_map(place: str) -> bool:
    """Tell whether a place is a ConfigMap."""
    return place.startswith("cm://")


def _config_map(place: str) -> tuple[str, str]:
    found = _CM.fullmatch(place)
    if found is None:
        raise InputError(f"place {place!r}", "is no ConfigMap.", "write cm://namespace/name")
    return found["namespace"], found["name"]


def read_snapshot(place: str, connect: Connect) -> Snapshot:
    """Return the snapshot at a place: a file, an https address or a ConfigMap.

    Args:
        place: where it is.
        connect: returns the cluster; called only for a ConfigMap.

    Raises:
        InputError: it is no snapshot, or not the one that was written.
        BringupError: the place does not respond.
    """
    return parse_snapshot(*read_place(place, connect, _from_config_maps, "give the file that playbook snapshot wrote"))


def read_recipe_text(place: str, connect: Connect) -> tuple[str, str]:
    """Return the text of a recipe at a place (see read_snapshot), and the place as messages name it.

    Raises:
        InputError: nothing can be read there.
        BringupError: the place does not respond.
    """
    hint = "resolve one: ansible-playbook gpufleet.bringup.recipe -e gpufleet_recipe_dest=recipe.yaml"
    return read_place(place, connect, _recipe_in, hint)


def _recipe_in(cluster: Cluster, namespace: str, name: str) -> str:
    data = cluster.get(CONFIG_MAPS, name, namespace).get("data") or {}
    if _RECIPE in data or len(data) == 1:
        return str(data.get(_RECIPE) or next(iter(data.values())))
    found = f"holds no {_RECIPE}: it has {', '.join(sorted(data)) or 'no data'}."
    raise InputError(f"cm://{namespace}/{name}", found, "correct the name")


def read_place(
    place: str, connect: Connect, from_config_maps: Callable[[Cluster, str, str], str], hint: str
) -> tuple[str, str]:
    """Return the text at a place, and the place as messages name it.

    Args:
        place: a file, an https address or a ConfigMap.
        connect: returns the cluster; called only for a ConfigMap.
        from_config_maps: reads the text from the ConfigMap of that namespace and name.
        hint: what to give instead of a file that cannot be read.

    Raises:
        InputError: nothing can be read there.
        BringupError: the place does not respond.
    """
    if is_config_map(place):
        namespace, name = _config_map(place)
        with connect() as cluster:
            return from_config_maps(cluster, namespace, name), place
    if "://" in place:
        from ..clients.http.routes import UrlRoute
        from ..clients.http.session import HttpSession

        if not place.startswith("https://"):
            hint = "give an https address, a file or cm://namespace/name"
            raise InputError(f"place {UrlRoute(place).text}", "is not https.", hint)
        route = UrlRoute(place, proxied=True)
        return HttpSession(route, timeout_s=60.0).text("GET", ""), route.text
    path = Path(place).expanduser()
    try:
        return path.read_text(encoding="utf-8"), str(path)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no UTF-8 text"
        raise InputError(str(path), f"cannot be read: {reason}.", hint) from None


def write_snapshot(
    snapshot: Snapshot, place: str, connect: Connect, *, upstream: bool = False, api: str = RESULT_API
) -> tuple[str, ...]:
    """Write a snapshot, readable by its owner alone, and return what the user should know.

    Args:
        snapshot: the snapshot.
        place: a file or a ConfigMap.
        connect: returns the cluster; called only for a ConfigMap.
        upstream: write a file in upstream's format, as far as it has the fields. A ConfigMap has both formats anyway.
        api: API version of upstream's format.

    Raises:
        InputError: the place cannot be written to.
        BringupError: it cannot be written.
    """
    if is_config_map(place):
        namespace, name = _config_map(place)
        if len(name) > _LONGEST_NAME - _OF_PART:
            longest = _LONGEST_NAME - _OF_PART
            hint = f"choose a name of at most {longest} characters: the parts are called after it"
            raise InputError(f"place {place!r}", f"has a name of {len(name)} characters.", hint)
        with connect() as cluster:
            return _to_config_maps(cluster, namespace, name, snapshot, api)
    if "://" in place:
        from ..clients.http.routes import UrlRoute

        raise InputError(f"place {UrlRoute(place).text}", "can only be read.", "give a file or cm://namespace/name")
    text = (
        json.dumps(to_upstream(snapshot, api), ensure_ascii=False, indent=2) + "\n" if upstream else to_text(snapshot)
    )
    write_atomic(Path(place).expanduser(), text, PRIVATE_FILE)
    return ()


def _to_config_maps(cluster: Cluster, namespace: str, name: str, snapshot: Snapshot, api: str) -> tuple[str, ...]:
    text = to_text(snapshot).encode()
    digest = hashlib.sha256(text).hexdigest()
    packed = gzip.compress(text, mtime=0)
    parts = [packed[start : start + PART_BYTES] for start in range(0, len(packed), PART_BYTES)]
    names = [f"{name}-{digest[:10]}-{number}" for number in range(len(parts))]
    # Parts first, the head last: a concurrent reader finds the old head with the old parts, or the new with the new.
    for part, data in zip(names, parts, strict=True):
        body = {"binaryData": {"part": base64.b64encode(data).decode()}}
        cluster.apply(CONFIG_MAPS, {"metadata": _metadata(part, name), **body}, namespace, force=True)
    theirs = json.dumps(to_upstream(snapshot, api), ensure_ascii=False)
    head = {"gpufleet-format": _FORMAT, "sha256": digest, "parts": json.dumps(names), "timestamp": snapshot.taken}
    fits = len(theirs.encode()) <= PART_BYTES
    if fits:
        # JSON is valid YAML.
        head |= {_UPSTREAM: theirs, "format": "yaml"}
    cluster.apply(CONFIG_MAPS, {"metadata": _metadata(name, name), "data": head}, namespace, force=True)
    for old in cluster.list_objects(CONFIG_MAPS, namespace, labels=f"{LABEL}={_label(name)}"):
        if old["metadata"]["name"] not in (name, *names):
            cluster.delete(CONFIG_MAPS, old["metadata"]["name"], namespace)
    if fits:
        return ()
    return (
        f"cm://{namespace}/{name}: in upstream's words it is larger than a ConfigMap; only this collection reads it",
    )


def _metadata(name: str, snapshot: str) -> Json:
    return {"name": name, "labels": {LABEL: _label(snapshot)}}


def _label(name: str) -> str:
    """Return the label value of a snapshot's ConfigMaps: its name. A long name is cut and gets a digest."""
    if len(name) <= _LONGEST_LABEL:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:10]
    return f"{name[: _LONGEST_LABEL - 11]}-{digest}"


def _from_config_maps(cluster: Cluster, namespace: str, name: str) -> str:
    place = f"cm://{namespace}/{name}"
    head = cluster.get(CONFIG_MAPS, name, namespace).get("data") or {}
    if "gpufleet-format" not in head:
        theirs = next((str(head[key]) for key in _THEIRS if head.get(key)), "")
        if not theirs:
            found = f"holds no snapshot: it has {', '.join(sorted(head)) or 'no data'}."
            raise InputError(place, found, "correct the name")
        return theirs
    if head["gpufleet-format"] != _FORMAT:
        found = f"is of format {head['gpufleet-format']}, this release reads {_FORMAT}."
        raise InputError(place, found, "read it with the release that wrote it")
    try:
        names = json.loads(head["parts"])
        data = [cluster.get(CONFIG_MAPS, part, namespace)["binaryData"]["part"] for part in names]
        text = gzip.decompress(b"".join(base64.b64decode(part, validate=True) for part in data))
    except (KeyError, TypeError, ValueError, OSError, EOFError) as error:
        raise InputError(place, f"is not whole: {type(error).__name__} {error}.", "write it again") from None
    digest = hashlib.sha256(text).hexdigest()
    if digest != head.get("sha256"):
        raise InputError(place, f"its digest is {digest}, expected {head.get('sha256')}.", "write it again")
    _require_ours(place, head, str(json.loads(text).get("taken")))
    return text.decode()


def _require_ours(place: str, head: Json, taken: str) -> None:
    """Refuse a ConfigMap that the upstream tool has overwritten since.

    That tool applies its three keys by force and leaves ours (pkg/serializer/configmap.go). Ours would be read as if
    they were current.
    """
    other = head.get("timestamp")
    if other != taken:
        text = f"another tool has written there since: its snapshot is of {other}, ours of {taken}."
        raise InputError(place, text, "delete the ConfigMap, and give each tool a name of its own")
