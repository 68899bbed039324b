# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes what ansible-doc shows to .cache/docs, a page a kind. A plugin or role without documentation is an error."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / ".cache/docs"
# By collection, where it lies.
COLLECTIONS = {"gpufleet.bringup": ROOT, "gpufleet.rehearsal": ROOT / "rehearsal"}
# Type as ansible-doc calls it, and its directory. An action is documented by its module.
DIRECTORIES = {
    "callback": "callback",
    "connection": "connection",
    "filter": "filter",
    "inventory": "inventory",
    "lookup": "lookup",
    "module": "modules",
    "test": "test",
}


def ansible_doc(*arguments: str) -> str:
    done = subprocess.run(["ansible-doc", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"docs: ansible-doc {' '.join(arguments)} failed:\n{done.stderr.strip()}")
    return done.stdout


def documented() -> dict[str, set[str]]:
    """Our plugins that ansible-doc can read, by type."""
    dump: dict[str, dict[str, Any]] = json.loads(ansible_doc("--metadata-dump", *COLLECTIONS))["all"]
    own = tuple(f"{collection}." for collection in COLLECTIONS)
    return {kind: {name for name in names if name.startswith(own)} for kind, names in dump.items()}


def undocumented(known: dict[str, set[str]]) -> list[str]:
    """Plugin files that ansible-doc does not list. Filters and tests may be several to a file, and are skipped."""
    missing = []
    for collection, root in COLLECTIONS.items():
        for kind, directory in DIRECTORIES.items():
            if kind in {"filter", "test"}:
                continue
            for path in sorted((root / "plugins" / directory).glob("[!_]*.py")):
                if f"{collection}.{path.stem}" not in known.get(kind, set()):
                    missing.append(str(path.relative_to(ROOT)))
        for role in sorted((root / "roles").glob("[!_]*/")):
            if (role / "tasks").is_dir() and f"{collection}.{role.name}" not in known.get("role", set()):
                missing.append(f"{role.relative_to(ROOT)}/meta/argument_specs.yml")
    return missing


def main() -> None:
    known = documented()
    missing = undocumented(known)
    if missing:
        sys.exit("docs: no documentation that ansible-doc can read in:\n" + "\n".join(f"  {path}" for path in missing))
    OUT.mkdir(parents=True, exist_ok=True)
    # One call for all of a kind: most of its time goes into starting.
    kinds = [kind for kind in (*DIRECTORIES, "role") if known.get(kind)]
    with ThreadPoolExecutor(2) as pool:
        pages = pool.map(lambda kind: ansible_doc("--type", kind, *sorted(known[kind])), kinds)
        for kind, page in zip(kinds, pages, strict=True):
            (OUT / f"{kind}.txt").write_text(page, encoding="utf-8")
    print(f"docs: {sum(map(len, known.values()))} plugins and roles, {OUT.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
