# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""BMCs of a rehearsal as files and one process: certificates, a password, a loopback port for each host."""

from __future__ import annotations

import ipaddress
import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.files import write_atomic

from ..control_plane.ports import free_ports
from ..places import python_argv
from ..processes.spec import Probe, ProcessSpec
from .payloads import FEEDS, pdu_name

# Certificates of the simulated BMCs, from an authority of the rehearsal: a good one, an expired one, and one of an
# unknown authority.

AUTHORITY = "bmc-ca.pem"
KINDS = ("good", "expired", "stranger")
_HOUR, _MONTH = timedelta(hours=1), timedelta(days=30)


def write_certificates(directory: Path) -> dict[str, Path]:
    """Write the authority's certificate and, by kind, a server's certificate and key in one file. Return those files.

    Raises:
        OSError: the directory cannot be written.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding

    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    now = datetime.now(UTC)
    keys = {name: ec.generate_private_key(ec.SECP256R1()) for name in ("authority", "stranger", "server")}
    addresses = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    begin = now - 2 * _MONTH
    authority, stranger = (
        _signed(f"gpufleet-rehearsal-{name}", keys[name], None, keys[name], (begin, now + _MONTH), [])
        for name in ("authority", "stranger")
    )
    _write(directory / AUTHORITY, authority.public_bytes(Encoding.PEM))
    ends = {"good": now + _MONTH, "expired": now - _HOUR, "stranger": now + _MONTH}
    found: dict[str, Path] = {}
    for kind in KINDS:
        signer, key = (stranger, keys["stranger"]) if kind == "stranger" else (authority, keys["authority"])
        made = _signed("bmc", keys["server"], signer, key, (begin, ends[kind]), addresses)
        found[kind] = directory / f"bmc-{kind}.pem"
        _write(found[kind], made.public_bytes(Encoding.PEM) + _key(keys["server"]))
    return found


def _signed(
    name: str, key: Any, authority: Any, authority_key: Any, valid: tuple[datetime, datetime], names: list[Any]
) -> Any:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if authority is None else authority.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(valid[0])
        .not_valid_after(valid[1])
        .add_extension(x509.BasicConstraints(ca=authority is None, path_length=None), critical=True)
        .add_extension(_usage(authority is None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False)
    )
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    return builder.sign(authority_key, hashes.SHA256())


def _usage(authority: bool) -> Any:
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=True, key_cert_sign=authority, crl_sign=authority, content_commitment=False,
        key_encipherment=False, data_encipherment=False, key_agreement=False, encipher_only=False, decipher_only=False,
    )  # fmt: skip


def _key(key: Any) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    encoded: bytes = key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    return encoded


def _write(path: Path, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as handle:
        handle.write(content)


# The BMCs of a rehearsal as files and one process.

_PLAN, _PASSWORD = "bmcs.json", "password"
_WAVE = 0
_CAPACITY_KW = 60.0


@dataclass(frozen=True, slots=True)
class SimulatedBmcs:
    """Planned BMCs.

    - `processes`: their process, if there are any.
    - `urls`: URL of each by host.
    - `pdus`: PDUs in the form of a site's settings.
    - `ports`: ports of all of them.
    """

    processes: tuple[ProcessSpec, ...] = ()
    urls: dict[str, str] = field(default_factory=dict)
    pdus: dict[str, dict[str, Any]] = field(default_factory=dict)
    ports: frozenset[int] = frozenset()


def bmc_directory(rehearsal: Path) -> Path:
    return rehearsal / "bmcs"


def write_access(directory: Path) -> dict[str, Any]:
    """Write certificates and a password, and return settings of check bmc-reached for them.

    The simulated BMCs accept any account, so that one that the site has for single hosts is accepted, too.

    Raises:
        OSError: the directory cannot be written.
    """
    shutil.rmtree(directory, ignore_errors=True)
    write_certificates(directory)
    write_atomic(directory / _PASSWORD, "of-the-rehearsal\n", 0o600)
    return {
        "user": "rehearsal", "password_file": str(directory / _PASSWORD), "ca_cert": str(directory / AUTHORITY),
        "validate_certs": True, "timeout_s": 30.0,
    }  # fmt: skip


def plan_bmcs(
    directory: Path,
    names: Sequence[str],
    model_file: Path,
    hardware: tuple[Path, ...] = (),
    racks: Sequence[str] = (),
) -> SimulatedBmcs:
    """Write the input of the process, and return the process with the URLs.

    Args:
        directory: the directory of write_access.
        names: hosts with a BMC.
        model_file: the cluster model that the BMCs follow.
        hardware: directories of more SKU facts.
        racks: racks whose PDUs are simulated, two for each.

    Raises:
        OSError: the directory cannot be written, or there are no free ports.
    """
    if not names:
        return SimulatedBmcs()
    units = {pdu_name(rack, number): (rack, feed) for rack in racks for number, feed in enumerate(FEEDS)}
    # Real addresses do not change. So a rehearsal that is restarted in its directory gets the ports of the last one, if
    # they are free: gates that passed before depend on them.
    ports = free_ports((*names, *units), Random(str(directory)))
    certificates = {kind: str(directory / f"bmc-{kind}.pem") for kind in KINDS}
    plan = {"ports": ports, "certificates": certificates, "asked": [*names, *racks]}
    write_atomic(directory / _PLAN, json.dumps(plan))
    more = [word for path in hardware for word in ("--hardware", str(path))]
    argv = python_argv("rehearsal.bmc", "--model", str(model_file), "--plan", str(directory / _PLAN), *more)
    process = ProcessSpec(name="bmcs", argv=argv, wave=_WAVE, probe=Probe(port=ports[names[0]]))
    urls = {name: f"https://127.0.0.1:{port}" for name, port in ports.items()}
    pdus = {
        name: {"address": urls.pop(name), "rack": rack, "feed": feed, "capacity_kw": _CAPACITY_KW}
        for name, (rack, feed) in units.items()
    }
    return SimulatedBmcs((process,), urls, pdus, frozenset(ports.values()))


def asked_of(directory: Path) -> frozenset[str]:
    """Return the hosts with a simulated BMC, and the racks with simulated PDUs."""
    path = directory / _PLAN
    return frozenset(json.loads(path.read_text(encoding="utf-8"))["asked"] if path.is_file() else ())
