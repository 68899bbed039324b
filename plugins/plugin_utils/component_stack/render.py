# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Turns a hydrated recipe into plain manifests: Kustomize sources are built, template expressions rendered.

This is done once, before the run saves its recipe, so that all its readers install and judge the same objects.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..clients.helm.helm import Templated, render
from ..clients.kustomize import KustomizeSource, build
from ..outcome.errors import BringupError, InputError, ProblemsError
from .manifest import BUILT, is_plain

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Renderer:
    """The tools for rendering: the helm program and the mirror of the site, if there is one."""

    helm: str = "helm"
    mirror: str = ""

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Renderer:
        """Make it from the options `helm` and `chart_mirror`."""
        return cls(helm=options.get("helm") or "helm", mirror=options.get("chart_mirror") or "")


def source_of(entry: Mapping[str, Any]) -> KustomizeSource | None:
    """Return the Kustomize source of a component. None if it is of another type."""
    if str(entry.get("type") or "") != "Kustomize":
        return None
    fields = {name: str(entry.get(name) or "") for name in ("source", "path", "tag")}
    return KustomizeSource(component=str(entry.get("name") or ""), **fields)


def rendered(recipe: Mapping[str, Any], renderer: Renderer, built: Mapping[str, Any] | None = None) -> Json:
    """Return a hydrated recipe with plain manifests only.

    Args:
        recipe: the hydrated recipe.
        renderer: the tools.
        built: the same recipe, rendered earlier; what Kustomize built in it is reused.

    Raises:
        ProblemsError: everything that cannot be rendered, each with its component or file and line.
    """
    known = {str(entry.get("name")): entry for entry in (built or {}).get("componentRefs") or ()}
    problems: list[BringupError] = []
    entries = [_entry(entry, renderer, known, problems) for entry in recipe.get("componentRefs") or ()]
    if problems:
        raise ProblemsError("recipe", tuple(problems))
    return {**recipe, "componentRefs": entries}


def _entry(
    entry: Mapping[str, Any], renderer: Renderer, known: Mapping[str, Any], problems: list[BringupError]
) -> Json:
    manifests = [dict(item) for item in entry.get("manifests") or ()]
    source = source_of(entry)
    if source is not None and not any(item.get("when") == BUILT for item in manifests):
        before = [item for item in (known.get(source.component) or {}).get("manifests") or () if item["when"] == BUILT]
        try:
            manifests += before or [{"when": BUILT, "file": source.target, "text": build(source, renderer.mirror)}]
        except BringupError as error:
            problems.append(error)
    for item in manifests:
        if not is_plain(item):
            try:
                text = render(_templated(entry, str(item.get("file")), str(item.get("text"))), renderer.helm)
                item.update(text=text, rendered=True)
            except InputError as error:
                problems.append(InputError(f"component {entry.get('name')}: {error.subject}", error.reason, error.hint))
            except BringupError as error:
                problems.append(error)
    return {**entry, **({"manifests": manifests} if manifests else {})}


def _templated(entry: Mapping[str, Any], file: str, text: str) -> Templated:
    return Templated(
        file=file,
        text=text,
        component=str(entry.get("name")),
        namespace=str(entry.get("namespace") or "default"),
        version=str(entry.get("version") or ""),
        values=entry.get("values") or {},
    )
