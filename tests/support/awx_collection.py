# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Collection awx.awx, from the wheel of the community package of Ansible, unpacked once below .cache."""

from __future__ import annotations

import fcntl
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

WHEEL = "ansible==12.3.0"
_PART = "ansible_collections/awx/"


def awx_collection(repository: Path) -> Path:
    """Return the directory that holds ansible_collections/awx/awx, as ANSIBLE_COLLECTIONS_PATH takes it."""
    home = repository / ".cache" / "awx"
    home.mkdir(parents=True, exist_ok=True)
    with (home / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (home / "done").is_file():
            with tempfile.TemporaryDirectory() as scratch:
                words = ["download", "-q", "--no-deps", "--only-binary=:all:", "--dest", scratch, WHEEL]
                subprocess.run([sys.executable, "-m", "pip", *words], check=True)
                (wheel,) = Path(scratch).glob("*.whl")
                with zipfile.ZipFile(wheel) as archive:
                    archive.extractall(home, [name for name in archive.namelist() if name.startswith(_PART)])
            (home / "done").touch()
    return home
