# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whatever stands in a setting, a template makes its own objects and no others, and a shell its own command."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.job import JobSpec
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.manifests import (
    KINDS,
    group_of,
    job_objects,
    render,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.namespace import TemporaryNamespace

TEMPLATES = Path(__file__).parents[5] / "recipes" / "workloads"
OBJECT = (
    "x\n---\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: mine}\n"
    "roleRef: {kind: ClusterRole, name: cluster-admin}\n"
)
HOSTILE = [
    OBJECT,
    'x"}\n---\napiVersion: v1\nkind: Namespace\nmetadata: {name: mine}\n',
    "x, privileged: true",
    "x}, hostPath: {path: /",
    "x\n          securityContext: {privileged: true}",
    "X; touch /tmp/mine",
    "$(touch /tmp/mine)",
    "`touch /tmp/mine`",
    "X' && touch /tmp/mine '",
    "{{ 1 }}",
    "x # comment",
    "*pod",
    "&a x",
    "!!python/object x",
    "x\u2028y",
]
SPEC = JobSpec(
    name="pair", nodes=("gpu01", "gpu02"), gpus_per_node=8, image="host/nccl:1", command=("perf",),
    env={"NCCL_DEBUG": "INFO"}, limits={"rdma/x": "1"}, gang="volcano", queue="team-a",
)  # fmt: skip
SLOTS: dict[str, Callable[[JobSpec, str], JobSpec]] = {
    "queue": lambda spec, text: replace(spec, queue=text),
    "device class": lambda spec, text: replace(spec, device_class=text),
    "image": lambda spec, text: replace(spec, image=text),
    "value of a variable": lambda spec, text: replace(spec, env={"NCCL_DEBUG": text}),
    "name of a variable": lambda spec, text: replace(spec, env={text: "1"}),
    "resource of the adapters": lambda spec, text: replace(spec, limits={text: "1"}),
    "amount of a resource": lambda spec, text: replace(spec, limits={"rdma/x": text}),
    "name of an annotation": lambda spec, text: replace(spec, annotations={text: "1"}),
    "value of an annotation": lambda spec, text: replace(spec, annotations={"a": text}),
    "word of the command": lambda spec, text: replace(spec, command=("perf", text)),
    "node": lambda spec, text: replace(spec, nodes=("gpu01", text)),
    "gang": lambda spec, text: replace(spec, gang=text),
    "name of a file": lambda spec, text: replace(spec, files={text: "x"}),
    "text of a file": lambda spec, text: replace(spec, files={"begin.py": text}),
    "request": lambda spec, text: replace(spec, requests={"cpu": text}),
}


def space() -> TemporaryNamespace:
    return TemporaryNamespace(cast(Any, None), "test-nccl-abc", 60.0, ())


def shape(objects: list[dict[str, Any]], text: str) -> Any:
    """The objects without that text: its own structure, whatever a slot holds."""

    def stripped(value: Any) -> Any:
        if isinstance(value, dict):
            pairs = [("TEXT" if key == text else key, stripped(item)) for key, item in value.items()]
            return sorted(pairs, key=lambda pair: str(pair[0]))
        if isinstance(value, list):
            return [stripped(item) for item in value]
        return "TEXT" if value == text else value

    return json.loads(json.dumps(stripped(objects)))


# Every slot of every template meets three texts, every text every template: a slot is filled the same way by all.
CASES = [
    (kind, slot, HOSTILE[(3 * row + 5 * column + turn) % len(HOSTILE)])
    for column, kind in enumerate(("gang-job", "mpijob", "torchrun"))
    for row, slot in enumerate(SLOTS)
    for turn in range(3)
]


@pytest.mark.parametrize(("kind", "slot", "text"), CASES)
def test_a_hostile_setting_stays_the_text_of_its_slot_or_is_refused(kind: Any, slot: str, text: str) -> None:
    spec = replace(SPEC, kind=kind)
    try:
        objects = job_objects(SLOTS[slot](spec, text), space())
    except InputError as error:
        assert text[:5] in str(error) or repr(text)[1:5] in str(error)
        return
    plain = "NCCL_PLAIN" if slot == "name of a variable" else "plain-text"
    expected = job_objects(SLOTS[slot](spec, plain), space())
    assert shape(objects, text) == shape(expected, plain)


@pytest.mark.parametrize(
    ("slot", "text"),
    [
        ("queue", "team a/b: c"),
        ("device class", "gpu.nvidia.com"),
        ("image", "registry.example.org:5000/a/b@sha256:0f"),
        ("value of a variable", "=mlx5_0:1,mlx5_1:1 && $x"),
        ("name of a variable", "NCCL_IB_HCA"),
        ("resource of the adapters", "rdma/rdma_shared_device_a"),
        ("word of the command", 'it\'s "quoted"'),
    ],
)
@pytest.mark.parametrize("kind", ["gang-job", "mpijob", "torchrun"])
def test_what_sites_write_there_arrives_whole(kind: Any, slot: str, text: str) -> None:
    objects = job_objects(SLOTS[slot](replace(SPEC, kind=kind), text), space())
    written = json.dumps(objects, ensure_ascii=False)
    quoted = json.dumps(text, ensure_ascii=False)
    assert quoted in written or (slot == "queue" and kind == "torchrun")


@pytest.mark.parametrize("key", ["A B", "A;B", "A=B", "", "1A", "A$B", "A-B", "A" * 300])
def test_what_is_no_name_of_a_variable_is_refused(key: str) -> None:
    with pytest.raises(InputError, match="no name of an environment variable"):
        replace(SPEC, env={key: "1"})


@pytest.mark.parametrize("text", [text for text in HOSTILE if text != "X; touch /tmp/mine"])
def test_a_slot_that_a_template_forgot_to_quote_takes_words_only(tmp_path: Path, text: str) -> None:
    template = tmp_path / "t.yaml.j2"
    template.write_text("apiVersion: v1\nkind: Pod\nmetadata: {name: {{ name }}}\n", encoding="utf-8")
    assert render(template, {"name": "a-1.b/c:2"})[0]["metadata"]["name"] == "a-1.b/c:2"
    with pytest.raises(InputError, match="no plain word"):
        render(template, {"name": text})
    with pytest.raises(InputError, match="does not render: 'name' is undefined"):
        render(template, {})


@pytest.mark.parametrize(
    ("api_version", "kind"),
    [
        ("v1", "Namespace"),
        ("v1", "ServiceAccount"),
        ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"),
        ("rbac.authorization.k8s.io/v1", "Role"),
        ("apps/v1", "DaemonSet"),
        ("batch/v1", "CronJob"),
        ("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration"),
        ("example.org/v1", "Pod"),
        ("v1", "Job"),
    ],
)
def test_an_object_that_no_test_needs_is_refused(tmp_path: Path, api_version: str, kind: str) -> None:
    template = tmp_path / "t.yaml.j2"
    template.write_text(f"apiVersion: {api_version}\nkind: {kind}\nmetadata: {{name: x}}\n", encoding="utf-8")
    with pytest.raises(InputError, match="which no test needs"):
        render(template, {})


def test_every_kind_of_the_list_is_made_by_a_template() -> None:
    made = set()
    for path in TEMPLATES.glob("*.j2"):
        lines = path.read_text(encoding="utf-8").splitlines()
        versions = [line.partition(": ")[2] for line in lines if line.startswith("apiVersion: ")]
        kinds = {line.partition(": ")[2] for line in lines if line.startswith("kind: ")}
        groups = {group_of(version) for version in versions} | {"resource.k8s.io"}
        made |= {(group, kind) for group, kind in KINDS if group in groups and kind in kinds}
        assert kinds <= {kind for _group, kind in KINDS}, path.name
        # Written in Python, because all workloads claim devices in the same words (workload/capacity.py).
        made |= {("resource.k8s.io", "ResourceClaimTemplate")} if "in claim_templates" in "".join(lines) else set()
    assert made == KINDS
