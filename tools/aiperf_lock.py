# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""recipes/workloads/aiperf.txt: the locked packages of AIPerf, as its pod installs them."""

from __future__ import annotations

from pathlib import Path

_LOCKED = Path(__file__).resolve().parent.parent / "requirements" / "full-inference.txt"
_HEAD = """# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Generated from requirements/full-inference.txt (make aiperf-lock); a test compares the two.
"""


def page() -> str:
    """Return the lock without its remarks."""
    lines = _LOCKED.read_text(encoding="utf-8").splitlines()
    return _HEAD + "".join(f"{line}\n" for line in lines if line.strip() and not line.lstrip().startswith("#"))
