# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Marks the CRDs of a release so that helm leaves them in the cluster when it uninstalls the release.

Every object of a kind goes with its CRD, whatever created it. Helm uninstalls what the record of the newest revision
lists. It leaves what has `helm.sh/resource-policy: keep` in the record itself, whatever annotation the object in the
cluster has (helm/helm, pkg/action/resource_policy.go). The record is a Secret: JSON, gzip, base64 (pkg/storage/driver).
"""

from __future__ import annotations

import base64
import binascii
import gzip
import json
import re
import zlib
from typing import Any

from ..clients.helm.helm import Helm
from ..clients.kube.cluster import Cluster
from ..clients.kube.objects import CRDS, SECRETS
from ..outcome.errors import UnavailableError
from ..runtime.foreign_yaml import documents
from .removal import KEEP_ANNOTATION, definitions_in

Json = dict[str, Any]
# The separator by which helm splits a manifest (pkg/releaseutil/manifest.go).
_BETWEEN = re.compile(r"(?:^|\s*\n)---\s*")


def keep_definitions(helm: Helm, cluster: Cluster, name: str, namespace: str) -> tuple[str, ...]:
    """Mark the CRDs in the record of a release. Return their names. Helm itself then lists them as kept.

    Raises:
        UnavailableError: the record is not where helm stores it by default, or not in helm's format.
        BringupError: helm or the API server does not answer.
    """
    names = _listed(helm, name, namespace)
    if not names:
        return ()
    labels = f"owner=helm,name={name}"
    rows = cluster.list_metadata(SECRETS, namespace, labels=labels)
    if rows:
        newest = max(rows, key=lambda row: int((row.get("labels") or {}).get("version") or 0))
        cluster.change(SECRETS, str(newest["name"]), lambda secret: _marked(secret, name), namespace)
    left = _listed(helm, name, namespace)
    if left:
        raise _unmarked(name, f"lists {', '.join(left)}, and its record is no Secret of namespace {namespace}.")
    return names


def with_kept(manifest: str) -> str:
    """Return a manifest with each CRD marked to be kept. Other documents are unchanged.

    Raises:
        ValueError: a document is not YAML.
    """
    return "".join(f"---\n{_kept(text)}\n" for text in _BETWEEN.split(manifest) if text.strip())


def _kept(text: str) -> str:
    if CRDS.kind not in text:
        return text
    bodies = [body for body in documents(f"{text}\n") if isinstance(body, dict)]
    if len(bodies) != 1 or bodies[0].get("kind") != CRDS.kind:
        return text
    metadata = bodies[0]["metadata"]
    marks = {**(metadata.get("annotations") or {}), KEEP_ANNOTATION: "keep"}
    return json.dumps({**bodies[0], "metadata": {**metadata, "annotations": marks}}, separators=(",", ":"))


def _marked(secret: Json, name: str) -> Json:
    try:
        packed = base64.b64decode(base64.b64decode(secret["data"]["release"]))
        record = json.loads(gzip.decompress(packed))
        record["manifest"] = with_kept(record["manifest"])
    except (KeyError, TypeError, ValueError, binascii.Error, OSError, EOFError, zlib.error):
        raise _unmarked(name, "has a record that is not as helm writes it.") from None
    packed = gzip.compress(json.dumps(record, separators=(",", ":")).encode(), 9)
    secret["data"]["release"] = base64.b64encode(base64.b64encode(packed)).decode()
    return secret


def _listed(helm: Helm, name: str, namespace: str) -> tuple[str, ...]:
    try:
        bodies = [body for body in documents(helm.manifest(name, namespace)) if isinstance(body, dict)]
    except ValueError as error:
        raise _unmarked(name, f"is not YAML: {error}.") from None
    return definitions_in(body for body in bodies if body.get("metadata"))


def _unmarked(name: str, found: str) -> UnavailableError:
    hint = "save the objects of its definitions, then run again with -e gpufleet_remove_crds=true, which removes them"
    return UnavailableError(f"release {name}", f"{found} Helm would take its definitions away.", hint)
