# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation: every page is linked, every link leads somewhere, pages of design are short."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGES = sorted(
    [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *ROOT.glob("roles/*/README.md"), *ROOT.glob("*/README.md")]
)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def links(page: Path) -> Iterator[Path]:
    """Files of the checkout that a page links to."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.S)
    for target in _LINK.findall(text):
        if not target.startswith(("http://", "https://", "#", "mailto:")):
            yield page.parent / target.partition("#")[0]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    assert [str(target) for target in links(page) if not target.exists()] == []


def anchors(page: Path) -> set[str]:
    """Anchors of the headings of a page, as GitHub makes them."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.S)
    return {
        re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        for heading in re.findall(r"^#+ (.+)$", text, flags=re.M)
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_anchor_is_a_heading(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.S)
    missing = [
        target
        for target in _LINK.findall(text)
        if not target.startswith(("http://", "https://", "mailto:")) and target.partition("#")[2]
        and (other := page.parent / (target.partition("#")[0] or page.name)).suffix == ".md"
        and target.partition("#")[2] not in anchors(other)
    ]  # fmt: skip
    assert missing == []


def test_every_page_of_the_documentation_is_reached_from_its_index() -> None:
    reached, waiting = set(), [ROOT / "docs/index.md"]
    while waiting:
        page = waiting.pop().resolve()
        if page in reached or page.suffix != ".md" or not page.is_relative_to(ROOT / "docs"):
            continue
        reached.add(page)
        waiting += links(page)
    assert {page.resolve() for page in (ROOT / "docs").rglob("*.md")} - reached == set()


def test_pages_of_design_are_two_screens_at_most() -> None:
    pages = sorted((ROOT / "docs/design").glob("*.md"))
    words = {page.name: len(page.read_text(encoding="utf-8").split()) for page in pages}
    assert len(pages) > 20
    assert {name: count for name, count in words.items() if count > 800} == {}


# How-to pages; reference, explanation and pages for developers have another form.
_OTHER_FORM = {
    "architecture", "catalogue", "catalogue-maintenance", "checks", "development", "dl_unit_test", "faults", "glossary",
    "index", "peers", "settings", "tools", "worlds",
}  # fmt: skip


@pytest.mark.parametrize("page", sorted(path.stem for path in (ROOT / "docs").glob("*.md")))
def test_a_how_to_begins_with_what_is_needed_what_comes_of_it_and_how_long_it_takes(page: str) -> None:
    if page in _OTHER_FORM:
        return
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8").partition("\n# ")[2]
    begin = text[:1500]
    assert [word for word in ("- **You need:** ", "- **You get:** ", "- **It takes:** ") if word not in begin] == []
    words = ("make test", "molecule", "bench/", "the unit tests", "tests/unit", "tests/rehearsal", "tests/integration")
    assert [word for word in words if word in text] == []


@pytest.mark.parametrize("place", ["docs", "plugins", "roles", "playbooks", "recipes", "tools", "bench", "tests"])
def test_nothing_refers_to_what_is_outside_of_the_repository(place: str) -> None:
    """A reader of a clone has neither the design notes nor the issues that a sentence may have come from."""
    outside = re.compile(r"\bDESIGN\b|\b[Ss]eeds? 0\d\d\b|\b[Ii]ssue \d+\b|\.\./shared/(findings|seeds)")
    found = []
    for path in (ROOT / place).rglob("*"):
        if (
            path.is_file()
            and path != Path(__file__)
            and path.suffix in {".py", ".md", ".yml", ".yaml", ".j2", ".tpl", ""}
        ):
            for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
                if outside.search(line):
                    found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()[:80]}")
    assert found == []
