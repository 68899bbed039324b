# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Unpacks archives: those of saved runs, and what the product packs."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path


def unpack(archive: Path, directory: Path) -> None:
    """Unpack one of our archives; Python 3.11.2, that of Debian 12, has no filters yet, and newer ones ask for one."""
    with tarfile.open(archive) as tar:
        if hasattr(tarfile, "data_filter"):
            tar.extractall(directory, filter="data")
        else:
            tar.extractall(directory)


def files_in(packed: bytes) -> dict[str, bytes]:
    """Return the content of every file of a tar, compressed in any way or not."""
    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        return {member.name: file.read() for member in tar if (file := tar.extractfile(member))}
