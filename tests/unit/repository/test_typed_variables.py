# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""`-e name=value` is always text: whatever computes with a variable of the user gives it its type first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import pytest
import yaml
from both import REHEARSAL, of_both
from jinja2 import Environment, nodes

# What becomes of the value: passed on (a module gives it its type), asked for its truth, or computed with.
Use = Literal["passed", "truth", "computed"]
TYPING = frozenset({"int", "float", "bool", "string", "length", "from_yaml", "from_json"})
ASKING = frozenset({"defined", "undefined", "string", "none", "mapping"})
CONDITIONS = frozenset({"when", "that", "until", "failed_when", "changed_when"})
LISTS = frozenset({"list", "dict"})
TEXT = frozenset({"str", "path", "raw"})
JINJA = Environment(autoescape=False)


def option_types(roles: Path) -> dict[str, str]:
    """Every option of every role, with its type."""
    found: dict[str, str] = {}
    for path in sorted(roles.glob("*/meta/argument_specs.yml")):
        for entry in yaml.safe_load(path.read_text("utf-8"))["argument_specs"].values():
            found |= {name: option.get("type", "str") for name, option in (entry.get("options") or {}).items()}
    return found


# A case for each form.
def names(node: nodes.Node | None, use: Use, types: Mapping[str, str]) -> Iterator[str]:  # noqa: C901
    """Every variable below the node that is computed with as it is."""
    match node:
        case nodes.Name(name=name):
            kind = types.get(name, "str")
            if not (use == "passed" or kind in TEXT or (use == "truth" and kind in LISTS)):
                yield name
        case nodes.Filter(name="default", node=inner, args=args):
            for part in (inner, *args[:1]):
                yield from names(part, use, types)
        case nodes.Filter(name=name, node=inner, args=args):
            yield from names(inner, "passed" if name in TYPING else "computed", types)
            for part in args:
                yield from names(part, "computed", types)
        case nodes.Test(name=name, node=inner):
            yield from names(inner, "passed" if name in ASKING else "computed", types)
        case nodes.Compare(expr=left, ops=ops):
            for part in (left, *(op.expr for op in ops)):
                found = names(part, "computed", types)
                # Text that holds a word holds it as a list does.
                yield from (name for name in found if not (types[name] in LISTS and ops[0].op in ("in", "notin")))
        case nodes.And(left=left, right=right) | nodes.Or(left=left, right=right):
            yield from names(left, "computed" if use == "computed" else "truth", types)
            yield from names(right, use, types)
        case nodes.Not(node=inner):
            yield from names(inner, "truth", types)
        case nodes.CondExpr(test=test, expr1=one, expr2=two):
            asked = {test.node.name} if _asks_for_text(test) else set()
            yield from names(test, "truth", types)
            for part in (one, two):
                yield from (name for name in names(part, use, types) if name not in asked)
        case nodes.Output() | nodes.Template() | nodes.Concat() | nodes.List() | nodes.Dict() | nodes.Pair():
            for part in node.iter_child_nodes():
                yield from names(part, "passed" if isinstance(node, nodes.Concat) else use, types)
        case nodes.Node():
            for part in node.iter_child_nodes():
                yield from names(part, "computed", types)
        case _:
            return


def _asks_for_text(test: nodes.Node) -> bool:
    return isinstance(test, nodes.Test) and test.name == "string" and isinstance(test.node, nodes.Name)


def texts(data: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """Every text of a file of tasks or plays, with the key that it belongs to."""
    if isinstance(data, dict):
        for name, value in data.items():
            yield from texts(value, str(name))
    elif isinstance(data, list):
        for value in data:
            yield from texts(value, key)
    elif isinstance(data, str):
        yield key, data


def _inherited(key: str, text: str, types: Mapping[str, str]) -> str:
    """The type of a variable of ours that is the user's as it was stated."""
    if not key.startswith("__") or "{{" not in text:
        return ""
    passed = set(names(JINJA.parse(text), "computed", types)) - set(names(JINJA.parse(text), "passed", types))
    return next((types[name] for name in sorted(passed)), "")


def untyped(path: Path, types: Mapping[str, str]) -> list[str]:
    """What a file computes with as it is."""
    found: list[str] = []
    stated = list(texts(yaml.safe_load(path.read_text("utf-8"))))
    types = {**types, **{key: kind for key, text in stated if (kind := _inherited(key, text, types))}}
    for key, text in stated:
        use: Use = "truth" if key in CONDITIONS else "computed" if key in ("loop", "ignore_errors") else "passed"
        source = "{{ " + text + " }}" if key in CONDITIONS else text
        if "{{" in source:
            found += names(JINJA.parse(source), use, types)
    return sorted(set(found))


@pytest.mark.parametrize(
    ("task", "wrong"),
    [
        ({"loop": "{{ range(1, number + 1) | list }}"}, ["number"]),
        ({"loop": "{{ range(1, number | int + 1) | list }}"}, []),
        ({"ignore_errors": "{{ other < number | default(3) }}"}, ["number"]),
        ({"when": "flag"}, ["flag"]),
        ({"when": "not flag and words | length > 0"}, ["flag"]),
        ({"when": "not (flag | bool) and 'a' in words"}, []),
        ({"m": {"a": "{{ flag | default(omit, true) }}", "b": "{{ words }} and {{ number }}"}}, []),
        ({"vars": {"a": "{{ (words or others) | select('in', hostvars) }}"}}, ["words"]),
        ({"vars": {"a": "{{ (words.split(',') if words is string else words) | select }}"}}, []),
        ({"m": {"a": "{{ table.key }}"}}, ["table"]),
        ({"vars": {"__own": "{{ words or others }}", "__more": "{{ __own | select }}"}}, ["__own"]),
    ],
)
def test_what_computes_with_text_is_seen(tmp_path: Path, task: dict[str, Any], wrong: list[str]) -> None:
    path = tmp_path / "main.yml"
    path.write_text(yaml.safe_dump([task]), "utf-8")
    types = {"number": "int", "flag": "bool", "words": "list", "table": "dict"}
    assert untyped(path, types) == wrong


# A declaration of hosts, of which text is refused; and what a rehearsal sets itself, and refuses of a user.
NOT_OF_A_COMMAND_LINE = ("gpufleet_converge", "gpufleet_forced_settings", "gpufleet_notes")


def test_nothing_computes_with_a_variable_as_text(repository: Path) -> None:
    types = option_types(repository / "roles") | option_types(REHEARSAL / "roles")
    assert types["gpufleet_continuous_cycles"] == "int"
    for name in NOT_OF_A_COMMAND_LINE:
        types[name] = "raw"
    files = of_both("roles/*/tasks/*.yml", "roles/*/defaults/*.yml", "playbooks/**/*.yml")
    assert files
    wrong = {str(path.relative_to(repository)): found for path in sorted(files) if (found := untyped(path, types))}
    assert wrong == {}


def test_no_default_of_a_spec_is_a_template() -> None:
    """It is templated with the arguments, where what it names may not be defined."""
    wrong = []
    for path in of_both("roles/*/meta/argument_specs.yml"):
        for key, text in texts(yaml.safe_load(path.read_text("utf-8"))):
            wrong += [f"{path.parent.parent.name}: {text}"] if key == "default" and "{{" in text else []
    assert wrong == []
