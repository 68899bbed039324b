# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The manifests that a component has before and after its chart, or instead of one, as plain values. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..clients.helm.chart import is_template
from ..outcome.errors import InputError
from ..runtime.foreign_yaml import documents
from ..runtime.redaction import redact_data

Json = dict[str, Any]
COMPONENT_ANNOTATION = "gpufleet.io/component"
# `when` of a manifest that Kustomize built, for a component without chart.
BUILT = "built"
_RENDER = "resolve the recipe with run_dir (preflight does), which renders it"
_KEYS = {"before": "preManifestFiles", "after": "manifestFiles"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """One object of a manifest file, applied `before` the chart or after it."""

    file: str
    before: bool
    body: Json

    @property
    def title(self) -> str:
        """Its name in messages."""
        metadata = self.body["metadata"]
        place = f"{metadata['namespace']}/" if metadata.get("namespace") else ""
        return f"{self.body['kind']} {place}{metadata['name']}"

    @property
    def digest(self) -> str:
        """Digest of the object. Secrets are left out, because it becomes a label that any user may read."""
        return hashlib.sha256(json.dumps(redact_data(self.body), sort_keys=True).encode()).hexdigest()[:32]


def manifests_of(entry: Mapping[str, Any], subject: str, problems: list[InputError]) -> tuple[Manifest, ...]:
    """Return the objects of a component's manifest files in their order. Errors are appended to `problems`."""
    items = {(item.get("when"), item.get("file")): item for item in entry.get("manifests") or ()}
    found: list[Manifest] = []
    for when, key in _KEYS.items():
        for item in _built(entry) if when == "after" else ():
            found += _manifests(item, subject, problems, before=False)
        for file in entry.get(key) or ():
            item = items.get((when, file)) or {}
            if not isinstance(item.get("text"), str):
                reason = f"names the manifest file {file}, whose content is not in the recipe."
                problems.append(InputError(subject, reason, "resolve the recipe again with run_dir or hydrated_dest"))
                continue
            found += _manifests(item, subject, problems, before=when == "before")
    return tuple(found)


def _built(entry: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [item for item in entry.get("manifests") or () if item.get("when") == BUILT]


def _manifests(item: Mapping[str, Any], subject: str, problems: list[InputError], *, before: bool) -> list[Manifest]:
    text, file = str(item.get("text")), str(item.get("file"))
    try:
        if not is_plain(item):
            raise InputError("", "has template expressions ({{ ... }}) and was not rendered.", _RENDER)
        return [Manifest(file=file, before=before, body=body) for body in _objects(text)]
    except InputError as error:
        problems.append(InputError(f"{subject}: {file}", error.reason, error.hint))
        return []


def is_plain(item: Mapping[str, Any]) -> bool:
    """Tell whether a manifest file can be applied as it is: it is rendered, or has no template expressions."""
    return bool(item.get("rendered")) or item.get("when") == BUILT or not is_template(str(item.get("text")))


def _objects(text: str) -> list[Json]:
    """Return the objects of a file: plain YAML of one or several documents. Lists are replaced by their items."""
    try:
        found = documents(text)
        json.dumps(found)
    except (TypeError, ValueError) as error:
        raise InputError("", f"is not plain YAML: {str(error)[:200]}.", "correct the file") from None
    objects: list[Any] = []
    for document in found:
        if document is None:
            continue
        nested = document.get("items") if isinstance(document, dict) and document.get("kind") == "List" else None
        objects += nested if isinstance(nested, list) else [document]
    for body in objects:
        metadata = body.get("metadata") if isinstance(body, dict) else None
        named = isinstance(metadata, dict) and isinstance(metadata.get("name"), str) and metadata["name"]
        if not (named and isinstance(body.get("kind"), str) and isinstance(body.get("apiVersion"), str)):
            raise InputError("", "holds something that is no object.", "give apiVersion, kind and metadata.name")
    return objects
