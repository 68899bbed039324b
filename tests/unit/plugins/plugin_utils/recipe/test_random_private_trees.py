# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Random private trees over our catalogue: what is whole counts however it is spelled, the rest is refused in place."""

from __future__ import annotations

import json
import os
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from seeds import VARIABLE, drawing, run_seed

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import BringupError, ProblemsError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.hydrate import hydrated
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.load import load_catalogue
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.model import Catalogue
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.resolve import resolve
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.tree import catalogue_directories

from .test_nothing_ignored import SPELLINGS

OWN = "gpufleet.bringup/v1"
Json = dict[str, Any]
COMPONENTS = ("gpu-operator", "nfd", "cert-manager", "kube-prometheus-stack", "mine", "ours")


def some_registry(dice: random.Random) -> Json:
    """Return a registry that pins components of ours and brings two more."""
    names = {"mine", "ours", *dice.sample(COMPONENTS, dice.randint(0, 3))}
    helm = {"defaultRepository": "https://charts.example", "defaultNamespace": "n"}
    entries = [
        {"name": name, "displayName": name,
         "helm": {**helm, "defaultChart": name, "defaultVersion": f"{dice.randint(1, 99)}.0.{dice.randint(0, 9)}"}}
        for name in sorted(names)
    ]  # fmt: skip
    return {"apiVersion": OWN, "kind": "ComponentRegistry", "components": entries}


def some_criteria(dice: random.Random) -> dict[str, str]:
    """Return criteria of a layer."""
    values = {"service": ["eks", "gke", "generic"], "accelerator": ["h100", "gb200"], "platform": ["acme", "kueue"],
              "intent": ["training", "inference"], "os": ["ubuntu", "rhel"]}  # fmt: skip
    return {name: dice.choice(values[name]) for name in dice.sample(sorted(values), dice.randint(1, 4))}


def some_layer(dice: random.Random, name: str, parents: list[str]) -> Json:
    """Return a layer."""
    refs: list[Json] = []
    for component in dice.sample(COMPONENTS, dice.randint(0, 3)):
        ref: Json = {"name": component}
        if dice.random() < 0.5:
            ref["version"] = dice.choice(["1.2.3", "08", "1e3", "12345e7", "v9"])
        if dice.random() < 0.5:
            ref["overrides"] = {dice.choice("ab"): dice.choice([True, None, "yes", "1e309", {"c": [1, "0o7"]}, 0.5])}
        if component in ("mine", "ours") and dice.random() < 0.5:
            ref["valuesFile"] = f"components/{component}/values.yaml"
        refs.append(ref)
    spec: Json = {"criteria": some_criteria(dice), "componentRefs": refs}
    if parents and dice.random() < 0.4:
        spec["base"] = dice.choice(parents)
    if dice.random() < 0.4:
        spec["constraints"] = [{"name": "K8s.server.version", "value": ">= 1.34"}]
    return {"apiVersion": OWN, "kind": "RecipeMetadata", "metadata": {"name": name}, "spec": spec}


def some_documents(dice: random.Random) -> dict[str, Json]:
    """Return the documents of a private tree by their files."""
    found: dict[str, Json] = {"registry.yaml": some_registry(dice)}
    vocabulary = {"platform": {"values": ["acme"]}}
    found["criteria.yaml"] = {"apiVersion": OWN, "kind": "CriteriaVocabulary", "dimensions": vocabulary}
    names: list[str] = ["generic", "training"]
    for number in range(dice.randint(1, 4)):
        name = f"{dice.choice(['acme', 'zcme'])}-{number}"
        found[f"overlays/{dice.choice(['', 'sub/'])}{name}.yaml"] = some_layer(dice, name, names)
        names.append(name)
    return found


def _swap(text: str, dice: random.Random) -> str:
    at = dice.randrange(1, len(text))
    return text[: at - 1] + text[at] + text[at - 1] + text[at + 1 :]


def _without_a_letter(text: str, dice: random.Random) -> str:
    at = dice.randrange(len(text))
    return text[:at] + text[at + 1 :]


def _with_a_line_twice(text: str, dice: random.Random) -> str:
    line = dice.choice(text.splitlines(keepends=True))
    return text.replace(line, line * 2, 1)


DAMAGES: dict[str, Callable[[str, random.Random], str]] = {
    "letters swapped": _swap,
    "a letter lost": _without_a_letter,
    "a line lost": lambda text, dice: text.replace(dice.choice(text.splitlines(keepends=True)), "", 1),
    "a line twice": _with_a_line_twice,
    "cut short": lambda text, dice: text[: dice.randrange(len(text))],
    "kind in small letters": lambda text, _dice: re.sub(r"kind:? *\S+", lambda m: m[0].lower(), text),
    "no kind": lambda text, _dice: text.replace("kind", "knd"),
    "another API": lambda text, _dice: text.replace(OWN, "gpufleet.bringup/v3"),
    "a tab": lambda text, dice: text.replace("\n", "\n\t", dice.randint(1, 2)),
    "a wrong reference": lambda text, _dice: text.replace("nfd", "nfdd").replace("mine", "mien"),
    "a wrong operator": lambda text, _dice: text.replace(">= 1.34", "=> 1.34"),
    "a second document": lambda text, _dice: f"{text}\n---\n{text}",
    "a brace": lambda text, dice: text.replace("\n", "\n{", 1),
}


def _written(tree: Path, documents: dict[str, Json], dice: random.Random) -> None:
    for name, document in documents.items():
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(SPELLINGS[dice.choice(sorted(SPELLINGS))](document).encode())
    for name in ("mine", "ours"):
        path = tree / "components" / name / "values.yaml"
        path.parent.mkdir(parents=True)
        path.write_text(yaml.safe_dump({"a": {"b": dice.random()}}), encoding="utf-8")


def _damaged(tree: Path, dice: random.Random) -> str:
    """Damage one file and return how."""
    kind = dice.choice(["pipe", "link", "bytes", *DAMAGES])
    files = sorted(path for path in tree.rglob("*.yaml") if path.is_file())
    path = dice.choice(files)
    if kind == "pipe":
        os.mkfifo(tree / "overlays" / "pipe.yaml")
    elif kind == "link":
        (tree / "overlays" / "link.yaml").symlink_to(path)
    elif kind == "bytes":
        path.write_bytes(b"\xff\xfe" + path.read_bytes())
    else:
        path.write_text(DAMAGES[kind](path.read_text(encoding="utf-8"), dice), encoding="utf-8")
    return kind


def _asked(catalogue: Catalogue, tree: Path) -> None:
    """Resolve and hydrate what the private layers are for; an error has a place, too."""
    for layer in catalogue.layers.values():
        if layer.criteria is not None and layer.criteria.stated and Path(layer.file).is_relative_to(tree):
            try:
                json.dumps(hydrated(resolve(layer.criteria, catalogue), catalogue), allow_nan=False)
            except BringupError as error:
                assert str(tree) in error.subject, str(error)


def _load(tree: Path) -> Catalogue:
    return load_catalogue(catalogue_directories([tree]))


@pytest.mark.quickly(12)
@pytest.mark.drawn(50)
@pytest.mark.parametrize("case", range(300))
def test_a_random_private_tree_counts_or_is_refused_with_file_and_line(case: int, tmp_path: Path) -> None:
    dice = drawing(f"private tree {case}")
    again = f"case {case}, {VARIABLE}={run_seed()}"
    tree = (tmp_path / "private").resolve()
    documents = some_documents(dice)
    _written(tree, documents, dice)
    damage = _damaged(tree, dice) if case % 3 else ""
    try:
        catalogue = _load(tree)
    except ProblemsError as error:
        for problem in error.problems:
            assert problem.subject.startswith(f"{tree}/"), (again, damage, str(problem))
            whole = damage in ("pipe", "link", "bytes") or "not YAML" in problem.reason
            assert whole or re.search(r":\d+$", problem.subject), (again, damage, str(problem))
        assert damage or _made_impossible(error), (again, str(error))
        return
    _asked(catalogue, tree)
    if not damage:
        _counted(catalogue, documents, again)
    told = " ".join(catalogue.warnings)
    for name in documents:
        if damage and name == "criteria.yaml" and b"acme" not in (tree / name).read_bytes():
            # The line that is lost was all that it stated.
            continue
        read = str(tree / name) in _read(catalogue)
        assert read or name in told or name.split("/")[0] in told, (again, damage, name)


def _made_impossible(error: ProblemsError) -> bool:
    """Whether only layers that cannot go together were drawn."""
    return all("which is not a component of this recipe" in str(p) or "form a cycle" in str(p) for p in error.problems)


def _read(catalogue: Catalogue) -> set[str]:
    files = {layer.file for layer in catalogue.layers.values()} | {entry.file for entry in catalogue.registry.values()}
    # What a vocabulary says is in the catalogue without its file.
    vocabulary = "acme" in catalogue.vocabulary.dimensions["platform"].values
    return files | (
        {str(path) for name, path in catalogue.files.items() if name == "criteria.yaml"} if vocabulary else set()
    )


def _counted(catalogue: Catalogue, documents: dict[str, Json], again: str) -> None:
    for entry in documents["registry.yaml"]["components"]:
        pinned = catalogue.registry[entry["name"]].default("helm", "defaultVersion")
        assert pinned == entry["helm"]["defaultVersion"], again
    for name, document in documents.items():
        if name.startswith("overlays/"):
            layer = catalogue.layers[document["metadata"]["name"]]
            refs = {ref.name: ref for ref in layer.fragment.components}
            for ref in document["spec"]["componentRefs"]:
                assert refs[ref["name"]].version == ref.get("version", ""), again
                assert refs[ref["name"]].overrides == ref.get("overrides", {}), again
