# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What differs between two bundles is named by component and value, and anything that differs is seen."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from bundles import ASKED, bundle_files, loaded, recipe_for
from gpufleet_command import Command

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.bundle.app import write_bundle
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.yaml_dump import dump_yaml

SET = ("--set", "gpu-operator:driver.version=1.2.3")
PASSWORD = ("--set", "kube-prometheus-stack:grafana.adminPassword=hunter2")


@pytest.fixture
def pair(gpufleet: Command, tmp_path: Path) -> Command:
    """Write two bundles by their words, and compare them."""

    def compare(left: tuple[str, ...], right: tuple[str, ...], *words: str) -> object:
        for name, more in (("a", left), ("b", right)):
            done = gpufleet(
                "bundle", *(more if more and "=" in more[0] else (ASKED, *more)), "--into", str(tmp_path / name)
            )
            assert done.code == 0, done.err
        return gpufleet("bundle-diff", str(tmp_path / "a"), str(tmp_path / "b"), *words)

    return compare  # type: ignore[return-value] # it ends as a command does


def test_bundles_of_one_recipe_are_the_same(pair: Command) -> None:
    done = pair((), ())
    assert (done.code, done.out, done.err) == (0, "nothing differs\n", "")


def test_a_value_is_named_with_its_component(pair: Command) -> None:
    done = pair((), SET)
    assert done.code == 1
    lines = done.out.splitlines()
    assert lines[0] == "gpu-operator"
    assert lines[1].startswith("  values.driver.version: ")
    assert lines[1].endswith('-> "1.2.3"')
    assert len(lines) == 2
    told = json.loads(pair((), SET, "--format", "json").out)
    assert [change["path"] for change in told["recipe"]["changes"]] == ["components.gpu-operator.values.driver.version"]
    assert any(path.endswith("-gpu-operator/values.yaml") for path in told["files"])


def test_components_and_objects_that_come_and_go_are_named(pair: Command) -> None:
    done = pair((ASKED,), (ASKED, "--set", "kai-scheduler:enabled=false"))
    assert (done.code, done.out.splitlines()[0]) == (1, "removed: kai-scheduler")


def test_an_object_of_a_manifest_is_named_with_its_place(gpufleet: Command, tmp_path: Path) -> None:
    recipe = recipe_for(ASKED, tmp_path / "mirror")
    write_bundle(tmp_path / "a", bundle_files(recipe))
    (entry,) = (one for one in recipe["componentRefs"] if one["name"] == "kube-prometheus-stack")
    for item in entry["manifests"]:
        (body,) = loaded(item["text"])
        body["metadata"].setdefault("labels", {})["a"] = "b"
        item["text"] = dump_yaml(body)
        item["rendered"] = True
    write_bundle(tmp_path / "b", bundle_files(recipe))
    done = gpufleet("bundle-diff", str(tmp_path / "a"), str(tmp_path / "b"))
    assert done.code == 1
    assert done.out.splitlines()[0] == "kube-prometheus-stack"
    assert 'objects["PrometheusRule monitoring/gpufleet-slo"].metadata.labels.a: "b" (new)' in done.out


def test_the_same_recipe_for_another_engine_is_another_bundle(pair: Command) -> None:
    done = pair((), ("--deployer", "helmfile"))
    assert (done.code, done.out) == (1, "deployer: helm -> helmfile\n")
    git = ("--deployer", "flux", "--repo", "https://git.example/a", "--revision")
    done = pair((*git, "one"), (*git, "two"))
    assert (done.code, done.out.splitlines()) == (1, ["files", "  bundle.yaml", "  flux.yaml"])


def test_secrets_are_in_neither_and_that_is_said(pair: Command) -> None:
    done = pair(PASSWORD, (*PASSWORD[:1], PASSWORD[1].replace("2", "3")))
    assert (done.code, done.out) == (0, "nothing differs\n")
    assert "secrets are in neither, and not compared: kube-prometheus-stack: grafana.adminPassword" in done.err
    assert "hunter" not in done.err


def test_what_was_edited_or_is_no_bundle_is_not_compared(gpufleet: Command, pair: Command, tmp_path: Path) -> None:
    pair((), ())
    (tmp_path / "b" / "README.md").write_text("mine", encoding="utf-8")
    done = gpufleet("bundle-diff", str(tmp_path / "a"), str(tmp_path / "b"))
    assert (done.code, done.out) == (2, "")
    assert (
        "b: is a bundle that was changed since it was made: README.md has other bytes. Fix: see gpufleet bundle-verify"
        in done.err
    )
    done = gpufleet("bundle-diff", str(tmp_path / "a"), str(tmp_path / "nothing"))
    assert (done.code, done.out) == (3, "")
