# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a maintainer is told about a chart and our values, without Helm: keys, components, changes of objects."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from own_chart import packed, written

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.helm.helm import HelmError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.model import Catalogue
from tools.chart_files import Chart, read_chart
from tools.chart_keys import unknown_keys, unread_path
from tools.chart_objects import MADE_ANEW, differences, objects_of, steady
from tools.chart_probe import Probe
from tools.chart_values import Accepted, Question, component_of, main, proved, questions, unknown_of

Json = dict[str, Any]


@pytest.fixture(params=["directory", "archive"])
def chart(request: pytest.FixtureRequest, tmp_path: Path) -> Chart:
    path = written(tmp_path / "c") if request.param == "directory" else packed(tmp_path / "c.tgz")
    return read_chart(path)


def test_name_version_and_parts_are_read(chart: Chart) -> None:
    assert (chart.name, chart.version, list(chart.parts)) == ("cert-manager", "9.9.9", ["metrics"])


@pytest.mark.parametrize(
    "values",
    [
        {"replicaCount": 3},
        {"nodeSelector": {"pool": "system"}, "tolerations": [{"operator": "Exists"}]},
        # Read, and without a default.
        {"tag": "v1"},
        # Handed on by `with`, and without a default.
        {"webhook": {"undocumented": "x", "extra": {"anything": {"at": "all"}}}},
        # The part's own values, its switch, and what all charts share.
        {"metrics": {"enabled": True, "port": 1}, "global": {"address": "None"}},
        {"webhook": {"replicaCount": None}},
    ],
)
def test_what_the_chart_has_is_not_told(chart: Chart, values: Json) -> None:
    assert list(unknown_keys(chart, values)) == []


@pytest.mark.parametrize(
    ("values", "path", "says"),
    [
        ({"replicaCuont": 3}, ("replicaCuont",), "is 'replicaCount' meant?"),
        ({"webhook": {"replicas": 1}}, ("webhook", "replicas"), "no template reads it"),
        ({"dead": False}, ("dead",), "values.yaml has it, and no template reads it"),
        ({"inAComment": 1}, ("inAComment",), "no template reads it"),
        ({"cainjector": {"nodeSelector": {}}}, ("cainjector",), "no template reads it"),
        ({"metrics": {"prot": 1}}, ("metrics", "prot"), "is 'port' meant? (chart exporter in it)"),
        ({"global": {"adress": 1}}, ("global", "adress"), "no template of the chart or of those in it"),
    ],
)
def test_what_it_has_not_is_told_with_its_path(chart: Chart, values: Json, path: tuple[str, ...], says: str) -> None:
    ((found, reason),) = unknown_keys(chart, values)
    assert found == path
    assert says in reason


def test_a_path_of_the_registry_is_told_like_a_value(chart: Chart) -> None:
    assert unread_path(chart, ("webhook", "extra", "deep")) == ""
    assert "no template reads it" in unread_path(chart, ("cainjector", "nodeSelector"))


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({"Chart.yaml": "a: ["}, "Chart.yaml: is not YAML"),
        ({"values.yaml": "- a\n"}, "values.yaml: is no mapping"),
    ],
)
def test_a_chart_that_cannot_be_read_is_said_with_its_file(files: dict[str, str], says: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=says):
        read_chart(written(tmp_path, files))


@pytest.mark.parametrize("content", [None, b"no archive"])
def test_what_is_no_chart_is_said(content: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "x.tgz"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match="neither a directory nor an archive"):
        read_chart(path)
    with pytest.raises(InputError, match=r"has no Chart\.yaml"):
        read_chart(tmp_path)


def test_the_component_is_that_of_the_chart(chart: Chart, catalogue: Catalogue) -> None:
    assert component_of(chart, catalogue) == "cert-manager"
    assert component_of(chart, catalogue, "nfd") == "nfd"
    with pytest.raises(InputError, match="not in the registry"):
        component_of(chart, catalogue, "nothing")


def test_recipes_with_the_same_values_are_one_question(catalogue: Catalogue) -> None:
    every = questions("nfd", catalogue, [])
    (asked,) = questions("nfd", catalogue, ["service=eks", "service=eks,os=ubuntu"])
    assert asked.recipes == ("service=eks", "service=eks,os=ubuntu")
    assert asked.title == "service=eks and 1 more"
    assert 0 < len(every) < sum(len(question.recipes) for question in every)
    with pytest.raises(InputError, match="is in none of these recipes"):
        questions("volcano", catalogue, ["service=eks"])
    with pytest.raises(InputError, match="is not of the form"):
        questions("nfd", catalogue, ["eks"])


def test_a_key_of_several_recipes_is_told_once(chart: Chart) -> None:
    values: Json = {"replicaCuont": 1}
    asked = [Question(recipes=(name,), component="c", namespace="n", values=values) for name in ("a", "b", "c")]
    (line,) = unknown_of(chart, asked, lambda _question: "kind: A\nmetadata: {name: a}")
    assert line.startswith("unknown: a and 2 more: replicaCuont: ")


def _made(values: Json) -> str:
    """A rendering that reads `a.b` and every item below `list`, and makes a password anew each time."""
    if values.get("stop"):
        raise HelmError("helm template x", "Error: nil pointer")
    if "extra" in values:
        raise HelmError("helm template x", "Error: values don't meet the schema: Additional property extra")
    read = {"b": (values.get("a") or {}).get("b", "default"), "list": values.get("list", [])}
    return f"kind: A\nmetadata: {{name: a}}\nspec: {json.dumps(read)}\npassword: {next(ANEW)}\n"


ANEW = iter(range(1000))


@pytest.mark.parametrize(
    ("values", "path", "read"),
    [
        ({"a": {"b": 1}}, "a.b", True),
        # As the chart has it: without it nothing changes, with another value it does.
        ({"a": {"b": "default"}}, "a.b", True),
        ({"a": {"b": {"deep": True}}}, "a.b.deep", True),
        ({"list": [1]}, "list", True),
        ({}, "a.b", True),
        ({}, "stop", True),
        ({"a": {"c": 1}}, "a.c", False),
        ({"c": {"d": []}}, "c.d", False),
        ({"c": None}, "c", False),
        ({}, "a.c", False),
        ({}, "extra", False),
    ],
)
def test_a_value_is_read_if_another_one_renders_to_something_else(values: Json, path: str, read: bool) -> None:
    before = json.dumps(values)
    assert Probe(_made, values).reads(tuple(path.split("."))) is read
    assert json.dumps(values) == before


def test_what_is_handed_on_is_not_told(chart: Chart, catalogue: Catalogue) -> None:
    question = Question(recipes=("a",), component="cert-manager", namespace="n", values={"a": {"b": 1, "c": 2}})
    lines = list(unknown_of(chart, [question], lambda asked: _made(dict(asked.values))))
    assert lines == [], "the whole is read, and so is what lies in it"
    question = replace(question, values={"c": 2})
    (line,) = unknown_of(chart, [question], lambda asked: _made(dict(asked.values)))
    assert line.startswith("unknown: a: c: ")
    with pytest.raises(InputError, match=r"lacks charts in it: redis, mongodb.*helm dependency build"):
        proved(chart, [question] * 3, catalogue, _lacking, None, accept=False)


def _lacking(_question: Question) -> str:
    said = "Error: found in Chart.yaml, but missing in charts/ directory: redis, mongodb"
    raise HelmError("helm template x", said)


DEPLOYMENT = """kind: Deployment
metadata: {name: a, namespace: ns, labels: {chart: "%s"}}
spec: {replicas: %d, containers: [{name: x, image: "%s"}, {name: y, image: same}]}
"""


def test_changes_are_told_by_object_and_path() -> None:
    before = objects_of(DEPLOYMENT % ("1", 1, "x:1") + "---\nkind: Secret\nmetadata: {name: old}\n")
    after = objects_of(DEPLOYMENT % ("1", 2, "x:2") + "---\nkind: Service\nmetadata: {name: new}\n")
    assert sorted(differences(before, after)) == [
        'Deployment ns/a: spec.containers.[x].image is "x:2", was "x:1"',
        "Deployment ns/a: spec.replicas is 2, was 1",
        "Secret old is gone",
        "Service new is new",
    ]
    assert differences(before, before) == []


def test_a_change_that_all_objects_have_is_told_once() -> None:
    texts = ["\n---\n".join(f"kind: K\nmetadata: {{name: {n}, labels: {{v: '{v}'}}}}" for n in "abc") for v in "12"]
    assert differences(*map(objects_of, texts)) == ['K a and 2 more: metadata.labels.v is "2", was "1"']


def test_what_is_made_anew_is_no_change_and_tests_of_helm_are_no_objects() -> None:
    first, second = ({"Secret a": {"data": {"p": word, "user": "x"}, "list": [word]}} for word in ("one", "two"))
    assert steady(first, second) == {"Secret a": {"data": {"p": MADE_ANEW, "user": "x"}, "list": [MADE_ANEW]}}
    hook = 'kind: Pod\nmetadata: {name: t, annotations: {"helm.sh/hook": test-success}}\n'
    assert objects_of(hook) == {}


def test_what_was_accepted_is_compared_and_the_rest_stays(tmp_path: Path, chart: Chart, catalogue: Catalogue) -> None:
    accepted = Accepted(tmp_path / "kept", "nfd")
    asked = [Question(recipes=("a", "b"), component="nfd", namespace="n", values={})]

    def told(replicas: int, *, accept: bool = False) -> list[str]:
        text = DEPLOYMENT % ("1", replicas, "x:1")
        lines = proved(chart, asked, catalogue, lambda _question: text, accepted, accept=accept)
        return [line for line in lines if line.startswith("different")]

    assert told(1) == ["different: a and 1 more: nothing was accepted yet"]
    assert told(1, accept=True) == []
    assert told(1) == []
    assert told(2) == ["different: a and 1 more: Deployment ns/a: spec.replicas is 2, was 1"]
    accepted.accept({"other": {}})
    assert told(1) == []
    told(2, accept=True)
    assert len(list((tmp_path / "kept/nfd").glob("*.json"))) == 3, "what no recipe has any more is deleted"
    (tmp_path / "kept/nfd/index.json").write_text("[", encoding="utf-8")
    with pytest.raises(InputError, match="cannot be read"):
        told(1)


def test_what_helm_refuses_is_told_and_never_accepted(tmp_path: Path, chart: Chart, catalogue: Catalogue) -> None:
    def refuse(_question: Question) -> str:
        said = "Error: values don't meet the specifications of the schema(s):\ncert-manager:\n- a.b: Invalid type"
        raise HelmError("helm template", "values don't meet", "", (said,))

    accepted = Accepted(tmp_path, "cert-manager")
    asked = [Question(recipes=("a",), component="cert-manager", namespace="n", values={})]
    lines = proved(chart, asked, catalogue, refuse, accepted, accept=True)
    assert "schema: a: a.b: Invalid type" in lines
    assert accepted.of("a") is None


def test_a_wrong_question_ends_with_two(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path)]) == 2
    assert "has no Chart.yaml" in capsys.readouterr().err
    assert main([str(tmp_path), "--accept"]) == 2
    assert "give --accepted DIR" in capsys.readouterr().err
