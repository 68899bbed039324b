# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""catalog-check passes on what is shipped, and each of its rules fails on a copy that breaks it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .conftest import Spoiled


@pytest.fixture
def problems() -> Callable[[Path], list[str]]:
    from tools.catalog_check import problems_of

    return lambda directory: [f"{problem.place}: {problem.text}" for problem in problems_of(directory)]


def only(found: list[str], path: Path, text: str, line: int = 0) -> None:
    """One problem, with the file, a line, and what is wrong."""
    assert len(found) == 1, found
    place, _mark, reason = found[0].partition(": ")
    file, _mark, number = place.rpartition(":")
    assert Path(file).samefile(path)
    assert int(number) > 0
    assert not line or int(number) == line
    assert text in reason


def test_what_is_shipped_passes(repository: Path, problems: Callable[[Path], list[str]]) -> None:
    assert problems(repository / "recipes") == []


def test_an_untouched_copy_passes(spoiled: Spoiled, problems: Callable[[Path], list[str]]) -> None:
    assert problems(spoiled.root) == []


def ref(name: str, **more: Any) -> list[dict[str, Any]]:
    return [{"name": name, **more}]


def values(name: str, **overrides: Any) -> list[dict[str, Any]]:
    return ref(name, overrides=overrides)


LAYERS = [
    (
        "unknown component",
        {"criteria": {"service": "metal3"}, "componentRefs": ref("gpu-operatr")},
        "'gpu-operatr' is not in the registry",
    ),
    (
        "unknown parent",
        {"base": "ekz", "criteria": {"service": "metal3"}},
        "the parent 'ekz' of new does not exist",
    ),
    (
        "unknown mixin",
        {"criteria": {"service": "metal3"}, "mixins": ["gang-kay"]},
        "the mixin 'gang-kay' of new does not exist",
    ),
    (
        "missing file",
        {"criteria": {"service": "metal3"}, "componentRefs": ref("nfd", valuesFile="components/nfd/value.yaml")},
        "'components/nfd/value.yaml' does not exist",
    ),
    (
        "unknown check",
        {"criteria": {"service": "metal3"}, "validation": {"deployment": {"checks": ["operator-helth"]}}},
        "'operator-helth' of phase deployment",
    ),
    (
        "missing dependency",
        {"criteria": {"service": "metal3"}, "componentRefs": ref("nfd", dependencyRefs=["volcano"])},
        "component nfd: depends on 'volcano'",
    ),
    (
        "mixin that redefines",
        {
            "criteria": {"service": "metal3"},
            "mixins": ["os-ubuntu"],
            "constraints": [{"name": "OS.release.ID", "value": "debian"}],
        },
        "OS.release.ID",
    ),
    ("nobody asks for it", {"base": "eks"}, "no question reaches it"),
    (
        "a child for something else than its parent",
        {"base": "eks", "criteria": {"service": "metal3"}},
        "bring in its parent eks without service=eks",
    ),
    (
        "less than inherited",
        {
            "base": "eks",
            "criteria": {"service": "eks", "platform": "runai"},
            "constraints": [{"name": "K8s.server.version", "value": ">= 1.30"}],
        },
        "K8s.server.version >= 1.30 asks for less than >= 1.34",
    ),
    (
        "a version that moves",
        {"criteria": {"service": "metal3"}, "componentRefs": ref("nfd", version="^0.19")},
        "nfd is not pinned: ^0.19",
    ),
    (
        "a namespace that is none",
        {"criteria": {"service": "metal3"}, "componentRefs": ref("nfd", namespace="Node Features")},
        "nfd has no valid namespace, found 'Node Features'",
    ),
    (
        "a typo in a value",
        {"criteria": {"service": "metal3"}, "componentRefs": values("gpu-operator", driver={"versoin": "1"})},
        "driver.versoin is not a known value. Did you mean 'version'",
    ),
    (
        "a value of another type",
        {"criteria": {"service": "metal3"}, "componentRefs": values("gpu-operator", driver={"enabled": "no"})},
        "driver.enabled must be true or false, found 'no'",
    ),
    (
        "a threshold",
        {
            "criteria": {"service": "metal3"},
            "validation": {"performance": {"constraints": [{"name": "nccl-all-reduce-bw", "value": ">= 300"}]}},
        },
        "a layer states no performance",
    ),
    (
        "two layers for the same thing",
        {"criteria": {"intent": "training"}, "componentRefs": values("gpu-operator", mig={"strategy": "mixed"})},
        "gpu-operator.mig.strategy is",
    ),
    (
        "unrelated layers of one question",
        {"criteria": {"nvlink_domain": "rack"}, "componentRefs": values("gpu-operator", mig={"strategy": "none"})},
        "gpu-operator.mig.strategy is",
    ),
    (
        "a mixin that wins silently",
        {
            "base": "oke",
            "criteria": {"service": "oke", "platform": "runai"},
            "componentRefs": values("gpu-operator", driver={"enabled": True}),
        },
        "by oke (mixin host-driver)",
    ),
]


@pytest.mark.parametrize(("spec", "text"), [case[1:] for case in LAYERS], ids=[case[0] for case in LAYERS])
def test_a_wrong_layer(
    spec: dict[str, Any], text: str, spoiled: Spoiled, problems: Callable[[Path], list[str]]
) -> None:
    spoiled.layer("new", **spec)
    found = problems(spoiled.root)
    assert found
    assert all(text in problem for problem in found), found
    assert all(problem.split(": ")[0].rpartition(":")[2].isdigit() for problem in found)


def test_related_layers_may_differ(spoiled: Spoiled, problems: Callable[[Path], list[str]]) -> None:
    """The counterpart: a child says something else than its parent, and layers that never meet differ."""
    driver = values("gpu-operator", driver={"enabled": True})
    spoiled.layer(
        "child", base="gke-cos", criteria={"service": "gke", "os": "cos", "platform": "runai"}, componentRefs=driver
    )
    mig = values("gpu-operator", mig={"strategy": "none"})
    spoiled.layer("apart", base="training", criteria={"intent": "training", "platform": "runai"}, componentRefs=mig)
    assert problems(spoiled.root) == []


def test_the_line_is_that_of_the_value(spoiled: Spoiled, problems: Callable[[Path], list[str]]) -> None:
    path = spoiled.path("kind")
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("gdrcopy:", "gdrcpy:"), encoding="utf-8")
    line = next(number for number, content in enumerate(text.splitlines(), 1) if "gdrcopy:" in content)
    only(problems(spoiled.root), path, "gpu-operator: gdrcpy is not a known value", line)


def test_a_chain_that_nobody_can_follow(spoiled: Spoiled, problems: Callable[[Path], list[str]]) -> None:
    criteria = {"service": "eks", "intent": "training", "accelerator": "h100", "os": "ubuntu"}
    parent = "h100-eks-ubuntu-training"
    for number in range(6):
        base, parent = parent, f"deep-{number}"
        last = spoiled.layer(parent, base=base, criteria={**criteria, "platform": "runai"})
    only(problems(spoiled.root), last, "its chain has 11 layers; at most 10")


def test_dependencies_that_go_round(spoiled: Spoiled, problems: Callable[[Path], list[str]]) -> None:
    """Each of the two layers alone is in order; a question that gets both is not."""
    spoiled.layer("one", criteria={"fabric": "infiniband"}, componentRefs=ref("nfd", dependencyRefs=["cert-manager"]))
    spoiled.layer("two", criteria={"os": "cos"}, componentRefs=ref("cert-manager", dependencyRefs=["nfd"]))
    found = problems(spoiled.root)
    assert len(found) == 1
    assert "the dependencies form a cycle: cert-manager -> nfd -> cert-manager" in found[0]


def test_what_nobody_names(spoiled: Spoiled, problems: Callable[[Path], list[str]]) -> None:
    mixin = spoiled.document("RecipeMixin", "mixins/lonely.yaml", "lonely", {"constraints": []})
    file = spoiled.root / "components/nfd/values-old.yaml"
    file.write_text("a: 1\n", encoding="utf-8")
    registry = spoiled.change(
        "registry.yaml",
        lambda data: data["components"].append(
            {"name": "lonely", "displayName": "x", "manifest": {"defaultNamespace": "x"}}
        ),
    )
    found = problems(spoiled.root)
    only([problem for problem in found if "the mixin" in problem], mixin, "no layer names the mixin lonely")
    only([problem for problem in found if "values-old" in problem], file, "nothing names this file")
    only([problem for problem in found if "has the component" in problem], registry, "has the component lonely")
    assert len(found) == 3


@pytest.mark.parametrize("version", ["", "latest", "~26.7", ">=26", "26.x"])
def test_a_chart_that_is_not_pinned(version: str, spoiled: Spoiled, problems: Callable[[Path], list[str]]) -> None:
    def change(data: Any) -> None:
        next(c for c in data["components"] if c["name"] == "gpu-operator")["helm"]["defaultVersion"] = version

    path = spoiled.change("registry.yaml", change)
    only(problems(spoiled.root), path, "gpu-operator is not pinned")


@pytest.mark.parametrize("image", ["ubuntu", "docker.io/library/ubuntu:latest", "registry:5000/ubuntu"])
def test_an_image_that_is_not_pinned(image: str, spoiled: Spoiled, problems: Callable[[Path], list[str]]) -> None:
    path = spoiled.path("components/gke-nccl-tcpxo/manifests/installer.yaml")
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("docker.io/library/ubuntu:24.04", image), encoding="utf-8")
    only(problems(spoiled.root), path, f"the image {image} is not pinned")


def test_the_command(
    spoiled: Spoiled, repository: Path, capsys: pytest.CaptureFixture[str], problems: Callable[[Path], list[str]]
) -> None:
    from tools.catalog_check import main

    assert main([]) == 0
    assert "catalog-check: passed" in capsys.readouterr().out
    spoiled.layer("new", base="eks")
    assert main([str(spoiled.root)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"{spoiled.root}/overlays/new.yaml:")
    assert lines[-1] == "catalog-check: FAILED: 1 problem(s)"


PRIVATE = "apiVersion: gpufleet.bringup/v1\nkind: RecipeMetadata\nmetadata: {name: mine}\nspec:\n"


@pytest.mark.parametrize(
    ("criteria", "wins"),
    [("{service: generic, intent: training}", True), ("{service: generic, intent: training, os: ubuntu}", True),
     ("{intent: training}", False)],
)  # fmt: skip
def test_private_data_is_proved_over_the_catalogue(
    criteria: str, wins: bool, tmp_path: Path, problems: Callable[[Path], list[str]]
) -> None:
    path = tmp_path / "overlays" / "mine.yaml"
    path.parent.mkdir()
    text = f"{PRIVATE}  criteria: {criteria}\n  componentRefs:\n    - name: kube-prometheus-stack\n      overrides:\n"
    path.write_text(f"{text}        defaultRules: {{create: false}}\n", encoding="utf-8")
    assert problems(tmp_path) == []
    path.write_text(f"{PRIVATE}  criteria: {criteria}\n  componentRefs: [{{name: nfdd}}]\n", encoding="utf-8")
    only(problems(tmp_path), path, "'nfdd' is not in the registry")
    # Something that a layer of the catalogue sets for generic training.
    loses = f"{PRIVATE}  criteria: {criteria}\n  constraints:\n    - {{name: K8s.server.version, value: '>= 1.99'}}\n"
    path.write_text(loses, encoding="utf-8")
    found = problems(tmp_path)
    assert all("K8s.server.version is" in problem and "which do not inherit" in problem for problem in found)
    assert bool(found) is not wins
    # Who wins is named, and the layer that would.
    assert all("more specific, so " in problem and "has the criteria of " in problem for problem in found)


def test_a_file_of_private_data_that_nothing_reads_is_a_problem(
    tmp_path: Path, problems: Callable[[Path], list[str]]
) -> None:
    (tmp_path / "components" / "nfd").mkdir(parents=True)
    (tmp_path / "components" / "nfd" / "value.yaml").write_text("a: 1\n", encoding="utf-8")
    assert [text.partition(": ")[2][:30] for text in problems(tmp_path)] == ["nothing names this file."]
