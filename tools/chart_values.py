# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Renders a real chart with the values of our recipes: for maintainers, before a version is raised.

The chart is a directory, or an archive as `helm pull` writes it. Said are values that the chart does not have, values
that its schema or its templates refuse, and objects that differ from those accepted last. No cluster is asked.
The exit status is 1 if anything is said. See docs/catalogue-maintenance.md.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.helm.chart import ChartSource
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.helm.helm import Helm, HelmError, ReleaseRequest
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.connection import Connection
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import BringupError, InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.criteria import Criteria, parse_criteria
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.hydrate import hydrated
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.load import load_catalogue
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.model import Catalogue
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.paths import parse_path, shown
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.policy import Unsupported, require_supported
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.resolve import resolve
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.support import supported_combinations
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.files import RECIPES
from tools.catalog_values import listed_paths
from tools.chart_files import Chart, Path_, read_chart
from tools.chart_keys import unknown_keys, unread_path
from tools.chart_objects import Json, differences, objects_of, steady
from tools.chart_probe import Probe
from tools.chart_proven import record

Render = Callable[["Question"], str]
_INDEX = "index.json"
# Helm's words for a chart whose dependencies were not fetched.
_LACKS = "missing in charts/ directory"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Recipes that give a component the same values: their criteria, the values, and where it is installed."""

    recipes: tuple[str, ...]
    component: str
    namespace: str
    values: Mapping[str, Any]

    @property
    def title(self) -> str:
        """How it is named in what is printed."""
        more = f" and {len(self.recipes) - 1} more" if len(self.recipes) > 1 else ""
        return f"{self.recipes[0]}{more}"


def component_of(chart: Chart, catalogue: Catalogue, stated: str = "") -> str:
    """Return the component that is installed from a chart.

    Raises:
        InputError: there is none, or several, or not the stated one.
    """
    if stated and stated not in catalogue.registry:
        raise InputError(f"component {stated}", "is not in the registry.", "see recipes/registry.yaml")
    names = [
        name
        for name, entry in catalogue.registry.items()
        if entry.default("helm", "defaultChart").rpartition("/")[2] == chart.name
    ]
    if not stated and len(names) != 1:
        found = f"of {', '.join(names)}" if names else "of no component of recipes/registry.yaml"
        raise InputError(f"chart {chart.name}", f"is the chart {found}.", "name one with --component")
    return stated or names[0]


def questions(component: str, catalogue: Catalogue, chosen: Sequence[str]) -> list[Question]:
    """Return what chosen recipes (`service=eks,os=ubuntu`; all of the catalogue, if none) give a component, each once.

    Raises:
        BringupError: criteria are wrong or not supported, or no chosen recipe has the component.
    """
    asked = [_criteria(text, catalogue) for text in chosen] or list(supported_combinations(catalogue))
    found: dict[str, Question] = {}
    for criteria in asked:
        result = resolve(criteria, catalogue)
        require_supported(result, catalogue, Unsupported.ERROR)
        entries = {entry["name"]: entry for entry in hydrated(result, catalogue)["componentRefs"]}
        if component not in entries:
            continue
        entry, name = entries[component], ",".join(f"{key}={value}" for key, value in criteria.stated)
        values, namespace = entry.get("values") or {}, str(entry.get("namespace") or "default")
        key = json.dumps([namespace, values], sort_keys=True, default=str)
        known = found.get(key)
        recipes = (*known.recipes, name) if known else (name,)
        found[key] = Question(recipes=recipes, component=component, namespace=namespace, values=values)
    if not found:
        raise InputError(f"component {component}", "is in none of these recipes.", "choose others with --recipe")
    return list(found.values())


def _criteria(text: str, catalogue: Catalogue) -> Criteria:
    pairs = [word.partition("=") for word in text.split(",")]
    if not all(name and equals and value for name, equals, value in pairs):
        raise InputError(f"--recipe {text}", "is not of the form service=eks,os=ubuntu.")
    return parse_criteria({name.strip(): value for name, _equals, value in pairs}, catalogue.vocabulary)


def unread_of_registry(chart: Chart, question: Question, catalogue: Catalogue, render: Render) -> Iterator[str]:
    """Yield what the registry says can be set, or puts a selector into, and the chart does not read."""
    component, probe = question.component, _probe(question, render)
    for path in listed_paths(component, catalogue):
        steps = tuple(str(step) for step in parse_path(path))
        reason = unread_path(chart, steps)
        if reason and not _reads(probe, steps):
            yield f"unknown: recipes/registry.yaml, {component}: {path}: {reason}"


def _probe(question: Question, render: Render) -> Probe:
    return Probe(lambda values: render(replace(question, values=values)), question.values)


def _reads(probe: Probe, path: Path_) -> bool:
    """Whether a value counts after all; where the recipe itself does not render, what its templates name decides."""
    try:
        return probe.reads(path)
    except HelmError:
        return False


def unknown_of(chart: Chart, asked: Sequence[Question], render: Render) -> Iterator[str]:
    """Yield what the recipes set and the chart does not have, each once with the recipes that set it."""
    found: dict[str, list[str]] = {}
    for question in asked:
        probe = _probe(question, render)
        for path, reason in unknown_keys(chart, question.values):
            if _reads(probe, path):
                continue
            found.setdefault(f"{shown(path)}: {reason}", []).extend(question.recipes)
    for text, recipes in found.items():
        more = f" and {len(recipes) - 1} more" if len(recipes) > 1 else ""
        yield f"unknown: {recipes[0]}{more}: {text}"


def rendering(question: Question, render: Render) -> tuple[dict[str, Json], list[str]]:
    """Return the objects of a question, or what helm says against its values.

    Raises:
        InputError: the chart lacks those that it depends on, or renders to no YAML.
    """
    try:
        first, second = objects_of(render(question)), objects_of(render(question))
    except HelmError as error:
        said = error.evidence[0].splitlines() if error.evidence else [error.reason]
        if _LACKS in error.reason:
            lacking = error.reason.partition(_LACKS)[2].strip(" :.")
            raise InputError("chart", f"lacks charts in it: {lacking}.", "helm dependency build DIRECTORY") from None
        of_schema = [line.strip().lstrip("- ") for line in said if line.strip().startswith("- ")]
        if any("specifications of the schema" in line for line in said) and of_schema:
            return {}, [f"schema: {question.title}: {line}" for line in of_schema]
        return {}, [f"refused: {question.title}: {error.reason.removeprefix('Error: ')}"]
    return steady(first, second), []


class Accepted:
    """The renderings that were accepted last, in a directory of the maintainer: one file for each set of values."""

    def __init__(self, directory: Path, component: str) -> None:
        self._directory = directory / component

    def of(self, recipe: str) -> dict[str, Json] | None:
        """Return the accepted objects of a recipe, None if there are none yet.

        Raises:
            InputError: what is there cannot be read.
        """
        try:
            index = json.loads((self._directory / _INDEX).read_text(encoding="utf-8"))
            if recipe not in index:
                return None
            found: dict[str, Json] = json.loads((self._directory / index[recipe]).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (ValueError, TypeError, OSError) as error:
            raise InputError(str(self._directory), f"cannot be read: {error}.", "delete it and accept again") from None
        return found

    def accept(self, rendered: Mapping[str, Mapping[str, Json]]) -> None:
        """Keep the objects of recipes in the place of those that were accepted before, other recipes as they are."""
        self._directory.mkdir(parents=True, exist_ok=True)
        path = self._directory / _INDEX
        index = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        for recipe, objects in rendered.items():
            text = json.dumps(objects, indent=1, sort_keys=True, ensure_ascii=False, default=str) + "\n"
            index[recipe] = f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.json"
            (self._directory / index[recipe]).write_text(text, encoding="utf-8")
        path.write_text(json.dumps(index, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        for file in self._directory.glob("*.json"):
            if file.name != _INDEX and file.name not in index.values():
                file.unlink()


def compared(rendered: Mapping[str, Mapping[str, Json]], accepted: Accepted) -> Iterator[str]:
    """Yield how objects differ from the accepted ones, each change once with the recipes that have it."""
    found: dict[str, list[str]] = {}
    for recipe, objects in rendered.items():
        before = accepted.of(recipe)
        # As it is read back: keys and dates are texts there.
        plain = json.loads(json.dumps(objects, default=str))
        lines = ["nothing was accepted yet"] if before is None else differences(before, plain)
        for line in lines:
            found.setdefault(line, []).append(recipe)
    for line, recipes in found.items():
        more = f" and {len(recipes) - 1} more" if len(recipes) > 1 else ""
        yield f"different: {recipes[0]}{more}: {line}"


def helm_render(chart: Path, binary: str, kube_version: str) -> Render:
    """Return what renders a question by Helm."""
    helm = Helm(Connection(), binary=binary, timeout_s=120.0)
    source = ChartSource(str(chart), (), str(chart))

    def render(question: Question) -> str:
        request = ReleaseRequest(
            name=question.component, namespace=question.namespace, chart=source, values=dict(question.values)
        )
        return helm.template(request, kube_version)

    return render


def proved(
    chart: Chart,
    asked: Sequence[Question],
    catalogue: Catalogue,
    render: Render,
    accepted: Accepted | None,
    *,
    accept: bool,
) -> list[str]:
    """Return everything that is to be said about a chart and the values of recipes; accept its objects if told so."""
    lines = [*unread_of_registry(chart, asked[0], catalogue, render), *unknown_of(chart, asked, render)]
    objects: dict[str, Mapping[str, Json]] = {}
    for question in asked:
        made, refused = rendering(question, render)
        lines += refused
        if not refused:
            objects |= dict.fromkeys(question.recipes, made)
    if accepted is not None and accept:
        accepted.accept(objects)
    elif accepted is not None:
        lines += compared(objects, accepted)
    return lines


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="chart_values", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("chart", type=Path, help="directory of the chart, or what `helm pull` wrote")
    parser.add_argument("--component", default="", help="component of the registry, where its chart does not tell it")
    parser.add_argument("--recipe", action="append", default=[], help="criteria such as service=eks,os=ubuntu; all")
    parser.add_argument("--accepted", type=Path, help="directory of accepted renderings, below which each is kept")
    parser.add_argument("--accept", action="store_true", help="accept what is rendered now")
    parser.add_argument("--kube-version", default="1.34.0", help="version of the cluster, for the chart")
    parser.add_argument("--record", type=Path, help="recipes where proven.yaml is written if nothing is to be said")
    parser.add_argument("--helm", default="helm", help="the helm program")
    return parser


def main(argv: Sequence[str]) -> int:
    """Say what is wrong with our values for a chart; return 1 if anything is, 2 if the question is wrong."""
    given = _parser().parse_args(list(argv))
    try:
        if given.accept and given.accepted is None:
            raise InputError("--accept", "needs a directory.", "give --accepted DIR")
        catalogue, chart = load_catalogue([RECIPES]), read_chart(given.chart)
        component = component_of(chart, catalogue, given.component)
        asked = questions(component, catalogue, given.recipe)
        pinned = catalogue.registry[component].default("helm", "defaultVersion")
        count = sum(len(question.recipes) for question in asked)
        print(
            f"{component}: chart {chart.name} {chart.version} (pinned: {pinned}), {count} recipes, "
            f"{len(asked)} sets of values"
        )
        render = helm_render(given.chart, given.helm, given.kube_version)
        accepted = Accepted(given.accepted, component) if given.accepted else None
        lines = proved(chart, asked, catalogue, render, accepted, accept=given.accept)
    except BringupError as error:
        print(f"chart_values: {error}", file=sys.stderr)
        return 2
    for line in lines:
        print(line)
    if given.record and not lines and not given.recipe:
        print(f"recorded: {record(given.record, component, given.chart, chart.version, given.kube_version)}")
    print("nothing to say" if not lines else f"{len(lines)} to look at")
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
