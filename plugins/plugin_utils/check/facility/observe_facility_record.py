# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Reads the facility record, its signature and the digests of its evidence."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from ...clients.signature.ssh_keygen import verify_text
from ...outcome.codec import from_plain, to_plain
from ...outcome.errors import InputError, NotFoundError
from ...site.model import Site
from ..kit.saved_settings import with_settings
from ..spec import ObserveContext, Observer
from .observation import EvidenceDigest, FacilityObservation
from .record import NAMESPACE, EvidenceFile, FacilityRecord, parse_record
from .settings import GATE, FacilitySettings

_MAX_RECORD_BYTES = 1_000_000


def observe(context: ObserveContext) -> dict[str, Any]:
    """Return the record's text, the output of ssh-keygen about its signature, and the digests of its evidence.

    Raises:
        InputError: the settings are incomplete, or the record is not text.
        NotFoundError: no record at that path, or no ssh-keygen.
    """
    settings = context.settings_of(GATE, FacilitySettings)
    settings.require_record()
    path = Path(settings.record).expanduser()
    text = _record_text(path)
    record = _record_or_none(text, str(path))
    signature = verify_text(
        text,
        path.with_name(f"{path.name}.sig"),
        Path(settings.allowed_signers).expanduser(),
        namespace=NAMESPACE,
        identity=settings.identity or (record.signed_by if record else ""),
        # A missing list must not keep the other problems of the record from being reported.
        list_needed=False,
    )
    digests = tuple(_digest(path.parent, entry) for entry in record.evidence) if record else ()
    observed = FacilityObservation(
        record_path=str(path),
        record_text=text,
        record_sha256=_sha256_of(text),
        signature=signature,
        digests=digests,
        settings=settings,
    )
    context.emit(f"facility record {path}: {len(digests)} evidence file(s) read")
    plain: dict[str, Any] = to_plain(observed)
    return plain


def restore(data: Any, run_dir: Path, site: Site) -> FacilityObservation:
    complete = with_settings(data, FacilitySettings, GATE, site, run_dir)
    observed = from_plain(FacilityObservation, complete, "observation facility-record")
    if "record_sha256" in complete and observed.record_sha256 != _sha256_of(observed.record_text):
        text = f"the record of {observed.record_path} is not the one whose signature was looked at."
        raise InputError("observation facility-record", text, "run the gate again")
    return observed


def _sha256_of(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def _record_text(path: Path) -> str:
    # Bytes, not read_text: line ends must stay as they were signed.
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        hint = "make one with playbook gpufleet.bringup.facility_record, or correct gpufleet_settings.facility.record"
        raise NotFoundError(f"facility record {path}", "no such file.", hint) from None
    except OSError as error:
        raise InputError(f"facility record {path}", f"cannot be read: {error.strerror}.") from None
    if len(raw) > _MAX_RECORD_BYTES:
        raise InputError(f"facility record {path}", f"has {len(raw)} bytes, expected at most {_MAX_RECORD_BYTES}.")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        raise InputError(f"facility record {path}", "is not UTF-8 text.", "restore the signed file") from None


def _record_or_none(text: str, source: str) -> FacilityRecord | None:
    # The signature of an invalid record is verified too; the checks report what is invalid.
    try:
        return parse_record(text, source)
    except InputError:
        return None


def _digest(directory: Path, entry: EvidenceFile) -> EvidenceDigest:
    path = directory / entry.path
    try:
        real = path.resolve(strict=True)
        if not real.is_relative_to(directory.resolve()):
            return EvidenceDigest(path=entry.path, problem=f"leads outside the record's directory, to {real}")
        digest = hashlib.sha256()
        with real.open("rb") as handle:
            while chunk := handle.read(1 << 20):
                digest.update(chunk)
    except FileNotFoundError:
        return EvidenceDigest(path=entry.path, problem="no such file")
    except OSError as error:
        return EvidenceDigest(path=entry.path, problem=f"cannot be read: {error.strerror}", readable=False)
    return EvidenceDigest(path=entry.path, sha256=digest.hexdigest())


OBSERVER = Observer("facility-record", FacilityObservation, observe, restore, saved=FacilityObservation)
