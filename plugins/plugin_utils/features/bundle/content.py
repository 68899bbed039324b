# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The files that every bundle has, whatever applies it: folders, namespaces, the recipe, a description. Pure.

A file is a path in the bundle and its text; the same recipe gives the same bytes on every machine.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Any

from ...outcome.errors import InputError
from ...recipe.yaml_dump import dump_yaml
from .parts import Bundle, BundlePart, Json

Files = dict[str, str]
ABOUT, SUMS, RECIPE, NAMESPACES_FILE, README = (
    "bundle.yaml",
    "checksums.txt",
    "recipe.yaml",
    "namespaces.yaml",
    "README.md",
)
# The version of the bundle format, which bundle.yaml has.
SCHEMA_VERSION = 1
# The chart of a folder without an upstream chart: its objects as they are, without any template in them.
_TEMPLATE = """\
{{- range $path, $text := .Files.Glob "objects/*.yaml" }}
---
{{ $.Files.Get $path }}
{{- end }}
"""
_ODD = re.compile(r"[^a-z0-9.]+")
_HEAD = "Made by `gpufleet bundle`. Do not edit it: change the recipe, and make it again."


def about(bundle: Bundle, release: str) -> str:
    """Return the file that describes the bundle.

    Args:
        bundle: the bundle.
        release: the version of the collection that made it.
    """
    reported: Json = {"schemaVersion": SCHEMA_VERSION, "kind": "Bundle", "deployer": bundle.deployer, "madeBy": release}
    repository = {
        name: value
        for name, value in (
            ("url", bundle.repository.url),
            ("revision", bundle.repository.revision),
            ("path", bundle.repository.path),
        )
        if value
    }
    return dump_yaml(reported | ({"repository": repository} if repository else {}))


def common(bundle: Bundle) -> Files:
    """Return the recipe and the namespaces."""
    files = {RECIPE: dump_yaml(bundle.recipe)}
    if bundle.namespaces:
        files[NAMESPACES_FILE] = several(bundle.namespaces)
    return files


def several(bodies: Iterable[Mapping[str, Any]]) -> str:
    """Return objects as one YAML file."""
    return "".join(f"---\n{dump_yaml(dict(body))}" for body in bodies)


def values_files(part: BundlePart) -> Files:
    """Return the values of a folder with an upstream chart; none for any other."""
    if part.upstream is None:
        return {}
    files = {f"{part.folder}/values.yaml": dump_yaml(part.values.written)}
    if part.values.places:
        files[f"{part.folder}/secrets.txt"] = "".join(f"{place}\n" for place in part.values.places)
    return files


def chart_files(part: BundlePart) -> Files:
    """Return the chart that a folder contains: objects as its templates, definitions where Helm expects them."""
    if part.upstream is not None:
        return {}
    about_chart = {
        "apiVersion": "v2",
        "name": part.release,
        "description": f"Manifests of component {part.component}",
        "version": "1.0.0",
    }
    files = {f"{part.folder}/Chart.yaml": dump_yaml(about_chart)}
    if part.objects:
        files[f"{part.folder}/templates/objects.yaml"] = _TEMPLATE
    for place, bodies in (("objects", part.objects), ("crds", part.definitions)):
        for number, body in enumerate(bodies, 1):
            name = _ODD.sub("-", f"{body['kind']}-{body['metadata']['name']}".lower()).strip("-")[:100]
            files[f"{part.folder}/{place}/{number:02}-{name}.yaml"] = dump_yaml(dict(body))
    return files


def sums_of(files: Mapping[str, str]) -> str:
    """Return the digests of files in the form of sha256sum, sorted by path."""
    return "".join(f"{digest_of(files[path].encode())}  {path}\n" for path in sorted(files))


def digest_of(content: bytes) -> str:
    """Return the SHA-256 of some bytes."""
    return hashlib.sha256(content).hexdigest()


def readme(bundle: Bundle, title: str, sections: Iterable[str]) -> str:
    """Return the page of a bundle.

    Args:
        bundle: the bundle.
        title: how it is applied, such as `for Helm`.
        sections: how it is applied, in Markdown.
    """
    criteria = bundle.recipe.get("criteria") or {}
    reported = ", ".join(
        f"{name} {value}" for name, value in sorted(criteria.items()) if value not in ("any", "", None)
    )
    parts = [f"# GPU stack {title}", _HEAD, f"The recipe is for: {reported}." if reported else "", *sections]
    parts += ["## Folders", _table(bundle)]
    parts.append(
        "## Is it whole?\n\n    sha256sum --check --strict --quiet checksums.txt\n\n"
        "`gpufleet bundle-verify DIRECTORY` also finds files and links that were added."
    )
    return "\n\n".join(part for part in parts if part) + "\n"


def _table(bundle: Bundle) -> str:
    lines = ["| folder | chart | namespace | after |", "| --- | --- | --- | --- |"]
    for part in bundle.parts:
        chart = f"{part.upstream.name} {part.upstream.version}".rstrip() if part.upstream else "manifests"
        lines.append(f"| {part.folder} | {chart} | {part.namespace} | {', '.join(part.needs)} |")
    return "\n".join(lines)


def secrets_section(bundle: Bundle, way: str) -> str:
    """Return what the reader has to supply as secrets, empty where there are none.

    Args:
        bundle: the bundle.
        way: what to do with the file of a component, in Markdown.
    """
    if not bundle.withholding:
        return ""
    rows = [
        f"- {part.component}: {', '.join(f'`{place}`' for place in part.values.places)}" for part in bundle.withholding
    ]
    return "\n".join(
        [
            "## Secrets",
            "",
            "These values of the recipe are secret, and in no file here:",
            "",
            *rows,
            "",
            "`gpufleet bundle ... --secrets-into DIR`, with the recipe and its secrets, writes `DIR/COMPONENT.yaml`.",
            "",
            way,
        ]
    )


def annotated(body: Mapping[str, Any], annotations: Mapping[str, str]) -> Json:
    """Return an object with these annotations added."""
    metadata = body["metadata"]
    return {**body, "metadata": {**metadata, "annotations": {**(metadata.get("annotations") or {}), **annotations}}}


def chart_repository(part: BundlePart, engine: str) -> tuple[str, str, str]:
    """Return the repository of a chart, its name there, and its version.

    Args:
        part: a folder with an upstream chart.
        engine: the engine, for the error.

    Raises:
        InputError: the chart is a package at an address.
    """
    upstream = part.upstream
    if upstream is None or not (upstream.repository or upstream.reference.startswith("oci://")):
        reason = f"comes as a package at an address, and {engine} takes charts from repositories."
        raise InputError(f"component {part.component}", reason, "leave --chart-mirror out, or take --deployer helm")
    return upstream.repository or upstream.reference.rpartition("/")[0], upstream.name, upstream.version


def repository_name(address: str) -> str:
    """Return a readable, unique name for a chart repository."""
    words = re.sub(r"[^a-z0-9]+", "-", address.partition("://")[2].lower()).strip("-")[:40].strip("-")
    return f"{words}-{digest_of(address.encode())[:6]}"
