# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Whether a directory lies on a file system of the network, where SQLite cannot keep what it promises."""

from __future__ import annotations

from pathlib import Path

from ..outcome.errors import InputError

_MOUNTS = Path("/proc/self/mountinfo")
# SQLite, "Write-Ahead Logging" (sqlite.org/wal.html): all processes must be on one host, for they share memory through
# a file; "How To Corrupt An SQLite Database File", 2.1: file locks of network file systems are often broken.
_NETWORK = frozenset({
    "acfs", "afs", "beegfs", "ceph", "cifs", "coda", "gfs2", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs",
    "nfs4", "ocfs2", "orangefs", "panfs", "pvfs2", "smb3", "smbfs", "vboxsf", "vmhgfs", "wekafs",
})  # fmt: skip
# FUSE is a network file system unless it is known to keep its files on this machine.
_LOCAL_FUSE = frozenset({
    "bindfs", "cryfs", "encfs", "exfat", "ext2", "fuse-overlayfs", "fuse2fs", "gocryptfs", "lxcfs", "mergerfs",
    "ntfs", "ntfs-3g", "securefs", "squashfuse", "unionfs", "unionfs-fuse",
})  # fmt: skip


def refuse_network(path: Path) -> None:
    """Let only a file pass that lies on this machine.

    Raises:
        InputError: it lies on a file system of the network.
    """
    try:
        mounts = _MOUNTS.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        # Not Linux: nothing is known of its mounts.
        return
    kind, where = mount_of(path.parent.resolve(), mounts)
    if is_network(kind):
        reason = (
            f"lies on a network file system ({kind}, mounted at {where}). SQLite shares memory between its processes,"
            " which such a file system cannot do, and a history there loses what it acknowledged."
        )
        hint = (
            "set gpufleet_store to a file of a local disk, or gpufleet_store_url to a PostgreSQL database for several"
        )
        raise InputError(str(path), reason, f"{hint} controllers")


def is_network(kind: str) -> bool:
    """Tell whether that type of file system is one of the network."""
    if kind.startswith("fuse."):
        return kind.partition(".")[2] not in _LOCAL_FUSE
    return kind in _NETWORK


def mount_of(path: Path, mounts: str) -> tuple[str, str]:
    """Return the type and the place of the mount that holds a path, both empty if there is none.

    Args:
        path: resolved; it need not be there.
        mounts: what /proc/self/mountinfo says (proc(5)).
    """
    found, depth = ("", ""), -1
    for line in mounts.splitlines():
        before, dash, after = line.partition(" - ")
        words = before.split(" ")
        if not dash or len(words) < 5:
            continue
        place = Path(_unescaped(words[4]))
        # Of two mounts at one place the later one covers the earlier.
        if path.is_relative_to(place) and len(place.parts) >= depth:
            found, depth = (after.split(" ")[0], str(place)), len(place.parts)
    return found


def _unescaped(text: str) -> str:
    for escape, sign in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(escape, sign)
    return text
