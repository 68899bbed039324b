# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A bundle holds what gate 4 installs, no secret, and the same bytes everywhere; what was changed in it is found."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from archives import unpack
from bundles import ASKED, bundle_files, env, loaded, objects_in, questions, recipe_for
from seeds import drawing

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.facts import stack_facts
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.install import Installer
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.model import Component, components_of
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.bundle.app import (
    bundle_for,
    files_of,
    write_bundle,
    write_secrets,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.bundle.parts import ChartRepository, withheld
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.bundle.verify import faults_of, verify
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError, NotFoundError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.merge import merged_values
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.redaction import MASK

SAVED_RUN = Path(__file__).resolve().parents[5] / "data" / "saved_runs" / "0.1.0_healthy.tar.xz"
SECRET = "hunter2-of-this-test"
WITH_SECRETS = {
    "kube-prometheus-stack": {"grafana": {"adminPassword": SECRET}},
    "gpu-operator": {
        "driver": {"licensing": {"env": [{"name": "API_TOKEN", "value": SECRET}, {"name": "A", "value": "b"}]}}
    },
}


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A recipe without secrets."""
    return recipe_for(ASKED, tmp_path_factory.mktemp("mirror"))


@pytest.fixture(scope="module")
def secret_recipe(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The same with a secret in a value and one in an item of a list."""
    return recipe_for(ASKED, tmp_path_factory.mktemp("mirror"), WITH_SECRETS)


@pytest.fixture
def written(recipe: dict[str, Any], tmp_path: Path) -> Path:
    """A bundle on disk."""
    assert write_bundle(tmp_path / "stack", bundle_files(recipe))
    return tmp_path / "stack"


def wanted_by_gate_4(component: Component) -> tuple[str, str, tuple[str, ...], dict[str, Any]]:
    """Return what gate 4 asks helm for, by its own code."""
    request = Installer(None, None).request(component, 0)  # type: ignore[arg-type] # neither is asked
    return request.namespace, request.chart.reference, request.chart.options, request.values


@pytest.mark.drawn(12)
@pytest.mark.parametrize("question", questions())
def test_bundle_and_gate_4_have_the_same_charts_values_and_objects(question: str, tmp_path: Path) -> None:
    require_the_same(recipe_for(question, tmp_path))


def test_a_bundle_of_a_runs_recipe_has_what_the_site_laid_over_it(tmp_path: Path) -> None:
    """Selectors, tolerations, registries and GPUs of a worker are in the recipe that a run keeps."""
    unpack(SAVED_RUN, tmp_path)
    recipe = json.loads(next(tmp_path.rglob("recipe.json")).read_text(encoding="utf-8"))
    require_the_same(recipe)
    site = {"daemonsets": {"tolerations": [{"key": "gpu", "operator": "Exists"}], "nodeSelector": {"pool": "gpu"}}}
    for entry in recipe["componentRefs"]:
        if entry["name"] == "gpu-operator":
            entry["values"] = merged_values(entry["values"], site)
    require_the_same(recipe)
    (path,) = (path for path in bundle_files(recipe) if path.endswith("-gpu-operator/values.yaml"))
    assert site["daemonsets"].items() <= loaded(bundle_files(recipe)[path])[0]["daemonsets"].items()


def require_the_same(recipe: dict[str, Any]) -> None:
    """Compare the files of a bundle, as somebody reads them who does not know how they were made, with gate 4."""
    files, components = bundle_files(recipe), components_of(recipe)
    folders = sorted({path.split("/")[0] for path in files if "/" in path})
    assert [folder[:3] for folder in folders] == [f"{number:03}" for number in range(1, len(folders) + 1)]
    by_component: dict[str, list[str]] = {}
    for folder in folders:
        by_component.setdefault(env(files[f"{folder}/release.env"])["COMPONENT"], []).append(folder)
    # In the order of the deployment, and the parts of a component beside each other.
    assert list(by_component) == [component.name for component in components]
    namespaces = {body["metadata"]["name"]: body for body in loaded(files.get("namespaces.yaml", ""))}
    for component in components:
        parts = by_component[component.name]
        assert {env(files[f"{folder}/release.env"])["NAMESPACE"] for folder in parts} == {component.namespace}
        ready = stack_facts().ready_when.get(component.name, ())
        told = files.get(f"{parts[-1]}/readiness.txt", "").splitlines()
        assert [line.split()[1:3] for line in told] == [[entry.field, entry.value] for entry in ready]
        assert component.namespaces - {"kube-system", "default"} <= {*namespaces}
        before, after, seen = [], [], False
        for folder in parts:
            if f"{folder}/upstream.env" in files:
                seen = True
                source = env(files[f"{folder}/upstream.env"])
                options = ("--repo", source["REPO"]) if source["REPO"] else ()
                given = (source["CHART"], (*options, "--version", source["VERSION"]))
                (values,) = loaded(files[f"{folder}/values.yaml"]) or [{}]
                namespace, *chart, wanted = wanted_by_gate_4(component)
                assert (component.namespace, given, values) == (namespace, tuple(chart), wanted)
            else:
                (after if seen or not component.has_chart else before).extend(objects_in(files, folder))
        assert seen == component.has_chart
        wanted_objects = [
            [m.body for m in component.manifests if m.before == when] for when in (True, False)
        ]  # fmt: skip
        if not component.has_chart:
            wanted_objects = [[], [*wanted_objects[0], *wanted_objects[1]]]
        for have, want in zip((before, after), wanted_objects, strict=True):
            plain = [body for body in want if body["kind"] != "Namespace"]
            # Definitions first: what is made of them may stand before them in a file.
            assert have == sorted(plain, key=lambda body: body["kind"] != "CustomResourceDefinition")
            for body in want:
                if body["kind"] == "Namespace":
                    assert body.items() <= namespaces[body["metadata"]["name"]].items()


def test_a_component_waits_for_the_last_folder_of_what_it_needs(recipe: dict[str, Any]) -> None:
    bundle = bundle_for(recipe, "helm", ChartRepository())
    place = {part.folder: number for number, part in enumerate(bundle.parts)}
    last = {part.component: part.folder for part in bundle.parts}
    first = {part.component: part for part in reversed(bundle.parts)}
    for component in components_of(recipe):
        assert {last[name] for name in component.depends_on} == {*first[component.name].needs}
    for part in bundle.parts:
        assert all(place[name] < place[part.folder] for name in part.needs)
        assert part.wave == 1 + max((bundle.parts[place[name]].wave for name in part.needs), default=-1)
    assert max(part.wave for part in bundle.parts) >= 3


def test_the_same_recipe_gives_the_same_bytes_in_two_places(recipe: dict[str, Any], tmp_path: Path) -> None:
    one, other = tmp_path / "a" / "stack", tmp_path / "a longer way" / "other name"
    for place in (one, other):
        write_bundle(place, bundle_files(recipe))
    sums = [(place / "checksums.txt").read_bytes() for place in (one, other)]
    assert sums[0] == sums[1]
    assert str(tmp_path) not in "".join(bundle_files(recipe).values())
    # Components in another order of the document are the same recipe.
    turned = {**recipe, "componentRefs": recipe["componentRefs"][::-1]}
    without = [
        {k: v for k, v in bundle_files(r).items() if k not in ("recipe.yaml", "checksums.txt")}
        for r in (recipe, turned)
    ]
    assert without[0] == without[1]


def test_a_bundle_made_of_the_recipe_in_a_bundle_is_that_bundle(secret_recipe: dict[str, Any]) -> None:
    files = bundle_files(secret_recipe)
    (kept,) = loaded(files["recipe.yaml"])
    assert bundle_files(kept) == files


def test_the_list_is_one_of_sha256sum_and_the_scripts_can_be_started(written: Path) -> None:
    done = subprocess.run(
        ["sha256sum", "--check", "--strict", "checksums.txt"], cwd=written, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    listed = {line.split("  ")[1] for line in (written / "checksums.txt").read_text(encoding="utf-8").splitlines()}
    there = {path.relative_to(written).as_posix() for path in written.rglob("*") if path.is_file()}
    assert listed == there - {"checksums.txt"}
    assert all(os.access(written / name, os.X_OK) for name in ("deploy.sh", "undeploy.sh"))
    found = verify(written)
    assert (found.faults, found.deployer, found.files) == ((), "helm", len(there))


@pytest.mark.drawn(12)
@pytest.mark.parametrize("number", range(48))
def test_any_byte_that_is_another_one_is_found(number: int, written: Path) -> None:
    drawn = drawing(f"bundle byte {number}")
    path = drawn.choice(sorted(path for path in written.rglob("*") if path.is_file()))
    content = bytearray(path.read_bytes())
    place = drawn.randrange(len(content))
    content[place] ^= drawn.randrange(1, 256)
    path.write_bytes(content)
    assert verify(written).faults


def added(written: Path) -> str:
    (written / "001-cert-manager" / "more.yaml").write_text("a: 1\n", encoding="utf-8")
    return "001-cert-manager/more.yaml is not in checksums.txt"


def removed(written: Path) -> str:
    (written / "001-cert-manager" / "values.yaml").unlink()
    return "001-cert-manager/values.yaml is missing"


def linked(written: Path) -> str:
    path = written / "001-cert-manager" / "values.yaml"
    moved = written.parent / "values.yaml"
    path.rename(moved)
    path.symlink_to(moved)
    return "001-cert-manager/values.yaml is a link"


def linked_directory(written: Path) -> str:
    (written / "more").symlink_to(written / "001-cert-manager")
    return "more is a link"


def piped(written: Path) -> str:
    os.mkfifo(written / "pipe")
    return "pipe is no regular file"


def emptied(written: Path) -> str:
    (written / "more").mkdir()
    return "more is an empty directory"


def listed_twice(written: Path) -> str:
    path = written / "checksums.txt"
    path.write_text(path.read_text(encoding="utf-8") * 2, encoding="utf-8")
    return "a line that sha256sum would not write"


def listed_outside(written: Path) -> str:
    path = written / "checksums.txt"
    path.write_text(f"{'0' * 64}  ../x\n{path.read_text(encoding='utf-8')}", encoding="utf-8")
    return "a line that sha256sum would not write"


def unlisted(written: Path) -> str:
    (written / "checksums.txt").write_bytes(b"")
    return "README.md is not in checksums.txt"


CHANGES = (added, removed, linked, linked_directory, piped, emptied, listed_twice, listed_outside, unlisted)


@pytest.mark.parametrize("change", CHANGES, ids=[change.__name__ for change in CHANGES])
def test_what_is_added_removed_or_linked_is_named_and_never_replaced(
    change: Any, written: Path, recipe: dict[str, Any]
) -> None:
    assert faults_of(written) == []
    wanted = change(written)
    assert any(wanted in fault for fault in verify(written).faults)
    before = sorted(os.walk(written))
    with pytest.raises(InputError, match=r"was changed since it was made: .*Fix: gpufleet bundle-verify"):
        write_bundle(written, bundle_files(recipe))
    assert sorted(os.walk(written)) == before


def test_a_bundle_is_replaced_by_its_next_one_in_one_step(
    written: Path, recipe: dict[str, Any], secret_recipe: dict[str, Any]
) -> None:
    assert write_bundle(written, bundle_files(recipe)) is False
    assert write_bundle(written, bundle_files(secret_recipe)) is True
    assert verify(written).faults == ()
    assert (written / "005-kube-prometheus-stack" / "secrets.txt").is_file()
    assert [path.name for path in written.parent.iterdir()] == ["stack"]


@pytest.mark.parametrize("name", ["some file", "directory"])
def test_what_is_no_bundle_is_not_replaced(name: str, recipe: dict[str, Any], tmp_path: Path) -> None:
    place = tmp_path / "stack"
    if name == "directory":
        place.mkdir()
        (place / "mine.txt").write_text("x", encoding="utf-8")
    else:
        place.write_text("x", encoding="utf-8")
    with pytest.raises(InputError, match=r"is (a file|no bundle: it has files, and no bundle.yaml)"):
        write_bundle(place, bundle_files(recipe))
    assert [path.name for path in tmp_path.iterdir()] == ["stack"]
    with pytest.raises(NotFoundError, match="is no bundle"):
        verify(place)


def test_an_empty_directory_and_a_link_to_one_are_taken(recipe: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert write_bundle(tmp_path / "link", bundle_files(recipe))
    assert (tmp_path / "link").is_symlink()
    assert verify(tmp_path / "real").faults == ()


def test_a_bundle_that_cannot_be_written_leaves_the_old_one(
    written: Path, secret_recipe: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = (written / "checksums.txt").read_bytes()
    replace, calls = os.replace, []

    def fails_late(source: Any, target: Any) -> None:
        calls.append(target)
        if len(calls) == 2:
            raise OSError(28, "No space left on device")
        replace(source, target)

    monkeypatch.setattr(os, "replace", fails_late)
    with pytest.raises(Exception, match="No space left"):
        write_bundle(written, bundle_files(secret_recipe))
    assert (written / "checksums.txt").read_bytes() == before
    assert verify(written).faults == ()


def test_no_secret_is_in_any_file_and_both_parts_are_the_values_of_gate_4(
    secret_recipe: dict[str, Any], tmp_path: Path
) -> None:
    bundle = bundle_for(secret_recipe, "helm", ChartRepository())
    files = files_of(bundle)
    assert [path for path, text in files.items() if SECRET in text] == []
    assert files["005-kube-prometheus-stack/secrets.txt"] == "grafana.adminPassword\n"
    # A list is one value to Helm, so all of it is held back.
    assert "driver.licensing.env" in files["007-gpu-operator/secrets.txt"]
    readme = files["README.md"]
    assert "- kube-prometheus-stack: `grafana.adminPassword`" in readme
    assert "./deploy.sh --secrets DIR" in readme
    paths = write_secrets(tmp_path / "secrets", bundle, tmp_path / "stack")
    assert [path.stat().st_mode & 0o777 for path in paths] == [0o600, 0o600]
    assert (tmp_path / "secrets").stat().st_mode & 0o777 == 0o700
    wanted = {component.name: component.values for component in components_of(secret_recipe)}
    for part in bundle.withholding:
        secret = yaml.safe_load((tmp_path / "secrets" / f"{part.component}.yaml").read_text(encoding="utf-8"))
        assert merged_values(part.values.written, secret) == wanted[part.component]


def test_secrets_are_not_written_into_the_bundle_nor_from_a_recipe_that_has_none(
    secret_recipe: dict[str, Any], tmp_path: Path
) -> None:
    bundle = bundle_for(secret_recipe, "helm", ChartRepository())
    with pytest.raises(InputError, match="lies in the bundle"):
        write_secrets(tmp_path / "stack" / "secrets", bundle, tmp_path / "stack")
    masked = bundle_for(bundle.recipe, "helm", ChartRepository())
    with pytest.raises(InputError, match=r"component kube-prometheus-stack: has grafana.adminPassword masked"):
        write_secrets(tmp_path / "secrets", masked, tmp_path / "stack")
    assert not (tmp_path / "secrets").exists()


def test_what_is_masked_is_held_back_like_a_secret() -> None:
    found = withheld({"a": {"password": MASK, "b": 1}, "args": ["--x", {"token": MASK}], "plain": [1]})
    assert (found.written, found.places, found.masked) == ({"a": {"b": 1}, "plain": [1]}, ("a.password", "args"), True)


def test_a_manifest_with_a_secret_and_a_component_of_nothing_are_refused_with_the_way(recipe: dict[str, Any]) -> None:
    entry = {"name": "x", "namespace": "x", "manifestFiles": ["a.yaml"]}

    def of(text: str) -> dict[str, Any]:
        made = {**entry, "manifests": [{"when": "after", "file": "a.yaml", "text": text}]}
        return {"componentRefs": [made], "deploymentOrder": ["x"]}

    secret = f"apiVersion: v1\nkind: Secret\nmetadata: {{name: s}}\nstringData: {{password: {SECRET}}}\n"
    with pytest.raises(
        InputError, match=r"component x: Secret s \(a.yaml\) holds a secret.*Fix: make that object"
    ) as caught:
        bundle_for(of(secret), "helm", ChartRepository())
    assert SECRET not in str(caught.value)
    with pytest.raises(InputError, match="component x: has no chart, and no objects"):
        bundle_for(of("apiVersion: v1\nkind: Namespace\nmetadata: {name: x}\n"), "helm", ChartRepository())
    long = {**recipe["componentRefs"][0], "name": "n" * 54, "dependencyRefs": []}
    with pytest.raises(InputError, match="helm takes 53 characters"):
        bundle_for({"componentRefs": [long], "deploymentOrder": [long["name"]]}, "helm", ChartRepository())


def test_labels_of_a_namespace_in_a_manifest_are_there_before_everything(tmp_path: Path) -> None:
    question = next(text for text in questions() if "service=ocp" in text)
    files = bundle_files(recipe_for(question, tmp_path))
    found = {body["metadata"]["name"]: body["metadata"] for body in loaded(files["namespaces.yaml"])}
    assert found["cert-manager-operator"]["labels"] == {"openshift.io/cluster-monitoring": "true"}
    assert not any("kind-namespace" in path or "namespace-" in path for path in files)


def test_an_address_of_a_mirror_is_where_charts_come_from(recipe: dict[str, Any]) -> None:
    files = files_of(bundle_for(recipe, "helm", ChartRepository(), "https://charts.example/m"))
    source = env(files["001-cert-manager/upstream.env"])
    assert source["CHART"].startswith("https://charts.example/m/cert-manager-")
    assert (source["REPO"], source["VERSION"]) == ("", "")
    # A directory is one of this machine.
    assert files_of(bundle_for(recipe, "helm", ChartRepository(), "/srv/charts")) == bundle_files(recipe)
