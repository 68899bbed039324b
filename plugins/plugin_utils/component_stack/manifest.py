# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The manifests that a component has before and after its chart, or instead of one: plain values. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..outcome.errors import InputError
from ..runtime.plain_yaml import documents
from ..runtime.secret_keys import redact_data

Json = dict[str, Any]
COMPONENT_ANNOTATION = "gpufleet.io/component"
_KEYS = {"before": "preManifestFiles", "after": "manifestFiles"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """One object of a manifest file; `before` the chart or after it."""

    file: str
    before: bool
    body: Json

    @property
    def title(self) -> str:
        """How messages name it."""
        metadata = self.body["metadata"]
        place = f"{metadata['namespace']}/" if metadata.get("namespace") else ""
        return f"{self.body['kind']} {place}{metadata['name']}"

    @property
    def digest(self) -> str:
        """Digest of what the file says, without secrets: it is a label that anybody may read."""
        return hashlib.sha256(json.dumps(redact_data(self.body), sort_keys=True).encode()).hexdigest()[:32]


def manifests_of(entry: Mapping[str, Any], subject: str, problems: list[InputError]) -> tuple[Manifest, ...]:
    """Return the objects of a component's manifest files, in the order in which they are written."""
    texts = {(item.get("when"), item.get("file")): item.get("text") for item in entry.get("manifests") or ()}
    found: list[Manifest] = []
    for when, key in _KEYS.items():
        for file in entry.get(key) or ():
            text = texts.get((when, file))
            if not isinstance(text, str):
                reason = f"names the manifest file {file}, whose content is not in the recipe."
                problems.append(InputError(subject, reason, "resolve the recipe again with run_dir or hydrated_dest"))
                continue
            try:
                found += [Manifest(file=file, before=when == "before", body=body) for body in _objects(text)]
            except InputError as error:
                problems.append(InputError(f"{subject}: {file}", error.reason, error.hint))
    return tuple(found)


def _objects(text: str) -> list[Json]:
    """Return the objects of a file: plain YAML, one or several documents, lists of objects unfolded."""
    if any("{{" in line.partition("#")[0] for line in text.splitlines()):
        hint = "put a plain YAML file at the same path into a private recipe directory, or switch the component off"
        raise InputError("", "is a chart template ({{ ... }}); only plain manifests are applied.", hint)
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
