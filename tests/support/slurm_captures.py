# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a real Slurm printed (tests/data/slurm), without the first line, which says of which release it is."""

from __future__ import annotations

from pathlib import Path

_HERE = Path(__file__).parents[1] / "data" / "slurm"


def capture(name: str) -> str:
    """Return what was printed."""
    said, _newline, text = (_HERE / name).read_text().partition("\n")
    if not said.startswith("# Slurm "):
        raise ValueError(f"{name} does not say where it is from")
    return text
