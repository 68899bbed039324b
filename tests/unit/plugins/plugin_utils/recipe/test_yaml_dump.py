# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is written reads back the same in readers of YAML 1.1 and 1.2, and JSON is JSON."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.output import dump
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.request import request_of
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.yaml_dump import dump_yaml
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.yaml_text import decode

# The core schema of YAML 1.2.2, chapter 10.3.2, as it stands there.
CORE = {
    "null": r"null|Null|NULL|~|",
    "bool": r"true|True|TRUE|false|False|FALSE",
    "int": r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+",
    "float": r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?(\.inf|\.Inf|\.INF)|\.nan|\.NaN|\.NAN",
}


class CoreLoader(yaml.SafeLoader):
    """PyYAML's parser with the types of YAML 1.2's core schema, and no others."""

    yaml_implicit_resolvers: dict[Any, Any] = {}  # noqa: RUF012 - PyYAML's own table, per class


for name, pattern in CORE.items():
    # The first character decides nothing: `None` is asked for every text.
    CoreLoader.add_implicit_resolver(f"tag:yaml.org,2002:{name}", re.compile(f"(?:{pattern})$"), None)  # type: ignore[no-untyped-call]


def _core_int(loader: CoreLoader, node: yaml.ScalarNode) -> int:
    text = str(loader.construct_scalar(node))
    return int(text, 0) if text[:2] in ("0o", "0x") else int(text, 10)


def _core_float(loader: CoreLoader, node: yaml.ScalarNode) -> float:
    return float(str(loader.construct_scalar(node)).replace(".inf", "inf").replace(".nan", "nan"))


CoreLoader.add_constructor("tag:yaml.org,2002:int", _core_int)
CoreLoader.add_constructor("tag:yaml.org,2002:float", _core_float)


def ruamel(text: str) -> Any:
    """Read as a library for YAML 1.2 does."""
    reader = YAML(typ="safe", pure=True)
    reader.version = (1, 2)
    return reader.load(io.StringIO(text))


READERS = {
    "ours": lambda text: decode(text, "x"),
    "YAML 1.1": yaml.safe_load,
    "YAML 1.2 core": lambda text: yaml.load(text, Loader=CoreLoader),
    "YAML 1.2": ruamel,
}  # fmt: skip

# Go's reader, which upstream's tool and Helm have, knows underscores, bases and a leading zero beside 1.2's.
NUMBER_LIKE = r"[-+]?[0-9._]{0,3}([xXoObB]?[0-9a-fA-F_]{1,6}|[.][0-9]*)([eE][-+]?[0-9]{1,3})?"
DATES = r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([Tt ][0-9]{1,2}:[0-9]{2}:[0-9]{2}(Z|[-+][0-9]{2}:[0-9]{2})?)?"
TIMES = r"[-+]?[0-9]{1,3}(:[0-5]?[0-9]){1,2}(\.[0-9]*)?"
FORMS = st.sampled_from([NUMBER_LIKE, DATES, TIMES]).flatmap(lambda form: st.from_regex(form, fullmatch=True))
WORDS = st.sampled_from(
    ["", "~", "null", "Null", "NULL", "true", "True", "TRUE", "yes", "Yes", "YES", "on", "off", "no", "y", "Y", "n",
     "N", ".inf", "-.INF", "+.Inf", ".nan", ".NaN", "=", "<<", "-", "?", ":", "- a", "a: b", "a #b", "#a", "&a", "*a",
     "!a", "%a", "@a", "`a", "|", ">", "'", '"', "---", "...", " a", "a ", "\n", "a\nb", "a\n", "\ta", "12345e7", "08",
     "0o17", "1e3", "-.5", "0x1F", "0b1", "1_000", "1e309", "-1e309", "1.", "+1", "9" * 80, "\u2028", "\x85", "\ufeff",
     "é", "😀"]
)  # fmt: skip
# Code points of surrogates are no text, and YAML has no other control characters than these.
TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=40) | WORDS | FORMS
NUMBERS = st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
DATA = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


def same(found: Any, wanted: Any) -> bool:
    """Whether data is the same in value and type."""
    if type(found) is not type(wanted):
        return False
    if isinstance(wanted, dict):
        return set(found) == set(wanted) and all(same(found[key], value) for key, value in wanted.items())
    if isinstance(wanted, list):
        return len(found) == len(wanted) and all(map(same, found, wanted))
    return bool(found == wanted)


@given(data=st.dictionaries(TEXTS, DATA, max_size=4))
@example(data={"\u00a0": None})
@example(data={"a": "\u3000b", "b": ["\u00a0"], "c\u00a0d": "e\u00a0f"})
def test_what_is_written_reads_back_the_same(data: dict[str, Any]) -> None:
    text = dump_yaml(data)
    for reader in ("ours", "YAML 1.1", "YAML 1.2 core", "YAML 1.2"):
        assert same(READERS[reader](text), data), (reader, text)


@given(data=st.dictionaries(TEXTS, DATA, max_size=4))
def test_json_reads_back_the_same(data: dict[str, Any]) -> None:
    assert same(json.loads(dump(data, Path("recipe.json"))), data)


@pytest.mark.parametrize(
    "text",
    [
        "12345e7",
        "08",
        "0o17",
        "1e3",
        "-.5",
        "+1",
        "1.",
        "1e309",
        "y",
        "N",
        "1_000",
        "0b1",
        ".inf",
        "-_",
        "-_0",
        "9" * 80,
    ],
)
def test_a_text_that_some_reader_takes_for_something_else_is_quoted(text: str) -> None:
    assert dump_yaml({"tag": text}) == f"tag: '{text}'\n"


@pytest.mark.parametrize(
    "text", ["1.32.4", "v1.2", "580.173.02", "a", "1e", "0xg", "sha256:12", "e7", "1-2", "24.04-lts"]
)
def test_a_text_that_is_one_for_every_reader_is_written_as_it_is(text: str) -> None:
    assert dump_yaml({"tag": text}) == f"tag: {text}\n"


def test_a_number_beyond_all_numbers_is_the_text_that_was_written() -> None:
    assert decode("tag: 1e309", "x") == {"tag": "1e309"}
    assert json.loads(dump(decode("tag: 1e309", "x"), Path("a.json"))) == {"tag": "1e309"}


@pytest.mark.parametrize("text", [".inf", "-.Inf", "+.INF", ".nan", ".NAN"])
def test_no_number_of_json_is_refused_with_its_line(text: str) -> None:
    with pytest.raises(InputError, match=r"x\.yaml:2: .*chart values cannot hold\. Fix: Write"):
        decode(f"a: 1\nb: {text}\n", "x.yaml")
    assert decode(f"b: '{text}'", "x") == {"b": text}


@pytest.mark.parametrize("value", [float("inf"), float("nan"), "\ud800"])
def test_overrides_that_no_file_can_hold_are_refused(value: Any) -> None:
    with pytest.raises(InputError, match="overrides"):
        request_of({"overrides": {"nfd": {"a": value}}})


def test_a_quoted_merge_key_is_a_key() -> None:
    assert decode('"<<": {a: 1}', "x") == {"<<": {"a": 1}}
    assert decode("<<: {a: 1}", "x") == {"a": 1}


def test_what_is_there_twice_is_written_twice() -> None:
    shared = {"a": [1]}
    assert dump_yaml({"x": shared, "z": shared}) == "x:\n  a:\n  - 1\nz:\n  a:\n  - 1\n"
