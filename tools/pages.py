# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes what follows from code and data: the pages of docs/reference/, which git does not keep, and some files that
it does, each by its make target. A test compares the latter with what is written.

Called without a name it writes all.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.registry import all_specs
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.load import load_catalogue as load_recipes
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.files import RECIPES
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.host_tools import load_host_tools
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.faults.catalogue import (
    catalogue_page,
    load_catalogue,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.places import DATA
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.worlds.catalogue import (
    load_worlds,
    worlds_page,
)

from . import aiperf_lock, awx_data, catalog_docs, check_docs, rbac_docs, settings_docs, tool_docs

ROOT = Path(__file__).resolve().parent.parent
REFERENCE_FOLDER = "docs/reference"
# By name of the page: what it says.
REFERENCE: Mapping[str, Callable[[], str]] = {
    "catalogue.md": lambda: catalog_docs.page(load_recipes([RECIPES])),
    "checks.md": lambda: check_docs.page(all_specs()),
    "faults.md": lambda: catalogue_page(load_catalogue()),
    "settings.md": settings_docs.page,
    "tools.md": lambda: tool_docs.page(load_host_tools()),
    "worlds.md": lambda: worlds_page(load_worlds(DATA)),
}
# By make target: the files, which users apply or the product reads, and what they say.
COMMITTED: Mapping[str, Callable[[], Mapping[str, str]]] = {
    "aiperf-lock": lambda: {"recipes/workloads/aiperf.txt": aiperf_lock.page()},
    "awx": awx_data.files,
    "rbac-docs": lambda: {"docs/rbac/roles.yaml": rbac_docs.page()},
}


@cache
def reference_page(name: str) -> str:
    """Return what a page of the reference says, by its file name."""
    return REFERENCE[name]()


def write_reference(root: Path | None = None) -> None:
    """Write the pages of docs/reference/ of the checkout, or of a copy; one that is made no longer goes."""
    folder = (root or ROOT) / REFERENCE_FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    for former in folder.glob("*.md"):
        if former.name not in REFERENCE:
            former.unlink()
    for name, text in REFERENCE.items():
        (folder / name).write_text(text(), encoding="utf-8")
    print(f"reference: {len(REFERENCE)} pages in {REFERENCE_FOLDER}: {', '.join(sorted(REFERENCE))}")


def main(names: Sequence[str]) -> int:
    """Write the pages of these targets."""
    targets = ("reference", *COMMITTED)
    unknown = [name for name in names if name not in targets]
    if unknown:
        print(f"pages: there is no {', '.join(unknown)}; there are: {', '.join(targets)}", file=sys.stderr)
        return 2
    for name in names or targets:
        if name == "reference":
            write_reference()
            continue
        written = COMMITTED[name]()
        for path, text in written.items():
            (ROOT / path).write_text(text, encoding="utf-8")
        print(f"{name}: {', '.join(written)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
