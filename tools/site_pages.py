# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lays the pages of the checkout out as sources of a site; tools/docs_site makes the site of them.

docs/ keeps its places, the pages of docs/reference/ are made; README, CONTRIBUTING and the example inventory come
beside them. A link to a page stays a link to that page; one to another file or directory leads to the repository.
docs/index.md is the front page, and its sections are the side bar: a page that it does not name is an error of Sphinx.
"""

from __future__ import annotations

import posixpath
import re
import sys
from pathlib import Path, PurePosixPath

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.strict import read_yaml

from .pages import REFERENCE, REFERENCE_FOLDER, reference_page

ROOT = Path(__file__).resolve().parent.parent
BESIDE = {
    "README.md": "readme.md",
    "CONTRIBUTING.md": "contributing.md",
    "inventories/example/README.md": "example_inventory.md",
}
# What pages of antsibull-docs refer to and is of Ansible's own documentation.
_ANSIBLE = """:orphan:

.. _action_plugins:

Action plugins
==============

A module with an action plugin runs on the controller; see `Ansible's page
<https://docs.ansible.com/ansible/latest/plugins/action.html>`__.

.. _callback_plugins:

Callback plugins
================

See `Ansible's page <https://docs.ansible.com/ansible/latest/plugins/callback.html>`__.

.. _ansible_configuration_settings:

Configuration
=============

See `Ansible's page <https://docs.ansible.com/ansible/latest/reference_appendices/config.html>`__.

.. _common_return_values:

Common return values
====================

``changed``, ``failed``, ``msg`` and others are described by `Ansible's page
<https://docs.ansible.com/ansible/latest/reference_appendices/common_return_values.html>`__.
"""
_PICTURES = """
![The report of a run in which a GPU is missing](pictures/report.png){width=80%}

![The same on a phone](pictures/report-phone.png){width=30%}
"""
_LINK = re.compile(r"(?<=\]\()([^)\s]+)(?=\))")
_FENCE = re.compile(r"(^```.*?^```)", re.MULTILINE | re.DOTALL)


def site_places() -> dict[str, str]:
    """Return where each page of the checkout lies in the site, both as paths from the root."""
    files = (str(PurePosixPath(path.relative_to(ROOT))) for path in sorted((ROOT / "docs").rglob("*.md")))
    written = [page for page in files if not page.startswith(f"{REFERENCE_FOLDER}/")]
    pages = [*written, *(f"{REFERENCE_FOLDER}/{name}" for name in REFERENCE)]
    return {page: page.removeprefix("docs/") for page in pages} | BESIDE


def source(page: str) -> str:
    """Return the text of a page of the checkout, by its path; a page of the reference is made."""
    folder, _slash, name = page.rpartition("/")
    return reference_page(name) if folder == REFERENCE_FOLDER else (ROOT / page).read_text(encoding="utf-8")


def rewritten(text: str, page: str, places: dict[str, str], repository: str) -> str:
    """Return the text of a page with its links as they are in the site."""

    def link(match: re.Match[str]) -> str:
        target, hash_sign, anchor = match[1].partition("#")
        if not target or re.match(r"[a-z]+:", match[1]):
            return match[1]
        meant = posixpath.normpath(posixpath.join(posixpath.dirname(page), target))
        if meant in places:
            return posixpath.relpath(places[meant], posixpath.dirname(places[page]) or ".") + hash_sign + anchor
        if not (ROOT / meant).exists():
            sys.exit(f"docs-site: {page}: {target} leads nowhere")
        kind = "tree" if (ROOT / meant).is_dir() else "blob"
        return f"{repository}/{kind}/main/{meant}"

    parts = _FENCE.split(text)
    return "".join(part if part.startswith("```") else _LINK.sub(link, part) for part in parts)


def side_bar(index: str) -> str:
    """Return the toctrees of the front page: a section each, with the pages that it names, in its order."""
    found: list[str] = []
    seen: set[str] = set()
    for section in re.split(r"^## ", index, flags=re.MULTILINE):
        title = section.partition("\n")[0] if found else "Start here"
        pages = [
            target.partition("#")[0]
            for target in _LINK.findall(section)
            if target.partition("#")[0].endswith(".md") and not target.startswith("http")
        ]
        pages = [page for page in dict.fromkeys(pages) if page not in seen]
        seen.update(pages)
        entries = [page.removesuffix(".md") for page in pages]
        entries += ["plugins_bringup/index", "plugins_rehearsal/index"] if title == "Reference" else []
        found.append("\n".join(["```{toctree}", ":hidden:", f":caption: {title}", "", *entries, "```"]))
    return "\n\n".join(found)


def main() -> None:
    target = Path(sys.argv[1])
    repository = read_yaml(ROOT / "galaxy.yml")["repository"]
    places = site_places()
    for page, place in places.items():
        text = rewritten(source(page), page, places, repository)
        if place == "index.md":
            text += "\n" + side_bar(text) + "\n"
        if place == "design/README.md":
            text += "\n```{toctree}\n:hidden:\n:glob:\n\n*\n```\n"
        if place == "report.md" and (target / "pictures/report.png").exists():
            text = text.replace("\n## ", _PICTURES + "\n## ", 1)
        (target / place).parent.mkdir(parents=True, exist_ok=True)
        (target / place).write_text(text, encoding="utf-8")
    (target / "ansible.rst").write_text(_ANSIBLE, encoding="utf-8")


if __name__ == "__main__":
    main()
