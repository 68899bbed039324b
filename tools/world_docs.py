# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes docs/worlds.md, the list of the healthy sites that can be rehearsed."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.rehearsal.worlds.catalogue import (
    load_worlds,
    worlds_page,
)

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    page = ROOT / "docs/worlds.md"
    page.write_text(worlds_page(load_worlds(ROOT / "recipes/rehearsal")), encoding="utf-8")
    print(f"world-docs: {page.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
