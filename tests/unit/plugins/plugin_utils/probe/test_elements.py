# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What becomes of each element that a tool prints: tests/data/elements says it, and a newer tool's element is named."""

from __future__ import annotations

import json
import re
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml
from elements import elements, read_elements

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.registry import all_checks
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.tool_reading import parser_named

DATA = Path(__file__).resolve().parents[4] / "data" / "elements"
PROBE = "ansible_collections.gpufleet.bringup.plugins.plugin_utils.probe"
LISTS = sorted(DATA.glob("*.yaml"))


@pytest.fixture(params=LISTS, ids=[path.stem for path in LISTS])
def listed(request: pytest.FixtureRequest) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(request.param.read_text(encoding="utf-8"))
    return {"judged": {}, "reported": {}, "no_interest": {}} | found


def parser(listed: dict[str, Any]) -> Any:
    if "function" not in listed:
        return parser_named(listed["parser"])
    # What a BMC answers is given as the document and not as text.
    parse = getattr(import_module(f"{PROBE}.{listed['parser']}"), listed["function"])
    return lambda text: parse(json.loads(text))


def newer(text: str, name: str) -> str:
    """The document as a newer driver prints it: the elements of that file beside those of its first GPU."""
    root = ElementTree.fromstring((DATA / name).read_text(encoding="utf-8"))
    gpu = root.find("gpu")
    assert gpu is not None
    above = "".join(ElementTree.tostring(child, encoding="unicode") for child in root if child is not gpu)
    inside = "".join(ElementTree.tostring(child, encoding="unicode") for child in gpu)
    return text.replace("<attached_gpus>", f"{above}<attached_gpus>", 1).replace("</gpu>", f"{inside}</gpu>", 1)


def texts(listed: dict[str, Any], shared: Path) -> list[str]:
    found = whole_texts(listed, shared)
    return found + [newer(found[0], name) for name in listed.get("newer", ())]


def whole_texts(listed: dict[str, Any], shared: Path) -> list[str]:
    return [(shared / name).read_text(encoding="utf-8", errors="replace") for name in listed["fixtures"]]


def names(listed: dict[str, Any], group: str) -> list[str]:
    return [name for entries in listed[group].values() for name in entries]


def matches(pattern: str, element: str) -> bool:
    """Whether a pattern names the element: `*` stands for any text within one step, `?` for one character."""
    parts = (re.escape(pattern).replace(r"\*", "[^/]*").replace(r"\?", "[^/]"),)
    return re.fullmatch(parts[0], element) is not None


def groups_of(listed: dict[str, Any], element: str) -> set[str]:
    """The groups that an element is in; its own name counts more than a pattern."""
    groups = ("judged", "reported", "no_interest")
    exact = {group for group in groups if element in names(listed, group)}
    return exact or {group for group in groups if any(matches(name, element) for name in names(listed, group))}


def test_every_element_is_in_one_group(listed: dict[str, Any], shared: Path) -> None:
    found = dict.fromkeys(name for text in texts(listed, shared) for name in elements(listed["kind"], text))
    groups = {name: groups_of(listed, name) for name in found}
    assert not [name for name, group in groups.items() if not group], "say what becomes of these"
    assert not {name: sorted(group) for name, group in groups.items() if len(group) > 1}
    unknown = [
        name
        for group in ("judged", "reported", "no_interest")
        for name in names(listed, group)
        if not any(matches(name, element) for element in found)
    ]
    assert not unknown, "no fixture has these any more"


def test_every_capture_of_the_tool_is_named(listed: dict[str, Any], shared: Path) -> None:
    if "captures" in listed:
        place = listed["captures"]
        named = {f"{place}/{name}" for name in listed["others"]} | set(listed["fixtures"])
        assert {f"{place}/{path.name}" for path in (shared / place).iterdir()} <= named, "a newer one may have more"


def test_what_is_judged_or_reported_is_read(listed: dict[str, Any], shared: Path) -> None:
    parse = parser(listed)
    read = frozenset().union(*(read_elements(listed["kind"], text, parse) for text in texts(listed, shared)))
    found = {name for text in texts(listed, shared) for name in elements(listed["kind"], text)}
    wanted = {name for name in found if groups_of(listed, name) & {"judged", "reported"}}
    assert sorted(wanted - read) == []


def test_checks_that_judge_are_there(listed: dict[str, Any]) -> None:
    assert set(listed["judged"]) <= {check.spec.id for check in all_checks()}
    assert all(len(reason) > 20 for reason in listed["no_interest"])


def test_a_new_element_is_named(shared: Path) -> None:
    """As drivers 575 and 580 brought <unrepairable_memory> and <capabilities>."""
    listed = yaml.safe_load((DATA / "nvidia_smi_xml.yaml").read_text(encoding="utf-8"))
    text = texts(listed, shared)[0].replace("<serial>", "<hbm_repair_pending>Yes</hbm_repair_pending><serial>", 1)
    new = [name for name in elements("xml", text) if not groups_of(listed, name)]
    assert new == ["gpu/hbm_repair_pending"]
    assert new[0] not in read_elements("xml", text, partial(parser(listed)))
