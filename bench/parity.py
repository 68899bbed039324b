# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What differs between our answers and the upstream tool's, question by question, on a tree of its own.

    python bench/parity.py TREE /path/to/aicr [EACH]    ask the binary every EACH-th question (50), two processes each
    python bench/parity.py TREE answers.jsonl           a file of answers, for all 12,599 (half a minute)

A file of answers has a line a question, as shared/vectors/upstream-2026-07-sample.jsonl.gz has them: `q`, and `recipe`
and `hydrated`, or `err`. Where many questions have one answer, `answer` may name it instead: `id` of an earlier line
`{"id": ..., "answer": {"recipe": ..., "hydrated": ...}}`. A loop of thirty lines over pkg/recipe of the tool's source
(NewBuilder, BuildFromCriteria, HydrateResultWithContext) writes one.

Of what no layer honours wholly ours refuses by default; where the tool answers, the answer under `unsupported: warn` is
compared, and where the tool refuses both do.
Metadata is compared by its applied overlays alone. Ends with 1 where anything differs.
"""

from __future__ import annotations

import gzip
import itertools
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / ".cache"))
DIMENSIONS = ("service", "accelerator", "intent", "os", "platform")
Json = dict[str, Any]


def from_file(path: Path) -> Iterator[Json]:
    """Yield question and answer of every line of a file."""
    known: dict[str, Json] = {}
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open(encoding="utf-8") as lines:
        for line in map(json.loads, lines):
            if "id" in line:
                known[line["id"]] = line["answer"]
                continue
            yield {**line, **known[line["answer"]]} if "answer" in line else line


def from_binary(binary: str, catalogue: Any, each: int) -> Iterator[Json]:
    """Ask the binary, with the values that the tree's layers name."""
    found: dict[str, set[str]] = {name: {"any"} for name in DIMENSIONS}
    for layer in catalogue.layers.values():
        for name, value in (layer.criteria.to_dict() if layer.criteria is not None else {}).items():
            if name in found:
                found[name].add(str(value))
    for values in itertools.islice(itertools.product(*(sorted(found[name]) for name in DIMENSIONS)), 0, None, each):
        question = {name: value for name, value in zip(DIMENSIONS, values, strict=True) if value != "any"}
        flags = [word for name, value in question.items() for word in (f"--{name}", value)]
        words = {"recipe": ("recipe",), "hydrated": ("query", "--selector", ".")}
        asked = {key: [binary, *verb, "--format", "json", *flags] for key, verb in words.items()}
        done = {key: subprocess.run(argv, capture_output=True, text=True, check=False) for key, argv in asked.items()}
        if any(process.returncode for process in done.values()):
            yield {"q": question, "err": done["recipe"].stderr or done["hydrated"].stderr}
        else:
            yield {"q": question, **{key: json.loads(process.stdout) for key, process in done.items()}}


def catalogue_of(tree: Path) -> Any:
    """Return the catalogue of the tree."""
    from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.load import load_catalogue

    return load_catalogue([tree])


def plain_recipe(data: Json) -> Json:
    """Return what of a recipe is compared."""
    kept = {key: value for key, value in data.items() if key not in ("criteria", "metadata", "apiVersion")}
    return {**kept, "appliedOverlays": sorted(data["metadata"]["appliedOverlays"] or ())}


def places(ours: Any, theirs: Any, at: str = "") -> Iterator[str]:
    """Yield where two answers differ."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key in sorted({*ours, *theirs}):
            if key not in ours or key not in theirs:
                yield f"{at}.{key} only {'theirs' if key in theirs else 'ours'}"
            else:
                yield from places(ours[key], theirs[key], f"{at}.{key}")
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for index, pair in enumerate(zip(ours, theirs, strict=True)):
            name = ours[index].get("name", index) if isinstance(ours[index], dict) else index
            yield from places(*pair, f"{at}[{name}]")
    elif ours != theirs:
        yield f"{at}: {str(ours)[:80]!r} for {str(theirs)[:80]!r}"


def compared(answers: Iterator[Json], catalogue: Any) -> tuple[Counter[str], Counter[str], dict[str, Json]]:
    """Return how many questions ended how, how often each place differs, and the first question of each place."""
    from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
    from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.criteria import parse_criteria
    from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.hydrate import component_values, plain
    from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.resolve import resolve
    from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.support import not_honoured

    ends: Counter[str] = Counter()
    differing: Counter[str] = Counter()
    first: dict[str, Json] = {}
    for answer in answers:
        question = answer["q"]
        try:
            criteria = parse_criteria(question, catalogue.vocabulary)
            # By default a question that no layer honours wholly is refused.
            whole = not not_honoured(criteria, catalogue)
            result = resolve(criteria, catalogue)
        except InputError as error:
            ends["both refuse" if "err" in answer else "only ours refuses"] += 1
            if "err" not in answer:
                first.setdefault(f"refused: {error}", question)
            continue
        if "err" in answer:
            ends["only theirs refuses" if whole else "both refuse"] += 1
            if whole:
                first.setdefault(f"theirs refused: {answer['err'][:200]}", question)
            continue
        ours = plain_recipe(plain(result))
        found = list(places(ours, plain_recipe(answer["recipe"])))
        for component in result.components:
            theirs = answer["hydrated"]["components"][component.name].get("values") or {}
            found += places(component_values(component, catalogue), theirs, f"values.{component.name}")
        honoured = "wholly" if whole else "in part"
        ends[f"both answer, {honoured}, {'different' if found else 'equal'}"] += 1
        differing.update(found)
        for place in found:
            first.setdefault(place, question)
    return ends, differing, first


def main(arguments: list[str]) -> int:
    """Compare, print the table, and tell whether anything differs."""
    catalogue, source = catalogue_of(Path(arguments[0])), Path(arguments[1])
    if ".jsonl" in source.name:
        answers = from_file(source)
    else:
        answers = from_binary(str(source), catalogue, int(arguments[2]) if len(arguments) > 2 else 50)
    ends, differing, first = compared(answers, catalogue)
    print(f"questions: {sum(ends.values())}")
    for end, count in sorted(ends.items()):
        print(f"  {end}: {count}")
    for place, count in differing.most_common(40):
        print(f"{count:6} {place}  first: {first[place]}")
    for place, question in first.items():
        if place not in differing:
            print(f"       {place}  first: {question}")
    return int(bool(first))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
