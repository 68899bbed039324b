# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The sources of the site (tools/site_pages.py): where links lead there, and that its side bar has every page."""

from __future__ import annotations

import re

import pytest

from tools.site_pages import ROOT, rewritten, side_bar, site_places

REPOSITORY = "https://forge.example.org/bringup"


@pytest.mark.parametrize(
    ("page", "link", "wanted"),
    [
        ("README.md", "docs/nodes.md#settings", "nodes.md#settings"),
        ("docs/index.md", "../README.md", "readme.md"),
        ("docs/design/waves.md", "../waves.md", "../waves.md"),
        ("docs/nodes.md", "#settings", "#settings"),
        ("docs/nodes.md", "https://example.org/x.md", "https://example.org/x.md"),
        ("docs/validate.md", "../recipes/ai_conformance.yaml", f"{REPOSITORY}/blob/main/recipes/ai_conformance.yaml"),
        ("docs/nodes.md", "reference/settings.md#nodes", "reference/settings.md#nodes"),
        ("docs/reference/checks.md", "../nodes.md", "../nodes.md"),
        ("README.md", "inventories/example/", f"{REPOSITORY}/tree/main/inventories/example"),
    ],
)
def test_links_lead_to_the_page_or_to_the_repository(page: str, link: str, wanted: str) -> None:
    text = f"see [it]({link})\n\n```\n[it]({link})\n```\n"
    assert rewritten(text, page, site_places(), REPOSITORY) == f"see [it]({wanted})\n\n```\n[it]({link})\n```\n"


def test_a_link_that_leads_nowhere_ends_the_build() -> None:
    with pytest.raises(SystemExit, match=r"docs/nodes\.md: nowhere\.md leads nowhere"):
        rewritten("[x](nowhere.md)", "docs/nodes.md", site_places(), REPOSITORY)


def test_the_side_bar_has_every_page_once() -> None:
    places = site_places()
    index = rewritten((ROOT / "docs/index.md").read_text(encoding="utf-8"), "docs/index.md", places, REPOSITORY)
    named = re.findall(r"^[\w/.-]+$", side_bar(index), flags=re.MULTILINE)
    designs = {place for place in places.values() if place.startswith("design/") and place != "design/README.md"}
    assert sorted(named) == sorted(
        [place.removesuffix(".md") for place in set(places.values()) - designs - {"index.md"}]
        + ["plugins_bringup/index", "plugins_rehearsal/index"]
    )
