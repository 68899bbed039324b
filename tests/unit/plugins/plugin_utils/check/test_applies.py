# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a check is asked of follows from its own rules: a new kind of rule needs nothing elsewhere."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest
from sites import make_site

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check import declare as declaring
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.declare import GatePlan, declare
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import (
    Applies,
    Bmc,
    Check,
    CheckSpec,
    Components,
    Equals,
    LeftOut,
    Observer,
    Place,
    Promised,
    needs,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Outcome, SubjectKind
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import Host, Site

HOSTS = tuple(Host(name=name, sku=sku, node_name=name, bmc=bmc) for name, sku, bmc in (
    ("a", "h100", "bmc-a"), ("b", "h100", ""), ("c", "h200", "bmc-c"), ("d", "b200", ""),
))  # fmt: skip
SITE = make_site(HOSTS, capabilities=("kubernetes",))
OBSERVER = Observer("things", list, lambda _context: [], lambda data, _run_dir, _site: data)


@dataclass(frozen=True, slots=True)
class Except(Applies):
    """A rule that declare.py does not know."""

    names: frozenset[str] | None
    reason: str = "out of the way"

    def left_out(self, subjects: tuple[str, ...], place: Place) -> LeftOut | None:
        assert subjects == ("a", "b", "c", "d") and place.site.name == SITE.name
        return LeftOut(self.names, self.reason)


def judge(_value: list[Any], _context: Any) -> tuple[Outcome, ...]:
    return ()


def declared(monkeypatch: pytest.MonkeyPatch, *rules: Applies, site: Site = SITE, **known: Any) -> GatePlan:
    spec = CheckSpec(
        id="probe", gate="nodes", title="t", per=SubjectKind.NODE, applies=(needs("kubernetes"), *rules)
    )  # fmt: skip
    monkeypatch.setattr(declaring, "checks_of", lambda _gate, _site: (Check(spec, OBSERVER, judge),))
    return declare("nodes", site, **known)


def promise(*names: str) -> Promised:
    return Promised(lambda _site, _recipe: names, "no promise")


@pytest.mark.parametrize(
    ("rules", "known", "subjects", "reasons"),
    [
        ((), {}, "abcd", []),
        ((Except(frozenset("ac")),), {}, "bd", ["out of the way"]),
        ((Except(frozenset("ac"), ""),), {}, "bd", []),
        ((Except(None),), {}, None, ["out of the way"]),
        ((Except(frozenset("ab")), Except(frozenset("cd"), "too far")), {}, None, ["out of the way", "too far"]),
        ((Except(None), Except(frozenset("a"))), {}, None, ["out of the way"]),
        ((Equals(),), {}, "ab", ["needs two hosts of one SKU: c is the only h200, d is the only b200 here"]),
        ((Bmc(),), {}, "ac", ["needs the address of the BMC: b, d without gpufleet_bmc"]),
        ((Components(("kueue", "volcano")),), {}, "abcd", []),
        ((Components(("kueue", "volcano")),), {"components": ("volcano",)}, "abcd", []),
        (
            (Components(("kueue", "volcano")),),
            {"components": ()},
            None,
            ["needs kueue or volcano: the recipe has none"],
        ),
        ((promise("b"),), {}, "abcd", []),
        ((promise("b"),), {"components": ()}, "b", []),
        ((promise(),), {"components": ()}, None, ["no promise"]),
    ],
)
def test_a_check_is_asked_of_what_its_rules_leave(
    monkeypatch: pytest.MonkeyPatch,
    rules: tuple[Applies, ...],
    known: dict[str, Any],
    subjects: str | None,
    reasons: list[str],
) -> None:
    found = declared(monkeypatch, *rules, **known)
    assert [check.subjects for check in found.checks] == ([] if subjects is None else [tuple(subjects)])
    assert [entry.reason for entry in found.not_declared] == reasons


def test_what_a_site_cannot_do_at_all_is_the_one_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    found = declared(monkeypatch, Except(frozenset("ac")), site=replace(SITE, capabilities=()))
    assert found.checks == () and [entry.reason for entry in found.not_declared] == [
        "needs kubernetes: the inventory has none"
    ]
