# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""YAML of others is read as Kubernetes reads it. The tests of the rehearsal ask a real helm the same."""

from __future__ import annotations

import gzip
import json
import time
from pathlib import Path
from typing import Any

import pytest
from yaml_samples import SAMPLES

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.foreign_yaml import PlainYamlError, documents
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.strict import parse_yaml


@pytest.mark.parametrize(("text", "meant"), SAMPLES.items())
def test_a_text_means_what_helm_reads_in_it(text: str, meant: Any) -> None:
    (found,) = documents(text)
    assert found == meant and json.loads(json.dumps(found)) == meant
    assert _types(found) == _types(meant)


def _types(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _types(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_types(entry) for entry in value]
    # JSON has one kind of number.
    return float if isinstance(value, int | float) and not isinstance(value, bool) else type(value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: .inf", "a number that JSON cannot hold"),
        ("a: -.INF", "a number that JSON cannot hold"),
        ("a: .NaN", "a number that JSON cannot hold"),
        ("a: 1\n{b: 1}: 2", "line 2: a mapping or list is used as a key"),
        ("~: 1", "key None is not text"),
        ("<<: 3", "a merge key"),
        ("a: !!binary '='", "not base64"),
        ("a: *b", "line 1: "),
    ],
)
def test_what_kubernetes_refuses_is_refused(text: str, said: str) -> None:
    with pytest.raises(PlainYamlError, match=said):
        documents(text)


def test_files_of_our_own_are_read_strictly() -> None:
    assert parse_yaml("a: =\nb: 2026-01-02\nc: 22:30\nd: y\ne: yes\nf: 0755", "x") == {
        "a": "=", "b": "2026-01-02", "c": "22:30", "d": "y", "e": True, "f": 493,
    }  # fmt: skip
    for text, said in (
        ("a: 1\na: 2", "x:2: not valid YAML: key 'a' is given twice"),
        ("1: 2", "x:1: not valid YAML: key 1 is not text"),
        ("a: !vault b", "x:1: not valid YAML: the tag !vault is not known"),
        ("a: !vault {b: 1}", "x:1: not valid YAML: the tag !vault is not known"),
    ):
        with pytest.raises(InputError, match=said):
            parse_yaml(text, "x")


def test_every_published_definition_is_read_quickly(shared: Path) -> None:
    size, started = 0, time.process_time()
    for path in sorted((shared / "crds").glob("*/*.yaml*")):
        data = path.read_bytes()
        text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
        (found,) = documents(text)
        assert found["kind"] == "CustomResourceDefinition", path
        size += len(text)
    # libyaml takes about 0.2 s for each million characters, PyYAML without it twenty times as long.
    assert time.process_time() - started < size / 500_000
