# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The DSSE envelope around a statement: one line of JSON with exactly one valid form, so that no byte can differ.
Pure."""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass
from typing import Any

from ..outcome.errors import InputError

PAYLOAD_TYPE = "application/vnd.in-toto+json"
# The namespace of SSH signatures over statements: a signature over a facility record is not valid here.
NAMESPACE = "gpufleet-evidence"


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """One signature: the fingerprint of its key, and its bytes."""

    keyid: str
    sig: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """The signed bytes and their signatures; it can be unsigned."""

    payload: bytes
    signatures: tuple[Signature, ...] = ()

    @property
    def signed_bytes(self) -> bytes:
        """The bytes that are signed (DSSE, pre-authentication encoding)."""
        head = f"DSSEv1 {len(PAYLOAD_TYPE)} {PAYLOAD_TYPE} {len(self.payload)} "
        return head.encode() + self.payload

    @property
    def text(self) -> str:
        """The text of the file."""
        signatures = [{"keyid": entry.keyid, "sig": _base64(entry.sig)} for entry in self.signatures]
        document = {"payload": _base64(self.payload), "payloadType": PAYLOAD_TYPE, "signatures": signatures}
        return json.dumps(document, sort_keys=True, separators=(",", ":")) + "\n"

    def with_signature(self, signature: Signature) -> Envelope:
        """Return the envelope with one more signature, which replaces one of the same key."""
        others = tuple(entry for entry in self.signatures if entry.keyid != signature.keyid)
        return Envelope(payload=self.payload, signatures=(*others, signature))


def parse_envelope(content: bytes, source: str) -> Envelope:
    """Return the envelope in a file.

    Raises:
        InputError: the file is no envelope, or one in another form: a byte was changed, or another tool wrote it.
    """
    try:
        document = json.loads(content.decode("ascii"))
        found = _decoded(document)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, binascii.Error):
        raise InputError(source, "is no DSSE envelope of an in-toto statement.", _WRITE) from None
    if found.text.encode() != content:
        raise InputError(source, "is not in the one form that an envelope has: it was changed.", _WRITE)
    if len({entry.keyid for entry in found.signatures}) != len(found.signatures):
        raise InputError(source, "has two signatures of one key.", _WRITE)
    return found


_WRITE = "take the file that gpufleet evidence wrote"


def _decoded(document: Any) -> Envelope:
    if document["payloadType"] != PAYLOAD_TYPE:
        raise ValueError
    signatures = tuple(
        Signature(keyid=str(entry["keyid"]), sig=base64.b64decode(entry["sig"], validate=True))
        for entry in document["signatures"]
    )
    return Envelope(payload=base64.b64decode(document["payload"], validate=True), signatures=signatures)


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")
