# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where both collections lie in the checkout."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
REHEARSAL = ROOT / "rehearsal"
COLLECTIONS = {"gpufleet.bringup": ROOT, "gpufleet.rehearsal": REHEARSAL}


def of_both(*patterns: str) -> list[Path]:
    """Return the files of both collections that match: `roles/*/tasks/*.yml`."""
    return sorted({path for root in COLLECTIONS.values() for pattern in patterns for path in root.glob(pattern)})
