# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What Argo CD, Flux and helmfile are given: of their own schemas, and with the charts, values and order of helm."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from bundles import ASKED, IN_GIT, bundle_files, env, loaded, questions, recipe_for
from crd_schema import crd_schema

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.bundle.app import (
    DEPLOYERS,
    bundle_for,
    files_of,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.bundle.parts import (
    Bundle,
    BundlePart,
    ChartRepository,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.merge import merged_values

ENGINES = ("argocd", "flux", "helmfile")
WITH_SECRET = {"kube-prometheus-stack": {"grafana": {"adminPassword": "hunter2-of-this-test"}}}
SCHEMAS = {
    ("argoproj.io/v1alpha1", "Application"): "argo-cd/applications.argoproj.io",
    ("source.toolkit.fluxcd.io/v1", "GitRepository"): "flux/gitrepositories.source.toolkit.fluxcd.io",
    ("source.toolkit.fluxcd.io/v1", "HelmRepository"): "flux/helmrepositories.source.toolkit.fluxcd.io",
    ("helm.toolkit.fluxcd.io/v2", "HelmRelease"): "flux/helmreleases.helm.toolkit.fluxcd.io",
    ("kustomize.toolkit.fluxcd.io/v1", "Kustomization"): "flux/kustomizations.kustomize.toolkit.fluxcd.io",
}


def made(question: str, deployer: str, directory: Path, overrides: Any = None) -> tuple[Bundle, dict[str, str]]:
    """Return the bundle of a question for an engine, and its files."""
    recipe = recipe_for(question, directory, overrides)
    bundle = bundle_for(recipe, deployer, IN_GIT if deployer in ("argocd", "flux") else ChartRepository())
    return bundle, files_of(bundle)


def chart_of(part: BundlePart, files: dict[str, str], deployer: str, helm: dict[str, str]) -> tuple[str, str, str]:
    """Return repository, chart and version as the engine reads them."""
    if deployer == "argocd":
        (app,) = loaded(files[f"applications/{part.folder}.yaml"])
        chart, values = app["spec"]["sources"]
        assert (values["ref"], values["repoURL"]) == ("values", IN_GIT.url)
        # An OCI repository is written without its scheme there.
        scheme = "" if "://" in chart["repoURL"] else "oci://"
        return scheme + chart["repoURL"], chart["chart"], chart["targetRevision"]
    if deployer == "flux":
        spec = loaded(files[f"flux/{part.folder}.yaml"])[0]["spec"]["chart"]["spec"]
        sources = {body["metadata"]["name"]: body["spec"] for body in loaded(files["flux/000-repositories.yaml"])}
        source = sources[spec["sourceRef"]["name"]]
        assert source["url"].startswith("oci://") is (source.get("type") == "oci")
        return source["url"], spec["chart"], spec["version"]
    (state,) = loaded(files["helmfile.yaml"])
    release = next(entry for entry in state["releases"] if entry["name"] == part.release)
    name, _slash, chart = release["chart"].partition("/")
    source = next(entry for entry in state["repositories"] if entry["name"] == name)
    return ("oci://" if source.get("oci") else "") + source["url"], chart, release["version"]


def values_of(part: BundlePart, files: dict[str, str], deployer: str) -> Any:
    """Return the values that the engine gives to helm."""
    if deployer == "flux":
        return loaded(files[f"flux/{part.folder}.yaml"])[0]["spec"].get("values", {})
    if deployer == "argocd":
        (app,) = loaded(files[f"applications/{part.folder}.yaml"])
        (path,) = app["spec"]["sources"][0]["helm"]["valueFiles"]
        inside = path.removeprefix(f"$values/{IN_GIT.path}/")
    else:
        (state,) = loaded(files["helmfile.yaml"])
        (inside,) = next(entry["values"] for entry in state["releases"] if entry["name"] == part.release)
    return yaml.safe_load(files[inside])


@pytest.mark.drawn(8)
@pytest.mark.parametrize("question", questions())
@pytest.mark.parametrize("deployer", ENGINES)
def test_engines_are_given_what_helm_is_given(deployer: str, question: str, tmp_path: Path) -> None:
    bundle, files = made(question, deployer, tmp_path)
    helm = bundle_files(recipe_for(question, tmp_path))
    for part in bundle.parts:
        if part.upstream is None:
            mine = {path: text for path, text in files.items() if path.startswith(f"{part.folder}/")}
            theirs = {path: text for path, text in helm.items() if path.startswith(f"{part.folder}/")}
            assert mine == {path: text for path, text in theirs.items() if not path.endswith((".env", "readiness.txt"))}
            continue
        source = env(helm[f"{part.folder}/upstream.env"])
        repository, chart, version = chart_of(part, files, deployer, helm)
        reference = f"{repository}/{chart}" if repository.startswith("oci://") else chart
        assert (reference, version) == (source["CHART"], source["VERSION"])
        assert source["REPO"] in ("", repository)
        assert values_of(part, files, deployer) == yaml.safe_load(helm[f"{part.folder}/values.yaml"])


@pytest.mark.drawn(6)
@pytest.mark.parametrize("question", questions())
@pytest.mark.parametrize("deployer", ["argocd", "flux"])
def test_what_is_applied_is_of_the_engines_own_schemas(
    deployer: str, question: str, tmp_path: Path, shared: Path
) -> None:
    from jsonschema import Draft202012Validator

    _bundle, files = made(question, deployer, tmp_path)
    seen = 0
    for path, text in files.items():
        if not path.startswith(("app-of-apps", "applications/", "flux")):
            continue
        for body in loaded(text):
            name = SCHEMAS.get((body["apiVersion"], body["kind"]))
            if name is None:
                assert body["kind"] in ("Namespace", "Kustomization"), body
                continue
            version = body["apiVersion"].rpartition("/")[2]
            faults = [
                error.message for error in Draft202012Validator(crd_schema(shared, name, version)).iter_errors(body)
            ]
            assert faults == [], (path, faults)
            seen += 1
    assert seen > 5


def test_waves_and_dependencies_are_those_of_the_folders(tmp_path: Path) -> None:
    bundle, argo = made(ASKED, "argocd", tmp_path)
    flux, state = (
        made(ASKED, "flux", tmp_path)[1],
        yaml.safe_load(made(ASKED, "helmfile", tmp_path)[1]["helmfile.yaml"]),
    )
    waves = {}
    for part in bundle.parts:
        (app,) = loaded(argo[f"applications/{part.folder}.yaml"])
        waves[part.folder] = int(app["metadata"]["annotations"]["argocd.argoproj.io/sync-wave"])
        assert all(waves[name] < waves[part.folder] for name in part.needs)
    by_folder = {part.folder: part for part in bundle.parts}
    releases = {entry["name"]: entry for entry in state["releases"]}
    for part in bundle.parts:
        needed = [by_folder[name] for name in part.needs]
        spec = loaded(flux[f"flux/{part.folder}.yaml"])[0]["spec"]
        assert [entry["name"] for entry in spec.get("dependsOn", ())] == [f"gpu-stack-{one.release}" for one in needed]
        assert releases[part.release].get("needs", []) == [f"{one.namespace}/{one.release}" for one in needed]
    assert len(set(waves.values())) > 2
    # Namespaces come first, and stay.
    for body in loaded(argo["applications/000-namespaces.yaml"]):
        assert body["metadata"]["annotations"] == {
            "argocd.argoproj.io/sync-options": "Prune=false,Delete=false", "argocd.argoproj.io/sync-wave": "-1",
        }  # fmt: skip
    assert all("prune" in str(body["metadata"]["annotations"]) for body in loaded(flux["flux/000-namespaces.yaml"]))


def test_every_file_that_an_engine_is_led_to_is_there(tmp_path: Path) -> None:
    _bundle, files = made(ASKED, "flux", tmp_path)
    git, root = loaded(files["flux.yaml"])
    assert (git["spec"]["url"], git["spec"]["ref"]) == (IN_GIT.url, {"branch": "main"})
    assert root["spec"]["path"] == f"./{IN_GIT.path}/flux"
    listed = loaded(files["flux/kustomization.yaml"])[0]["resources"]
    there = [path.removeprefix("flux/") for path in sorted(files) if path.startswith("flux/")]
    assert sorted([*listed, "kustomization.yaml"]) == there
    local = loaded(files["flux/006-kube-prometheus-stack-post.yaml"])[0]["spec"]["chart"]["spec"]
    assert f"{local['chart'].removeprefix(f'./{IN_GIT.path}/')}/Chart.yaml" in files
    _bundle, argo = made(ASKED, "argocd", tmp_path)
    (app,) = loaded(argo["app-of-apps.yaml"])
    assert app["spec"]["source"]["path"] == f"{IN_GIT.path}/applications"
    (app,) = loaded(argo["applications/006-kube-prometheus-stack-post.yaml"])
    assert f"{app['spec']['source']['path'].removeprefix(f'{IN_GIT.path}/')}/Chart.yaml" in argo


@pytest.mark.parametrize(
    ("revision", "wanted"),
    [("main", {"branch": "main"}), ("refs/tags/v1", {"name": "refs/tags/v1"}), ("a" * 40, {"commit": "a" * 40})],
)
def test_flux_is_told_what_kind_of_revision_it_is(revision: str, wanted: dict[str, str], tmp_path: Path) -> None:
    recipe = recipe_for(ASKED, tmp_path)
    files = files_of(bundle_for(recipe, "flux", ChartRepository(url="https://git.example/x", revision=revision)))
    git, root = loaded(files["flux.yaml"])
    assert (git["spec"]["ref"], root["spec"]["path"]) == (wanted, "./flux")


def test_secrets_come_from_the_cluster_from_a_directory_or_are_refused(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"component kube-prometheus-stack: needs a secret at grafana.adminPassword, and Argo CD"
    ):
        made(ASKED, "argocd", tmp_path, WITH_SECRET)
    bundle, flux = made(ASKED, "flux", tmp_path, WITH_SECRET)
    (part,) = bundle.withholding
    spec = loaded(flux[f"flux/{part.folder}.yaml"])[0]["spec"]
    assert spec["valuesFrom"] == [
        {"kind": "Secret", "name": "gpu-stack-kube-prometheus-stack", "valuesKey": "values.yaml"}
    ]  # fmt: skip
    # Flux lays `values` over `valuesFrom`, so nothing may be in both.
    assert merged_values(part.values.secret, spec["values"]) == merged_values(spec["values"], part.values.secret)
    _bundle, helmfile = made(ASKED, "helmfile", tmp_path, WITH_SECRET)
    assert "helmfile.yaml" not in helmfile
    assert """'{{ requiredEnv "GPUFLEET_SECRETS" }}/kube-prometheus-stack.yaml'""" in helmfile["helmfile.yaml.gotmpl"]
    for files in (flux, helmfile):
        assert [path for path, text in files.items() if "hunter2" in text] == []
        assert "- kube-prometheus-stack: `grafana.adminPassword`" in files["README.md"]


def test_what_an_engine_needs_or_does_not_take_is_said_with_the_way(tmp_path: Path) -> None:
    recipe = recipe_for(ASKED, tmp_path)
    for deployer in ("argocd", "flux"):
        with pytest.raises(InputError, match=f"--deployer {deployer}: reads the bundle from Git.*Fix: add --repo URL"):
            bundle_for(recipe, deployer, ChartRepository())
    for deployer in ("helm", "helmfile"):
        with pytest.raises(InputError, match=f"--deployer {deployer}: takes no --repo"):
            bundle_for(recipe, deployer, IN_GIT)
    for deployer in ENGINES:
        repository = IN_GIT if deployer != "helmfile" else ChartRepository()
        with pytest.raises(InputError, match=r"comes as a package at an address.*Fix: leave --chart-mirror out"):
            files_of(bundle_for(recipe, deployer, repository, "https://charts.example"))
    with pytest.raises(InputError, match=r"--deployer fluxx: is no deployer. Fix: Did you mean 'flux'\?"):
        bundle_for(recipe, "fluxx", ChartRepository())
    with pytest.raises(InputError, match=r"--path \.\./x: leads out of the repository"):
        bundle_for(recipe, "flux", ChartRepository(url="u", revision="r", path="../x"))


def test_the_command_offers_the_deployers_that_there_are() -> None:
    from ansible_collections.gpufleet.bringup.plugins.plugin_utils.cli.main import make_parser

    (parser,) = (one for one in make_parser()[1] if one.prog == "gpufleet bundle")
    (action,) = (one for one in parser._actions if one.dest == "deployer")
    assert [*(action.choices or ())] == [*DEPLOYERS]
