# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The form of an SSH signature (`ssh-keygen -Y sign`): its key, and that it has no other bytes."""

from __future__ import annotations

import base64
import binascii
import hashlib

_BEGIN, _END, _WIDTH = "-----BEGIN SSH SIGNATURE-----", "-----END SSH SIGNATURE-----", 70
_MAGIC, _VERSION = b"SSHSIG", b"\x00\x00\x00\x01"


def is_ssh_signature(signature: bytes) -> bool:
    """Tell whether these bytes begin like an SSH signature."""
    return signature.startswith(_BEGIN.encode())


def signing_key(signature: bytes) -> str:
    """Return the fingerprint of a signature's key as ssh-keygen prints it. Empty if the signature is not complete."""
    try:
        lines = signature.decode("ascii").split("\n")
        content = base64.b64decode("".join(lines[1:-2]), validate=True)
    except (ValueError, binascii.Error):
        return ""
    text = base64.b64encode(content).decode("ascii")
    rows = [text[start : start + _WIDTH] for start in range(0, len(text), _WIDTH)]
    # ssh-keygen itself accepts other widths, and lines behind the end.
    if lines != [_BEGIN, *rows, _END, ""] or not content.startswith(_MAGIC + _VERSION):
        return ""
    parts = _strings(content[len(_MAGIC + _VERSION) :])
    # Key, namespace, reserved, hash, signature.
    if len(parts) != 5:
        return ""
    return "SHA256:" + base64.b64encode(hashlib.sha256(parts[0]).digest()).decode("ascii").rstrip("=")


def _strings(content: bytes) -> list[bytes]:
    """Return the strings that the bytes are made of. Empty if the last one is not complete."""
    found = []
    while content:
        size = int.from_bytes(content[:4], "big")
        if len(content) < 4 + size:
            return []
        found.append(content[4 : 4 + size])
        content = content[4 + size :]
    return found
