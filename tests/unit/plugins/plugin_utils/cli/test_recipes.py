# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the commands about recipes print, write and end with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from gpufleet_command import Command

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.criteria import ORDER
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.hydrate import component_values, plain
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.request import answer, request_of

CRITERIA = {"service": "eks", "accelerator": "h100", "intent": "training"}
ASKED = ("--service", "eks", "--accelerator", "h100", "--intent", "training")
TUNER = {
    "apiVersion": "gpufleet.bringup/v1",
    "kind": "ComponentRegistry",
    "components": [
        {
            "name": "acme-tuner",
            "displayName": "acme-tuner",
            "helm": {
                "defaultRepository": "https://charts.example",
                "defaultChart": "acme/tuner",
                "defaultVersion": "1.0.0",
                "defaultNamespace": "acme",
            },
        }
    ],
}
LAYER = {
    "apiVersion": "gpufleet.bringup/v1",
    "kind": "RecipeMetadata",
    "metadata": {"name": "acme-training"},
    "spec": {"criteria": {"intent": "training"}, "componentRefs": [{"name": "acme-tuner"}]},
}


@pytest.fixture
def private(tmp_path: Path) -> Path:
    """Recipe data of a site, with a component of its own."""
    root = tmp_path / "mine"
    (root / "overlays").mkdir(parents=True)
    (root / "registry.yaml").write_text(yaml.safe_dump(TUNER), encoding="utf-8")
    (root / "overlays" / "acme.yaml").write_text(yaml.safe_dump(LAYER), encoding="utf-8")
    return root


def test_the_owner_of_the_driver_is_laid_over_what_is_asked_for(gpufleet: Command) -> None:
    asked = ("--service", "generic", "--accelerator", "h100", "--os", "ubuntu", "--intent", "training")
    enabled, host = "components.gpu-operator.values.driver.enabled", ("--driver-owner", "host")
    assert (gpufleet("query", enabled, *asked).out, gpufleet("query", enabled, *asked, *host).out) == (
        "true\n",
        "false\n",
    )
    told = "  gpufleet_driver_owner: host (the inventory) set false, replacing true\n"
    assert gpufleet("explain", enabled, *asked, *host).out.endswith(told)
    values = yaml.safe_load(gpufleet("values", "gpu-operator", *asked, *host).out)
    assert values["driver"]["enabled"] is False
    version = "components.gpu-operator.values.driver.version"
    for verb in ("query", "explain"):
        assert "has no effect: gpufleet_driver_owner is host" in gpufleet(verb, version, *asked, *host).err
        assert gpufleet(verb, version, *asked, "--driver-owner", "operator").err == ""


def test_a_recipe_is_printed_as_yaml_and_as_json_and_is_that_of_the_module(gpufleet: Command) -> None:
    expected = plain(answer(request_of({"criteria": CRITERIA})).result)
    printed, as_json = gpufleet("recipe", *ASKED), gpufleet("recipe", *ASKED, "--format", "json")
    assert (printed.code, printed.err, as_json.code, as_json.err) == (0, "", 0, "")
    assert yaml.safe_load(printed.out) == expected == json.loads(as_json.out)


def test_a_recipe_is_written_where_it_is_wanted_and_nothing_printed(gpufleet: Command, tmp_path: Path) -> None:
    first, second = tmp_path / "recipe.yaml", tmp_path / "recipe.json"
    written = gpufleet("recipe", *ASKED, "-o", str(first))
    assert written.out == "" and "write it with --self-contained." in written.err
    assert gpufleet("recipe", *ASKED, "--output", str(second)).code == 0
    assert yaml.safe_load(first.read_text(encoding="utf-8")) == json.loads(second.read_text(encoding="utf-8"))
    refused = gpufleet("recipe", *ASKED, "-o", str(first), "--format", "json")
    assert (refused.code, "leave --format out" in refused.err) == (2, True)


def test_every_criterion_has_a_flag_and_gpu_is_the_accelerator(gpufleet: Command) -> None:
    assert {*answer(request_of({"criteria": CRITERIA})).catalogue.vocabulary.names} == {*ORDER}
    asked = ("query", "components.gpu-operator.version", "--service", "eks")
    assert gpufleet(*asked, "--gpu", "h100").out == gpufleet(*asked, "--accelerator", "h100").out
    shown = gpufleet("query", "--selector", "criteria", "--service", "gke", "--nvlink-domain", "node", "--gpu", "h100")
    assert yaml.safe_load(shown.out)["nvlink_domain"] == "node"


def test_criteria_are_read_from_a_file_of_the_upstream_tool_and_a_flag_wins(gpufleet: Command, tmp_path: Path) -> None:
    file = tmp_path / "criteria.yaml"
    file.write_text(
        "kind: RecipeCriteria\napiVersion: aicr.nvidia.com/v1alpha1\nspec: {service: eks, accelerator: h100}\n"
    )
    shown = gpufleet("query", "criteria", "--criteria", str(file), "--accelerator", "gb200")
    assert (yaml.safe_load(shown.out)["service"], yaml.safe_load(shown.out)["accelerator"]) == ("eks", "gb200")


def test_a_single_value_is_printed_as_it_is(gpufleet: Command) -> None:
    version = answer(request_of({"criteria": CRITERIA})).result.component("gpu-operator")
    assert version is not None
    assert gpufleet("query", "components.gpu-operator.version", *ASKED).out == f"{version.version}\n"
    assert gpufleet("query", "components.gpu-operator.enabled", *ASKED).out == "true\n"


def test_values_are_what_helm_takes(gpufleet: Command) -> None:
    found = answer(request_of({"criteria": CRITERIA, "set": ["gpu-operator:driver.version=570.1"]}))
    component = found.result.component("gpu-operator")
    assert component is not None
    printed = gpufleet("values", "gpu-operator", *ASKED, "--set", "gpu-operator:driver.version=570.1")
    assert yaml.safe_load(printed.out) == component_values(component, found.catalogue)
    assert yaml.safe_load(printed.out)["driver"]["version"] == "570.1"


def test_a_secret_is_printed_to_who_installs_with_a_warning_and_masked_for_others(gpufleet: Command) -> None:
    asked = (*ASKED, "--set", "kube-prometheus-stack:grafana.adminPassword=sesame-open")
    values = gpufleet("values", "kube-prometheus-stack", *asked)
    assert "sesame-open" in values.out
    assert "grafana.adminPassword" in values.err
    assert "sesame-open" not in values.err
    path = "components.kube-prometheus-stack.values"
    for others in (("query", path), ("explain", f"{path}.grafana"), ("diff",)):
        shown = gpufleet(*others, *asked)
        assert shown.code == 0
        assert "sesame-open" not in shown.out + shown.err


def test_explain_names_the_layers_and_their_files(gpufleet: Command, private: Path) -> None:
    told = gpufleet("explain", "components.acme-tuner.version", *ASKED, "--data", str(private))
    assert told.code == 0
    assert f'registry ({private}/registry.yaml) set "1.0.0"' in told.out
    assert "base → training" in gpufleet("explain", *ASKED).out


def test_diff_shows_what_mine_does(gpufleet: Command, private: Path) -> None:
    added = gpufleet("diff", *ASKED, "--data", str(private))
    assert (added.code, added.out.splitlines()[0]) == (0, "added: acme-tuner")
    assert gpufleet("diff", *ASKED, "--data", str(private), "--exit-code").code == 1
    same = gpufleet("diff", *ASKED, "--set", "gpu-operator:cdi.enabled=true", "--exit-code")
    assert (same.code, same.out) == (0, "nothing differs\n")


def test_diff_goes_from_the_first_to_the_second(gpufleet: Command, private: Path, tmp_path: Path) -> None:
    changed = gpufleet("diff", "intent=training", "intent=inference", "--service", "eks", "--accelerator", "h100")
    assert 'values.mig.strategy: "single" -> "mixed"' in changed.out
    saved = tmp_path / "saved.yaml"
    assert gpufleet("recipe", *ASKED, "-o", str(saved)).code == 0
    assert gpufleet("diff", str(saved), *ASKED, "--exit-code").out == "nothing differs\n"
    after = gpufleet("diff", str(saved), *ASKED, "--data", str(private), "--format", "json")
    assert json.loads(after.out)["components_added"] == ["acme-tuner"]
    full = tmp_path / "full.json"
    assert gpufleet("recipe", *ASKED, "--hydrated", "-o", str(full)).code == 0
    assert gpufleet("diff", str(saved), str(full), "--exit-code").out == "nothing differs\n"
    assert gpufleet("diff", *ASKED).code == 2


def test_list_is_that_of_the_module(gpufleet: Command) -> None:
    assert "  kind" in gpufleet("list", "--service", "kind").out.splitlines()
    listed = gpufleet("list", "--service", "kind", "--format", "json")
    assert [row["service"] for row in json.loads(listed.out)["environments"]] == ["kind"]


@pytest.mark.parametrize(
    ("argv", "code", "words"),
    [
        (("recpie",), 2, "did you mean recipe?"),
        (("recipe", "--acelerator", "h100"), 2, "did you mean --accelerator?"),
        (("recipe", "--format", "jsn"), 2, "did you mean json?"),
        (("recipe",), 2, "none is stated"),
        (("recipe", "--service", "eks", "--accelerator", "h1000"), 2, "Did you mean 'h100'?"),
        (("recipe", "--service", "gke", "--accelerator", "l40s"), 2, "Nearest supported"),
        (("recipe", "eks"), 2, "one argument too many"),
        (("recipe", *ASKED, "--data", "/nowhere"), 3, "is not a directory"),
        (("query", "components.gpu-operator.versoin", *ASKED), 3, "components.gpu-operator.version"),
        (("query", "a", "--selector", "b", *ASKED), 2, "given twice"),
        (("values", "gpu-operater", *ASKED), 3, "Did you mean 'gpu-operator'?"),
        (("recipe", *ASKED, "--profile", "driver"), 2, "NAME=VALUE"),
        (("recipe", *ASKED, "-o", "cm://a/b"), 2, "is no file"),
        (("diff", "a", "b", "c", *ASKED), 2, "two at most"),
        (("diff", "nowhere.yaml", *ASKED), 3, "nowhere.yaml"),
    ],
)
def test_what_is_wrong_is_said_once_with_its_exit_code(
    gpufleet: Command, argv: tuple[str, ...], code: int, words: str
) -> None:
    ended = gpufleet(*argv)
    assert (ended.code, ended.out) == (code, "")
    told = ended.err.splitlines()[-1]
    assert words in told
    assert told.startswith("gpufleet")
    assert "Traceback" not in ended.err


@pytest.mark.parametrize("argv", [(), ("--help",), ("recipe", "--help"), ("--version",)])
def test_help_and_version_are_answers(gpufleet: Command, argv: tuple[str, ...]) -> None:
    ended = gpufleet(*argv)
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith("gpufleet.bringup" if argv == ("--version",) else "usage: gpufleet")


def test_a_defect_shows_no_traceback_until_it_is_wanted(gpufleet: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    from ansible_collections.gpufleet.bringup.plugins.plugin_utils.cli import recipes

    monkeypatch.setattr(recipes, "recipe", lambda _arguments: 1 // 0)
    ended = gpufleet("recipe", *ASKED)
    assert (ended.code, ended.err.count("\n")) == (8, 1)
    assert "--debug" in ended.err
    with pytest.raises(ZeroDivisionError):
        gpufleet("recipe", *ASKED, "--debug")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            ["--gpu", "h100", "--accelerator", "h200"],
            "is h200, and h100 before. Fix: leave one of them out",
        ),
        (["--service", "eks", "--foo", "1"], "--foo is no option. Fix: see gpufleet recipe --help"),
        (["--servise", "eks"], "--servise is no option. Fix: did you mean --service?"),
        (["--service", "eks", "--set", "gpu-operator.driver.version=1"], "for example gpu-operator:driver.version=580"),
    ],
)
def test_a_mistaken_word_is_told_with_what_helps(gpufleet: Command, words: list[str], told: str) -> None:
    said = gpufleet("recipe", *words)
    assert said.code == 2 and told in said.err


def test_the_same_value_twice_is_no_mistake(gpufleet: Command) -> None:
    assert gpufleet("recipe", "--service", "eks", "--gpu", "h100", "--accelerator", "h100").code == 0
