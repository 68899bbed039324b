# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Certificates and kubeconfig files of one rehearsal: its own authority, one client certificate per component."""

from __future__ import annotations

import base64
import ipaddress
import json
import os
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.files import write_atomic

# Certificates of one rehearsal: its own authority, one server certificate, one client certificate per component.

_VALID = timedelta(days=30)
_SERVER_NAMES = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
_SERVER_ADDRESSES = ("127.0.0.1", "10.96.0.1")

CLIENTS: dict[str, tuple[str, str]] = {
    "admin": ("gpufleet-admin", "system:masters"),
    "controller-manager": ("system:kube-controller-manager", ""),
    "scheduler": ("system:kube-scheduler", ""),
    "kwok": ("kwok", "system:masters"),
    "apiserver": ("kube-apiserver", "system:masters"),
}
"""Clients of the cluster: file name, user and group. `apiserver` is its client certificate for etcd and kubelets."""


@dataclass(frozen=True, slots=True)
class Pki:
    """Key and certificate files of a rehearsal."""

    directory: Path

    def cert(self, name: str) -> str:
        """Return the certificate file of the authority (`ca`), the servers (`server`) or a client."""
        return str(self.directory / f"{name}.crt")

    def key(self, name: str) -> str:
        """Return the key file of the same."""
        return str(self.directory / f"{name}.key")

    @property
    def ca(self) -> str:
        """The authority's certificate file."""
        return self.cert("ca")

    @property
    def account_key(self) -> str:
        """The key that signs service account tokens."""
        return self.key("service-accounts")


def make_pki(directory: Path) -> Pki:
    """Create every key and certificate. Files are readable by their owner only."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    pki = Pki(directory)
    authority_key = _new_key(pki.key("ca"))
    authority = _sign(_name("gpufleet-rehearsal-ca", ""), authority_key, None, authority_key, ())
    _write(pki.ca, _pem(authority))
    server = _sign(_name("rehearsal", ""), _new_key(pki.key("server")), authority, authority_key, _server_names())
    _write(pki.cert("server"), _pem(server))
    for client, (user, group) in CLIENTS.items():
        certificate = _sign(_name(user, group), _new_key(pki.key(client)), authority, authority_key, ())
        _write(pki.cert(client), _pem(certificate))
    _new_key(pki.account_key)
    return pki


def _new_key(path: str) -> Any:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    plain = serialization.NoEncryption()
    # Traditional form: the API server reads a public key from it, but not from PKCS 8.
    _write(path, key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, plain))
    return key


def _name(user: str, group: str) -> Any:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group)] if group else []
    return x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, user)])


def _server_names() -> tuple[Any, ...]:
    from cryptography import x509

    addresses = [x509.IPAddress(ipaddress.ip_address(address)) for address in _SERVER_ADDRESSES]
    return (*[x509.DNSName(name) for name in _SERVER_NAMES], *addresses)


def _sign(subject: Any, key: Any, authority: Any, authority_key: Any, names: tuple[Any, ...]) -> Any:
    """Return a signed certificate. Without an authority it is self-signed.

    With names it is also a server certificate.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.x509.oid import ExtendedKeyUsageOID

    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if authority is None else authority.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + _VALID)
        .add_extension(x509.BasicConstraints(ca=authority is None, path_length=None), critical=True)
        .add_extension(_key_usage(authority is None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False)
    )
    if authority is not None:
        usages = [ExtendedKeyUsageOID.CLIENT_AUTH, *([ExtendedKeyUsageOID.SERVER_AUTH] if names else [])]
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(authority_key, hashes.SHA256())


def _key_usage(authority: bool) -> Any:
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=True, key_cert_sign=authority, crl_sign=authority, content_commitment=False,
        key_encipherment=False, data_encipherment=False, key_agreement=False, encipher_only=False, decipher_only=False,
    )  # fmt: skip


def _pem(certificate: Any) -> bytes:
    from cryptography.hazmat.primitives import serialization

    encoded: bytes = certificate.public_bytes(serialization.Encoding.PEM)
    return encoded


def _write(path: str, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as handle:
        handle.write(content)


# Kubeconfig files of a rehearsal (JSON is YAML).

CONTEXT = "rehearsal"


def write_kubeconfig(path: Path, pki: Pki, client: str, port: int) -> None:
    """Write the kubeconfig of a client of the API server on that port, with embedded keys."""
    cluster = {"server": f"https://127.0.0.1:{port}", "certificate-authority-data": _encoded(pki.ca)}
    user = {
        "client-certificate-data": _encoded(pki.cert(client)),
        "client-key-data": _encoded(pki.key(client)),
    }
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": CONTEXT,
        "clusters": [{"name": CONTEXT, "cluster": cluster}],
        "users": [{"name": client, "user": user}],
        "contexts": [{"name": CONTEXT, "context": {"cluster": CONTEXT, "user": client, "namespace": "default"}}],
    }
    write_atomic(path, json.dumps(document, indent=1) + "\n", 0o600)


def _encoded(path: str) -> str:
    return base64.b64encode(Path(path).read_bytes()).decode()
