# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes docs/faults.md, the table of the faults that a rehearsal can be given."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.rehearsal.faults.catalogue import (
    catalogue_page,
    load_catalogue,
)

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    page = ROOT / "docs/faults.md"
    page.write_text(catalogue_page(load_catalogue(ROOT / "recipes/rehearsal")), encoding="utf-8")
    print(f"fault-docs: {page.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
