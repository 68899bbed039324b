# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation: every page is linked, every link leads somewhere, pages are short and of their kind."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.pages import REFERENCE, REFERENCE_FOLDER, ROOT, reference_page

# git does not keep these: what they say is made here, whether or not somebody has written them.
GENERATED = [ROOT / REFERENCE_FOLDER / name for name in REFERENCE]
DOCS = [path for path in sorted((ROOT / "docs").rglob("*.md")) if path.parent != ROOT / REFERENCE_FOLDER]
PAGES = sorted(
    [*ROOT.glob("*.md"), *DOCS, *GENERATED, *ROOT.glob("roles/*/README.md"), *ROOT.glob("*/README.md"),
     *ROOT.glob("inventories/*/README.md"), *ROOT.glob("recipes/**/README.md"),
     *ROOT.glob("rehearsal/recipes/**/README.md")]
)  # fmt: skip
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def source(page: Path) -> str:
    """What a page says."""
    return reference_page(page.name) if page in GENERATED else page.read_text(encoding="utf-8")


def exists(path: Path) -> bool:
    """Whether a link to that file leads somewhere: a page of the reference is there once it is made."""
    here = Path(os.path.normpath(path))
    return here in GENERATED if here.parent == ROOT / REFERENCE_FOLDER else here.exists()


def links(page: Path) -> Iterator[Path]:
    """Files of the checkout that a page links to."""
    text = re.sub(r"```.*?```", "", source(page), flags=re.S)
    for target in _LINK.findall(text):
        if not target.startswith(("http://", "https://", "#", "mailto:")):
            yield page.parent / target.partition("#")[0]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    assert [str(target) for target in links(page) if not exists(target)] == []


def test_a_link_to_a_page_of_the_reference_leads_to_one_that_is_made() -> None:
    assert exists(ROOT / "roles/nodes/../../docs/reference/settings.md")
    assert not exists(ROOT / "docs/reference/setting.md") and not exists(ROOT / "docs/settings.md")


def anchors(page: Path) -> set[str]:
    """Anchors of the headings of a page, as GitHub makes them."""
    text = re.sub(r"```.*?```", "", source(page), flags=re.S)
    return {
        re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        for heading in re.findall(r"^#+ (.+)$", text, flags=re.M)
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_anchor_is_a_heading(page: Path) -> None:
    text = re.sub(r"```.*?```", "", source(page), flags=re.S)
    missing = [
        target
        for target in _LINK.findall(text)
        if not target.startswith(("http://", "https://", "mailto:")) and target.partition("#")[2]
        and (other := Path(os.path.normpath(page.parent / (target.partition("#")[0] or page.name)))).suffix == ".md"
        and target.partition("#")[2] not in anchors(other)
    ]  # fmt: skip
    assert missing == []


def test_every_page_of_the_documentation_is_reached_from_its_index() -> None:
    reached, waiting = set(), [ROOT / "docs/index.md"]
    while waiting:
        page = Path(os.path.normpath(waiting.pop()))
        if page in reached or page.suffix != ".md" or not page.is_relative_to(ROOT / "docs"):
            continue
        reached.add(page)
        waiting += links(page)
    assert {*DOCS, *GENERATED} - reached == set()


def test_what_people_wrote_is_not_longer_than_they_read() -> None:
    written = [page for page in DOCS if page.parent.name != "design"]
    assert sum(len(source(page).split()) for page in [ROOT / "README.md", *written]) <= 45_000


def test_pages_of_design_are_two_screens_at_most() -> None:
    pages = sorted((ROOT / "docs/design").glob("*.md"))
    words = {page.name: len(page.read_text(encoding="utf-8").split()) for page in pages}
    assert len(pages) > 20
    assert {name: count for name, count in words.items() if count > 800} == {}


_FOR_DEVELOPERS = {"architecture", "catalogue-maintenance", "development"}
# Reference and explanation; every other page for users is a how-to or the tutorial.
_OTHER_FORM = {"dl_unit_test", "glossary", "index", "peers"}
FOR_USERS = [page for page in DOCS if page.parent == ROOT / "docs" and page.stem not in _FOR_DEVELOPERS]


@pytest.mark.parametrize(
    "page", [page for page in FOR_USERS if page.stem not in _OTHER_FORM], ids=lambda page: page.stem
)
def test_a_how_to_begins_with_what_is_needed_what_comes_of_it_and_how_long_it_takes(page: Path) -> None:
    begin = source(page).partition("\n# ")[2][:1500]
    assert [word for word in ("- **You need:** ", "- **You get:** ", "- **It takes:** ") if word not in begin] == []


@pytest.mark.parametrize(
    "page",
    [*FOR_USERS, *GENERATED, *ROOT.glob("roles/*/README.md"), *ROOT.glob("inventories/*/README.md")],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_a_page_for_users_says_nothing_of_our_tests(page: Path) -> None:
    words = (
        "make test", "molecule", "bench/", "the unit tests", "tests/unit", "tests/rehearsal", "tests/integration",
        "pytest", "a test compares", "a test keeps",
    )  # fmt: skip
    assert [word for word in words if word in source(page)] == []


@pytest.mark.parametrize(
    "place", ["docs", "plugins", "roles", "playbooks", "recipes", "rehearsal", "tools", "bench", "tests"]
)
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
