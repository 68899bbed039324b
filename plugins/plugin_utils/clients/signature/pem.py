# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Signatures with keys in PEM files, Ed25519 and ECDSA, as openssl makes and verifies them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...outcome.errors import BringupError, InputError, NotFoundError

_MAKE = "openssl genpkey -algorithm ed25519 -out site.key && openssl pkey -in site.key -pubout -out site.pub"


@dataclass(frozen=True, slots=True)
class PemKey:
    """A public key: its file, its fingerprint, and the key."""

    path: Path
    keyid: str
    key: Any

    def verifies(self, signature: bytes, text: bytes) -> bool:
        """Tell whether this key signed the text."""
        from cryptography.exceptions import InvalidSignature

        try:
            if _is_ed25519(self.key):
                self.key.verify(signature, text)
            else:
                self.key.verify(signature, text, _ecdsa(self.key))
        except InvalidSignature:
            return False
        return True


def read_public_key(path: Path) -> PemKey:
    """Return the public key in a PEM file.

    Raises:
        InputError: there is none, or one of another kind.
    """
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    content = _content(path)
    try:
        key = load_pem_public_key(content)
    except (ValueError, UnsupportedAlgorithm):
        hint = f"of a private key: openssl pkey -in {path} -pubout -out {path}.pub; of SSH keys: --allowed-signers FILE"
        raise InputError(f"key {path}", "is no public key in PEM form.", hint) from None
    return _public(path, key)


def sign_text(path: Path, text: bytes) -> tuple[str, bytes]:
    """Sign with the private key in a PEM file. Return its fingerprint and the signature.

    Raises:
        NotFoundError: there is no such file.
        InputError: it cannot be read, is encrypted, or of another kind.
    """
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key: Any = load_pem_private_key(_content(path, absent=NotFoundError), password=None)
    except TypeError:
        hint = (
            "sign with --ssh-key, whose passphrase ssh-keygen asks for, or decrypt it: openssl pkey -in KEY -out FILE"
        )
        raise InputError(f"key {path}", "is encrypted.", hint) from None
    except (ValueError, UnsupportedAlgorithm):
        hint = f"make one: {_MAKE}; SSH keys: --ssh-key FILE"
        raise InputError(f"key {path}", "is no private key in PEM form.", hint) from None
    public = _public(path, key.public_key() if hasattr(key, "public_key") else key)
    signature = key.sign(text) if _is_ed25519(public.key) else key.sign(text, _ecdsa(public.key))
    return public.keyid, bytes(signature)


def _public(path: Path, key: Any) -> PemKey:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    if not _is_ed25519(key) and not (isinstance(key, EllipticCurvePublicKey) and key.curve.name in _HASHES):
        reason = f"is of another kind than Ed25519 and ECDSA over {', '.join(_HASHES)}."
        raise InputError(f"key {path}", reason, f"make one: {_MAKE}")
    content = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return PemKey(path, f"sha256:{hashlib.sha256(content).hexdigest()}", key)


def _is_ed25519(key: Any) -> bool:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    return isinstance(key, Ed25519PublicKey)


# The accepted curves, each with the hash of its strength.
_HASHES = {"secp256r1": "SHA256", "secp384r1": "SHA384", "secp521r1": "SHA512"}


def _ecdsa(key: Any) -> Any:
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric.ec import ECDSA

    return ECDSA(getattr(hashes, _HASHES[key.curve.name])())


def _content(path: Path, absent: type[BringupError] = InputError) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        kind = absent if isinstance(error, FileNotFoundError) else InputError
        raise kind(f"key {path}", f"cannot be read: {error.strerror}.", f"make one: {_MAKE}") from None
