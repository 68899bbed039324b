# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Making the statement about a run, and signing it: by one key, or by one more."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..clients.signature.pem import sign_text
from ..clients.signature.ssh_keygen import sign_file
from ..clients.signature.sshsig import signing_key
from ..features.judge.app import rejudge, rewrite_reports
from ..outcome.errors import BringupError, InputError, UnavailableError
from ..outcome.wording import count
from ..run.digests import links_in
from ..run.run import Run
from ..runtime.clock import now_utc
from ..runtime.files import STATEMENT, write_atomic
from .claim import Claim, claim_of
from .compared import compared
from .envelope import NAMESPACE, Envelope, Signature, parse_envelope
from .read import read_statement
from .statement import payload_of, statement_of

_SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Issued:
    """What was written, what it claims, and which keys have signed it; `added` are those of this call."""

    path: Path
    claim: Claim
    keyids: tuple[str, ...]
    added: tuple[str, ...]


def issue(
    run: Run, out: Path | None, *, keys: Sequence[Path] = (), ssh_keys: Sequence[Path] = (), full: bool = False
) -> Issued:
    """Write the signed statement about a run. If there is one already, of the same run, add signatures to it.

    Args:
        run: the run, which is judged again first; its reports are written again.
        out: the file; default: in the run directory.
        keys: private keys in PEM files.
        ssh_keys: private SSH keys.
        full: with names of nodes and messages.

    Raises:
        BringupError: the run differs from its records, a key does not sign, or the file is about something else.
        OSError: a file cannot be read or written.
    """
    path = out or run.path / STATEMENT
    there = path.is_file()
    envelope = _same(run, path, full=full) if there else Envelope(payload=_payload(run, full=full))
    added = [Signature(keyid=keyid, sig=sig) for key in keys for keyid, sig in [sign_text(key, envelope.signed_bytes)]]
    added += [_by_ssh(key, envelope.signed_bytes) for key in ssh_keys]
    for signature in added:
        envelope = envelope.with_signature(signature)
    if added or not there:
        write_atomic(path, envelope.text)
    return Issued(
        path=path,
        claim=claim_of(read_statement(envelope, str(path))["predicate"]),
        keyids=tuple(entry.keyid for entry in envelope.signatures),
        added=tuple(entry.keyid for entry in added),
    )


def _payload(run: Run, *, full: bool) -> bytes:
    """Return the statement about a run that matches its records.

    Raises:
        BringupError: it does not, or it has no verdict.
    """
    if not run.record.digests:
        reason = "has no verdict yet, or is of a release that kept no digests of its files, so nothing can be signed."
        raise InputError(str(run.path), reason, "name a run of this release of which a gate was decided")
    record, differences = rejudge(run)
    differences = [*(f"{name}: is a link, and a run has files alone" for name in links_in(run.path)), *differences]
    if differences:
        text = f"is not what it recorded, so nothing is signed: {count(len(differences), 'difference')}."
        raise BringupError(str(run.path), _with(text, differences), f"see all of them: gpufleet judge {run.path}")
    # An edited report does not belong to this run.
    rewrite_reports(run, record, ())
    return payload_of(statement_of(run, record, now_utc(), full=full))


def _same(run: Run, path: Path, *, full: bool) -> Envelope:
    """Return the existing envelope, if its statement still matches the run.

    Raises:
        BringupError: it does not.
    """
    envelope = parse_envelope(path.read_bytes(), str(path))
    statement = read_statement(envelope, str(path))
    hint = f"keep it elsewhere and make a new one, which all sign again: mv '{path}' '{path}.old'"
    if differences := compared(run, statement):
        raise BringupError(str(path), _with("is not about this run as it is, so nobody signs it.", differences), hint)
    if full and statement["predicate"]["redaction"] != "full":
        raise InputError(str(path), "is there without names of nodes, and --full asks for them.", hint)
    return envelope


def _with(text: str, differences: Sequence[str]) -> str:
    return f"{text} {'; '.join(differences[:_SHOWN])}."


def _by_ssh(key: Path, text: bytes) -> Signature:
    with tempfile.TemporaryDirectory(prefix="gpufleet-") as directory:
        path = Path(directory) / "statement"
        path.write_bytes(text)
        signature = sign_file(path, key, namespace=NAMESPACE).read_bytes()
    keyid = signing_key(signature)
    if not keyid:
        raise UnavailableError(f"ssh-keygen -Y sign with {key}", "wrote a signature of another form.", "use --key")
    return Signature(keyid=keyid, sig=signature)
