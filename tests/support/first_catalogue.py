# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Recipes of the first catalogue beside those of today, and what Helm makes of them with the stand-in charts."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from catalogue_bench import leaves
from rehearsal_harness import ROOT

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.merge import merged_values
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.foreign_yaml import documents
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.charts.mirror import build_mirror

Json = dict[str, Any]
_FIRST: dict[str, Json] = json.loads((ROOT / "tests/data/first_catalogue.json").read_text(encoding="utf-8"))["recipes"]


@cache
def _today() -> dict[str, Any]:
    return {leaf.name: leaf.recipe for leaf in leaves()}


@dataclass(frozen=True)
class Stack:
    """One recipe, and what Helm makes of its components with the stand-in charts."""

    recipe: Json = field(repr=False)
    helm: Path
    mirror: Path

    def component(self, name: str) -> Json:
        return next(dict(entry) for entry in self.recipe["componentRefs"] if entry["name"] == name)

    def values(self, name: str) -> Json:
        found: Json = self.component(name).get("values") or {}
        return found

    def manifests(self, name: str, kind: str = "") -> list[Json]:
        texts = [entry["text"] for entry in self.component(name).get("manifests") or ()]
        found = [document for text in texts for document in documents(text) if document]
        return [document for document in found if kind in ("", document["kind"])]

    def template(self, name: str, kubernetes: str = "1.34.0", values: Json | None = None) -> tuple[list[Json], str]:
        """Return what Helm renders, or what it says."""
        component = self.component(name)
        (package,) = build_mirror(self.mirror, [component])
        given = merged_values(component.get("values") or {}, values or {})
        argv = [str(self.helm), "template", name, str(package), "--namespace", component["namespace"]]
        done = subprocess.run(
            [*argv, "--kube-version", kubernetes, "--values", "-"],
            input=json.dumps(given), capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        found = documents(done.stdout) if not done.returncode else []
        return [document for document in found if document], done.stderr if done.returncode else ""

    def objects(self, name: str, kind: str) -> list[Json]:
        found, error = self.template(name)
        assert not error, error
        return [document for document in found if document["kind"] == kind]

    def pod(self, name: str, workload: str) -> Json:
        found = [
            d for d in self.template(name)[0] if d["metadata"]["name"] == workload and "template" in d.get("spec", {})
        ]
        spec: Json = found[0]["spec"]["template"]["spec"]
        return spec


Pair = Callable[[str], tuple[Stack, Stack]]


def first_and_today(helm: Path, mirror: Path) -> Pair:
    """Return what gives the first and today's recipe of a question."""

    def both(leaf: str) -> tuple[Stack, Stack]:
        return Stack(_FIRST[leaf], helm, mirror), Stack(_today()[leaf], helm, mirror)

    return both


def only_the_first(pair: Pair, leaf: str, met: Callable[[Stack], Any], says: str) -> None:
    """Prove that the first recipe meets a fault, in these words, and today's does not."""
    first, today = pair(leaf)
    assert says in str(met(first)), met(first)
    assert not met(today), met(today)
