# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes the pages of docs/ that follow from code and data; each has its make target. A test compares them.

Called without a name it writes all.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.registry import all_specs
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.load import load_catalogue as load_recipes
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.rehearsal.faults.catalogue import (
    catalogue_page,
    load_catalogue,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.rehearsal.worlds.catalogue import (
    load_worlds,
    worlds_page,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.host_tools import load_host_tools
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.recipe_files import RECIPES

from . import aiperf_lock, catalog_docs, check_docs, rbac_docs, settings_docs, tool_docs

ROOT = Path(__file__).resolve().parent.parent
_REHEARSAL = RECIPES / "rehearsal"
# By make target: the page, and what it says.
PAGES: Mapping[str, tuple[str, Callable[[], str]]] = {
    "catalog-docs": ("docs/catalogue.md", lambda: catalog_docs.page(load_recipes([RECIPES]))),
    "check-docs": ("docs/checks.md", lambda: check_docs.page(all_specs())),
    "fault-docs": ("docs/faults.md", lambda: catalogue_page(load_catalogue(_REHEARSAL))),
    "rbac-docs": ("docs/rbac/roles.yaml", rbac_docs.page),
    "settings-docs": ("docs/settings.md", settings_docs.page),
    "tool-docs": ("docs/tools.md", lambda: tool_docs.page(load_host_tools())),
    "aiperf-lock": ("recipes/workloads/aiperf.txt", aiperf_lock.page),
    "world-docs": ("docs/worlds.md", lambda: worlds_page(load_worlds(_REHEARSAL))),
}


def main(names: Sequence[str]) -> int:
    """Write the pages of these targets."""
    unknown = [name for name in names if name not in PAGES]
    if unknown:
        print(f"pages: there is no {', '.join(unknown)}; there are: {', '.join(PAGES)}", file=sys.stderr)
        return 2
    for name in names or PAGES:
        path, text = PAGES[name]
        (ROOT / path).write_text(text(), encoding="utf-8")
        print(f"{name}: {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
