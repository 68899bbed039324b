# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Brings real copies of both collections up to date, where tools that refuse a symbolic link find them by their names.

Copied is what git tracks or would track: .cache/tree/ansible_collections/gpufleet/ is what would be published. What
lies in rehearsal/ is the second collection, all else the first.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TREE = ROOT / ".cache/tree"
COPIES = TREE / "ansible_collections/gpufleet"
COLLECTIONS = (BRINGUP, REHEARSAL) = ("bringup", "rehearsal")


def place(name: Path) -> Path:
    """Where a file of the checkout lies below the copies."""
    return name if name.parts[0] == REHEARSAL else Path(BRINGUP, name)


def files_of_checkout() -> set[Path]:
    """Every tracked file and every new one that git does not ignore, relative to the checkout."""
    return _listed("--cached", "--others", "--exclude-standard")


def tracked_files() -> set[Path]:
    """Every file that git tracks and that is there, relative to the checkout."""
    return _listed("--cached")


def _listed(*words: str) -> set[Path]:
    command = ["git", "ls-files", "-z", *words]
    listing = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    names = (Path(name) for name in listing.split("\0") if name)
    return {name for name in names if os.path.lexists(ROOT / name)}


def same(source: Path, copy: Path) -> bool:
    """Whether the copy is still that of the source: size, time and mode, as rsync asks."""
    try:
        old = copy.lstat()
    except FileNotFoundError:
        return False
    new = source.lstat()
    return (old.st_size, old.st_mtime_ns, old.st_mode) == (new.st_size, new.st_mtime_ns, new.st_mode)


def update(wanted: set[Path], into: Path = COPIES) -> int:
    """Copy what changed, a directory for each collection; the number of files copied."""
    copied = 0
    for name in sorted(wanted):
        source, copy = ROOT / name, into / place(name)
        try:
            if same(source, copy):
                continue
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.unlink(missing_ok=True)
            shutil.copy2(source, copy, follow_symlinks=False)
        except FileNotFoundError:  # removed while we looked: an editor saves like that
            continue
        copied += 1
    return copied


def prune(wanted: set[Path]) -> int:
    """Remove what the checkout no longer has, tools' leftovers included; the number of files removed."""
    removed, places = 0, {place(name) for name in wanted}
    for folder, names, files in os.walk(COPIES, topdown=False):
        here = Path(folder)
        for name in files:
            if (here / name).relative_to(COPIES) not in places:
                (here / name).unlink()
                removed += 1
        for name in names:
            path = here / name
            if path.is_symlink():
                if path.relative_to(COPIES) not in places:
                    path.unlink()
            elif not any(path.iterdir()):
                path.rmdir()
    return removed


def separate_from_checkout() -> None:
    """Make the tree a repository of its own: tools ask git what there is, and the checkout's ignores .cache."""
    if not (TREE / ".git").exists():
        TREE.mkdir(parents=True, exist_ok=True)
        subprocess.run(["git", "init", "--quiet", str(TREE)], check=True)


def main() -> None:
    separate_from_checkout()
    wanted = files_of_checkout()
    removed = prune(wanted)
    copied = update(wanted)
    print(f"{len(wanted)} files, {copied} copied, {removed} removed: {COPIES.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
